//! Step sizes that differ between data.

use std::num::NonZeroUsize;
use std::sync::Arc;

use rand::Rng;

use super::gradient_move::{self, GradientMove, gradient_kernel};
use super::metropolis::RandomWalk;
use super::trajectories::Trajectories;
use super::vector::evaluations;
use super::{
    Block, Hmc, Mala, Metropolis, NonFinite, Preconditioner, RandomWalkMetropolis, Stage, Step,
    SymmetricProposal, TransitionKernel, Tunable, detailed_balance,
};
use crate::Result;
use crate::model::{Gradients, Latent};
use crate::path::Intermediate;

/// A kernel whose leapfrog steps or proposals are scaled by a factor for each datum and beta.
///
/// [`LogLikelihoods`](crate::many::LogLikelihoods) finds the factors. The chain's state determines its datum.
#[derive(Debug, Clone)]
pub struct ByDatum<K> {
    kernel: K,
    factors: Arc<DatumSizes>,
}

/// A kernel of which [`LogLikelihoods`](crate::many::LogLikelihoods) adapts the step size to each datum:
/// [`Hmc`], [`Mala`] and [`RandomWalkMetropolis`].
pub trait EachDatum: Tunable + Clone {
    /// The kernel with factors for each datum.
    type Adapted: Clone + std::fmt::Debug + Send + Sync;

    #[doc(hidden)]
    fn adapted(&self, factors: Arc<DatumSizes>) -> Self::Adapted;
}

/// Logarithms of the factors of the step sizes: at each beta, one for each datum.
#[derive(Debug, Clone, Default)]
pub struct DatumSizes {
    knots: Vec<(f64, Vec<f64>)>,
}

impl DatumSizes {
    pub(crate) fn new(knots: Vec<(f64, Vec<f64>)>) -> Arc<Self> {
        Arc::new(Self { knots })
    }

    /// Returns the factor of a datum. It is log-linear in beta between two knots.
    fn at(&self, beta: f64, datum: usize) -> f64 {
        let size = |knot: usize| self.knots[knot].1[datum];
        let next = self.knots.partition_point(|knot| knot.0 <= beta);
        let log_size = match next.checked_sub(1) {
            None => size(0),
            Some(last) if next == self.knots.len() => size(last),
            Some(left) => {
                let (start, end) = (self.knots[left].0, self.knots[next].0);
                size(left) + (beta - start) / (end - start) * (size(next) - size(left))
            }
        };
        log_size.exp()
    }
}

impl<K: GradientMove> GradientMove for ByDatum<K> {
    fn preconditioner(&self) -> Option<&Preconditioner> {
        self.kernel.preconditioner()
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        self.kernel.leapfrog(beta)
    }

    fn size_for(&self, beta: f64, datum: usize) -> Option<f64> {
        Some(self.leapfrog(beta).0 * self.factors.at(beta, datum))
    }
}

gradient_kernel! { [K] ByDatum<K> }

impl SymmetricProposal<Latent> for ByDatum<RandomWalk> {
    fn propose<R: Rng + ?Sized>(
        &self,
        beta: f64,
        state: &Latent,
        proposal: &mut Latent,
        rng: &mut R,
    ) {
        let mut step = std::mem::take(&mut proposal.vector);
        let walk = &self.kernel;
        walk.propose(beta, &state.vector, &mut step, rng);
        let factor = self.factors.at(beta, state.datum());
        for (to, from) in step.iter_mut().zip(&state.vector) {
            *to = from + factor * (*to - from);
        }
        *proposal = Latent::new(state.datum(), step);
    }

    fn coordinates<'s>(&self, state: &'s Latent) -> Option<&'s [f64]> {
        Some(state.vector.as_slice())
    }

    fn check(&self, states: &[Latent]) -> Result<()> {
        Preconditioner::check(self.kernel.preconditioner.as_ref(), states)
    }
}

macro_rules! each_datum {
    ($($kernel:ty => $adapted:ty, $this:ident => $inner:expr;)+) => {$(
        impl EachDatum for $kernel {
            type Adapted = $adapted;

            fn adapted(&$this, factors: Arc<DatumSizes>) -> Self::Adapted {
                $inner(factors)
            }
        }
    )+};
}

each_datum! {
    Hmc => ByDatum<Hmc>, self => |factors| ByDatum { kernel: self.clone(), factors };
    Mala => ByDatum<Mala>, self => |factors| ByDatum { kernel: self.clone(), factors };
    RandomWalkMetropolis => Metropolis<ByDatum<RandomWalk>>, self =>
        |factors| Metropolis(ByDatum { kernel: self.0.clone(), factors });
}

detailed_balance! { [M: Gradients + Intermediate, K: GradientMove] ByDatum<K>, M }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_log_linear_between_betas() {
        let sizes = DatumSizes::new(vec![(0.2, vec![0.0, 1.0]), (0.6, vec![2.0, -1.0])]);
        for (beta, log_sizes) in [
            (0.0, [0.0, 1.0]),
            (0.2, [0.0, 1.0]),
            (0.3, [0.5, 0.5]),
            (0.6, [2.0, -1.0]),
            (1.0, [2.0, -1.0]),
        ] {
            for (datum, log_size) in log_sizes.into_iter().enumerate() {
                let found = sizes.at(beta, datum).ln();
                assert!((found - log_size).abs() < 1e-14, "{beta}, {datum}: {found}");
            }
        }
    }
}
