//! Saved populations between two stages.

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::population::Population;
use crate::Result;
use crate::kernel::{Block, SavedBlock, Workspace};
use crate::path::AnnealingPath;
use crate::work::store::{decode_list, encode};

const MEMORIES: &str = "memories of the kernel";

/// A population between two stages: its block, and the kernel's memories.
pub(crate) type SavedPopulation<S> = (SavedBlock<S>, Vec<u8>);

impl<P: AnnealingPath> Population<P> {
    pub(crate) fn saved<W: Workspace<Memory: Serialize>>(&self) -> Result<impl Serialize>
    where
        P::State: Serialize,
    {
        let memories = encode(MEMORIES, &self.memories::<W>())?;
        Ok((self.block().saved(), memories))
    }

    /// Restores the saved population of `chains` at the model of `beta`.
    ///
    /// # Errors
    /// As [`Block::restored`]; another number of memories.
    pub(crate) fn restored<W: Workspace<Memory: DeserializeOwned>>(
        path: P,
        beta: f64,
        chains: &Range<usize>,
        (block, memories): SavedPopulation<P::State>,
    ) -> Result<Self> {
        let mut population = Self::from_block(path, beta, Block::restored(chains, block)?)?;
        let memories = decode_list(MEMORIES, &memories, chains.len())?;
        population.set_memories::<W>(memories);
        Ok(population)
    }
}
