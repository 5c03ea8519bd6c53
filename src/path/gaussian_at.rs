//! The Gaussian at one beta of a path between two Gaussians.

use nalgebra::DVector;
use rand::Rng;

use crate::model::{
    Differentiable, NormalizedModel, QuadraticForm, Sampleable, UnnormalizedModel, forward_model,
};
use crate::path::axes::CommonAxes;
use crate::path::moment::MomentPath;
use crate::path::view::log_difference;
use crate::path::{BetaDerivative, Intermediate};
use crate::random::StandardNormal;

/// The Gaussian at one beta of a [`GaussianPath`](super::GaussianPath) or a [`MomentPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianAt<'a> {
    pub(super) ends: &'a CommonAxes,
    /// The path, where it averages moments; geometric otherwise.
    pub(super) averaged: Option<&'a MomentPath>,
    pub(super) beta: f64,
    pub(super) form: QuadraticForm,
    /// Standard deviations along the common axes, without what the distance of the means adds
    /// where moments are averaged.
    pub(super) deviations: DVector<f64>,
    /// `log f_beta` at the mean.
    pub(super) constant: f64,
    pub(super) log_normalizer: f64,
}

forward_model! { [] GaussianAt<'_> as QuadraticForm, self => self.form; FullConditionals }

impl UnnormalizedModel for GaussianAt<'_> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.constant + self.form.log_density(state)
    }
}

impl Intermediate for GaussianAt<'_> {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, state: &DVector<f64>) -> f64 {
        match self.averaged {
            None => (self.beta - previous.beta) * self.beta_derivative(state),
            Some(_) => log_difference(self, previous, state),
        }
    }
}

impl BetaDerivative for GaussianAt<'_> {
    /// `log f_b(x) - log f_a(x)` on the geometric path. Where moments are averaged,
    /// `r . mu' + r' Sigma' r / 2` with `r = Sigma^-1 (x - mu)` and the derivatives in beta
    /// `mu' = mu_b - mu_a`, `Sigma' = Sigma_b - Sigma_a + (1 - 2 beta) mu' mu'^T`.
    fn beta_derivative(&self, state: &DVector<f64>) -> f64 {
        let Some(path) = self.averaged else {
            return self.ends.target.log_density(state) - self.ends.base.log_density(state);
        };
        let mut r = DVector::zeros(state.len());
        self.form.accumulate_gradient(state, -1.0, &mut r);
        let along = r.dot(&path.difference);
        let widening = r.dot(&(&path.widening * &r));
        along + 0.5 * (widening + (1.0 - 2.0 * self.beta) * along * along)
    }
}

impl NormalizedModel for GaussianAt<'_> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for GaussianAt<'_> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let normal = StandardNormal::get();
        let mut along_axes = self
            .deviations
            .map(|deviation| deviation * normal.draw(rng));
        if self.averaged.is_some() {
            let spread = (self.beta * (1.0 - self.beta)).sqrt();
            along_axes.axpy(spread * normal.draw(rng), &self.ends.shift, 1.0);
        }
        let mut state = self.form.mean().clone();
        state.gemv(1.0, &self.ends.axes, &along_axes, 1.0);
        state
    }
}

impl Differentiable for GaussianAt<'_> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.constant + self.form.accumulate_gradient(state, scale, gradient)
    }
}
