//! The writer of checkpoints, which collects the blocks of a run in progress and decides when to write them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file::{Header, write};
use super::parts::{Finished, Piece, Saved, remove_others};
use super::place::Place;
use crate::work::ledger::Share;
use crate::{Error, Result};

/// A function that returns the finished blocks for a checkpoint.
pub(crate) type Finish<'a> = &'a dyn Fn() -> Result<Finished>;

/// Collects unfinished blocks, and writes the checkpoints of one process. After each interval every block in progress
/// leaves its bytes, a piece, at the end of its step. The next call of `tick` writes all pieces. Blocks are
/// independent, so their pieces may come from different moments. Nothing is encoded or written while the pieces are
/// locked.
pub(crate) struct Keeper<'a> {
    /// The file that the user named, and the place of this process's file.
    files: (&'a Path, Place<'a>),
    header: Header<'a>,
    every: Duration,
    /// Title and start time of the run, and seconds of earlier calls: three fields of [`Saved`].
    begun: (Vec<u8>, u64, f64),
    clock: Instant,
    /// Time at which the next checkpoint is due, in nanoseconds on `clock`.
    due: AtomicU64,
    /// Time of the last checkpoint, in nanoseconds on `clock`.
    written: AtomicU64,
    pieces: Mutex<Pieces>,
}

#[derive(Default)]
struct Pieces {
    turn: u64,
    carried: Option<Vec<u8>>,
    under_way: BTreeMap<usize, Piece>,
    /// Whether anything is new since the last checkpoint.
    has_worked: bool,
    at_work: BTreeSet<usize>,
    /// Blocks in progress that have left no piece since the last checkpoint.
    pending: BTreeSet<usize>,
    writing: bool,
    has_written: bool,
    /// Whether the checkpoint files of earlier calls of `run` are no longer needed. Before that, each process writes
    /// the content of these files into its own file, too.
    is_settled: bool,
    /// Error of the last checkpoint.
    failed: Option<Error>,
    /// Error that prevents all further checkpoints.
    lost: Option<Error>,
}

impl<'a> Keeper<'a> {
    /// Creates a keeper that continues from `saved`.
    pub(super) fn new(
        files: (&'a Path, &'a Path),
        header: Header<'a>,
        every: Duration,
        saved: &Saved,
    ) -> Self {
        Self {
            files: (files.0, Place::new(files.1)),
            header,
            every,
            begun: (saved.title.clone(), saved.begun, saved.seconds),
            clock: Instant::now(),
            due: AtomicU64::new(nanoseconds(every)),
            written: AtomicU64::new(0),
            pieces: Mutex::new(Pieces {
                turn: saved.turn,
                carried: saved.carried.clone(),
                // If as many processes wrote the files, each file already holds the blocks of its process.
                is_settled: saved.size == header.of.1,
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

    /// Locks the file. For a new run it writes the file first.
    ///
    /// # Errors
    /// A failed write, or another run that is writing the file.
    pub(super) fn open(&self, is_new: bool) -> Result<()> {
        match is_new {
            true => self.try_write(&|| Ok(Finished::new())),
            false => self.files.1.hold(),
        }
    }

    /// Adds the name of the file to an error.
    pub(super) fn named(&self, error: Error) -> Error {
        Error::file(self.files.1.path(), error)
    }

    /// Writes a checkpoint at the end of a task, if there is new work, or if files of earlier calls are still needed.
    pub(super) fn close(&self, finish: Finish<'_>) {
        let has_worked = std::mem::take(&mut self.pieces().has_worked);
        if has_worked || !self.pieces().is_settled {
            self.write(finish);
        }
    }

    /// Stores the carried value from which the next task starts, and drops the blocks of the task before it.
    pub(super) fn turn(&self, carried: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.under_way.clear();
        pieces.turn = pieces.turn.saturating_add(1);
        match carried {
            Ok(carried) => pieces.carried = Some(carried),
            Err(error) => pieces.lost = Some(error),
        }
    }

    pub(super) fn seconds_before(&self) -> f64 {
        self.begun.2
    }

    pub(super) fn has_written(&self) -> bool {
        self.pieces().has_written
    }

    pub(super) fn is_settled(&self) -> bool {
        self.pieces().is_settled
    }

    /// Removes files of ranks that no longer exist, once all processes have written their own. From now on this process
    /// writes only its own blocks.
    pub(super) fn settle(&self) {
        let (rank, size) = self.header.of;
        let share = Share { rank, size };
        {
            let mut pieces = self.pieces();
            if std::mem::replace(&mut pieces.is_settled, true) {
                return;
            }
            pieces.under_way.retain(|block, _| share.has(*block));
        }
        remove_others(self.files.0, &self.header, size);
    }

    /// Returns the error of the last checkpoint and the age of the file, if that checkpoint failed.
    pub(super) fn failure(&self) -> Option<String> {
        let age = self.age();
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
        if self.header.of.1 == 1 && self.has_written() {
            self.settle();
        }
    }

    fn try_write(&self, finish: Finish<'_>) -> Result<()> {
        // Finished blocks are encoded first, so that every block that is not among them has left a piece.
        let finished = finish()?;
        let (title, begun, seconds_before) = &self.begun;
        let saved = {
            let mut pieces = self.pieces();
            if let Some(error) = &pieces.lost {
                return Err(error.clone());
            }
            let is_finished =
                |block: &usize| finished.iter().any(|(range, _)| range.contains(block));
            pieces.under_way.retain(|block, _| !is_finished(block));
            Saved {
                title: title.clone(),
                begun: *begun,
                size: self.header.of.1,
                seconds: seconds_before + self.clock.elapsed().as_secs_f64(),
                turn: pieces.turn,
                carried: pieces.carried.clone(),
                finished,
                under_way: pieces.under_way.clone(),
            }
        };
        let payload = super::encode("checkpoint", &saved)?;
        write(&self.files.1, &self.header, &payload)?;
        self.pieces().has_written = true;
        Ok(())
    }
}

/// Methods that collect unfinished blocks of this process for the next checkpoint. Any thread may call them.
impl Keeper<'_> {
    /// Takes over the unfinished blocks of an earlier call.
    pub(super) fn resume(&self, under_way: BTreeMap<usize, Piece>) {
        let (rank, size) = self.header.of;
        let share = Share { rank, size };
        let mut pieces = self.pieces();
        let is_settled = pieces.is_settled;
        pieces.under_way = under_way;
        pieces
            .under_way
            .retain(|block, _| !is_settled || share.has(*block));
    }

    /// Marks a block as in progress. Returns its saved piece, if there is one.
    pub(super) fn begin(&self, block: usize) -> Option<Piece> {
        let mut pieces = self.pieces();
        pieces.at_work.insert(block);
        pieces.pending.insert(block);
        pieces.under_way.get(&block).cloned()
    }

    /// Returns whether a block in progress should leave a piece after this step.
    pub(super) fn wants(&self, block: usize) -> bool {
        // The clock comes first, so that steps take no lock until a checkpoint is due.
        self.is_due() && self.pieces().pending.contains(&block)
    }

    /// Stores the piece of a block in progress for the next checkpoint.
    pub(super) fn leave(&self, block: usize, piece: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.pending.remove(&block);
        pieces.has_worked = true;
        match piece {
            Ok(piece) => drop(pieces.under_way.insert(block, piece)),
            Err(error) => pieces.lost = Some(error),
        }
    }

    pub(super) fn end(&self, block: usize) {
        let mut pieces = self.pieces();
        pieces.has_worked = true;
        pieces.at_work.remove(&block);
        pieces.pending.remove(&block);
    }

    /// Returns the seconds since the last checkpoint.
    pub(super) fn age(&self) -> f64 {
        let written = Duration::from_nanos(self.written.load(Ordering::Relaxed));
        self.clock.elapsed().saturating_sub(written).as_secs_f64()
    }

    /// Writes a checkpoint if one is due and no block is in progress, so that a process saves its work while others
    /// continue.
    pub(super) fn tick_at_rest(&self, finish: Finish<'_>) {
        let has_news = {
            let pieces = self.pieces();
            pieces.has_worked && pieces.at_work.is_empty()
        };
        if has_news {
            self.tick(finish);
        }
    }

    /// Writes a checkpoint if one is due.
    pub(super) fn tick(&self, finish: Finish<'_>) {
        if !self.is_due() || !self.pieces().is_ready() {
            return;
        }
        // Cleared before the write, so that work done meanwhile counts as new. A failed write sets it again.
        self.pieces().has_worked = false;
        self.write(finish);
        let mut pieces = self.pieces();
        pieces.has_worked |= pieces.failed.is_some();
        pieces.writing = false;
        pieces.pending = pieces.at_work.clone();
        // Counted from the end of the write, so that a slow disk does not write without a pause.
        let due = self.clock.elapsed().saturating_add(self.every);
        self.due.store(nanoseconds(due), Ordering::Relaxed);
    }
}

impl Pieces {
    /// Returns whether the caller should write a checkpoint now, and if so marks it as being written.
    fn is_ready(&mut self) -> bool {
        let ready = self.pending.is_empty() && !self.writing;
        self.writing |= ready;
        ready
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
