//! The ledger of blocks: hands them out, and takes in their outcomes, in their order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::execution::StoppedBy;
use super::tree::{Forest, Merge, Node, coalesce, fold};
use crate::{Error, Result};

/// The state of the blocks of a task: handed out, finished, failed or canceled. Finished blocks are merged, and the
/// stopping rule sees them, in their order. Neither sums nor the end depend on threads.
pub(crate) struct Ledger<T> {
    blocks: Range<usize>,
    /// The last block if it is unfilled. It is not merged, so that a longer run can replace it.
    kept_apart: Option<usize>,
    share: Share,
    /// Blocks of this share that are done and kept by another process.
    elsewhere: Vec<Range<usize>>,
    /// First canceled block.
    limit: AtomicUsize,
    books: Mutex<Books<T>>,
}

/// The blocks of one of several processes: each `b` with `b mod size = rank`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl Share {
    pub(crate) const WHOLE: Self = Self { rank: 0, size: 1 };

    pub(crate) fn has(self, block: usize) -> bool {
        block % self.size == self.rank
    }
}

struct Books<T> {
    next: usize,
    /// End of the prefix: all earlier blocks are merged into it.
    done: usize,
    prefix: Forest<T>,
    /// Finished blocks after the first gap, from left to right.
    waiting: VecDeque<Node<T>>,
    /// Whether a panic in merging has lost blocks.
    is_torn: bool,
    /// The panic, or else the error of the leftmost block that failed.
    failed: Option<(usize, Error)>,
    stopped_by: Option<StoppedBy>,
}

/// The content of a ledger when the work is over.
#[derive(Debug)]
pub(crate) struct Closed<T> {
    pub(crate) prefix: Forest<T>,
    /// Finished blocks after the first gap.
    pub(crate) beyond: Forest<T>,
    pub(crate) stopped_by: Option<StoppedBy>,
}

impl<T: Merge> Closed<T> {
    /// Returns the merged output of all blocks.
    ///
    /// # Errors
    /// [`Error::Stopped`], with `chains`, if the work was stopped before its end.
    pub(crate) fn whole(self, chains: usize) -> Result<T> {
        match self.stopped_by {
            None => Ok(fold(self.prefix).expect("there are blocks")),
            Some(by) => Err(Error::Stopped {
                by: by.to_string(),
                chains,
            }),
        }
    }
}

/// A rule that may end the work, given the number of blocks in the prefix and their outputs whenever it grows.
pub(crate) type Rule<'a, T> = &'a (dyn Fn(usize, &Forest<T>) -> bool + Sync);

impl<T: Merge> Ledger<T> {
    /// Creates a ledger that goes on from `finished`, sorted from left to right. An `unfilled` last block is kept
    /// apart.
    pub(crate) fn resumed(blocks: Range<usize>, finished: Forest<T>, unfilled: bool) -> Self {
        let waiting = finished.into_iter();
        let mut books = Books {
            next: blocks.start,
            done: blocks.start,
            prefix: Forest::new(),
            waiting: waiting.collect(),
            is_torn: false,
            failed: None,
            stopped_by: None,
        };
        let kept_apart = unfilled.then(|| blocks.end - 1);
        while books.take_in(kept_apart) {}
        Self {
            kept_apart,
            share: Share::WHOLE,
            elsewhere: Vec::new(),
            limit: AtomicUsize::new(blocks.end),
            blocks,
            books: Mutex::new(books),
        }
    }

    /// Restricts the ledger to the blocks of `share`. The range of blocks must begin at 0.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn shared(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Excludes `blocks`, which another process keeps.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn without(mut self, blocks: Vec<Range<usize>>) -> Self {
        self.elsewhere = blocks;
        self
    }

    fn books(&self) -> MutexGuard<'_, Books<T>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the largest number of blocks that this process may have to do.
    pub(crate) fn most(&self) -> usize {
        self.blocks.len().div_ceil(self.share.size)
    }

    /// Returns whether this process leads: it has the first block and decides when the work ends.
    pub(crate) fn leads(&self) -> bool {
        self.share.rank == 0
    }

    /// Returns the next block to do, if there is one.
    pub(crate) fn hand_out(&self) -> Option<usize> {
        let mut books = self.books();
        loop {
            let block = books.next;
            if self.is_canceled(block) {
                return None;
            }
            books.next += 1;
            let elsewhere = || self.elsewhere.iter().any(|blocks| blocks.contains(&block));
            if self.share.has(block) && !books.has(block) && !elsewhere() {
                return Some(block);
            }
        }
    }

    pub(crate) fn is_canceled(&self, block: usize) -> bool {
        self.limit.load(Ordering::Relaxed) <= block
    }

    #[cfg_attr(not(feature = "mpi"), allow(dead_code))] // Only processes that share their work ask.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel_from(&self, block: usize) {
        self.limit.fetch_min(block, Ordering::Relaxed);
    }

    /// Ends all work. Finished blocks are kept.
    pub(crate) fn stop(&self, by: StoppedBy) {
        self.books().stopped_by.get_or_insert(by);
        self.cancel_from(0);
    }

    /// Takes in the outcome of a block; `Err(None)` if it was canceled. An error cancels only the blocks to its right,
    /// so that the reported error does not depend on threads. A panic cancels all.
    pub(crate) fn enter(&self, block: usize, outcome: Result<T, Option<Error>>, rule: Rule<'_, T>) {
        match outcome {
            Ok(value) => self.enter_node(Node::leaf(block, value), rule),
            Err(Some(error)) => self.fail(block, error),
            Err(None) => {}
        }
    }

    fn enter_node(&self, node: Node<T>, rule: Rule<'_, T>) {
        let mut books = self.books();
        books.wait(node);
        while books.stopped_by != Some(StoppedBy::StandardError) && books.take_in(self.kept_apart) {
            if rule(books.done, &books.prefix) {
                books.stopped_by = Some(StoppedBy::StandardError);
                self.cancel_from(books.done);
            }
        }
    }

    pub(super) fn fail(&self, block: usize, error: Error) {
        let mut books = self.books();
        let panicked = matches!(error, Error::Panicked { .. });
        self.cancel_from(if panicked { 0 } else { block + 1 });
        let rank = |block: usize, error: &Error| match error {
            Error::Panicked { .. } => 0,
            _ => block + 1,
        };
        let first = books.failed.as_ref();
        if first.is_none_or(|(left, first)| rank(block, &error) < rank(*left, first)) {
            books.failed = Some((block, error));
        }
    }

    /// Takes out the finished blocks, and the error to report, of a process that does not lead.
    #[cfg_attr(not(feature = "mpi"), allow(dead_code))] // As above.
    pub(crate) fn take_out(&self) -> (Forest<T>, Option<(usize, Error)>) {
        let mut books = self.books();
        let finished = std::mem::take(&mut books.waiting);
        (finished.into(), books.failed.take())
    }

    /// Calls `at` with the end of the prefix and its outputs.
    pub(crate) fn look<U>(&self, at: impl FnOnce(usize, &Forest<T>) -> U) -> U {
        let books = self.books();
        at(books.done, &books.prefix)
    }

    /// Calls `at` for each finished block that a later call would resume from, from left to right. Once the prefix
    /// suffices, later blocks are left out, because they would change the result.
    pub(crate) fn look_at_all<U>(&self, at: impl FnMut(&Node<T>) -> U) -> Vec<U> {
        self.books().finished().into_iter().map(at).collect()
    }

    /// Calls `at` with the same blocks at once. Refuses books that have lost blocks.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn look_at_whole<U>(&self, at: impl FnOnce(&[&Node<T>]) -> Result<U>) -> Result<U> {
        let books = self.books();
        let found = "some lost by a panic in merging";
        Error::check(!books.is_torn, "finished blocks", found, "all")?;
        at(&books.finished())
    }

    /// Returns what the work produced.
    ///
    /// # Errors
    /// Any panic; else the error of the leftmost failed block, unless the work stopped before it mattered.
    pub(crate) fn close(self) -> Result<Closed<T>> {
        let mut books = self
            .books
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((block, error)) = books.failed {
            let panicked = matches!(error, Error::Panicked { .. });
            let by_rule = books.stopped_by == Some(StoppedBy::StandardError);
            if panicked || block == books.done && !by_rule {
                return Err(error);
            }
        }
        let ended = books.done == self.blocks.end;
        Ok(Closed {
            prefix: std::mem::take(&mut books.prefix),
            beyond: match books.stopped_by {
                // They would change the result.
                Some(StoppedBy::StandardError) => Forest::new(),
                _ => books.waiting.into(),
            },
            stopped_by: books.stopped_by.filter(|_| !ended),
        })
    }
}

impl<T: Merge> Books<T> {
    /// Moves the next block into the prefix, if it is finished.
    fn take_in(&mut self, kept_apart: Option<usize>) -> bool {
        let first = self.waiting.front();
        if self.is_torn || first.is_none_or(|node| node.blocks().start != self.done) {
            return false;
        }
        let Some(node) = self.waiting.pop_front() else {
            return false;
        };
        let apart = kept_apart == Some(self.done);
        self.done = node.blocks().end;
        self.prefix.push(node);
        if !apart {
            self.is_torn = true;
            self.prefix = coalesce(std::mem::take(&mut self.prefix));
            self.is_torn = false;
        }
        true
    }
}

impl<T> Books<T> {
    fn finished(&self) -> Vec<&Node<T>> {
        let enough = self.stopped_by == Some(StoppedBy::StandardError);
        let beyond = self.waiting.iter().filter(|_| !enough);
        self.prefix.iter().chain(beyond).collect()
    }

    /// Inserts a finished block among the waiting ones.
    fn wait(&mut self, node: Node<T>) {
        let place = self.place_of(node.blocks().start);
        self.waiting.insert(place, node);
    }

    fn place_of(&self, block: usize) -> usize {
        self.waiting
            .partition_point(|node| node.blocks().start < block)
    }

    fn has(&self, block: usize) -> bool {
        let before = self.place_of(block + 1).checked_sub(1);
        let is_in = |place: usize| self.waiting[place].blocks().contains(&block);
        block < self.done || before.is_some_and(is_in)
    }
}
