//! The geometric path between two Gaussians, with every intermediate model a Gaussian.

use nalgebra::DVector;
use rand::Rng;

use super::{AnnealingPath, BetaDerivative, Intermediate};
use crate::error::{Error, Result};
use crate::model::{
    Differentiable, FullConditionals, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel,
};

/// The geometric path between two Gaussians. Precision and precision times mean are linear in
/// beta, so that each intermediate model can be sampled and has a known log Z: for perfect
/// transitions, coordinate Gibbs, and tests.
///
/// As a density it equals [`GeometricPath`](super::GeometricPath) of the same ends, constants
/// included.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPath {
    base: Gaussian,
    target: Gaussian,
}

impl GaussianPath {
    /// Between two Gaussians over the same space.
    ///
    /// # Errors
    /// Where their dimensions differ.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        Error::check_dimension("target", target.dimension(), base.dimension())?;
        Ok(Self { base, target })
    }

    /// The target.
    pub fn target(&self) -> &Gaussian {
        &self.target
    }
}

impl AnnealingPath for GaussianPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At<'a> = GaussianAt<'a>;

    fn base(&self) -> &Gaussian {
        &self.base
    }

    fn at(&self, beta: f64) -> GaussianAt<'_> {
        let (a, b) = (&self.base, &self.target);
        let precision = a.precision() * (1.0 - beta) + b.precision() * beta;
        let linear = a.precision() * a.mean() * (1.0 - beta) + b.precision() * b.mean() * beta;
        let model = Gaussian::from_precision_unchecked(linear, precision);
        let constant = model.half_energy_of_mean()
            - (1.0 - beta) * a.half_energy_of_mean()
            - beta * b.half_energy_of_mean();
        GaussianAt {
            path: self,
            beta,
            model,
            constant,
        }
    }
}

/// The Gaussian at one beta of a [`GaussianPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianAt<'a> {
    path: &'a GaussianPath,
    beta: f64,
    model: Gaussian,
    /// `log f_beta` at the intermediate model's mean.
    constant: f64,
}

impl GaussianAt<'_> {
    /// This model as a Gaussian of its own, equal up to a constant factor.
    pub fn gaussian(&self) -> &Gaussian {
        &self.model
    }
}

impl UnnormalizedModel for GaussianAt<'_> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.constant + self.model.log_density(state)
    }
}

impl Intermediate for GaussianAt<'_> {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, state: &DVector<f64>) -> f64 {
        (self.beta - previous.beta) * self.beta_derivative(state)
    }
}

impl BetaDerivative for GaussianAt<'_> {
    /// `log f_b(x) - log f_a(x)`.
    fn beta_derivative(&self, state: &DVector<f64>) -> f64 {
        self.path.target.log_density(state) - self.path.base.log_density(state)
    }
}

impl NormalizedModel for GaussianAt<'_> {
    fn log_normalizer(&self) -> f64 {
        self.constant + self.model.log_normalizer()
    }
}

impl Sampleable for GaussianAt<'_> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        self.model.sample(rng)
    }
}

impl Differentiable for GaussianAt<'_> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.constant + self.model.accumulate_gradient(state, scale, gradient)
    }
}

impl FullConditionals for GaussianAt<'_> {
    fn coordinates(&self) -> usize {
        self.model.coordinates()
    }

    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        self.model.sample_coordinate(state, index, rng)
    }
}
