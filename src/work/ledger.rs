//! The ledger of blocks: it hands them out in their order, and takes in what comes of them in the same order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::execution::StoppedBy;
use super::tree::{Forest, Merge, Node, coalesce, fold};
use crate::{Error, Result};

/// Who does which blocks, and what is done.
///
/// Whoever comes first, finished blocks are merged in their order, and a rule that may end the work sees
/// them in this order only. So neither sums nor the end depend on threads.
pub(crate) struct Ledger<T> {
    blocks: Range<usize>,
    /// The last block where it is not full, so that it can be done again with more chains.
    kept_apart: Option<usize>,
    share: Share,
    /// Blocks of this share that are done, and kept by another process.
    elsewhere: Vec<Range<usize>>,
    /// From this block on none is wanted any more.
    limit: AtomicUsize,
    books: Mutex<Books<T>>,
}

/// The blocks that fall to one of several processes: `b` with `b mod size = rank`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl Share {
    /// All blocks.
    pub(crate) const WHOLE: Self = Self { rank: 0, size: 1 };

    pub(crate) fn has(self, block: usize) -> bool {
        block % self.size == self.rank
    }
}

struct Books<T> {
    /// The next block to be handed out.
    next: usize,
    /// All blocks before this one are in the prefix.
    done: usize,
    prefix: Forest<T>,
    /// Finished blocks that follow a gap, from left to right.
    waiting: VecDeque<Node<T>>,
    /// Whether a panic in the merging of blocks has lost some.
    is_torn: bool,
    /// The leftmost block that failed.
    failed: Option<(usize, Error)>,
    stopped_by: Option<StoppedBy>,
}

/// What a ledger holds when the work is over.
#[derive(Debug)]
pub(crate) struct Closed<T> {
    pub(crate) prefix: Forest<T>,
    /// Finished blocks after the first gap.
    pub(crate) beyond: Forest<T>,
    /// What ended the work before all blocks were done.
    pub(crate) stopped_by: Option<StoppedBy>,
}

impl<T: Merge> Closed<T> {
    /// Returns the output of all blocks, of work whose parts are of no use.
    ///
    /// # Errors
    /// [`Error::Stopped`], with so many chains, where the work was stopped before its end.
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

/// A rule that may end the work. It is told of the finished blocks each time that one is added to them: how
/// many blocks these are, counted from block 0, and what came of them.
pub(crate) type Rule<'a, T> = &'a (dyn Fn(usize, &Forest<T>) -> bool + Sync);

impl<T: Merge> Ledger<T> {
    /// Keeps a range of blocks, some of which are done already. These are given from left to right. If the last block
    /// is `unfilled`, it is kept by itself.
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

    /// Hands out only the blocks of this share, of a range that begins at 0.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn shared(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Does not hand out these blocks, which another process keeps.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn without(mut self, blocks: Vec<Range<usize>>) -> Self {
        self.elsewhere = blocks;
        self
    }

    fn books(&self) -> MutexGuard<'_, Books<T>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At most so many blocks are to be done here.
    pub(crate) fn most(&self) -> usize {
        self.blocks.len().div_ceil(self.share.size)
    }

    /// Whether this process has the first block: it decides when the work ends.
    pub(crate) fn leads(&self) -> bool {
        self.share.rank == 0
    }

    /// The next block to do; `None` where there is none.
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

    /// Whether a block is not wanted any more.
    pub(crate) fn is_canceled(&self, block: usize) -> bool {
        self.limit.load(Ordering::Relaxed) <= block
    }

    /// The block from which on none is wanted any more.
    #[cfg_attr(not(feature = "mpi"), allow(dead_code))] // Only processes that share their work ask.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Lets no block from this one on be done.
    pub(crate) fn cancel_from(&self, block: usize) {
        self.limit.fetch_min(block, Ordering::Relaxed);
    }

    /// Ends all work. What is done is kept.
    pub(crate) fn stop(&self, by: StoppedBy) {
        self.books().stopped_by.get_or_insert(by);
        self.cancel_from(0);
    }

    /// Takes in what came of a block: `Err(None)` where it was canceled. An error cancels the blocks to its
    /// right only, so that the same error is reported whatever thread came first; a panic cancels all.
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

    /// Takes in the error of a block.
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

    /// Takes out what a process that does not lead has done: its finished blocks, and the leftmost that failed.
    #[cfg_attr(not(feature = "mpi"), allow(dead_code))] // As above.
    pub(crate) fn take_out(&self) -> (Forest<T>, Option<(usize, Error)>) {
        let mut books = self.books();
        let finished = std::mem::take(&mut books.waiting);
        (finished.into(), books.failed.take())
    }

    /// Looks at what is done: the number of the block that follows, and the finished blocks before it.
    pub(crate) fn look<U>(&self, at: impl FnOnce(usize, &Forest<T>) -> U) -> U {
        let books = self.books();
        at(books.done, &books.prefix)
    }

    /// Looks at all finished blocks that a later call would go on from, from left to right. Where the prefix is
    /// enough, those after it are none: they would make it another one.
    pub(crate) fn look_at_all<U>(&self, at: impl FnMut(&Node<T>) -> U) -> Vec<U> {
        self.books().finished().into_iter().map(at).collect()
    }

    /// As [`look_at_all`](Self::look_at_all), at all at once. Refuses books that a panic in merging has torn.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn look_at_whole<U>(&self, at: impl FnOnce(&[&Node<T>]) -> Result<U>) -> Result<U> {
        let books = self.books();
        let found = "some lost by a panic in merging";
        Error::check(!books.is_torn, "finished blocks", found, "all")?;
        at(&books.finished())
    }

    /// What came of the work.
    ///
    /// # Errors
    /// That of the leftmost block that failed, unless the work had been stopped before it mattered; a panic
    /// always.
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
                // Nobody wants them.
                Some(StoppedBy::StandardError) => Forest::new(),
                _ => books.waiting.into(),
            },
            stopped_by: books.stopped_by.filter(|_| !ended),
        })
    }
}

impl<T: Merge> Books<T> {
    /// Moves the block that comes next into the prefix, if it is there.
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

    /// Lets a finished block wait for those before it.
    fn wait(&mut self, node: Node<T>) {
        let place = self.place_of(node.blocks().start);
        self.waiting.insert(place, node);
    }

    /// Returns how many of the waiting nodes begin before a block.
    fn place_of(&self, block: usize) -> usize {
        self.waiting
            .partition_point(|node| node.blocks().start < block)
    }

    /// Whether a block is done.
    fn has(&self, block: usize) -> bool {
        let before = self.place_of(block + 1).checked_sub(1);
        let is_in = |place: usize| self.waiting[place].blocks().contains(&block);
        block < self.done || before.is_some_and(is_in)
    }
}
