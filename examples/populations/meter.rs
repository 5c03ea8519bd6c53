//! Density evaluations, counted where they are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use annealed::Result;
use annealed::kernel::{Block, Invariant, Reversal};
use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::Intermediate;
use annealed::prelude::*;
use rand::Rng;

/// A count that models, kernels and readers share.
#[derive(Clone, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    fn add(&self, evaluations: u64) {
        self.0.fetch_add(evaluations, Ordering::Relaxed);
    }

    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub fn spent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A model that counts its evaluations: 1 for a value, 2 for a value with its gradient.
pub struct Counted<M> {
    pub model: M,
    pub meter: Meter,
}

impl<M> Counted<M> {
    pub fn new(model: M, meter: &Meter) -> Self {
        let meter = meter.clone();
        Self { model, meter }
    }
}

impl<M: UnnormalizedModel> UnnormalizedModel for Counted<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.meter.add(1);
        self.model.log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }
}

impl<M: Differentiable> Differentiable for Counted<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.meter.add(2);
        self.model.accumulate_gradient(state, scale, gradient)
    }
}

/// A kernel that counts its own evaluations: a proposed exchange in a Latin square, or a sweep of block Gibbs.
#[derive(Clone)]
pub struct CountedMoves<K> {
    pub kernel: K,
    pub meter: Meter,
}

impl<M: Intermediate, K: TransitionKernel<M>> TransitionKernel<M> for CountedMoves<K> {
    type Workspace = K::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        self.meter.add(self.kernel.evaluations(1) as u64);
        self.kernel.step(stage, chain, state, workspace, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        let moved = (0..block.len()).filter(|&chain| block.is_active(chain));
        let evaluations = moved.count() * self.kernel.evaluations(1);
        self.meter.add(evaluations as u64);
        self.kernel.advance(stage, block, workspace)
    }

    fn evaluations(&self, dimension: usize) -> usize {
        self.kernel.evaluations(dimension)
    }
}

impl<M: Intermediate, K: Invariant<M>> Invariant<M> for CountedMoves<K> {}

impl<M: Intermediate, K: Reversal<M>> Reversal<M> for CountedMoves<K> {
    type Reversed<'k>
        = CountedMoves<K::Reversed<'k>>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        CountedMoves {
            kernel: self.kernel.reversal(),
            meter: self.meter.clone(),
        }
    }
}
