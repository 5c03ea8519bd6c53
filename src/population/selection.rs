//! Selection of chains between stages, and their ancestry.

use super::population::{Moves, Population};
use super::resampling::Resampling;
use super::waste_free::WasteFree;
use crate::Result;
use crate::kernel::{Block, KnownOfChain};
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

    /// Returns whether chains interact in every run of `steps` stages, except if all weights are equal.
    pub(crate) fn is_certain(&self, steps: usize) -> bool {
        match self {
            Self::Resampling(resampling) => resampling.is_certain(steps),
            Self::WasteFree(_) => steps > 1,
        }
    }
}

/// Record of each chain's first ancestor: the chain at the start of the run from which it descends. The genealogy also
/// selects the chains of a block.
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

    /// Selects chains after a stage if due. Returns the log weights before the selection, and the chains' ancestors.
    pub(crate) fn select<P: AnnealingPath<State = S>>(
        &mut self,
        stage: usize,
        population: &mut Population<P>,
        kernel: &dyn Moves<P::At>,
    ) -> Result<Option<(Vec<f64>, Vec<usize>)>> {
        let block = population.block_mut();
        let is_extinct = block.alive().next().is_none();
        if is_extinct || !self.selection.is_due(stage, block.log_weights()) {
            return Ok(None);
        }
        let log_weights = block.log_weights().to_vec();
        let rng = block.rng_mut(0);
        let ancestors = match &self.selection {
            Selection::Resampling(resampling) => {
                let ancestors = resampling.ancestors(&log_weights, rng);
                block.resample(&ancestors, self.copy);
                ancestors
            }
            Selection::WasteFree(waste_free) => {
                let ancestors = waste_free.ancestors(self.block_size, &log_weights, rng);
                population.regrow(kernel, &ancestors, self.copy)?;
                // `regrow` sets one state of each trajectory after another, so place p descends from ancestor p mod M.
                let chains = log_weights.len();
                ancestors.into_iter().cycle().take(chains).collect()
            }
        };
        self.roots = ancestors.iter().map(|&a| self.roots[a]).collect();
        Ok(Some((log_weights, ancestors)))
    }
}

/// A function that copies a state.
pub(crate) type CopyState<S> = fn(&S) -> S;

impl<S> Block<S> {
    /// Returns a copy of a chain's state, with the values known of it.
    pub(super) fn copy_of(&self, chain: usize, copy: CopyState<S>) -> (S, KnownOfChain) {
        (copy(&self.states()[chain]), self.memory(chain))
    }

    /// Sets a chain's state and the values known of it, and keeps its stream.
    pub(super) fn set(&mut self, chain: usize, (state, known): (S, KnownOfChain)) {
        *self.chain_mut(chain).0 = state;
        self.set_memory(chain, known);
    }

    /// Copies a chain's state, but not its stream, to another chain. Both are indices within the block.
    fn copy(&mut self, from: usize, to: usize, copy: CopyState<S>) {
        let copied = self.copy_of(from, copy);
        self.set(to, copied);
    }

    /// Gives each chain the state of its ancestor and the block's mean weight. Ancestors keep their own state.
    fn resample(&mut self, ancestors: &[usize], copy: CopyState<S>) {
        for (chain, &ancestor) in ancestors.iter().enumerate() {
            if ancestor != chain {
                self.copy(ancestor, chain, copy);
            }
        }
        self.level_weights();
    }

    /// Copies the states of `ancestors` to the first chains, and gives all chains the block's mean weight.
    fn gather(&mut self, ancestors: &[usize], copy: CopyState<S>) {
        // All copies are made before the first is set, because an ancestor's own place may be overwritten.
        let copies = ancestors.iter().map(|&chain| self.copy_of(chain, copy));
        for (chain, copied) in copies.collect::<Vec<_>>().into_iter().enumerate() {
            self.set(chain, copied);
        }
        self.level_weights();
    }

    /// Swaps the state of `chain` with the state of the same chain of another block. Both blocks must be on one path, because
    /// what is known of a state goes with it. Streams and log weights stay.
    pub(crate) fn exchange(&mut self, other: &mut Self, chain: usize) {
        // Read first, because `chain_mut` forgets what is known of a state.
        let known = (self.memory(chain), other.memory(chain));
        std::mem::swap(self.chain_mut(chain).0, other.chain_mut(chain).0);
        self.set_memory(chain, known.1);
        other.set_memory(chain, known.0);
    }
}

impl<P: AnnealingPath> Population<P> {
    /// Gives the chains the states of trajectories from `ancestors`, and the block's mean weight. The j-th states of
    /// all trajectories stand next to each other, before the (j+1)-th states.
    fn regrow(
        &mut self,
        kernel: &dyn Moves<P::At>,
        ancestors: &[usize],
        copy: CopyState<P::State>,
    ) -> Result<()> {
        self.block_mut().gather(ancestors, copy);
        let (trajectories, all) = (ancestors.len(), self.block().len());
        for first in (trajectories..all).step_by(trajectories) {
            let places = first..all.min(first + trajectories);
            for place in places.clone() {
                self.block_mut().copy(place - trajectories, place, copy);
            }
            let mut mask = (0..all).map(|chain| places.contains(&chain)).collect();
            self.stay_masked(kernel, &mut mask)?;
        }
        Ok(())
    }
}
