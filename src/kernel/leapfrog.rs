//! The leapfrog integrator of Hamiltonian Monte Carlo.

use std::num::NonZeroUsize;

use nalgebra::DVector;

use crate::kernel::metropolis::PROPOSAL;
use crate::kernel::preconditioner::{Factor, Preconditioner};
use crate::kernel::step_size::StepSize;
use crate::kernel::vector::{add_scaled, diverges, evaluate_along, set_len};
use crate::kernel::{NonFinite, Stage};
use crate::model::Differentiable;
use crate::path::Intermediate;
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

    /// Counts density and gradient at all points of a trajectory, and the density for the weight.
    pub(super) fn evaluations(&self) -> usize {
        self.steps.get().saturating_mul(2).saturating_add(3)
    }

    /// Integrates from `state` and `trajectory.momentum` to the end in `trajectory`. Returns `-H` at both ends; the
    /// latter is `-inf` off the support, or if it [diverges](`diverges`) to where the model is not finite.
    pub(super) fn integrate<M: Differentiable + Intermediate>(
        &self,
        stage: Stage<'_, M>,
        state: &DVector<f64>,
        trajectory: &mut Trajectory,
    ) -> Result<(f64, f64), NonFinite> {
        let factor = self.preconditioner.as_ref().map(|l| l.at(stage.beta));
        trajectory.start(state);
        let mut there = trajectory.evaluate("log density", stage.model, factor)?;
        let here = there - trajectory.kinetic_energy();

        let size = self.step_size.at(stage.beta);
        trajectory.kick(0.5 * size);
        for step in 1..=self.steps.get() {
            trajectory.drift(size, factor);
            let found = trajectory.evaluate(PROPOSAL, stage.model, factor);
            if found.is_err() && diverges(-here, trajectory.kinetic_energy() - there) {
                return Ok((here, f64::NEG_INFINITY));
            }
            there = found?;
            let last = step == self.steps.get();
            trajectory.kick(if last { 0.5 * size } else { size });
        }
        Ok((here, there - trajectory.kinetic_energy()))
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
    fn start(&mut self, state: &DVector<f64>) {
        set_len(&mut self.position, state.len());
        set_len(&mut self.gradient, state.len());
        self.position.copy_from(state);
    }

    fn evaluate<M: Differentiable>(
        &mut self,
        quantity: &'static str,
        model: &M,
        factor: Option<&Factor>,
    ) -> Result<f64, NonFinite> {
        evaluate_along(factor, quantity, model, &self.position, &mut self.gradient)
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
