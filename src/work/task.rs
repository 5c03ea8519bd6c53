//! Work in independent blocks.

use std::ops::Range;

use super::progress::SoFar;
use super::tree::{Forest, Merge};
use crate::Result;

/// Work in blocks. Any thread or process can start, step and finish a block by itself. Outputs merge in order.
pub(crate) trait Task: Sync {
    /// A block at work. It stays on its thread.
    type Block;
    /// The output of a block, or of neighbouring blocks merged.
    type Output: Merge + Send;

    fn blocks(&self) -> Range<usize>;

    /// Returns the chains of a block, for errors.
    fn chains(&self, block: usize) -> Range<usize>;

    /// Returns the chain-steps of whole blocks; 0 if they are not known in advance.
    fn cost(&self, blocks: Range<usize>) -> u64;

    fn start(&self, block: usize) -> Result<Self::Block>;

    /// Takes a block one step further: a stage, a scan, a level or a move.
    fn step(&self, at: &mut Self::Block) -> Result<Stepped>;

    fn finish(&self, at: &mut Self::Block) -> Result<Self::Output>;

    fn place(&self, at: &Self::Block) -> Place;

    /// Returns whether the last block could take more chains. Kept apart, it can be replaced in a longer run.
    fn last_is_unfilled(&self) -> bool {
        false
    }

    /// Returns whether the first `blocks` blocks have a standard error of at most `error`.
    fn suffices(&self, _error: f64, _blocks: usize, _outputs: &Forest<Self::Output>) -> bool {
        false
    }

    /// Returns the estimate from the first blocks, for a progress callback.
    fn so_far(&self, _outputs: &Forest<Self::Output>) -> Option<SoFar> {
        None
    }

    /// Returns the number of threads that one block can use.
    fn width(&self) -> usize {
        1
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stepped {
    /// Chain-steps taken.
    pub(crate) cost: u64,
    pub(crate) is_last: bool,
    /// Forecast of the chain-steps left to the end of all work, where it changes on the way.
    pub(crate) left: Option<u64>,
}

impl Stepped {
    /// Reports a step of work whose end is known.
    pub(crate) fn of(cost: usize, is_last: bool) -> Self {
        Self {
            cost: cost as u64,
            is_last,
            left: None,
        }
    }
}

/// Returns whether a run checks its standard error after `done` blocks, the first time after `first`. Checks are a tenth
/// apart: each may stop the run at an error that is small by chance.
pub(crate) fn is_look(first: usize, done: usize) -> bool {
    let mut look = first;
    while look < done {
        look += look.div_ceil(10);
    }
    look == done
}

/// Position of a block: its chains, stage index and beta.
pub(crate) type Place = (Range<usize>, usize, f64);

/// A task whose outputs can be saved. Unfinished blocks begin anew, unless the methods save and restore them.
#[cfg(feature = "checkpoint")]
pub(crate) trait Persist:
    Task<Output: serde::Serialize + serde::de::DeserializeOwned>
{
    /// Writes an unfinished block; no bytes if it is to begin anew.
    fn save(&self, _at: &Self::Block) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Reads a block that [`save`](Self::save) wrote, and refuses other bytes.
    fn restore(&self, block: usize, _bytes: &[u8]) -> Result<Self::Block> {
        self.start(block)
    }

    fn taken(&self, _at: &Self::Block) -> u64 {
        0
    }

    /// Refuses an output that these blocks cannot have.
    fn check(&self, _blocks: Range<usize>, _output: &Self::Output) -> Result<()> {
        Ok(())
    }
}

/// The blocks of any task with outputs `O`. The loop over blocks is compiled once for each type of output.
pub(super) trait Work<O>: Sync {
    fn blocks(&self) -> Range<usize>;
    fn last_is_unfilled(&self) -> bool;
    fn chains(&self, block: usize) -> Range<usize>;
    fn cost(&self, blocks: Range<usize>) -> u64;
    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<O>) -> bool;
    fn so_far(&self, outputs: &Forest<O>) -> Option<SoFar>;
    fn width(&self) -> usize;

    /// Starts a block, or resumes it from `saved`.
    fn begin(&self, block: usize, saved: Option<&[u8]>) -> Result<Box<dyn AtWork<O> + '_>>;
}

pub(super) trait AtWork<O> {
    fn step(&mut self) -> Result<Stepped>;
    fn finish(&mut self) -> Result<O>;
    fn place(&self) -> Place;
    #[cfg_attr(not(feature = "checkpoint"), allow(dead_code))]
    fn save(&self) -> Result<Vec<u8>>;
}

/// A task with the functions that save its blocks.
pub(super) struct Erased<'t, T: Task> {
    task: &'t T,
    #[cfg_attr(not(feature = "checkpoint"), allow(dead_code))]
    save: fn(&T, &T::Block) -> Result<Vec<u8>>,
    restore: fn(&T, usize, &[u8]) -> Result<T::Block>,
}

impl<'t, T: Task> Erased<'t, T> {
    /// Wraps a task whose unfinished blocks are not saved.
    pub(super) fn new(task: &'t T) -> Self {
        Self {
            task,
            save: |_, _| Ok(Vec::new()),
            restore: |task, block, _| task.start(block),
        }
    }

    #[cfg(feature = "checkpoint")]
    pub(super) fn kept(task: &'t T) -> Self
    where
        T: Persist,
    {
        Self {
            task,
            save: T::save,
            restore: T::restore,
        }
    }
}

impl<T: Task> Work<T::Output> for Erased<'_, T> {
    fn blocks(&self) -> Range<usize> {
        self.task.blocks()
    }

    fn last_is_unfilled(&self) -> bool {
        self.task.last_is_unfilled()
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.task.chains(block)
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        self.task.cost(blocks)
    }

    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<T::Output>) -> bool {
        self.task.suffices(error, blocks, outputs)
    }

    fn so_far(&self, outputs: &Forest<T::Output>) -> Option<SoFar> {
        self.task.so_far(outputs)
    }

    fn width(&self) -> usize {
        self.task.width()
    }

    fn begin(&self, block: usize, saved: Option<&[u8]>) -> Result<Box<dyn AtWork<T::Output> + '_>> {
        let at = match saved {
            None => self.task.start(block),
            Some(bytes) => (self.restore)(self.task, block, bytes),
        };
        Ok(Box::new(ErasedBlock { of: self, at: at? }))
    }
}

struct ErasedBlock<'w, T: Task> {
    of: &'w Erased<'w, T>,
    at: T::Block,
}

impl<T: Task> AtWork<T::Output> for ErasedBlock<'_, T> {
    fn step(&mut self) -> Result<Stepped> {
        self.of.task.step(&mut self.at)
    }

    fn finish(&mut self) -> Result<T::Output> {
        self.of.task.finish(&mut self.at)
    }

    fn place(&self) -> Place {
        self.of.task.place(&self.at)
    }

    fn save(&self) -> Result<Vec<u8>> {
        (self.of.save)(self.of.task, &self.at)
    }
}

/// The output of a task of one block.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Single<T>(pub(crate) T);

impl<T> Merge for Single<T> {
    fn merge(&mut self, _right: Self) {
        unreachable!("there is one block");
    }
}
