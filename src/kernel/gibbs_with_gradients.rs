//! Gibbs with gradients: flips of bits that a gradient proposes.

use std::num::NonZeroUsize;

use rand::{Rng, RngExt};

use super::gradient_move::{self, GradientMove, gradient_kernel};
use super::metropolis::acceptances;
use super::trajectories::{At, Integration, Trajectories, row};
use super::vector::evaluations;
use super::{Block, NonFinite, Preconditioner, Stage, Step, TransitionKernel, detailed_balance};
use crate::Result;
use crate::model::Gradients;
use crate::num::log_sum_exp;
use crate::path::Intermediate;

/// Gibbs with gradients. A step flips one bit of a vector x of zeros and ones. It proposes bit i with a probability
/// proportional to `exp(d_i(x) / 2)`, where `d_i(x) = (1 - 2 x_i) d/dx_i log f_k(x)` estimates the change of
/// `log f_k` by the flip, and accepts x' with probability `min(1, f_k(x') q(i|x') / (f_k(x) q(i|x)))`. The kernel leaves
/// `p_k` invariant and is its own reversal, so its correction is 0.
///
/// A step costs one evaluation with a gradient, at the proposed state. For several flips at each stage use
/// [`Repeat`](super::Repeat). The gradient is that of the density as a function of real numbers. An inaccurate gradient
/// lowers the acceptance rate, but the result stays unbiased. The base may be [`Bits`](crate::model::Bits).
///
/// ```
/// use annealed::kernel::GibbsWithGradients;
/// use annealed::model::Bits;
/// use annealed::prelude::*;
///
/// // log f(x) = sum_i x_i x_{i+1} over a chain of 12 bits.
/// let chain = GradientModel::new(12, |x: &[f64], gradient: &mut [f64]| {
///     gradient.fill(0.0);
///     for i in 0..11 {
///         gradient[i] += x[i + 1];
///         gradient[i + 1] += x[i];
///     }
///     x.windows(2).map(|pair| pair[0] * pair[1]).sum()
/// })?;
/// let path = GeometricPath::new(Bits::fair(12)?, chain);
/// let kernel = Repeat::new(GibbsWithGradients, 3)?;
/// let run = Ais::new(&path, kernel).schedule(Schedule::linear(50)?).run()?;
/// # let e = 1f64.exp();
/// # let (zero, one) = (0..11).fold((1.0, 1.0), |(zero, one), _| (zero + one, zero + e * one));
/// # let exact = (zero + one).ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Source: Grathwohl, Swersky, Hashemi, Duvenaud and Maddison (2021).
#[doc(alias("GWG", "discrete", "binary", "locally informed proposals"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GibbsWithGradients;

impl GradientMove for GibbsWithGradients {
    fn preconditioner(&self) -> Option<&Preconditioner> {
        None
    }

    /// A flip is one step, whose size has no meaning.
    fn leapfrog(&self, _beta: f64) -> (f64, NonZeroUsize) {
        (1.0, NonZeroUsize::MIN)
    }

    fn draw<R: Rng + ?Sized>(&self, trajectories: &mut Trajectories, index: usize, rng: &mut R) {
        trajectories.draw_flip(index, rng);
        trajectories.draw_uniform(index, rng);
    }

    fn integrate<M: Gradients + Intermediate>(
        &self,
        trajectories: &mut Trajectories,
        model: &M,
        _integration: Integration<'_>,
    ) {
        trajectories.flip(model);
    }
}

impl Trajectories {
    /// Draws the bit that a chain flips.
    fn draw_flip<R: Rng + ?Sized>(&mut self, chain: usize, rng: &mut R) {
        let log_total = log_sum_exp(self.half_gains(chain));
        let mut left: f64 = rng.random();
        let found = self.half_gains(chain).position(|gain| {
            left -= (gain - log_total).exp();
            left < 0.0
        });
        // Rounding may leave a rest after the last bit.
        let flip = found.unwrap_or(self.dimension() - 1);
        self.flips.resize(self.chains, 0);
        self.flips[chain] = flip;
    }

    /// Returns half of the estimated change of the log density by the flip of each bit.
    fn half_gains(&self, chain: usize) -> impl Iterator<Item = f64> {
        let positions = row(self.positions.as_slice(), self.chains, chain);
        let gradients = row(self.gradients.as_slice(), self.chains, chain);
        positions
            .zip(gradients)
            .map(|(x, gradient)| (0.5 - x) * gradient)
    }

    /// Returns the log density of a chain, plus the log probability that the drawn bit is proposed there.
    fn log_flow(&self, chain: usize) -> f64 {
        let log_total = log_sum_exp(self.half_gains(chain));
        let gain = self.half_gains(chain).nth(self.flips[chain]);
        self.log_densities[chain] + gain.unwrap_or(f64::NAN) - log_total
    }

    /// Flips the drawn bits, evaluates the model there, and computes acceptance probabilities.
    fn flip<M: Gradients + Intermediate>(&mut self, model: &M) {
        for chain in 0..self.chains {
            // A chain with a fault at its start keeps `+inf`.
            if self.here[chain] < f64::INFINITY {
                self.here[chain] = self.log_flow(chain);
            }
            let bit = chain + self.flips[chain] * self.chains;
            let x = &mut self.positions.as_mut_slice()[bit];
            *x = 1.0 - *x;
        }
        std::mem::swap(&mut self.left, &mut self.log_densities);
        let finite = self.evaluate(model, true, true);
        self.finish(At::Proposal, None, finite);
        for chain in 0..self.chains {
            self.there[chain] = self.log_flow(chain);
        }
        self.acceptances.clone_from(&self.there);
        acceptances(&self.here, &mut self.acceptances);
    }
}

// The gradient is that of a function of real coordinates, of which bits are no differences.
gradient_kernel! { GibbsWithGradients, unchecked }
detailed_balance! { [M: Gradients + Intermediate] GibbsWithGradients, M }
