//! The leapfrog integrator of Hamiltonian Monte Carlo.

use std::num::NonZeroUsize;

use nalgebra::DVector;
use rand::Rng;

use crate::kernel::graded::{Graded, evaluate_ends};
use crate::kernel::metropolis::{PROPOSAL, decide};
use crate::kernel::preconditioner::{Factor, Preconditioner};
use crate::kernel::step_size::StepSize;
use crate::kernel::trajectories::Integration;
use crate::kernel::vector::{add_scaled, diverges, evaluate, set_len, turn};
use crate::kernel::{Increment, NonFinite, Stage};
use crate::model::Differentiable;
use crate::path::{EndGradients, Intermediate};
use crate::{Error, Result};

/// The leapfrog integrator of `H(x, p) = -log f(x) + |p|^2 / 2`, with unit mass. With a preconditioner L the
/// equations are `dx/dt = L p`, `dp/dt = L^T grad log f(x)`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Leapfrog {
    pub(super) step_size: StepSize,
    pub(super) steps: NonZeroUsize,
    pub(super) preconditioner: Option<Preconditioner>,
}

/// The end of a trajectory and its gradient, a buffer that the chains of a block share.
#[derive(Debug, Clone, Default)]
pub struct Trajectory {
    pub(super) position: DVector<f64>,
    pub(super) momentum: DVector<f64>,
    pub(super) gradient: DVector<f64>,
    /// `L p`, if there is a preconditioner.
    pub(super) velocity: DVector<f64>,
    /// Log density and gradients at the end, the latter at the ends of the path.
    pub(super) log_density: f64,
    pub(super) ends: EndGradients,
}

impl Leapfrog {
    pub(super) fn new(
        step_size: impl TryInto<StepSize, Error: Into<Error>>,
        steps: usize,
    ) -> Result<Self> {
        let steps = Error::check_nonzero("leapfrog steps", steps)?;
        let step_size = step_size.try_into().map_err(Into::into)?;
        Ok(Self {
            step_size,
            steps,
            preconditioner: None,
        })
    }

    /// Returns the step size for trajectories of a quarter period under a standard normal distribution.
    pub(super) fn quarter_period(&self) -> f64 {
        std::f64::consts::FRAC_PI_2 / self.steps.get() as f64
    }

    /// Returns the steps at a stage, for chains that move together.
    pub(super) fn at(&self, beta: f64) -> Integration<'_> {
        Integration {
            size: self.step_size.at(beta),
            steps: self.steps.get(),
            factor: self.preconditioner.as_ref().map(|l| l.at(beta)),
        }
    }

    /// Weighs a state and moves it along a trajectory, from the momentum that `draw` writes. Returns whether the end was
    /// accepted; its momentum is in `trajectory`.
    pub(super) fn move_from<M: Differentiable + Intermediate, R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        (state, mut known): (&mut DVector<f64>, Graded<'_>),
        trajectory: &mut Trajectory,
        draw: impl FnOnce(&mut DVector<f64>, &mut R),
        rng: &mut R,
    ) -> Result<(bool, Increment), NonFinite> {
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        let (log_ratio, here) = known.weigh(stage, factor, state, &mut trajectory.gradient)?;
        set_len(&mut trajectory.momentum, state.len());
        draw(&mut trajectory.momentum, rng);
        let (here, there) = self.integrate(stage, (here, state), trajectory)?;
        let (accepted, step) = decide(here, there, rng);
        if accepted {
            std::mem::swap(state, &mut trajectory.position);
            known.arrive(stage, trajectory.log_density, &mut trajectory.ends);
        }
        Ok((accepted, Increment::new(log_ratio, step)))
    }

    /// Integrates from `state` of log density `here`, and from momentum and gradient in `trajectory`, to the end there.
    /// Returns `-H` at both ends; the latter is `-inf` off the support, or if it [diverges](`diverges`) to where the
    /// model is not finite.
    fn integrate<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        (here, state): (f64, &DVector<f64>),
        trajectory: &mut Trajectory,
    ) -> Result<(f64, f64), NonFinite> {
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        trajectory.start(here, state);
        let here = here - trajectory.kinetic_energy();

        let size = self.step_size.at(stage.beta);
        trajectory.kick(0.5 * size);
        for step in 1..=self.steps.get() {
            trajectory.drift(size, factor);
            let last = step == self.steps.get();
            let left = trajectory.log_density;
            let found = trajectory.evaluate(stage.model, factor, last);
            if found.is_err() && diverges(-here, trajectory.kinetic_energy() - left) {
                return Ok((here, f64::NEG_INFINITY));
            }
            trajectory.log_density = found?;
            trajectory.kick(if last { 0.5 * size } else { size });
        }
        let there = trajectory.log_density - trajectory.kinetic_energy();
        Ok((here, there))
    }

    pub(super) fn with_step_size(&self, step_size: StepSize) -> Self {
        Self {
            step_size,
            ..self.clone()
        }
    }

    pub(super) fn preconditioned(&self, preconditioner: Preconditioner) -> Self {
        Self {
            preconditioner: Some(preconditioner),
            ..self.clone()
        }
    }
}

impl Trajectory {
    fn start(&mut self, log_density: f64, state: &DVector<f64>) {
        set_len(&mut self.position, state.len());
        self.position.copy_from(state);
        self.log_density = log_density;
    }

    fn evaluate<M: Differentiable + Intermediate>(
        &mut self,
        model: &M,
        factor: Option<&Factor>,
        last: bool,
    ) -> Result<f64, NonFinite> {
        let (position, gradient) = (&self.position, &mut self.gradient);
        if last {
            return evaluate_ends(PROPOSAL, model, factor, position, &mut self.ends, gradient);
        }
        let log_density = evaluate(PROPOSAL, model, position, gradient)?;
        turn(factor, position, gradient)?;
        Ok(log_density)
    }

    fn kick(&mut self, size: f64) {
        add_scaled(&mut self.momentum, size, &self.gradient);
    }

    /// Computes `x <- x + eps L p`.
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
