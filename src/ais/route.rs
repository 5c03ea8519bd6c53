//! The two ways through a schedule.

use std::ops::Range;

use super::population::Population;
use super::settings::Settings;
use crate::Result;
use crate::kernel::{Reversal, TransitionKernel, Workspace};
use crate::path::AnnealingPath;
use crate::random::{StreamRng, successive};

/// How chains start, and how they pass a stage.
pub(super) trait Route<'p, P: AnnealingPath>: Sync {
    /// What the kernel keeps for a block.
    type Workspace: Workspace;

    /// The number of stages that the kernel demands.
    fn stages(&self) -> Option<usize>;

    /// Places chains at the start, given their indices and the stream of the first.
    fn start(
        &self,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Population<'p, P, Self::Workspace>>;

    /// Takes the chains through a stage. These are counted from 1 as they are passed.
    fn pass(&self, population: &mut Population<'p, P, Self::Workspace>, stage: usize)
    -> Result<()>;

    /// Moves the chains of a mask once more where they stand.
    fn stay(
        &self,
        population: &mut Population<'p, P, Self::Workspace>,
        mask: &mut Vec<bool>,
    ) -> Result<()>;
}

/// From the base to the target.
pub(super) struct Forward<'a, 'p, P, K> {
    pub(super) path: &'p P,
    pub(super) kernel: &'a K,
    pub(super) settings: &'a Settings,
}

impl<'p, P, K> Route<'p, P> for Forward<'_, 'p, P, K>
where
    P: AnnealingPath + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
{
    type Workspace = K::Workspace;

    fn stages(&self) -> Option<usize> {
        self.kernel.stages()
    }

    fn start(
        &self,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Population<'p, P, K::Workspace>> {
        Population::start(self.path, chains.start, chains.len(), first)
    }

    fn pass(&self, population: &mut Population<'p, P, K::Workspace>, stage: usize) -> Result<()> {
        let beta = self.settings.schedule.betas()[stage];
        match self.settings.weighs_alone(stage) {
            true => population.weigh_to(beta),
            false => population.advance_to(self.kernel, beta),
        }
    }

    fn stay(
        &self,
        population: &mut Population<'p, P, K::Workspace>,
        mask: &mut Vec<bool>,
    ) -> Result<()> {
        population.stay_masked(self.kernel, mask)
    }
}

/// From samples of the target to the base, by the reversal of a kernel.
pub(super) struct Backward<'a, 'p, P: AnnealingPath, K> {
    pub(super) path: &'p P,
    pub(super) kernel: &'a K,
    pub(super) betas: &'a [f64],
    pub(super) samples: &'a [P::State],
}

impl<'a, 'p, P, K> Route<'p, P> for Backward<'a, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Sync> + Sync,
    K: Reversal<P::At<'p>> + Sync,
{
    type Workspace = <K::Reversed<'a> as TransitionKernel<P::At<'p>>>::Workspace;

    fn stages(&self) -> Option<usize> {
        self.kernel.reversal().stages()
    }

    fn start(
        &self,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Population<'p, P, Self::Workspace>> {
        let states = self.samples[chains.clone()].to_vec();
        let rngs = successive(first).take(chains.len()).collect();
        Population::from_states(self.path, 1.0, chains.start, states, rngs)
    }

    fn pass(
        &self,
        population: &mut Population<'p, P, Self::Workspace>,
        stage: usize,
    ) -> Result<()> {
        let reversal = self.kernel.reversal();
        if stage == 1 {
            population.stay(&reversal)?;
        }
        match self.betas.len() - 1 - stage {
            0 => population.weigh_to(0.0),
            k => population.advance_to(&reversal, self.betas[k]),
        }
    }

    fn stay(
        &self,
        population: &mut Population<'p, P, Self::Workspace>,
        mask: &mut Vec<bool>,
    ) -> Result<()> {
        population.stay_masked(&self.kernel.reversal(), mask)
    }
}
