//! What blocks of a process leave that writes no file: it goes to rank 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::keeper::Keeper;
use super::pieces::{Piece, Pieces};
use super::recipient::Recipient;
use crate::{Error, Result};

/// Collects what blocks leave, for the thread that sends it.
///
/// When it is asked each block at work leaves a piece, at the end of a stage of its own.
pub(crate) struct Courier {
    asked: AtomicBool,
    bag: Mutex<Bag>,
}

struct Bag {
    /// What the blocks had left before.
    given: Pieces,
    letters: Vec<Letter>,
    at_work: BTreeSet<usize>,
    /// Those at work that have left nothing since they were asked.
    pending: BTreeSet<usize>,
}

/// What rank 0 is told for a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) enum Letter {
    /// What a block has left on its way.
    UnderWay(usize, Result<Vec<u8>, String>),
    /// What a finished block has left.
    Finished(usize, Result<Vec<u8>, String>),
    /// All blocks at work have left a piece since they were asked.
    All,
}

impl Courier {
    /// Of blocks that may have left pieces before.
    pub(crate) fn new(given: Pieces) -> Self {
        Self {
            asked: AtomicBool::new(false),
            bag: Mutex::new(Bag {
                given,
                letters: Vec::new(),
                at_work: BTreeSet::new(),
                pending: BTreeSet::new(),
            }),
        }
    }

    fn bag(&self) -> MutexGuard<'_, Bag> {
        self.bag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all blocks at work to leave a piece.
    pub(crate) fn ask(&self) {
        let mut bag = self.bag();
        bag.pending = bag.at_work.clone();
        self.asked.store(true, Ordering::Relaxed);
    }

    /// What was left since the last call. Once all that were asked have left a piece, this is said at the end.
    pub(crate) fn take_out(&self) -> Vec<Letter> {
        let mut bag = self.bag();
        if bag.pending.is_empty() && self.asked.swap(false, Ordering::Relaxed) {
            bag.letters.push(Letter::All);
        }
        std::mem::take(&mut bag.letters)
    }
}

impl Recipient for Courier {
    fn pieces(&self) -> Pieces {
        self.bag().given.clone()
    }

    fn replace(&self, pieces: Result<Pieces>) {
        self.bag().given = pieces.unwrap_or_default();
    }

    fn begin(&self, block: usize) -> Option<Piece> {
        let mut bag = self.bag();
        bag.at_work.insert(block);
        bag.given.under_way.remove(&block)
    }

    fn wants(&self, block: usize) -> bool {
        self.asked.load(Ordering::Relaxed) && self.bag().pending.contains(&block)
    }

    fn leave(&self, block: usize, piece: Result<Vec<u8>>) {
        let mut bag = self.bag();
        bag.pending.remove(&block);
        let piece = piece.map_err(|error| error.to_string());
        bag.letters.push(Letter::UnderWay(block, piece));
    }

    fn finish(&self, block: usize, piece: Result<Vec<u8>>) {
        let piece = piece.map_err(|error| error.to_string());
        self.bag().letters.push(Letter::Finished(block, piece));
    }

    fn end(&self, block: usize) {
        let mut bag = self.bag();
        bag.at_work.remove(&block);
        bag.pending.remove(&block);
    }

    /// Rank 0 has the clock.
    fn tick(&self) {}

    fn age(&self) -> Option<f64> {
        None
    }
}

impl Keeper<'_> {
    /// Takes what another process has sent.
    pub(crate) fn receive(&self, rank: usize, letter: Letter) {
        let error = |message| Error::Rank { rank, message };
        match letter {
            Letter::UnderWay(block, piece) => self.leave(block, piece.map_err(error)),
            Letter::Finished(block, piece) => self.finish(block, piece.map_err(error)),
            Letter::All => self.hear_all(rank),
        }
    }
}

/// Pieces on their way to another process, by block.
pub(crate) type Parcel = Vec<(usize, Vec<u8>)>;

/// The pieces of some blocks.
pub(crate) fn parcel(pieces: &BTreeMap<usize, Piece>, of: impl Fn(usize) -> bool) -> Parcel {
    let chosen = pieces.iter().filter(|(block, _)| of(**block));
    chosen
        .map(|(&block, piece)| (block, piece.to_vec()))
        .collect()
}

/// The pieces of a parcel.
pub(crate) fn unpacked(parcel: Parcel) -> BTreeMap<usize, Piece> {
    let pieces = parcel.into_iter();
    pieces
        .map(|(block, piece)| (block, Arc::new(piece)))
        .collect()
}
