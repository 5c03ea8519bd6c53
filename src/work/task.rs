//! Work in blocks that do not meet.

use std::ops::Range;

use super::progress::SoFar;
use super::tree::{Forest, Merge};
use crate::Result;

/// Work in blocks: each is started, stepped and finished alone, by whichever thread or process; outputs merge in order.
pub(crate) trait Task: Sync {
    /// A block at work. It stays on its thread.
    type Block;
    /// The result of a finished block, or of neighbouring ones.
    type Output: Merge + Send;

    /// Returns the blocks to do.
    fn blocks(&self) -> Range<usize>;

    /// Returns the chains of a block, for errors.
    fn chains(&self, block: usize) -> Range<usize>;

    /// Returns the chain-steps of whole blocks; 0 where they are not known before.
    fn cost(&self, blocks: Range<usize>) -> u64;

    /// Starts a block.
    fn start(&self, block: usize) -> Result<Self::Block>;

    /// Takes a block one step further: a stage, a scan, a level or a move.
    fn step(&self, at: &mut Self::Block) -> Result<Stepped>;

    /// Takes the output out of a block that has made its last step.
    fn finish(&self, at: &mut Self::Block) -> Result<Self::Output>;

    /// Returns where a block is, for the error of a panic.
    fn place(&self, at: &Self::Block) -> Place;

    /// Whether the last block could take more chains. It is kept apart, so that a longer run can replace it.
    fn last_is_unfilled(&self) -> bool {
        false
    }

    /// Whether the first `blocks` blocks, whose outputs are given, have a standard error of at most `error`.
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

/// A step of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stepped {
    /// Chain-steps that it took.
    pub(crate) cost: u64,
    /// Whether it was the last.
    pub(crate) is_last: bool,
    /// Chain-steps foreseen from here to the end of all work, where this changes on the way.
    pub(crate) left: Option<u64>,
}

impl Stepped {
    /// A step in work whose end is known.
    pub(crate) fn of(cost: usize, is_last: bool) -> Self {
        Self {
            cost: cost as u64,
            is_last,
            left: None,
        }
    }
}

/// Where a block is: its chains, the index of its stage and beta.
pub(crate) type Place = (Range<usize>, usize, f64);

/// A task whose outputs can be saved, and its blocks on their way. Unless they can, a block that is not finished begins
/// anew.
#[cfg(feature = "checkpoint")]
pub(crate) trait Persist:
    Task<Output: serde::Serialize + serde::de::DeserializeOwned>
{
    /// Writes a block that is not finished; no bytes where it begins anew.
    fn save(&self, _at: &Self::Block) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Reads what [`save`](Self::save) wrote, and refuses what is no such block.
    fn restore(&self, block: usize, _bytes: &[u8]) -> Result<Self::Block> {
        self.start(block)
    }

    /// Returns the chain-steps that a block has taken.
    fn taken(&self, _at: &Self::Block) -> u64 {
        0
    }

    /// Refuses an output that these blocks cannot have.
    fn check(&self, _blocks: Range<usize>, _output: &Self::Output) -> Result<()> {
        Ok(())
    }
}

/// The blocks of a task that gives outputs `O`, its own type forgotten: the loop over blocks is compiled once for all tasks
/// of one output.
pub(super) trait Work<O>: Sync {
    fn blocks(&self) -> Range<usize>;
    fn last_is_unfilled(&self) -> bool;
    fn chains(&self, block: usize) -> Range<usize>;
    fn cost(&self, blocks: Range<usize>) -> u64;
    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<O>) -> bool;
    fn so_far(&self, outputs: &Forest<O>) -> Option<SoFar>;
    fn width(&self) -> usize;

    /// Starts a block, or goes on with it as it was saved.
    fn begin(&self, block: usize, saved: Option<&[u8]>) -> Result<Box<dyn AtWork<O> + '_>>;
}

/// A block of a [`Work`].
pub(super) trait AtWork<O> {
    fn step(&mut self) -> Result<Stepped>;
    fn finish(&mut self) -> Result<O>;
    fn place(&self) -> Place;
    #[cfg_attr(not(feature = "checkpoint"), allow(dead_code))]
    fn save(&self) -> Result<Vec<u8>>;
}

/// A task, and how its blocks are saved.
pub(super) struct Erased<'t, T: Task> {
    task: &'t T,
    #[cfg_attr(not(feature = "checkpoint"), allow(dead_code))]
    save: fn(&T, &T::Block) -> Result<Vec<u8>>,
    restore: fn(&T, usize, &[u8]) -> Result<T::Block>,
}

impl<'t, T: Task> Erased<'t, T> {
    /// Saves no blocks.
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
