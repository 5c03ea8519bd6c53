//! The processes of one run, which exchange messages with rank 0 by MPI.

mod courier;
mod exchange;
mod messages;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use mpi::datatype::Equivalence;
use mpi::point_to_point::{Destination, Source};
use mpi::request::{self, LocalScope};
use mpi::topology::{Communicator, Rank, SimpleCommunicator};
use mpi::{Tag, Threading};

pub(super) use self::courier::Courier;
pub(crate) use self::shared::{SharedJob, check_engine, check_fingerprint};
use crate::{Error, Result};

/// Largest number of bytes sent at once. MPI counts them by 32 bits, and receives them without a pause.
const LARGEST_PIECE: usize = 1 << 22;

/// Tag of a piece of a message that is not the last.
const PIECE: Tag = 0;
/// Tag of a message or its last piece.
const MESSAGE: Tag = 1;
/// Tag of a verdict, which tells how a rank's work ended, or of its last piece.
const VERDICT: Tag = 2;

/// The ranks of one run. Rank 0 may send to all, the others to rank 0. Messages between two ranks arrive in order. The
/// ranks have a communicator of their own, apart from the program's and other runs' messages. Only the thread that
/// holds this value calls MPI. Every wait also receives, so that two ranks that send to each other do not deadlock.
#[allow(missing_debug_implementations)] // No user meets it.
pub struct Ranks {
    communicator: SimpleCommunicator,
    largest_piece: usize,
    /// Received pieces of an unfinished message, by rank.
    begun: Vec<Vec<u8>>,
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// Whether the verdict has come, by rank.
    ended: Vec<bool>,
    failure: Option<Error>,
}

impl Ranks {
    /// Creates the ranks on a duplicate of `world`, a collective operation that all its ranks must call.
    fn new(world: &dyn Communicator) -> Result<Self> {
        check_environment(world)?;
        let communicator = world.duplicate();
        let size = communicator.size() as usize;
        Ok(Self {
            communicator,
            largest_piece: LARGEST_PIECE,
            begun: vec![Vec::new(); size],
            inbox: VecDeque::new(),
            ended: vec![false; size],
            failure: None,
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    pub(crate) fn size(&self) -> usize {
        self.begun.len()
    }

    /// Sends a message, and returns when it is on its way.
    fn send(&mut self, to: usize, message: &[u8]) {
        self.send_pieces(to..to + 1, message, MESSAGE);
    }

    fn send_to_all(&mut self, message: &[u8]) {
        self.send_pieces(self.peers(), message, MESSAGE);
    }

    /// Returns the next message with its sender; `None` if there is none yet.
    ///
    /// # Errors
    /// [`Error::Rank`] if a rank has failed or sent a message with an unknown tag.
    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>> {
        while self.failure.is_none() && self.inbox.is_empty() && self.receive() {}
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(self.inbox.pop_front()),
        }
    }

    fn wait(&mut self) -> Result<(usize, Vec<u8>)> {
        let start = Instant::now();
        loop {
            if let Some(message) = self.poll()? {
                return Ok(message);
            }
            pause(start);
        }
    }

    fn send_pieces(&mut self, to: Range<usize>, message: &[u8], tag: Tag) {
        let mut rest = message;
        while let Some((piece, after)) = rest.split_at_checked(self.largest_piece)
            && !after.is_empty()
        {
            self.send_piece(to.clone(), piece, PIECE);
            rest = after;
        }
        self.send_piece(to, rest, tag);
    }

    fn send_piece(&mut self, to: Range<usize>, piece: &[u8], tag: Tag) {
        let start = Instant::now();
        request::scope(|scope: &LocalScope| {
            let begin = |rank| {
                let rank = self.communicator.process_at_rank(rank as Rank);
                rank.immediate_send_with_tag(scope, piece, tag)
            };
            let mut sending: Vec<_> = to.map(begin).collect();
            while !sending.is_empty() {
                sending = sending
                    .into_iter()
                    .filter_map(|one| one.test().err())
                    .collect();
                if !sending.is_empty() && !self.receive() {
                    pause(start);
                }
            }
        });
    }

    /// Receives a piece. Returns whether there was one.
    fn receive(&mut self) -> bool {
        let any = self.communicator.any_process();
        let Some((piece, status)) = any.immediate_matched_probe() else {
            return false;
        };
        let source = status.source_rank() as usize;
        let length = status.count(u8::equivalent_datatype()) as usize;
        let message = &mut self.begun[source];
        let received = message.len();
        message.resize(received + length, 0);
        piece.matched_receive_into(&mut message[received..]);
        if status.tag() == PIECE {
            return true;
        }
        let message = std::mem::take(message);
        let failure = match status.tag() {
            MESSAGE => {
                self.inbox.push_back((source, message));
                None
            }
            VERDICT => {
                self.ended[source] = true;
                messages::failure(source, &message)
            }
            tag => Some(Error::Rank {
                rank: source,
                message: format!("a message has tag {tag}, expected one from 0 to 2"),
            }),
        };
        self.failure = self.failure.take().or(failure);
        true
    }
}

/// Pauses within a wait that began at `start`. Transfers progress only while both ends call MPI. Pauses therefore
/// start short, and grow to a millisecond.
pub(crate) fn pause(start: Instant) {
    let pause = start.elapsed() / 10;
    match pause < Duration::from_micros(20) {
        true => thread::yield_now(),
        false => thread::sleep(pause.min(Duration::from_millis(1))),
    }
}

fn check_environment(world: &dyn Communicator) -> Result<()> {
    let alive = mpi::is_initialized() && !mpi::is_finalized();
    Error::check(
        alive,
        "world",
        "a communicator without MPI",
        "one between the start and the end of MPI",
    )?;
    let threading = mpi::environment::threading_support();
    Error::check(
        threading >= Threading::Funneled,
        "world",
        format!("threading level {threading:?}"),
        "at least Funneled, as by `mpi::initialize_with_threading(Threading::Funneled)`",
    )?;
    let expected = "a communicator of one group of processes";
    Error::check(!world.test_inter(), "world", "two groups", expected)
}
