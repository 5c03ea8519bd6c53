//! The blocks at work of a run, and the times at which they are written to its file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::file::{Header, write};
use super::place::Place;
use crate::{Error, Result};

/// An unfinished block as bytes.
pub(crate) type Piece = Vec<u8>;

/// The content of a checkpoint. Bytes encode types that only the run knows.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// Settings and fingerprint.
    pub(crate) title: Vec<u8>,
    pub(crate) seconds: f64,
    pub(crate) carried: Option<Vec<u8>>,
    pub(crate) finished: Vec<u8>,
    pub(crate) under_way: BTreeMap<usize, Piece>,
}

/// Outputs of finished blocks as bytes, and the ranges of these blocks.
pub(crate) struct Finished {
    pub(crate) blocks: Vec<Range<usize>>,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) type Finish<'a> = &'a dyn Fn() -> Result<Finished>;

/// Receives unfinished blocks for a checkpoint.
pub(crate) trait Recipient: Sync {
    /// Takes the unfinished blocks of an earlier call.
    fn resume(&self, under_way: BTreeMap<usize, Piece>);

    /// Marks a block as at work. Returns its saved piece, if there is one.
    fn begin(&self, block: usize) -> Option<Piece>;

    /// Returns whether a block at work is to leave a piece after this step.
    fn wants(&self, block: usize) -> bool;

    /// Takes the piece of a block at work.
    fn leave(&self, block: usize, piece: Result<Vec<u8>>);

    fn end(&self, block: usize);

    /// Writes a checkpoint if one is due. Any thread may call it.
    fn tick(&self, finish: Finish<'_>);

    /// Returns the seconds since the last checkpoint; `None` if this process writes none.
    fn age(&self) -> Option<f64>;
}

/// Collects unfinished blocks, and writes checkpoints. After each interval every block at work leaves a piece at the
/// end of its step, and every other process sends its pieces. The next caller of `tick` writes them all. Blocks are
/// independent, so pieces may be of different moments. Nothing is encoded or written while the pieces are locked.
pub(crate) struct Keeper<'a> {
    place: Place<'a>,
    header: Header<'a>,
    every: Duration,
    title: Vec<u8>,
    seconds_before: f64,
    clock: Instant,
    /// End of the interval, in nanoseconds on the clock.
    due: AtomicU64,
    /// Time of the last checkpoint, in nanoseconds on the clock.
    written: AtomicU64,
    pieces: Mutex<Pieces>,
}

#[derive(Default)]
struct Pieces {
    carried: Option<Vec<u8>>,
    under_way: BTreeMap<usize, Piece>,
    /// Whether anything is new since the last checkpoint.
    has_worked: bool,
    at_work: BTreeSet<Worker>,
    /// Workers that have left nothing since the last checkpoint.
    pending: BTreeSet<Worker>,
    /// Whether the other processes have been asked since the last checkpoint.
    asked: bool,
    writing: bool,
    /// Error of the last checkpoint.
    failed: Option<Error>,
    /// Error that prevents all further checkpoints.
    lost: Option<Error>,
}

/// A source of pieces: a block of this process, or another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worker {
    Block(usize),
    #[cfg(feature = "mpi")]
    Rank(usize),
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        (place, header): (Place<'a>, Header<'a>),
        every: Duration,
        title: Vec<u8>,
        saved: &Saved,
    ) -> Self {
        Self {
            place,
            header,
            every,
            title,
            seconds_before: saved.seconds,
            clock: Instant::now(),
            due: AtomicU64::new(nanoseconds(every)),
            written: AtomicU64::new(0),
            pieces: Mutex::new(Pieces {
                carried: saved.carried.clone(),
                ..Pieces::default()
            }),
        }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        nanoseconds(self.clock.elapsed()) >= self.due.load(Ordering::Relaxed)
    }

    /// Locks the file, which for a new run it writes first.
    ///
    /// # Errors
    /// A failed write, or another run that is writing the file.
    pub(super) fn open(&self, is_new: bool) -> Result<()> {
        match is_new {
            true => self.try_write(&|| Ok(Finished::none())),
            false => self.place.hold(),
        }
    }

    /// Adds the name of the file to an error.
    pub(super) fn named(&self, error: Error) -> Error {
        Error::file(self.place.path(), error)
    }

    /// Writes the state that a task has reached, if it has worked.
    pub(super) fn close(&self, finish: Finish<'_>) {
        if std::mem::take(&mut self.pieces().has_worked) {
            self.write(finish);
        }
    }

    /// Takes the carried value from which the next task starts, and drops the blocks of the last task.
    pub(super) fn turn(&self, carried: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.under_way.clear();
        match carried {
            Ok(carried) => pieces.carried = Some(carried),
            Err(error) => pieces.lost = Some(error),
        }
    }

    pub(super) fn seconds_before(&self) -> f64 {
        self.seconds_before
    }

    /// Returns the error of the last checkpoint and the age of the file, if it failed.
    pub(super) fn failure(&self) -> Option<String> {
        let age = self.age().unwrap_or(0.0);
        let failed = self.pieces().failed.clone();
        failed.map(|error| format!("{error}; the file is {age:.0} s old"))
    }

    fn write(&self, finish: Finish<'_>) {
        let written = self.try_write(finish);
        if written.is_ok() {
            let now = nanoseconds(self.clock.elapsed());
            self.written.store(now, Ordering::Relaxed);
        }
        self.pieces().failed = written.err();
    }

    fn try_write(&self, finish: Finish<'_>) -> Result<()> {
        // Encoded first, so that every block outside of it has left a piece.
        let finished = finish()?;
        let saved = {
            let mut pieces = self.pieces();
            if let Some(error) = &pieces.lost {
                return Err(error.clone());
            }
            let is_finished =
                |block: &usize| finished.blocks.iter().any(|range| range.contains(block));
            pieces.under_way.retain(|block, _| !is_finished(block));
            Saved {
                title: self.title.clone(),
                seconds: self.seconds_before + self.clock.elapsed().as_secs_f64(),
                carried: pieces.carried.clone(),
                finished: finished.bytes,
                under_way: pieces.under_way.clone(),
            }
        };
        write(
            &self.place,
            &self.header,
            &super::encode("checkpoint", &saved)?,
        )
    }
}

impl Finished {
    pub(super) fn none() -> Self {
        Self {
            blocks: Vec::new(),
            bytes: vec![0],
        }
    }
}

impl Recipient for Keeper<'_> {
    fn resume(&self, under_way: BTreeMap<usize, Piece>) {
        self.pieces().under_way = under_way;
    }

    fn begin(&self, block: usize) -> Option<Piece> {
        let mut pieces = self.pieces();
        pieces.begin(Worker::Block(block));
        pieces.under_way.get(&block).cloned()
    }

    fn wants(&self, block: usize) -> bool {
        self.is_due() && self.pieces().pending.contains(&Worker::Block(block))
    }

    fn leave(&self, block: usize, piece: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.pending.remove(&Worker::Block(block));
        pieces.has_worked = true;
        match piece {
            Ok(piece) => drop(pieces.under_way.insert(block, piece)),
            Err(error) => pieces.lost = Some(error),
        }
    }

    fn end(&self, block: usize) {
        let mut pieces = self.pieces();
        pieces.has_worked = true;
        pieces.end(Worker::Block(block));
    }

    fn age(&self) -> Option<f64> {
        let written = Duration::from_nanos(self.written.load(Ordering::Relaxed));
        Some(self.clock.elapsed().saturating_sub(written).as_secs_f64())
    }

    fn tick(&self, finish: Finish<'_>) {
        if !self.is_due() || !self.pieces().is_ready() {
            return;
        }
        self.write(finish);
        let mut pieces = self.pieces();
        pieces.writing = false;
        pieces.asked = false;
        pieces.pending = pieces.at_work.clone();
        let due = self.clock.elapsed().saturating_add(self.every);
        self.due.store(nanoseconds(due), Ordering::Relaxed);
    }
}

#[cfg(feature = "mpi")]
impl Keeper<'_> {
    pub(in crate::work) fn begin_rank(&self, rank: usize) {
        self.pieces().begin(Worker::Rank(rank));
    }

    /// Returns whether to ask the other processes for their pieces now. They are asked once per checkpoint.
    pub(in crate::work) fn asks(&self) -> bool {
        if !self.is_due() {
            return false;
        }
        let mut pieces = self.pieces();
        let is_rank = |worker: &Worker| matches!(worker, Worker::Rank(_));
        let asks = !pieces.asked && pieces.pending.iter().any(is_rank);
        pieces.asked |= asks;
        asks
    }

    /// Notes that a process has sent all its pieces.
    pub(in crate::work) fn hear_all(&self, rank: usize) {
        self.pieces().pending.remove(&Worker::Rank(rank));
    }

    pub(in crate::work) fn end_rank(&self, rank: usize) {
        let mut pieces = self.pieces();
        pieces.has_worked = true;
        pieces.end(Worker::Rank(rank));
    }
}

impl Pieces {
    fn begin(&mut self, worker: Worker) {
        self.at_work.insert(worker);
        self.pending.insert(worker);
    }

    fn end(&mut self, worker: Worker) {
        self.at_work.remove(&worker);
        self.pending.remove(&worker);
    }

    /// Returns whether the caller is to write a checkpoint now, and if so marks it as being written.
    fn is_ready(&mut self) -> bool {
        let ready = self.pending.is_empty() && !self.writing;
        self.writing |= ready;
        ready
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
