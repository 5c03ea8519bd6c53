//! The processes of a run on several, which exchange messages with the first of them by MPI.

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

/// Bytes that are sent at once. MPI counts them by 32 bits, and receives them without a pause.
const LARGEST_PIECE: usize = 1 << 22;

/// A piece of a message, of which more follows.
const PIECE: Tag = 0;
/// A message, or its last piece.
const MESSAGE: Tag = 1;
/// How the work of a rank ended, or its last piece.
const VERDICT: Tag = 2;

/// The ranks of one run. Rank 0 may send to all, the others to rank 0, and messages between two ranks
/// arrive in the order in which they were sent.
///
/// They have a communicator of their own, so that the messages of a run meet neither those of the
/// program nor those of another run. MPI is called by the thread that holds this value alone. Whoever
/// waits receives meanwhile: two ranks that send to each other would wait for ever otherwise.
#[allow(missing_debug_implementations)] // No user meets it.
pub struct Ranks {
    communicator: SimpleCommunicator,
    largest_piece: usize,
    /// By rank, the pieces that have come of a message.
    begun: Vec<Vec<u8>>,
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// By rank, whether its verdict has come.
    ended: Vec<bool>,
    failure: Option<Error>,
}

impl Ranks {
    /// All ranks of `world` must call this, in the same order as other collective operations.
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

    /// Index of this process.
    pub(crate) fn rank(&self) -> usize {
        self.communicator.rank() as usize
    }

    /// Number of processes.
    pub(crate) fn size(&self) -> usize {
        self.begun.len()
    }

    /// Sends a message, and returns when it is on its way.
    fn send(&mut self, to: usize, message: &[u8]) {
        self.send_pieces(to..to + 1, message, MESSAGE);
    }

    /// Sends a message from rank 0 to all others.
    fn send_to_all(&mut self, message: &[u8]) {
        self.send_pieces(self.peers(), message, MESSAGE);
    }

    /// The next message that has come, with its sender; `None` where there is none yet.
    ///
    /// # Errors
    /// [`Error::Rank`] once a rank has failed, or sent what is no message.
    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>> {
        while self.failure.is_none() && self.inbox.is_empty() && self.receive() {}
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(self.inbox.pop_front()),
        }
    }

    /// The next message, with its sender.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
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

    /// Receives a piece that has come; whether there was one.
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

/// Waits a little, given when the wait began. A transfer goes on only while both ends call MPI. A wait therefore
/// begins with short pauses; they grow up to a millisecond, so that long waits leave the processor to others.
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
