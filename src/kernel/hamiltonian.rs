//! Hamiltonian Monte Carlo, with fresh momenta at each step or with momenta that persist.

use std::num::NonZeroUsize;

use nalgebra::DVector;
use rand::Rng;

use super::tunable::Tunable;
use crate::chain::{Block, NonFinite, Stage, Step};
use crate::kernel::metropolis::{PROPOSAL, decide};
use crate::kernel::preconditioner::{Factor, Preconditioner};
use crate::kernel::step_size::StepSize;
use crate::kernel::vector::{add_scaled, evaluate_along, fill_normal, set_len};
use crate::kernel::workspace::{PerChain, Scratch};
use crate::kernel::{Invariant, TransitionKernel, advance_each, own_reversal};
use crate::model::{Differentiable, check_gradient};
use crate::path::Intermediate;
use crate::random::StandardNormal;
use crate::{Error, Result};

/// The leapfrog integrator of `H(x, p) = -log f(x) + |p|^2 / 2`, with unit mass. With a preconditioner L
/// the momentum belongs to the coordinates `y = L^{-1} x`: `dx/dt = L p`, `dp/dt = L^T grad log f(x)`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Leapfrog {
    step_size: StepSize,
    steps: NonZeroUsize,
    preconditioner: Option<Preconditioner>,
}

/// Hamiltonian Monte Carlo. A step draws a momentum `p ~ N(0, I)`, makes L leapfrog steps of size
/// `eps` from (x, p) to (x', p'), and accepts x' with probability `min(1, exp(H(x, p) - H(x', p')))`,
/// where `H(x, p) = -log f_k(x) + |p|^2 / 2`.
///
/// `eps` has the units of the state (mass 1). The kernel leaves `p_k` invariant and is its own
/// reversal: its correction is 0.
///
/// With a [`Preconditioner`](Tunable::preconditioned) L the momentum is `N(0, I)` in the coordinates
/// `y = L^{-1} x`: a step moves x by `eps L p` and p by `eps L^T grad log f_k(x)`. The mass matrix is
/// then `(L L^T)^{-1}`: dense for [`Preconditioner::covariance`], diagonal for [`Preconditioner::deviations`].
/// [`Adaptation::first_pass`](crate::pilot::Adaptation::first_pass) finds it by a pilot together with the step size, and
/// [`Rounds`](crate::pilot::Rounds) in the course of its rounds.
///
/// Off the support the gradient counts as 0. A trajectory that ends off the support is refused; one
/// that leads from a state off the support onto it is accepted. A trajectory that diverges until a
/// position overflows is refused too, without evaluating the model there. A NaN that the model
/// returns at a finite position is an error.
///
/// Source: Neal (2011).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hmc {
    leapfrog: Leapfrog,
}

/// Hamiltonian Monte Carlo whose momenta persist from stage to stage (Hamiltonian annealed
/// importance sampling).
///
/// Each chain keeps its momentum p, drawn from `N(0, I)` at its first step. A step
/// 1. refreshes it in part, `p <- sqrt(1 - gamma) p + sqrt(gamma) n`, n standard normal;
/// 2. runs L leapfrog steps to `(x', p')` and accepts them with probability
///    `min(1, exp(H(x, p) - H(x', p')))`;
/// 3. goes on from `(x', p')` if accepted and from `(x, -p)` if not.
///
/// Each part leaves `p_k(x) N(p; 0, I)` invariant. The first is an autoregression whose stationary
/// law is that normal distribution. The second and third are a Metropolis test of the involution
/// "integrate, then negate p", followed by a negation. The negation restores p' where the test
/// accepts, and reverses p where it refuses.
///
/// The annealed run takes place on the pairs (x, p), along the densities `f_k(x) N(p; 0, I)`, whose
/// normalising constants are the `Z_k`. Their momentum part is the same at every stage, so that it
/// cancels from the path's log ratio, which stays `log f_k(x) - log f_{k-1}(x)`. The step as a
/// whole is not reversible, but it is invariant, so that with its reversal as backward kernel its
/// correction is 0.
///
/// With a [`Preconditioner`](Tunable::preconditioned) the momentum that a chain keeps is that of its
/// coordinates, whose law `N(0, I)` does not depend on beta.
///
/// A refusal makes the chain turn back, so that acceptance should be higher than for [`Hmc`]:
/// use smaller steps. States off the support and diverging trajectories are treated as in [`Hmc`].
///
/// Source: Sohl-Dickstein and Culpepper, Hamiltonian annealed importance sampling for partition
/// function estimation (2012); Horowitz (1991).
#[doc(alias = "HAIS")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PersistentHmc {
    leapfrog: Leapfrog,
    refreshment: f64,
}

/// The end of a trajectory and its gradient, shared by the chains of a block.
#[derive(Debug, Clone, Default)]
pub struct Trajectory {
    position: DVector<f64>,
    momentum: DVector<f64>,
    gradient: DVector<f64>,
    /// `L p`, where there is a preconditioner.
    velocity: DVector<f64>,
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

    /// The step size with which a trajectory under a standard normal distribution lasts a quarter of a period.
    fn quarter_period(&self) -> f64 {
        std::f64::consts::FRAC_PI_2 / self.steps.get() as f64
    }

    /// Density and gradient at all points of a trajectory, and the density for the weight.
    fn evaluations(&self) -> usize {
        self.steps.get().saturating_mul(2).saturating_add(3)
    }

    /// Integrates from `state` and `trajectory.momentum`, leaves the end in `trajectory` and
    /// returns `-H` at both ends, the latter `-inf` where the trajectory ends off the support.
    fn integrate<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        state: &DVector<f64>,
        trajectory: &mut Trajectory,
    ) -> Result<(f64, f64), NonFinite> {
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        trajectory.start(state);
        let here = trajectory.evaluate("log density", stage.model, factor)?;
        let here = here - trajectory.kinetic_energy();

        let size = self.step_size.at(stage.beta);
        let mut there = f64::NEG_INFINITY;
        trajectory.kick(0.5 * size);
        for step in 1..=self.steps.get() {
            trajectory.drift(size, factor);
            there = trajectory.evaluate(PROPOSAL, stage.model, factor)?;
            let last = step == self.steps.get();
            trajectory.kick(if last { 0.5 * size } else { size });
        }
        Ok((here, there - trajectory.kinetic_energy()))
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

impl Trajectory {
    fn start(&mut self, state: &DVector<f64>) {
        set_len(&mut self.position, state.len());
        set_len(&mut self.gradient, state.len());
        self.position.copy_from(state);
    }

    /// The log density at the position, which leaves the gradient.
    fn evaluate<M: Differentiable>(
        &mut self,
        quantity: &'static str,
        model: &M,
        factor: Option<&Factor>,
    ) -> Result<f64, NonFinite> {
        evaluate_along(factor, quantity, model, &self.position, &mut self.gradient)
    }

    /// `p <- p + eps grad`.
    fn kick(&mut self, size: f64) {
        add_scaled(&mut self.momentum, size, &self.gradient);
    }

    /// `x <- x + eps L p`.
    fn drift(&mut self, size: f64, factor: Option<&Factor>) {
        let Some(factor) = factor else {
            return add_scaled(&mut self.position, size, &self.momentum);
        };
        set_len(&mut self.velocity, self.momentum.len());
        self.velocity.copy_from(&self.momentum);
        factor.times(&mut self.velocity);
        add_scaled(&mut self.position, size, &self.velocity);
    }

    fn kinetic_energy(&self) -> f64 {
        0.5 * self.momentum.norm_squared()
    }
}

impl Hmc {
    /// A kernel that makes `leapfrog_steps` steps of size `step_size`, which is a number or a
    /// [`StepSize`].
    ///
    /// # Errors
    /// Where the number is not finite and positive, or there are no steps.
    pub fn new(
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        leapfrog_steps: usize,
    ) -> Result<Self> {
        let leapfrog = Leapfrog::new(step_size, leapfrog_steps)?;
        Ok(Self { leapfrog })
    }
}

impl PersistentHmc {
    /// A kernel that makes `leapfrog_steps` steps of size `step_size`, which is a number or a
    /// [`StepSize`]. `refreshment` is `gamma`, the share in (0, 1] of the momentum's variance that
    /// each step renews; 1 gives [`Hmc`].
    ///
    /// # Errors
    /// Where the number is not finite and positive, there are no steps, or `gamma` lies outside
    /// of (0, 1].
    pub fn new(
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        leapfrog_steps: usize,
        refreshment: f64,
    ) -> Result<Self> {
        Self::of(Leapfrog::new(step_size, leapfrog_steps)?, refreshment)
    }

    fn of(leapfrog: Leapfrog, refreshment: f64) -> Result<Self> {
        Error::check_positive_fraction("refreshment", refreshment)?;
        Ok(Self {
            leapfrog,
            refreshment,
        })
    }
}

impl<M: Differentiable + Intermediate> TransitionKernel<M> for Hmc {
    type Workspace = Scratch<Trajectory>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        _chain: usize,
        state: &mut DVector<f64>,
        Scratch(trajectory): &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        set_len(&mut trajectory.momentum, state.len());
        fill_normal(&mut trajectory.momentum, rng);
        let (here, there) = self.leapfrog.integrate(stage, state, trajectory)?;
        let (accepted, step) = decide(here, there, rng);
        if accepted {
            std::mem::swap(state, &mut trajectory.position);
        }
        Ok(step)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        Preconditioner::check(self.leapfrog.preconditioner.as_ref(), block.states())?;
        advance_each(self, stage, block, workspace)
    }

    fn check_model(&self, model: &M, states: &[DVector<f64>]) -> Result<()> {
        check_gradient(model, states)
    }

    fn evaluations(&self, _dimension: usize) -> usize {
        self.leapfrog.evaluations()
    }
}

own_reversal! { [M: Differentiable + Intermediate] Hmc, M }

impl<M: Differentiable + Intermediate> Invariant<M> for Hmc {}

/// The pair of position and momentum keeps its law.
impl<M: Differentiable + Intermediate> Invariant<M> for PersistentHmc {}

impl<M: Differentiable + Intermediate> TransitionKernel<M> for PersistentHmc {
    /// The trajectory, and each chain's momentum, of length 0 before the chain's first step.
    type Workspace = (Scratch<Trajectory>, PerChain<DVector<f64>>);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut DVector<f64>,
        (Scratch(trajectory), momenta): &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let momentum = momenta.of(chain);
        if momentum.len() != state.len() {
            set_len(momentum, state.len());
            fill_normal(momentum, rng);
        }
        refresh(momentum, self.refreshment, rng);
        set_len(&mut trajectory.momentum, state.len());
        trajectory.momentum.copy_from(momentum);
        let (here, there) = self.leapfrog.integrate(stage, state, trajectory)?;
        let (accepted, step) = decide(here, there, rng);
        if accepted {
            std::mem::swap(state, &mut trajectory.position);
            std::mem::swap(momentum, &mut trajectory.momentum);
        } else {
            momentum.neg_mut();
        }
        Ok(step)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<DVector<f64>>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        Preconditioner::check(self.leapfrog.preconditioner.as_ref(), block.states())?;
        advance_each(self, stage, block, workspace)
    }

    fn check_model(&self, model: &M, states: &[DVector<f64>]) -> Result<()> {
        check_gradient(model, states)
    }

    fn evaluations(&self, _dimension: usize) -> usize {
        self.leapfrog.evaluations()
    }
}

/// `p <- sqrt(1 - gamma) p + sqrt(gamma) n`, which keeps `N(0, I)`.
fn refresh<R: Rng + ?Sized>(momentum: &mut DVector<f64>, refreshment: f64, rng: &mut R) {
    let (kept, renewed) = ((1.0 - refreshment).sqrt(), refreshment.sqrt());
    let normal = StandardNormal::get();
    for p in momentum.as_mut_slice() {
        *p = kept * *p + renewed * normal.draw(rng);
    }
}

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

    /// A quarter of a period: under a standard normal distribution the end of such a trajectory does not depend
    /// on its start, while half a period ends at the start's mirror image.
    fn longest_step_size(&self) -> f64 {
        self.leapfrog.quarter_period()
    }

    /// 0.8. The best in high dimension is 0.651 (Beskos et al. 2013), but in few dimensions the acceptance
    /// falls to 0 soon beyond it, and more costs little (Betancourt, Byrne and Girolami 2014).
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

    /// As for [`Hmc`].
    fn longest_step_size(&self) -> f64 {
        self.leapfrog.quarter_period()
    }

    /// 0.9: each refusal turns the chain back, so that refusals must be rare. A rule of thumb.
    fn optimal_acceptance(&self) -> f64 {
        0.9
    }
}

crate::num::deserialize_checked! {
    PersistentHmc { leapfrog: Leapfrog, refreshment: f64 } =>
        Self::of(leapfrog, refreshment)
}
