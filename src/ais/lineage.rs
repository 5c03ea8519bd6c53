//! The descent of the chains of a block that is resampled.

use super::population::Population;
use super::resampling::Resampling;
use super::stages::StageRecorder;
use crate::chain::Block;
use crate::kernel::Workspace;
use crate::path::AnnealingPath;

/// How a state is copied.
pub(super) type CopyState<S> = fn(&S) -> S;

/// Resamples a block, and remembers which first chain each chain descends from.
pub(super) struct Lineage<S> {
    resampling: Resampling,
    copy: CopyState<S>,
    /// Indices in the run.
    roots: Vec<usize>,
}

impl<S> Lineage<S> {
    pub(super) fn new(resampling: Resampling, copy: CopyState<S>, block: &Block<S>) -> Self {
        let first = block.first_chain();
        Self {
            resampling,
            copy,
            roots: (first..first + block.len()).collect(),
        }
    }

    /// Resamples the block after a stage, where it is due. The random numbers are those of its first chain.
    pub(super) fn resample<P: AnnealingPath<State = S>, W: Workspace>(
        &mut self,
        stage: usize,
        population: &mut Population<'_, P, W>,
        stages: &mut StageRecorder,
    ) {
        let block = population.block_mut();
        let extinct = block.alive().next().is_none();
        if extinct || !self.resampling.is_due(stage, block.log_weights()) {
            return;
        }
        let log_weights = block.log_weights().to_vec();
        let ancestors = self
            .resampling
            .ancestors(&log_weights, block.chain_mut(0).1);
        population.resample(&ancestors, self.copy);
        stages.resampled(&log_weights, &ancestors, population.block());
        self.roots = ancestors.iter().map(|&a| self.roots[a]).collect();
    }

    pub(super) fn into_roots(self) -> Vec<usize> {
        self.roots
    }
}
