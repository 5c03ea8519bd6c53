//! Hamiltonian Monte Carlo, with fresh or persistent momenta.

use std::num::NonZeroUsize;

use nalgebra::DVector;
use rand::Rng;

use super::gradient_move::{self, GradientMove, Moving, gradient_kernel};
use super::trajectories::Trajectories;
use super::vector::{evaluations, fill_normal, set_len};
use super::{
    Block, Invariant, NonFinite, Preconditioner, Stage, Step, StepSize, TransitionKernel, Tunable,
    detailed_balance,
};
use crate::model::{Differentiable, check_gradient};
use crate::path::Intermediate;
use crate::random::StandardNormal;
use crate::{Error, Result};

/// Hamiltonian Monte Carlo. A step draws a momentum `p ~ N(0, I)`, makes `leapfrog_steps` steps of size `eps` from
/// (x, p) to (x', p'), and accepts x' with probability `min(1, exp(H(x, p) - H(x', p')))`, where
/// `H(x, p) = -log f_k(x) + |p|^2 / 2`. `eps` has the units of the state. The kernel leaves `p_k` invariant and is
/// its own reversal, so its correction is 0.
///
/// With a [`Preconditioner`](Tunable::preconditioned) L a step moves x by `eps L p` and p by
/// `eps L^T grad log f_k(x)`; the mass matrix is `(L L^T)^{-1}`. [`Rounds`](crate::adaptive::Rounds) and
/// [`AdaptiveSmc::first_pass`](crate::adaptive::AdaptiveSmc::first_pass) find L and the step size.
///
/// A trajectory is refused if it ends off the support or overflows. It is also refused if its energy H has risen by
/// more than 1,000, as in Stan, and the model is not finite at the next point. Any other NaN of the model is an error.
/// Off the support the gradient counts as 0, and a trajectory that starts there is accepted if it ends on the support.
///
/// Source: Neal (2011).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hmc {
    leapfrog: Leapfrog,
}

/// Hamiltonian Monte Carlo with momenta that persist from stage to stage (Hamiltonian annealed importance sampling).
///
/// Each chain keeps its momentum p, drawn from `N(0, I)` at its first step. A step
/// 1. refreshes it in part, `p <- sqrt(1 - gamma) p + sqrt(gamma) n`, n standard normal;
/// 2. runs L leapfrog steps to `(x', p')` and accepts them with probability
///    `min(1, exp(H(x, p) - H(x', p')))`;
/// 3. goes on from `(x', p')` if accepted and from `(x, -p)` if not.
///
/// The kernel leaves `p_k(x) N(p; 0, I)` invariant, but is not reversible. Its backward kernel is its reversal, so
/// its correction is 0. The momentum cancels from the log ratio of a run.
///
/// With a [`Preconditioner`](Tunable::preconditioned) the momentum is a vector in the preconditioned coordinates. A
/// refusal turns the chain back, so use smaller steps than for [`Hmc`]. The rules of [`Hmc`] for trajectories that
/// leave the support, overflow or diverge apply here too.
///
/// Source: Sohl-Dickstein and Culpepper, Hamiltonian annealed importance sampling for partition function estimation
/// (2012); Horowitz (1991).
#[doc(alias = "HAIS")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PersistentHmc {
    leapfrog: Leapfrog,
    refreshment: f64,
}

/// Size, number and coordinates of leapfrog steps.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Leapfrog {
    step_size: StepSize,
    steps: NonZeroUsize,
    preconditioner: Option<Preconditioner>,
}

impl Leapfrog {
    fn new(step_size: impl TryInto<StepSize, Error: Into<Error>>, steps: usize) -> Result<Self> {
        let steps = Error::check_nonzero("leapfrog steps", steps)?;
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self {
            step_size,
            steps,
            preconditioner: None,
        })
    }

    /// Returns the step size for trajectories of a quarter period under a standard normal distribution.
    fn quarter_period(&self) -> f64 {
        std::f64::consts::FRAC_PI_2 / self.steps.get() as f64
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
        let leapfrog = Leapfrog::new(step_size, leapfrog_steps)?;
        Ok(Self { leapfrog })
    }
}

impl PersistentHmc {
    /// Creates a kernel with `leapfrog_steps` steps of size `step_size`, a number or a [`StepSize`]. `refreshment` is
    /// `gamma` in (0, 1], the share of the momentum's variance that each step renews; 1 gives [`Hmc`].
    ///
    /// # Errors
    /// If the number is not finite and positive, `leapfrog_steps` is 0, or `gamma` lies outside of (0, 1].
    pub fn new(
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        leapfrog_steps: usize,
        refreshment: f64,
    ) -> Result<Self> {
        Self::of(Leapfrog::new(step_size, leapfrog_steps)?, refreshment)
    }

    /// Draws a chain's first momentum if it has none. Then refreshes it by `p <- sqrt(1 - gamma) p + sqrt(gamma) n`,
    /// which leaves `N(0, I)` invariant.
    fn renew<R: Rng + ?Sized>(&self, momentum: &mut DVector<f64>, dimension: usize, rng: &mut R) {
        if momentum.len() != dimension {
            set_len(momentum, dimension);
            fill_normal(momentum, rng);
        }
        let (kept, renewed) = ((1.0 - self.refreshment).sqrt(), self.refreshment.sqrt());
        let normal = StandardNormal::get();
        for p in momentum.as_mut_slice() {
            *p = kept * *p + renewed * normal.draw(rng);
        }
    }

    fn of(leapfrog: Leapfrog, refreshment: f64) -> Result<Self> {
        Error::check_positive_fraction("refreshment", refreshment)?;
        Ok(Self {
            leapfrog,
            refreshment,
        })
    }
}

impl GradientMove for Hmc {
    type Memory = ();

    fn preconditioner(&self) -> Option<&Preconditioner> {
        self.leapfrog.preconditioner.as_ref()
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        (self.leapfrog.step_size.at(beta), self.leapfrog.steps)
    }
}

impl GradientMove for PersistentHmc {
    /// The momentum; empty before the first step.
    type Memory = DVector<f64>;

    fn preconditioner(&self) -> Option<&Preconditioner> {
        self.leapfrog.preconditioner.as_ref()
    }

    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize) {
        (self.leapfrog.step_size.at(beta), self.leapfrog.steps)
    }

    fn draw<R: Rng + ?Sized>(
        &self,
        trajectories: &mut Trajectories,
        index: usize,
        momentum: &mut DVector<f64>,
        rng: &mut R,
    ) {
        self.renew(momentum, trajectories.dimension(), rng);
        trajectories.set_momentum(index, momentum);
        trajectories.draw_uniform(index, rng);
    }

    fn conclude(
        &self,
        trajectories: &Trajectories,
        index: usize,
        momentum: &mut DVector<f64>,
    ) -> (bool, Step) {
        let (moves, step) = trajectories.decide(index);
        match moves {
            true => trajectories.read_momentum(index, momentum),
            false => momentum.neg_mut(),
        }
        (moves, step)
    }
}

gradient_kernel! { Hmc }
gradient_kernel! { PersistentHmc }
detailed_balance! { [M: Differentiable + Intermediate] Hmc, M }

/// The joint distribution of position and momentum is invariant.
impl<M: Differentiable + Intermediate> Invariant<M> for PersistentHmc {}

impl Tunable for Hmc {
    fn step_size(&self) -> &StepSize {
        &self.leapfrog.step_size
    }

    fn with_step_size(&self, step_size: StepSize) -> Self {
        let leapfrog = self.leapfrog.with_step_size(step_size);
        Self { leapfrog }
    }

    fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        let leapfrog = self.leapfrog.preconditioned(preconditioner);
        Self { leapfrog }
    }

    /// Returns the step size at which a trajectory takes a quarter period. Under a standard normal target its end is
    /// then independent of its start.
    fn longest_step_size(&self) -> f64 {
        self.leapfrog.quarter_period()
    }

    /// Returns 0.8. In high dimension 0.651 is best (Beskos et al. 2013), but a higher acceptance costs little and is
    /// safer in low dimension (Betancourt, Byrne and Girolami 2014).
    fn optimal_acceptance(&self) -> f64 {
        0.8
    }
}

impl Tunable for PersistentHmc {
    fn step_size(&self) -> &StepSize {
        &self.leapfrog.step_size
    }

    fn with_step_size(&self, step_size: StepSize) -> Self {
        Self {
            leapfrog: self.leapfrog.with_step_size(step_size),
            ..*self
        }
    }

    fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        Self {
            leapfrog: self.leapfrog.preconditioned(preconditioner),
            ..*self
        }
    }

    fn longest_step_size(&self) -> f64 {
        self.leapfrog.quarter_period()
    }

    /// Returns 0.9, a rule of thumb: each refusal turns the chain back, so refusals must be rare.
    fn optimal_acceptance(&self) -> f64 {
        0.9
    }
}

crate::num::deserialize_checked! {
    PersistentHmc { leapfrog: Leapfrog, refreshment: f64 } =>
        Self::of(leapfrog, refreshment)
}
