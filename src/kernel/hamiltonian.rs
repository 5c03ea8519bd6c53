//! Hamiltonian Monte Carlo.

use std::num::NonZeroUsize;

use rand::Rng;

use super::gradient_move::{self, GradientMove, gradient_kernel};
use super::trajectories::Trajectories;
use super::vector::evaluations;
use super::{
    Block, NonFinite, Preconditioner, Stage, Step, StepSize, TransitionKernel, Tunable,
    detailed_balance,
};
use crate::model::Gradients;
use crate::path::Intermediate;
use crate::{Error, Result};

/// Hamiltonian Monte Carlo. A step draws a momentum `p ~ N(0, I)`, makes `leapfrog_steps` steps of size `eps` from
/// (x, p) to (x', p'), and accepts x' with probability `min(1, exp(H(x, p) - H(x', p')))`, where
/// `H(x, p) = -log f_k(x) + |p|^2 / 2`. `eps` has the units of the state. The kernel leaves `p_k` invariant and is
/// its own reversal, so its correction is 0.
///
/// With a [`Preconditioner`](Tunable::preconditioned) L a step moves x by `eps L p` and p by
/// `eps L^T grad log f_k(x)`; the mass matrix is `(L L^T)^{-1}`. [`Rounds`](crate::adaptive::Rounds) and
/// [`FirstPass`](crate::adaptive::FirstPass) find L and the step size.
///
/// A trajectory is refused if it ends off the support or overflows. It is also refused if its energy H has risen by
/// more than 1,000, as in Stan, and the model is not finite at the next point. Any other NaN of the model is an error.
/// Off the support the gradient counts as 0, and a trajectory that starts there is accepted if it ends on the support.
///
/// Source: Neal (2011).
#[doc(alias(
    "HAIS",
    "HMC",
    "Hamiltonian annealed importance sampling",
    "PersistentHmc"
))]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hmc {
    step_size: StepSize,
    steps: NonZeroUsize,
    preconditioner: Option<Preconditioner>,
}

impl Hmc {
    /// Creates a kernel with `leapfrog_steps` steps of size `step_size`, a number or a [`StepSize`].
    ///
    /// # Errors
    /// If the number is not finite and positive, or `leapfrog_steps` is 0.
    pub fn new(
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        leapfrog_steps: usize,
    ) -> Result<Self> {
        let steps = Error::check_nonzero("leapfrog steps", leapfrog_steps)?;
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self {
            step_size,
            steps,
            preconditioner: None,
        })
    }
}

impl GradientMove for Hmc {
    fn preconditioner(&self) -> Option<&Preconditioner> {
        self.preconditioner.as_ref()
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        (self.step_size.at(beta), self.steps)
    }

    fn size_for(&self, beta: f64, datum: usize) -> Option<f64> {
        self.step_size.for_datum(beta, datum)
    }
}

gradient_kernel! { Hmc }
detailed_balance! { [M: Gradients + Intermediate] Hmc, M }

impl Tunable for Hmc {
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

    /// Returns the step size at which a trajectory takes a quarter period. Under a standard normal target its end is
    /// then independent of its start.
    fn longest_step_size(&self) -> f64 {
        std::f64::consts::FRAC_PI_2 / self.steps.get() as f64
    }

    /// Returns 0.8. In high dimension 0.651 is best (Beskos et al. 2013), but a higher acceptance costs little and is
    /// safer in low dimension (Betancourt, Byrne and Girolami 2014).
    fn optimal_acceptance(&self) -> f64 {
        0.8
    }
}
