//! The ledger of blocks: hands blocks out, and collects their outcomes in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::execution::StoppedBy;
use super::tree::{Forest, Merge, Node, coalesce, fold};
use crate::{Error, Result};

/// The state of the blocks of a task: handed out, finished, failed or canceled. Finished blocks are merged, and checked
/// by the stopping rule, in order. Therefore neither the sums nor the end depend on threads.
pub(crate) struct Ledger<T> {
    blocks: Range<usize>,
    /// The last block if it could take more chains. It is not merged, so that a longer run can replace it.
    kept_apart: Option<usize>,
    /// The blocks that this process runs, if several processes decide together when the work ends.
    pub(super) share: Option<Share>,
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
    #[cfg(feature = "checkpoint")]
    pub(crate) const WHOLE: Self = Self { rank: 0, size: 1 };

    /// Returns whether this share contains `block`. The merged output of neighbouring blocks (a node) belongs to the
    /// share that contains its first block.
    pub(crate) fn has(self, block: usize) -> bool {
        block % self.size == self.rank
    }
}

struct Books<T> {
    next: usize,
    /// First block after the prefix, into which all earlier blocks are merged.
    done: usize,
    prefix: Forest<T>,
    /// Finished blocks after the first unfinished one, from left to right.
    waiting: VecDeque<Node<T>>,
    /// Whether a panic in merging has lost blocks.
    is_torn: bool,
    /// The panic if there was one, otherwise the error of the leftmost block that failed.
    failed: Option<Failure>,
    stopped_by: Option<StoppedBy>,
    /// The reason why this process asks all processes to stop.
    asked: Option<StoppedBy>,
}

/// The error of a block.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) block: usize,
    /// Whether the failure ends all work, as a panic does. After any other error, blocks to its left continue.
    pub(crate) ends_all: bool,
    pub(crate) error: Error,
}

impl Failure {
    /// Returns the failure's place in the order of failures. The first failure in this order is reported.
    fn order(&self) -> usize {
        if self.ends_all { 0 } else { self.block + 1 }
    }
}

/// The content of a ledger when the work is over.
#[derive(Debug)]
pub(crate) struct Closed<T> {
    pub(crate) prefix: Forest<T>,
    /// Finished blocks after the first unfinished one.
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
            Some(by) => Err(by.error(chains)),
        }
    }
}

/// A rule that ends the work by returning true. It gets the number of blocks in the prefix and their outputs.
pub(crate) type Rule<'a, T> = &'a dyn Fn(usize, &Forest<T>) -> bool;

impl<T: Merge> Ledger<T> {
    /// Creates a ledger that continues from `finished`, outputs sorted by block. They are merged by
    /// [`merge`](Self::merge). If the last block is `unfilled` (it could take more chains), it is not merged.
    pub(crate) fn new(blocks: Range<usize>, finished: Forest<T>, unfilled: bool) -> Self {
        let books = Books {
            next: blocks.start,
            done: blocks.start,
            prefix: Forest::new(),
            waiting: finished.into(),
            is_torn: false,
            failed: None,
            stopped_by: None,
            asked: None,
        };
        Self {
            kept_apart: unfilled.then(|| blocks.end - 1),
            share: None,
            limit: AtomicUsize::new(blocks.end),
            blocks,
            books: Mutex::new(books),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books<T>> {
        // A panic in merging poisons the lock. The books stay usable, and `is_torn` shows what was lost.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    /// Returns the largest number of blocks that this process may have to run.
    pub(crate) fn most(&self) -> usize {
        let size = self.share.map_or(1, |share| share.size);
        self.blocks.len().div_ceil(size)
    }

    /// Returns the next block to run, if any.
    pub(crate) fn hand_out(&self) -> Option<usize> {
        let mut books = self.books();
        loop {
            let block = books.next;
            if self.is_canceled(block) {
                return None;
            }
            books.next += 1;
            let is_mine = self.share.is_none_or(|share| share.has(block));
            if is_mine && !books.has(block) {
                return Some(block);
            }
        }
    }

    pub(crate) fn is_canceled(&self, block: usize) -> bool {
        // Relaxed, because a thread that sees the limit late only does more work.
        self.limit.load(Ordering::Relaxed) <= block
    }

    pub(crate) fn cancel_from(&self, block: usize) {
        self.limit.fetch_min(block, Ordering::Relaxed);
    }

    /// Asks for the end of all work. Several processes learn of it at their next meeting; this process begins no
    /// further block.
    pub(crate) fn ask_to_stop(&self, by: StoppedBy) {
        match self.share {
            None => self.stop(by),
            Some(_) => {
                self.books().asked.get_or_insert(by);
                self.cancel_from(0);
            }
        }
    }

    /// Ends all work. Finished blocks are kept.
    pub(crate) fn stop(&self, by: StoppedBy) {
        self.books().stopped_by.get_or_insert(by);
        self.cancel_from(0);
    }

    /// Takes in the output of finished blocks, to be merged by [`merge`](Self::merge).
    pub(super) fn take(&self, node: Node<T>) {
        let mut books = self.books();
        let place = books.place_of(node.blocks().start);
        books.waiting.insert(place, node);
    }

    /// Merges the blocks before the first unfinished one, until the rule ends the work. The rule is asked after each
    /// block by itself, and at the end. Blocks that were merged before were asked about by an earlier call.
    pub(super) fn merge(&self, rule: Rule<'_, T>) {
        let mut books = self.books();
        while books.stopped_by != Some(StoppedBy::StandardError)
            && let Some(blocks) = books.take_in(self.kept_apart)
        {
            // The error asked for may have changed since, so the last of them is asked about again.
            let is_asked = blocks.len() == 1 || !books.has_next();
            if is_asked && rule(books.done, &books.prefix) {
                books.stopped_by = Some(StoppedBy::StandardError);
                self.cancel_from(books.done);
            }
        }
    }

    /// Takes in the error of a block. It cancels only the blocks to its right, so that the reported error does not
    /// depend on threads. A panic cancels all blocks.
    pub(super) fn fail(&self, block: usize, error: Error) {
        let ends_all = matches!(error, Error::Panicked { .. });
        self.take_failure(Failure {
            block,
            ends_all,
            error,
        });
    }

    pub(super) fn take_failure(&self, failure: Failure) {
        let mut books = self.books();
        self.cancel_from(failure.order());
        let first = books.failed.as_ref();
        if first.is_none_or(|first| failure.order() < first.order()) {
            books.failed = Some(failure);
        }
    }

    /// Returns the blocks from whose outputs a later call would resume, from left to right.
    pub(crate) fn finished(&self) -> Vec<Range<usize>> {
        self.books().finished().map(Node::blocks).collect()
    }

    /// Encodes the blocks of [`finished`](Self::finished). Fails if a panic has lost some.
    #[cfg(feature = "checkpoint")]
    pub(super) fn encoded(
        &self,
        encode: impl Fn(&Node<T>) -> Result<Vec<u8>>,
    ) -> Result<Vec<(Range<usize>, Vec<u8>)>> {
        let books = self.books();
        let found = "some lost by a panic in merging";
        Error::check(!books.is_torn, "finished blocks", found, "all")?;
        let encoded = |node: &Node<T>| Ok((node.blocks(), encode(node)?));
        books.finished().map(encoded).collect()
    }

    /// Returns the outputs of the work.
    ///
    /// # Errors
    /// Any panic; otherwise the error of the leftmost failed block, if all blocks before it are done and do not satisfy
    /// the stopping rule.
    pub(crate) fn close(self) -> Result<Closed<T>> {
        let mut books = self
            .books
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = books.failed {
            let by_rule = books.stopped_by == Some(StoppedBy::StandardError);
            if failed.ends_all || failed.block == books.done && !by_rule {
                return Err(failed.error);
            }
        }
        let ended = books.done == self.blocks.end;
        Ok(Closed {
            prefix: std::mem::take(&mut books.prefix),
            beyond: match books.stopped_by {
                // Blocks beyond the prefix would change the result.
                Some(StoppedBy::StandardError) => Forest::new(),
                _ => books.waiting.into(),
            },
            // A stop after the last block changed nothing.
            stopped_by: books.stopped_by.filter(|_| !ended),
        })
    }
}

/// The part of a ledger that several processes compare.
#[cfg(feature = "checkpoint")]
impl<T: Merge> Ledger<T> {
    /// Returns this process's failure and reason to stop, if any.
    pub(super) fn concerns(&self) -> (Option<Failure>, Option<StoppedBy>) {
        let books = self.books();
        (books.failed.clone(), books.asked)
    }

    /// Returns whether `blocks` are blocks of the task whose outputs are still missing.
    pub(super) fn lacks(&self, blocks: &Range<usize>) -> bool {
        let within = self.blocks.start <= blocks.start && blocks.end <= self.blocks.end;
        within && !self.books().has(blocks.start)
    }
}

impl<T: Merge> Books<T> {
    /// Moves the next finished blocks into the prefix, if they are there, and returns them.
    fn take_in(&mut self, kept_apart: Option<usize>) -> Option<Range<usize>> {
        if self.is_torn || !self.has_next() {
            return None;
        }
        let node = self.waiting.pop_front()?;
        let blocks = node.blocks();
        self.done = blocks.end;
        self.prefix.push(node);
        if kept_apart != Some(blocks.start) {
            // Set during the merging, which takes the prefix away: a panic leaves the prefix empty and the flag set.
            self.is_torn = true;
            self.prefix = coalesce(std::mem::take(&mut self.prefix));
            self.is_torn = false;
        }
        Some(blocks)
    }
}

impl<T> Books<T> {
    /// Returns whether the next blocks after the prefix are finished.
    fn has_next(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|node| node.blocks().start == self.done)
    }

    /// Returns the finished blocks. Once the rule has ended the work, blocks after the prefix are left out, because they
    /// would change the result.
    fn finished(&self) -> impl Iterator<Item = &Node<T>> {
        let enough = self.stopped_by == Some(StoppedBy::StandardError);
        let beyond = self.waiting.iter().filter(move |_| !enough);
        self.prefix.iter().chain(beyond)
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
