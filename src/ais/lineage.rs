//! The descent of the chains of a block that is resampled.

use super::population::Population;
use super::resampling::Resampling;
use super::settings::Settings;
use super::stages::StageRecorder;
use super::waste_free::WasteFree;
use crate::Result;
use crate::chain::Block;
use crate::kernel::TransitionKernel;
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

    /// Whether chains interact in any run of so many stages, but for weights that are all equal.
    pub(super) fn is_certain(&self, steps: usize) -> bool {
        match self {
            Self::Resampling(resampling) => resampling.is_certain(steps),
            Self::WasteFree(_) => steps > 1,
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
    /// Of a block of a run whose chains interact.
    pub(super) fn of(
        settings: &Settings,
        copy: Option<CopyState<S>>,
        block: &Block<S>,
    ) -> Option<Self> {
        let first = block.first_chain();
        Some(Self {
            interaction: settings.interaction.clone()?,
            block_size: settings.largest_block(),
            copy: copy?,
            roots: (first..first + block.len()).collect(),
        })
    }

    /// The weights of a block that is to interact after a stage.
    fn weights_if_due(&self, stage: usize, block: &Block<S>) -> Option<Vec<f64>> {
        let extinct = block.alive().next().is_none();
        let log_weights = block.log_weights();
        let due = !extinct && self.interaction.is_due(stage, log_weights);
        due.then(|| log_weights.to_vec())
    }

    /// Writes down the ancestors of the chains.
    fn descend_from(&mut self, ancestors: &[usize]) {
        self.roots = ancestors.iter().map(|&a| self.roots[a]).collect();
    }

    /// Resamples the block after a stage, where it is due. The random numbers are those of its first chain.
    pub(super) fn resample<'p, P, K>(
        &mut self,
        stage: usize,
        population: &mut Population<'p, P, K::Workspace>,
        stages: &mut StageRecorder,
        kernel: &K,
    ) -> Result<()>
    where
        P: AnnealingPath<State = S>,
        K: TransitionKernel<P::At<'p>>,
    {
        let Some(log_weights) = self.weights_if_due(stage, population.block()) else {
            return Ok(());
        };
        let ancestors = match &self.interaction {
            Interaction::Resampling(resampling) => population.resample_by(resampling, self.copy),
            Interaction::WasteFree(waste_free) => {
                waste_free.renew(self.block_size, population, self.copy, kernel)?
            }
        };
        stages.resampled(&log_weights, &ancestors, population.block().log_weights());
        self.descend_from(&ancestors);
        Ok(())
    }

    pub(super) fn into_roots(self) -> Vec<usize> {
        self.roots
    }
}
