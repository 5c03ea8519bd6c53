//! What blocks at work have left, and when it is written to the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::codec::{Decoder, Encoder};
use super::file::{Header, write};
use crate::{Error, Result};

/// What a block has left.
type Piece = Arc<Vec<u8>>;

/// What blocks have left, by their index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    pub(crate) finished: BTreeMap<usize, Piece>,
    pub(crate) under_way: BTreeMap<usize, Piece>,
}

/// What a checkpoint says before the pieces.
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    /// The blocks that count as finished, if they are.
    pub(crate) finished: BTreeSet<usize>,
}

/// Collects what blocks leave, and writes checkpoints.
///
/// When an interval is over each block at work leaves a piece, at the end of a stage of its own. Whoever then comes
/// first writes them all. Blocks are independent of each other, so that their pieces need not be of one moment.
/// Nothing is encoded or written under a lock.
pub(crate) struct Keeper<'a> {
    file: &'a Path,
    header: Header<'a>,
    every: Duration,
    clock: Instant,
    /// When the interval is over, in nanoseconds on the clock.
    due: AtomicU64,
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    pieces: Pieces,
    /// Whether a block was at work.
    has_worked: bool,
    at_work: BTreeSet<usize>,
    /// Those at work that have left nothing since the last checkpoint.
    pending: BTreeSet<usize>,
    writing: bool,
    /// Why the last checkpoint is not written.
    failed: Option<Error>,
    /// Why there can be no further one.
    lost: Option<Error>,
}

impl<'a> Keeper<'a> {
    /// Goes on from the pieces of an earlier run, if there are any.
    pub(crate) fn new(file: &'a Path, header: Header<'a>, every: Duration, pieces: Pieces) -> Self {
        Self {
            file,
            header,
            every,
            clock: Instant::now(),
            due: AtomicU64::new(nanoseconds(every)),
            desk: Mutex::new(Desk {
                pieces,
                ..Desk::default()
            }),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block is at work from now on. Returns what it had left before.
    pub(crate) fn begin(&self, block: usize) -> Option<Piece> {
        let mut desk = self.desk();
        desk.has_worked = true;
        desk.at_work.insert(block);
        desk.pending.insert(block);
        desk.pieces.under_way.get(&block).cloned()
    }

    /// A block at work has ended a stage, and may leave what `piece` makes.
    pub(crate) fn passed(
        &self,
        block: usize,
        piece: impl FnOnce() -> Result<Vec<u8>>,
        head: &dyn Fn() -> Result<Head>,
    ) {
        if nanoseconds(self.clock.elapsed()) < self.due.load(Ordering::Relaxed) {
            return;
        }
        if self.desk().pending.contains(&block) {
            self.leave(block, piece);
        }
        if self.desk().is_ready() {
            self.write(head);
            let mut desk = self.desk();
            desk.writing = false;
            desk.pending = desk.at_work.clone();
            let due = self.clock.elapsed().saturating_add(self.every);
            self.due.store(nanoseconds(due), Ordering::Relaxed);
        }
    }

    /// A block leaves what `piece` makes.
    pub(crate) fn leave(&self, block: usize, piece: impl FnOnce() -> Result<Vec<u8>>) {
        let piece = piece();
        let mut desk = self.desk();
        desk.pending.remove(&block);
        match piece {
            Ok(piece) => drop(desk.pieces.under_way.insert(block, Arc::new(piece))),
            Err(error) => desk.lost = Some(error),
        }
    }

    /// A block is finished, and leaves what `piece` makes. What it left before is kept until a head counts it.
    pub(crate) fn finish(&self, block: usize, piece: impl FnOnce() -> Result<Vec<u8>>) {
        let piece = piece();
        let mut desk = self.desk();
        match piece {
            Ok(piece) => drop(desk.pieces.finished.insert(block, Arc::new(piece))),
            Err(error) => desk.lost = Some(error),
        }
    }

    /// A block is not at work any more.
    pub(crate) fn end(&self, block: usize) {
        let mut desk = self.desk();
        desk.at_work.remove(&block);
        desk.pending.remove(&block);
    }

    /// What blocks have left.
    pub(crate) fn pieces(&self) -> Pieces {
        self.desk().pieces.clone()
    }

    /// Takes other pieces in place of all that were left.
    pub(crate) fn replace(&self, pieces: Result<Pieces>) {
        let mut desk = self.desk();
        desk.lost = desk.lost.take().or(pieces.as_ref().err().cloned());
        desk.pieces = pieces.unwrap_or_default();
    }

    /// Whether a block was at work.
    pub(crate) fn has_worked(&self) -> bool {
        self.desk().has_worked
    }

    /// Writes a checkpoint of what was left so far.
    pub(crate) fn write(&self, head: &dyn Fn() -> Result<Head>) {
        let written = self.try_write(head);
        self.desk().failed = written.err();
    }

    /// Why the last checkpoint is not written.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.desk().failed.clone()
    }

    fn try_write(&self, head: &dyn Fn() -> Result<Head>) -> Result<()> {
        // It is made first: the blocks that it counts have all left their pieces.
        let head = head()?;
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
        write(self.file, &self.header, &parts)
    }
}

impl Desk {
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

/// Adds the number of some pieces, and each with its block and its length.
fn put_list<'d>(
    parts: &mut Vec<Piece>,
    pieces: impl Iterator<Item = (&'d usize, &'d Piece)>,
) -> Result<()> {
    let pieces: Vec<_> = pieces.collect();
    let mut encoder = Encoder::default();
    encoder.put("number of blocks", &pieces.len())?;
    for (block, piece) in pieces {
        encoder.put("block", block)?;
        encoder.put("length of a block", &piece.len())?;
        parts.push(Arc::new(std::mem::take(&mut encoder).finish()));
        parts.push(Arc::clone(piece));
    }
    parts.push(Arc::new(encoder.finish()));
    Ok(())
}

impl Pieces {
    /// Forgets the blocks from this one on.
    pub(crate) fn truncate(&mut self, blocks: usize) {
        self.finished.split_off(&blocks);
        self.under_way.split_off(&blocks);
    }

    /// Reads the pieces of a run of so many blocks.
    ///
    /// # Errors
    /// Blocks beyond the last, out of order, or both finished and under way.
    pub(crate) fn decode(decoder: &mut Decoder<'_>, blocks: usize) -> Result<Self> {
        let finished = take_list(decoder, blocks)?;
        let under_way = take_list(decoder, blocks)?;
        let both = under_way.keys().find(|block| finished.contains_key(block));
        let block = both.copied().unwrap_or_default();
        let expected = "blocks that are not finished";
        Error::check(both.is_none(), "block under way", block, expected)?;
        Ok(Self {
            finished,
            under_way,
        })
    }
}

fn take_list(decoder: &mut Decoder<'_>, blocks: usize) -> Result<BTreeMap<usize, Piece>> {
    let count: usize = decoder.take("number of blocks")?;
    let expected = format!("at most {blocks}");
    Error::check(count <= blocks, "number of blocks", count, expected)?;
    let mut pieces = BTreeMap::new();
    let mut next = 0;
    for _ in 0..count {
        let block = decoder.take("block")?;
        let expected = format!("{next} to {}", blocks - 1);
        Error::check((next..blocks).contains(&block), "block", block, expected)?;
        next = block + 1;
        pieces.insert(block, Arc::new(decoder.take_bytes("block")?.to_vec()));
    }
    Ok(pieces)
}
