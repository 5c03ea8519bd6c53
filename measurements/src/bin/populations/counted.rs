//! Kernels that count their own evaluations.

use annealed::Result;
use annealed::kernel::{Block, Invariant, Reversal};
use annealed::kernel::{NonFinite, Stage, Step};
use annealed::path::Intermediate;
use annealed::prelude::*;
use annealed_measurements::problems::meter::Meter;
use rand::Rng;

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
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        self.meter.add(self.kernel.evaluations(1) as u64);
        self.kernel.step(stage, state, workspace, rng)
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
