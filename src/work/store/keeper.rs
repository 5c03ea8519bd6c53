//! The writer of checkpoints, which collects the blocks of a run in progress and decides when to write them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file::{Header, write};
use super::parts::{Finished, Saved};
use super::place::Place;
use crate::work::bytes::{encode, guarded};
use crate::work::task::Save;
use crate::{Error, Result};

/// A function that returns the finished blocks for a checkpoint.
type Finish<'a> = &'a dyn Fn() -> Result<Finished>;

/// Collects unfinished blocks, and writes the checkpoints of one process. After each interval every block in progress
/// leaves its bytes, a piece, at the end of its step. The next call of `tick` writes all pieces. Blocks are
/// independent, so their pieces may come from different moments. Nothing is encoded or written while the pieces are
/// locked.
pub(crate) struct Keeper<'a> {
    place: Place<'a>,
    header: Header<'a>,
    every: Duration,
    clock: Instant,
    /// Time at which the next checkpoint is due, in nanoseconds on `clock`.
    due: AtomicU64,
    pieces: Mutex<Pieces>,
}

struct Pieces {
    /// The content of the next checkpoint without finished blocks. `seconds` is the time that earlier calls took.
    saved: Saved,
    /// Blocks in progress, and whether they have left a piece since the last checkpoint.
    at_work: BTreeMap<usize, bool>,
    /// Whether anything is new since the last checkpoint.
    has_worked: bool,
    is_writing: bool,
    /// Time of the last checkpoint.
    written: Instant,
    /// Error of the last checkpoint.
    failed: Option<Error>,
    /// Error that prevents all further checkpoints.
    lost: Option<Error>,
}

impl<'a> Keeper<'a> {
    /// Creates a keeper that continues from `saved`.
    pub(super) fn new(file: &'a Path, header: Header<'a>, every: Duration, saved: Saved) -> Self {
        let clock = Instant::now();
        Self {
            place: Place::new(file),
            header,
            every,
            clock,
            due: AtomicU64::new(nanoseconds(every)),
            pieces: Mutex::new(Pieces {
                saved,
                at_work: BTreeMap::new(),
                has_worked: false,
                is_writing: false,
                written: clock,
                failed: None,
                lost: None,
            }),
        }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        nanoseconds(self.clock.elapsed()) >= self.due.load(Ordering::Relaxed)
    }

    /// Locks the file, or replaces it by a file with `content`.
    ///
    /// # Errors
    /// A failed write, or another run that is writing the file.
    pub(super) fn open(&self, content: Option<&Saved>) -> Result<()> {
        match content {
            Some(content) => self.replace(content),
            None => self.place.hold(),
        }
    }

    /// Adds the name of the file to an error.
    pub(in crate::work) fn named(&self, error: Error) -> Error {
        Error::file(self.place.path(), error)
    }

    /// Writes a checkpoint at the end of a task, if there is new work.
    pub(in crate::work) fn close(&self, finish: Finish<'_>) {
        if std::mem::take(&mut self.pieces().has_worked) {
            self.write(finish);
        }
    }

    /// Stores the carried value from which the next task starts, and drops the blocks of the task before it. Writes nothing.
    pub(in crate::work) fn start_next_task(&self, carried: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.saved.under_way.clear();
        pieces.saved.turn = pieces.saved.turn.saturating_add(1);
        match carried {
            Ok(carried) => pieces.saved.carried = Some(carried),
            Err(error) => pieces.lost = Some(error),
        }
    }

    pub(super) fn seconds_before(&self) -> f64 {
        self.pieces().saved.seconds
    }

    /// Returns the seconds since the last checkpoint.
    pub(crate) fn age(&self) -> f64 {
        self.pieces().written.elapsed().as_secs_f64()
    }

    /// Returns the error of the last checkpoint and the age of the file, if that checkpoint failed.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.pieces().failed.clone();
        failed.map(|error| format!("{error}; the file is {:.0} s old", self.age()))
    }

    fn write(&self, finish: Finish<'_>) {
        let written = self.try_write(finish);
        let mut pieces = self.pieces();
        match written {
            Ok(()) => (pieces.written, pieces.failed) = (Instant::now(), None),
            Err(error) => pieces.failed = Some(error),
        }
    }

    fn try_write(&self, finish: Finish<'_>) -> Result<()> {
        // Finished blocks are encoded first, so that every block that is not among them has left a piece.
        let finished = finish()?;
        let saved = {
            let mut pieces = self.pieces();
            if let Some(error) = &pieces.lost {
                return Err(error.clone());
            }
            let is_finished =
                |block: &usize| finished.iter().any(|(range, _)| range.contains(block));
            let saved = &mut pieces.saved;
            saved.under_way.retain(|block, _| !is_finished(block));
            Saved {
                seconds: saved.seconds + self.clock.elapsed().as_secs_f64(),
                finished,
                ..saved.clone()
            }
        };
        self.replace(&saved)
    }

    fn replace(&self, content: &Saved) -> Result<()> {
        let payload = encode("checkpoint", content)?;
        write(&self.place, &self.header, &payload)
    }
}

/// Methods that collect unfinished blocks of this process for the next checkpoint. Any thread may call them.
impl Keeper<'_> {
    /// Takes over the unfinished blocks of an earlier call.
    pub(in crate::work) fn resume(&self, under_way: BTreeMap<usize, Vec<u8>>) {
        self.pieces().saved.under_way = under_way;
    }

    /// Marks a block as in progress. Returns its saved piece, if there is one.
    pub(crate) fn begin(&self, block: usize) -> Option<Vec<u8>> {
        let mut pieces = self.pieces();
        pieces.at_work.insert(block, false);
        pieces.saved.under_way.get(&block).cloned()
    }

    /// Takes the piece of a block after a step, if a checkpoint is due or the block is canceled, and writes a checkpoint
    /// if one is due. Canceled blocks are written at the end of the task.
    pub(crate) fn pass(&self, block: usize, save: Save<'_>, is_canceled: bool, finish: Finish<'_>) {
        if is_canceled || self.wants(block) {
            self.leave(block, guarded(save));
        }
        if !is_canceled {
            self.tick(finish);
        }
    }

    /// Returns whether a block in progress should leave a piece after this step.
    fn wants(&self, block: usize) -> bool {
        // The clock comes first, so that steps take no lock until a checkpoint is due.
        self.is_due() && self.pieces().at_work.get(&block) == Some(&false)
    }

    /// Stores the piece of a block in progress for the next checkpoint.
    fn leave(&self, block: usize, piece: Result<Vec<u8>>) {
        let mut pieces = self.pieces();
        pieces.at_work.insert(block, true);
        pieces.has_worked = true;
        match piece {
            Ok(piece) => drop(pieces.saved.under_way.insert(block, piece)),
            Err(error) => pieces.lost = Some(error),
        }
    }

    pub(crate) fn end(&self, block: usize) {
        let mut pieces = self.pieces();
        pieces.has_worked = true;
        pieces.at_work.remove(&block);
    }

    /// Writes a checkpoint if one is due, anything is new, and every block in progress has left a piece.
    pub(crate) fn tick(&self, finish: Finish<'_>) {
        if !self.is_due() || !self.pieces().begins_to_write() {
            return;
        }
        self.write(finish);
        let mut pieces = self.pieces();
        pieces.has_worked |= pieces.failed.is_some();
        pieces.is_writing = false;
        let at_work = pieces.at_work.values_mut();
        at_work.for_each(|has_left| *has_left = false);
        // Counted from the end of the write, so that a slow disk does not write without a pause.
        let due = self.clock.elapsed().saturating_add(self.every);
        self.due.store(nanoseconds(due), Ordering::Relaxed);
    }
}

impl Pieces {
    /// Returns whether the caller should write a checkpoint now.
    fn begins_to_write(&mut self) -> bool {
        let have_left = self.at_work.values().all(|has_left| *has_left);
        let begins = self.has_worked && have_left && !self.is_writing;
        if begins {
            // Cleared before the write, so that work done meanwhile counts as new. A failed write sets it again.
            (self.has_worked, self.is_writing) = (false, true);
        }
        begins
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
