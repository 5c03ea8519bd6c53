//! Unfinished blocks of a process that writes no file, on their way to rank 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::work::store::{Finish, Keeper, Piece, Recipient};
use crate::{Error, Result};

/// Collects pieces of unfinished blocks, for the thread that sends them. After `ask` each block at work leaves one.
#[derive(Default)]
pub(crate) struct Courier {
    asked: AtomicBool,
    bag: Mutex<Bag>,
}

#[derive(Default)]
struct Bag {
    /// Unfinished blocks of an earlier call.
    given: BTreeMap<usize, Piece>,
    letters: Vec<Letter>,
    at_work: BTreeSet<usize>,
    /// Blocks at work that have left nothing since they were asked.
    pending: BTreeSet<usize>,
}

/// A message to rank 0 for a checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) enum Letter {
    UnderWay(usize, Result<Piece, String>),
    /// The end of the pieces asked for.
    All,
}

impl Courier {
    fn bag(&self) -> MutexGuard<'_, Bag> {
        self.bag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ask(&self) {
        let mut bag = self.bag();
        bag.pending = bag.at_work.clone();
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Takes the letters since the last call. `Letter::All` ends them once all blocks have answered.
    pub(super) fn take_out(&self) -> Vec<Letter> {
        let mut bag = self.bag();
        if bag.pending.is_empty() && self.asked.swap(false, Ordering::Relaxed) {
            bag.letters.push(Letter::All);
        }
        std::mem::take(&mut bag.letters)
    }
}

impl Recipient for Courier {
    fn resume(&self, under_way: BTreeMap<usize, Piece>) {
        self.bag().given = under_way;
    }

    fn begin(&self, block: usize) -> Option<Piece> {
        let mut bag = self.bag();
        bag.at_work.insert(block);
        bag.given.remove(&block)
    }

    fn wants(&self, block: usize) -> bool {
        self.asked.load(Ordering::Relaxed) && self.bag().pending.contains(&block)
    }

    fn leave(&self, block: usize, piece: Result<Piece>) {
        let mut bag = self.bag();
        bag.pending.remove(&block);
        let piece = piece.map_err(|error| error.to_string());
        bag.letters.push(Letter::UnderWay(block, piece));
    }

    fn end(&self, block: usize) {
        let mut bag = self.bag();
        bag.at_work.remove(&block);
        bag.pending.remove(&block);
    }

    /// Does nothing: rank 0 has the clock.
    fn tick(&self, _finish: Finish<'_>) {}

    fn age(&self) -> Option<f64> {
        None
    }
}

impl Keeper<'_> {
    pub(super) fn receive(&self, rank: usize, letter: Letter) {
        let error = |message| Error::Rank { rank, message };
        match letter {
            Letter::UnderWay(block, piece) => self.leave(block, piece.map_err(error)),
            Letter::All => self.hear_all(rank),
        }
    }
}
