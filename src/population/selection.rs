//! Selection of chains between stages, and their descent.

use super::population::{CopyState, Moves, Population};
use super::resampling::Resampling;
use super::waste_free::WasteFree;
use crate::Result;
use crate::kernel::Block;
use crate::path::AnnealingPath;

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Selection {
    Resampling(Resampling),
    WasteFree(WasteFree),
}

impl Selection {
    fn is_due(&self, stage: usize, log_weights: &[f64]) -> bool {
        match self {
            Self::Resampling(resampling) => resampling.is_due(stage, log_weights),
            Self::WasteFree(_) => true,
        }
    }

    /// Returns whether chains interact in any run of `steps` stages, unless all weights are equal.
    pub(crate) fn is_certain(&self, steps: usize) -> bool {
        match self {
            Self::Resampling(resampling) => resampling.is_certain(steps),
            Self::WasteFree(_) => steps > 1,
        }
    }
}

/// Record of each chain's first ancestor, which also selects the chains of a block.
pub(crate) struct Genealogy<S> {
    selection: Selection,
    block_size: usize,
    copy: CopyState<S>,
    /// First ancestor of each chain, as an index in the run.
    pub(crate) roots: Vec<usize>,
}

impl<S> Genealogy<S> {
    /// Creates the genealogy of a block whose chains are their own first ancestors.
    pub(crate) fn new(
        selection: Selection,
        block_size: usize,
        copy: CopyState<S>,
        block: &Block<S>,
    ) -> Self {
        let first = block.first_chain();
        Self {
            selection,
            block_size,
            copy,
            roots: (first..first + block.len()).collect(),
        }
    }

    fn weights_if_due(&self, stage: usize, block: &Block<S>) -> Option<Vec<f64>> {
        let extinct = block.alive().next().is_none();
        let log_weights = block.log_weights();
        let due = !extinct && self.selection.is_due(stage, log_weights);
        due.then(|| log_weights.to_vec())
    }

    fn descend_from(&mut self, ancestors: &[usize]) {
        self.roots = ancestors.iter().map(|&a| self.roots[a]).collect();
    }

    /// Selects chains after a stage where due. Returns the log weights before, and the chains' ancestors.
    pub(crate) fn select<P: AnnealingPath<State = S>>(
        &mut self,
        stage: usize,
        population: &mut Population<P>,
        kernel: &dyn Moves<P::At>,
    ) -> Result<Option<(Vec<f64>, Vec<usize>)>> {
        let Some(log_weights) = self.weights_if_due(stage, population.block()) else {
            return Ok(None);
        };
        let rng = population.block_mut().rng_mut(0);
        let ancestors = match &self.selection {
            Selection::Resampling(resampling) => {
                let ancestors = resampling.ancestors(&log_weights, rng);
                population.resample(&ancestors, self.copy);
                ancestors
            }
            Selection::WasteFree(waste_free) => {
                let ancestors = waste_free.ancestors(self.block_size, &log_weights, rng);
                population.regrow(&ancestors, kernel, self.copy)?;
                ancestors
                    .into_iter()
                    .cycle()
                    .take(log_weights.len())
                    .collect()
            }
        };
        self.descend_from(&ancestors);
        Ok(Some((log_weights, ancestors)))
    }

    pub(crate) fn into_roots(self) -> Vec<usize> {
        self.roots
    }
}
