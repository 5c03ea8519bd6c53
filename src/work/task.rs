//! Work in independent blocks.

use std::ops::Range;

use super::progress::SoFar;
use super::tree::{Forest, Merge};
use crate::{Error, Result};

/// Work in blocks. Any thread or process can run a block by itself. Outputs merge in order.
pub(crate) trait Task: Sync {
    /// The output of a block, or of neighbouring blocks merged.
    type Output: Merge + Send;

    /// Returns the blocks; one by default.
    fn blocks(&self) -> Range<usize> {
        0..1
    }

    /// Returns the chains of a block, for error messages.
    fn chains(&self, block: usize) -> Range<usize>;

    /// Returns the chain-steps of whole blocks; 0 by default, for work whose number of stages is not known in advance.
    /// Each step of such work can forecast [what is left](Stepped::left).
    fn cost(&self, _blocks: Range<usize>) -> u64 {
        0
    }

    /// Runs a block, and reports each step (a stage, a scan, a level or a move) to `pulse`.
    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt>;

    /// Returns whether the last block could take more chains. That block is not merged, so that a longer run can
    /// replace it.
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

    /// Refuses bytes that no block of this task saved. Returns the chain-steps that the block had taken.
    #[cfg(feature = "checkpoint")]
    fn check_saved(&self, _block: usize, _bytes: &[u8]) -> Result<u64> {
        Ok(0)
    }

    /// Refuses an output that these blocks cannot have.
    #[cfg(feature = "checkpoint")]
    fn check(&self, _blocks: Range<usize>, _output: &Self::Output) -> Result<()> {
        Ok(())
    }
}

/// The link from a block to its run. It resumes the block, counts its steps, and saves or cancels it.
pub(crate) struct Pulse<'a> {
    /// The bytes of the block that an earlier call saved.
    saved: Option<Vec<u8>>,
    /// Last known position of the block. If the block panics, the error names this position.
    pub(super) place: Place,
    step: &'a dyn Fn(Stepped, Save<'_>) -> Result<(), Halt>,
}

/// A function that encodes a block in progress. It returns no bytes if the block should begin anew.
pub(super) type Save<'a> = &'a dyn Fn() -> Result<Vec<u8>>;

impl<'a> Pulse<'a> {
    /// Creates the link of a block of `chains`. `step` does what [`Pulse::step`] says.
    pub(crate) fn new(
        chains: Range<usize>,
        saved: Option<Vec<u8>>,
        step: &'a dyn Fn(Stepped, Save<'_>) -> Result<(), Halt>,
    ) -> Self {
        let place = (chains, 0, 0.0);
        Self { saved, place, step }
    }

    /// Returns the bytes of this block that an earlier call saved.
    pub(crate) fn resumed(&mut self) -> Option<Vec<u8>> {
        self.saved.take()
    }

    /// Stores the position of the block, for errors of code that panics outside of a population, which names its own.
    pub(crate) fn at(&mut self, place: Place) {
        self.place = place;
    }

    /// Counts a step. Unless the step is the last, saves the block if a checkpoint is due, and ends a canceled block.
    pub(crate) fn step(&self, stepped: Stepped, save: Save<'_>) -> Result<(), Halt> {
        (self.step)(stepped, save)
    }

    /// Counts a step of a block that is not saved.
    pub(crate) fn pass(&self, stepped: Stepped) -> Result<(), Halt> {
        self.step(stepped, &|| Ok(Vec::new()))
    }
}

/// The functions that write and read a value, for checkpoints and other processes. Their first argument names the value in
/// errors. Only work that is saved or shared has formats (`Format::serde`), so that other work needs no serde.
#[cfg_attr(not(feature = "checkpoint"), allow(dead_code))]
pub(crate) struct Format<T> {
    pub(super) write: fn(&'static str, &T) -> Result<Vec<u8>>,
    pub(super) read: fn(&'static str, &[u8]) -> Result<T>,
}

crate::num::copy! { for [T] Format<T> }

/// The reason why a block has no output.
#[derive(Debug)]
pub(crate) enum Halt {
    Canceled,
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stepped {
    /// Chain-steps taken.
    pub(crate) cost: u64,
    /// Whether the block ends with this step. It is then neither saved nor canceled.
    pub(crate) is_last: bool,
    /// Forecast of the chain-steps left to the end of all work, if it changes during the work.
    pub(crate) left: Option<u64>,
}

impl Stepped {
    /// Creates the report of a step of `cost` chain-steps, in work whose length is known.
    pub(crate) fn of(cost: usize, is_last: bool) -> Self {
        Self {
            cost: cost as u64,
            is_last,
            left: None,
        }
    }
}

/// Returns whether a run checks its standard error after `done` blocks. The first check comes after `first` blocks.
/// Checks are 10% apart, because each may stop the run at an error that is small by chance.
pub(crate) fn is_look(first: usize, done: usize) -> bool {
    let mut look = first;
    while look < done {
        look += look.div_ceil(10);
    }
    look == done
}

/// Position of a block: its chains, stage index and beta.
pub(crate) type Place = (Range<usize>, usize, f64);

/// The output of a task of one block.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Single<T>(pub(crate) T);

impl<T> Merge for Single<T> {
    fn merge(&mut self, _right: Self) {
        unreachable!("there is one block");
    }
}
