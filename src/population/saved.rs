//! Saved populations between two stages.

use std::ops::Range;

use serde::Serialize;

use super::population::Population;
use crate::kernel::{Block, SavedBlock, Workspace};
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// A population between two stages: its block, and the kernel's memories.
pub(crate) type SavedPopulation<S, M> = (SavedBlock<S>, Vec<M>);

impl<'p, P: AnnealingPath> Population<'p, P> {
    pub(crate) fn saved<W: Workspace<Memory: Serialize>>(&self) -> impl Serialize
    where
        P::State: Serialize,
    {
        let memories = self.memories::<W>();
        (self.block().saved(), memories)
    }

    /// Restores the saved population of `chains` at the model of `beta`.
    ///
    /// # Errors
    /// As [`Block::restored`]; another number of memories.
    pub(crate) fn restored<W: Workspace>(
        path: &'p P,
        beta: f64,
        chains: &Range<usize>,
        (block, memories): SavedPopulation<P::State, W::Memory>,
    ) -> Result<Self> {
        Error::check_dimension("memories of the kernel", memories.len(), chains.len())?;
        let mut population = Self::from_block(path, beta, Block::restored(chains, block)?)?;
        population.set_memories::<W>(memories);
        Ok(population)
    }
}
