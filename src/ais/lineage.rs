//! The descent of the chains of a block that is resampled.

use super::population::Population;
use super::resampling::Resampling;
use super::route::Route;
use super::stages::StageRecorder;
use super::waste_free::WasteFree;
use crate::Result;
use crate::chain::Block;
use crate::kernel::Workspace;
use crate::path::AnnealingPath;

/// How a state is copied.
pub(super) type CopyState<S> = fn(&S) -> S;

/// What the chains of a block do to one another between stages.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Interaction {
    Resampling(Resampling),
    WasteFree(WasteFree),
}

impl Interaction {
    /// Whether a block with these weights interacts after this stage.
    fn is_due(&self, stage: usize, log_weights: &[f64]) -> bool {
        match self {
            Self::Resampling(resampling) => resampling.is_due(stage, log_weights),
            Self::WasteFree(_) => true,
        }
    }
}

/// Lets the chains of a block interact, and remembers which first chain each chain descends from.
pub(super) struct Lineage<S> {
    interaction: Interaction,
    block_size: usize,
    copy: CopyState<S>,
    /// Indices in the run.
    pub(super) roots: Vec<usize>,
}

impl<S> Lineage<S> {
    pub(super) fn new(
        interaction: Interaction,
        block_size: usize,
        copy: CopyState<S>,
        block: &Block<S>,
    ) -> Self {
        let first = block.first_chain();
        Self {
            interaction,
            block_size,
            copy,
            roots: (first..first + block.len()).collect(),
        }
    }

    /// Resamples the block after a stage, where it is due. The random numbers are those of its first chain.
    pub(super) fn resample<'p, P: AnnealingPath<State = S>, W: Workspace>(
        &mut self,
        stage: usize,
        population: &mut Population<'p, P, W>,
        stages: &mut StageRecorder,
        route: &impl Route<'p, P, Workspace = W>,
    ) -> Result<()> {
        let block = population.block();
        let extinct = block.alive().next().is_none();
        if extinct || !self.interaction.is_due(stage, block.log_weights()) {
            return Ok(());
        }
        let log_weights = block.log_weights().to_vec();
        let ancestors = match &self.interaction {
            Interaction::Resampling(resampling) => population.resample_by(resampling, self.copy),
            Interaction::WasteFree(waste_free) => {
                waste_free.renew(self.block_size, population, self.copy, route)?
            }
        };
        stages.resampled(&log_weights, &ancestors, population.block());
        self.roots = ancestors.iter().map(|&a| self.roots[a]).collect();
        Ok(())
    }

    pub(super) fn into_roots(self) -> Vec<usize> {
        self.roots
    }
}
