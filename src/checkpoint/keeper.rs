//! What blocks at work have left, and when it is written to the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file::{Header, write};
use super::pieces::{Piece, Pieces, put_list};
use super::place::Place;
use super::recipient::Recipient;
use crate::{Error, Result};

/// What a checkpoint says before the pieces.
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    /// The blocks that count as finished, if they are.
    pub(crate) finished: BTreeSet<usize>,
}

/// Makes the head of the checkpoint that is written now.
pub(crate) type MakeHead<'a> = &'a (dyn Fn() -> Result<Head> + Sync);

/// Collects what blocks leave, and writes checkpoints.
///
/// When an interval is over each block at work leaves a piece, at the end of a stage of its own, and each other process
/// sends those of its blocks. Whoever then comes first writes them all. Blocks are independent of each other, so that
/// their pieces need not be of one moment. Nothing is encoded or written under a lock.
pub(crate) struct Keeper<'a> {
    place: Place<'a>,
    header: Header<'a>,
    every: Duration,
    head: MakeHead<'a>,
    clock: Instant,
    /// When the interval is over, in nanoseconds on the clock.
    due: AtomicU64,
    /// When the last checkpoint was written, likewise.
    written: AtomicU64,
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    pieces: Pieces,
    /// Whether a block has left a piece.
    has_worked: bool,
    at_work: BTreeSet<Worker>,
    /// Those at work that have left nothing since the last checkpoint.
    pending: BTreeSet<Worker>,
    /// Whether the other processes have been asked since the last checkpoint.
    asked: bool,
    writing: bool,
    /// Why the last checkpoint is not written.
    failed: Option<Error>,
    /// Why there can be no further one.
    lost: Option<Error>,
}

/// Who leaves pieces: a block of this process, or another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worker {
    Block(usize),
    #[cfg(feature = "mpi")]
    Rank(usize),
}

impl<'a> Keeper<'a> {
    /// Goes on from the pieces of an earlier run, if there are any.
    pub(crate) fn new(
        (place, header): (Place<'a>, Header<'a>),
        every: Duration,
        pieces: Pieces,
        head: MakeHead<'a>,
    ) -> Self {
        Self {
            place,
            header,
            every,
            head,
            clock: Instant::now(),
            due: AtomicU64::new(nanoseconds(every)),
            written: AtomicU64::new(0),
            desk: Mutex::new(Desk {
                pieces,
                ..Desk::default()
            }),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the interval is over.
    fn is_due(&self) -> bool {
        nanoseconds(self.clock.elapsed()) >= self.due.load(Ordering::Relaxed)
    }

    /// Keeps other runs from the file. That of a new run is written.
    ///
    /// # Errors
    /// It cannot be written, or another run is writing it.
    pub(crate) fn open(&self, is_new: bool) -> Result<()> {
        match is_new {
            true => self.try_write(),
            false => self.place.hold(),
        }
    }

    /// Writes the last checkpoint, if a block has left anything. Returns why the last one is not written.
    pub(crate) fn write_last(&self) -> Option<String> {
        if self.desk().has_worked {
            self.write();
        }
        let age = self.age().unwrap_or(0.0);
        let failed = self.desk().failed.clone();
        failed.map(|error| format!("{error}; the file is {age:.0} s old"))
    }

    fn write(&self) {
        let written = self.try_write();
        if written.is_ok() {
            let now = nanoseconds(self.clock.elapsed());
            self.written.store(now, Ordering::Relaxed);
        }
        self.desk().failed = written.err();
    }

    fn try_write(&self) -> Result<()> {
        // It is made first: the blocks that it counts have all left their pieces.
        let head = (self.head)()?;
        let mut parts = vec![Arc::new(head.bytes)];
        {
            let mut desk = self.desk();
            if let Some(error) = &desk.lost {
                return Err(error.clone());
            }
            let Pieces {
                finished,
                under_way,
            } = &mut desk.pieces;
            let counts = |block: &usize| head.finished.contains(block);
            under_way.retain(|block, _| !counts(block) || !finished.contains_key(block));
            let finished = finished.iter().filter(|(block, _)| counts(block));
            put_list(&mut parts, finished)?;
            put_list(&mut parts, under_way.iter())?;
        }
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
        write(&self.place, &self.header, &parts)
    }
}

impl Recipient for Keeper<'_> {
    fn pieces(&self) -> Pieces {
        self.desk().pieces.clone()
    }

    fn replace(&self, pieces: Result<Pieces>) {
        let mut desk = self.desk();
        desk.lost = desk.lost.take().or(pieces.as_ref().err().cloned());
        desk.pieces = pieces.unwrap_or_default();
    }

    fn begin(&self, block: usize) -> Option<Piece> {
        let mut desk = self.desk();
        desk.begin(Worker::Block(block));
        desk.pieces.under_way.get(&block).cloned()
    }

    fn wants(&self, block: usize) -> bool {
        self.is_due() && self.desk().pending.contains(&Worker::Block(block))
    }

    fn leave(&self, block: usize, piece: Result<Vec<u8>>) {
        let mut desk = self.desk();
        desk.pending.remove(&Worker::Block(block));
        desk.keep(piece, |pieces| &mut pieces.under_way, block);
    }

    /// What the block left before is kept until a head counts it.
    fn finish(&self, block: usize, piece: Result<Vec<u8>>) {
        self.desk()
            .keep(piece, |pieces| &mut pieces.finished, block);
    }

    fn end(&self, block: usize) {
        self.desk().end(Worker::Block(block));
    }

    fn age(&self) -> Option<f64> {
        let written = Duration::from_nanos(self.written.load(Ordering::Relaxed));
        Some(self.clock.elapsed().saturating_sub(written).as_secs_f64())
    }

    /// Writes a checkpoint if the interval is over and all have left their pieces.
    fn tick(&self) {
        if !self.is_due() || !self.desk().is_ready() {
            return;
        }
        self.write();
        let mut desk = self.desk();
        desk.writing = false;
        desk.asked = false;
        desk.pending = desk.at_work.clone();
        let due = self.clock.elapsed().saturating_add(self.every);
        self.due.store(nanoseconds(due), Ordering::Relaxed);
    }
}

/// Other processes.
#[cfg(feature = "mpi")]
impl Keeper<'_> {
    /// A process is at work from now on.
    pub(crate) fn begin_rank(&self, rank: usize) {
        self.desk().begin(Worker::Rank(rank));
    }

    /// Whether other processes are to be asked for the pieces of their blocks now. They are asked once.
    pub(crate) fn asks(&self) -> bool {
        if !self.is_due() {
            return false;
        }
        let mut desk = self.desk();
        let is_rank = |worker: &Worker| matches!(worker, Worker::Rank(_));
        let asks = !desk.asked && desk.pending.iter().any(is_rank);
        desk.asked |= asks;
        asks
    }

    /// A process has sent the pieces of all its blocks at work.
    pub(super) fn hear_all(&self, rank: usize) {
        self.desk().pending.remove(&Worker::Rank(rank));
    }

    /// A process is not at work any more.
    pub(crate) fn end_rank(&self, rank: usize) {
        self.desk().end(Worker::Rank(rank));
    }
}

impl Desk {
    fn begin(&mut self, worker: Worker) {
        self.at_work.insert(worker);
        self.pending.insert(worker);
    }

    fn end(&mut self, worker: Worker) {
        self.at_work.remove(&worker);
        self.pending.remove(&worker);
    }

    fn keep(
        &mut self,
        piece: Result<Vec<u8>>,
        of: impl FnOnce(&mut Pieces) -> &mut BTreeMap<usize, Piece>,
        block: usize,
    ) {
        self.has_worked = true;
        match piece {
            Ok(piece) => drop(of(&mut self.pieces).insert(block, Arc::new(piece))),
            Err(error) => self.lost = Some(error),
        }
    }

    /// Whether whoever asks is to write a checkpoint now.
    fn is_ready(&mut self) -> bool {
        let ready = self.pending.is_empty() && !self.writing;
        self.writing |= ready;
        ready
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
