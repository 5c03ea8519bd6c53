//! Langevin kernels: a drift along the gradient plus noise, with or without a Metropolis test.

use std::num::NonZeroUsize;

use rand::Rng;

use super::gradient_move::{self, GradientMove, gradient_kernel};
use super::trajectories::Trajectories;
use super::vector::evaluations;
use super::{
    Block, NonFinite, Preconditioner, Stage, Step, StepSize, TransitionKernel, Tunable,
    detailed_balance, own_reversal,
};
use crate::model::Gradients;
use crate::path::Intermediate;
use crate::{Error, Result};

/// The Metropolis-adjusted Langevin algorithm: `x' = x + eps/2 grad log f_k(x) + sqrt(eps) Z`, accepted with
/// probability
/// `min(1, f_k(x') N(x; x' + eps/2 grad log f_k(x'), eps) / (f_k(x) N(x'; x + eps/2 grad log f_k(x), eps)))`.
///
/// `eps` is the variance of the noise, so `sqrt(eps)` has the units of the state. The kernel leaves `p_k` invariant
/// and is its own reversal, so its correction is 0. With a [`Preconditioner`](Tunable::preconditioned) L it moves in
/// the coordinates `y = L^{-1} x`: `x' = x + eps/2 L L^T grad log f_k(x) + sqrt(eps) L Z`.
///
/// Off the support the gradient counts as 0. A proposal off the support, or one that overflows, is refused. A proposal
/// where the model is not finite is refused if the drift raised the energy `|Z + sqrt(eps)/2 grad|^2 / 2 - |Z|^2 / 2`
/// by more than 1,000; otherwise it is an error. Source: Roberts and Tweedie (1996).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Mala {
    step_size: StepSize,
    preconditioner: Option<Preconditioner>,
}

/// Langevin steps without the accept-reject test, corrected through the weight.
///
/// It always takes the proposal of [`Mala`]. It is its own backward kernel and does not leave `p_k` invariant. Its
/// correction is the log Metropolis-Hastings ratio,
///
/// ```text
/// log f_k(x') - log f_k(x) + log N(x; x' + eps/2 grad log f_k(x'), eps)
///                          - log N(x'; x + eps/2 grad log f_k(x), eps),
/// ```
///
/// and the weights are unbiased for any `eps`. Their variance may be infinite if the gradient changes within less than
/// the length of a step, for example at an edge. The run then warns
/// ([`Warning::MissingMass`](crate::estimate::Warning::MissingMass)); use [`Mala`] in that case.
///
/// A proposal is refused if it lies off the support of `f_k` or overflows, or if the model is not finite there and
/// [`Mala`] would refuse it. The chain then stays, with correction 0. Without this rule `E[w]` would be below
/// `Z_K / Z_0` on a bounded support.
///
/// Source: Barron and Luo (2007), with no drift modifier.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UnadjustedLangevin {
    step_size: StepSize,
}

impl Mala {
    /// Creates a kernel whose noise has the variance `step_size`: a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive.
    pub fn new(step_size: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self {
            step_size,
            preconditioner: None,
        })
    }
}

impl UnadjustedLangevin {
    /// Creates a kernel whose noise has the variance `step_size`: a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive.
    pub fn new(step_size: impl TryInto<StepSize, Error: Into<Error>>) -> Result<Self> {
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self { step_size })
    }
}

// A proposal with noise of variance eps is a leapfrog step of size sqrt(eps) with the noise as momentum. The log ratio
// of the proposal densities is minus the gain in kinetic energy.

impl GradientMove for Mala {
    fn preconditioner(&self) -> Option<&Preconditioner> {
        self.preconditioner.as_ref()
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        (self.step_size.at(beta).sqrt(), NonZeroUsize::MIN)
    }

    fn size_for(&self, beta: f64, datum: usize) -> Option<f64> {
        self.step_size.for_datum(beta, datum).map(f64::sqrt)
    }
}

impl GradientMove for UnadjustedLangevin {
    fn preconditioner(&self) -> Option<&Preconditioner> {
        None
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        (self.step_size.at(beta).sqrt(), NonZeroUsize::MIN)
    }

    fn size_for(&self, beta: f64, datum: usize) -> Option<f64> {
        self.step_size.for_datum(beta, datum).map(f64::sqrt)
    }

    fn draw<R: Rng + ?Sized>(&self, trajectories: &mut Trajectories, index: usize, rng: &mut R) {
        trajectories.draw_momentum(index, rng);
    }

    fn conclude(&self, trajectories: &Trajectories, index: usize) -> (bool, Step) {
        let (here, there) = trajectories.energies(index);
        // `here` is `-inf` if the start is off the support, and `+inf` if the trajectory has ended early.
        if here.is_infinite() || there == f64::NEG_INFINITY {
            return (false, Step::corrected(0.0));
        }
        let correction = there - here;
        let step = Step::corrected(correction).with_backward_move(0.0, -correction);
        (true, step)
    }
}

gradient_kernel! { Mala }
gradient_kernel! { UnadjustedLangevin }
detailed_balance! { [M: Gradients + Intermediate] Mala, M }
own_reversal! { [M: Gradients + Intermediate] UnadjustedLangevin, M }

impl Tunable for Mala {
    fn step_size(&self) -> &StepSize {
        &self.step_size
    }

    fn with_step_size(&self, step_size: StepSize) -> Self {
        Self {
            step_size,
            ..self.clone()
        }
    }

    fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        Self {
            preconditioner: Some(preconditioner),
            ..self.clone()
        }
    }

    /// Returns 0.574 (Roberts and Rosenthal 1998).
    fn optimal_acceptance(&self) -> f64 {
        0.574
    }
}
