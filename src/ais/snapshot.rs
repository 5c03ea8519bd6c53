//! A population between two stages and what is recorded of its way, as bytes.

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::population::Population;
use super::stages::{StageRecorder, Window, Windows};
use crate::chain::Block;
use crate::checkpoint::{Decoder, Encoder};
use crate::kernel::Workspace;
use crate::path::AnnealingPath;
use crate::{Error, Result};

impl<'p, P: AnnealingPath, W: Workspace> Population<'p, P, W> {
    /// Writes the chains, and what a kernel keeps of each. Buffers are not written: no kernel's move may depend on
    /// what its last one left there.
    ///
    /// # Errors
    /// States or memories that the format cannot hold.
    pub(crate) fn encode(&self, encoder: &mut Encoder) -> Result<()>
    where
        P::State: Serialize,
        W::Memory: Serialize,
    {
        self.block().encode(encoder)?;
        encoder.put_list("memories of the kernel", self.memories())
    }

    /// Reads the chains with these indices in their run, which stand at `beta`.
    ///
    /// # Errors
    /// Another number of chains; values out of range; as [`from_states`](Self::from_states).
    pub(crate) fn decode(
        decoder: &mut Decoder<'_>,
        path: &'p P,
        beta: f64,
        chains: &Range<usize>,
    ) -> Result<Self>
    where
        P::State: DeserializeOwned,
        W::Memory: DeserializeOwned,
    {
        let block = Block::decode(decoder, chains.start, chains.len())?;
        let memories: Vec<W::Memory> = decoder.take_list("memories of the kernel", chains.len())?;
        let mut population = Self::from_block(path, beta, block)?;
        population.set_memories(memories);
        Ok(population)
    }
}

impl StageRecorder {
    /// Writes what was recorded in so many stages, at least one.
    pub(super) fn encode(&self, encoder: &mut Encoder, passed: usize) -> Result<()> {
        let begun = &self.records[..=self.windows.of_stage(passed)];
        encoder.put_list("recorded stages", begun.iter())?;
        encoder.put_list("log weights at a recorded stage", self.start.iter())?;
        encoder.put("decisions at a recorded stage", &self.decisions)
    }

    /// Reads what was recorded of so many chains in so many stages, at least one.
    ///
    /// # Errors
    /// Other numbers; counts above the number of chains.
    pub(super) fn decode(
        decoder: &mut Decoder<'_>,
        windows: Windows,
        passed: usize,
        chains: usize,
    ) -> Result<Self> {
        let begun = windows.of_stage(passed) + 1;
        let mut records: Vec<Window> = decoder.take_list("recorded stages", begun)?;
        let fit = records.iter().all(|window| window.fits(chains));
        let expected = format!("at most {chains} of each");
        Error::check(fit, "recorded stages", "sums of too many chains", expected)?;
        records.resize(windows.count(), Window::default());
        Ok(Self {
            windows,
            records,
            start: decoder.take_list("log weights at a recorded stage", chains)?,
            decisions: decoder.take("decisions at a recorded stage")?,
        })
    }
}
