//! The geometric path between two Gaussians, with every intermediate model a Gaussian.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::Result;
use crate::model::QuadraticForm;
use crate::model::{
    Differentiable, FullConditionals, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel,
};
use crate::path::axes::CommonAxes;
use crate::path::{AnnealingPath, BetaDerivative, Intermediate};
use crate::random::StandardNormal;

/// The geometric path between two Gaussians. Precision and precision times mean are linear in
/// beta, so that each intermediate model can be sampled and has a known log Z: for perfect
/// transitions, coordinate Gibbs, and tests.
///
/// As a density it equals [`GeometricPath`](super::GeometricPath) of the same ends, constants
/// included.
///
/// The path holds the coordinates in which both ends are diagonal. A point of the path is diagonal
/// there too, so that nothing is factorised again, nothing can fail, and no large constants cancel.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPath {
    base: Gaussian,
    target: Gaussian,
    common: CommonAxes,
}

impl GaussianPath {
    /// Between two Gaussians over the same space.
    ///
    /// # Errors
    /// Where their dimensions differ, or their scales do so much that no common axes are found.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        Ok(Self {
            common: CommonAxes::new(&base, &target)?,
            base,
            target,
        })
    }

    /// The target.
    pub fn target(&self) -> &Gaussian {
        &self.target
    }

    pub(crate) fn axes(&self) -> &DMatrix<f64> {
        &self.common.axes
    }

    pub(crate) fn precisions(&self) -> &DVector<f64> {
        &self.common.precisions
    }

    pub(crate) fn shift(&self) -> &DVector<f64> {
        &self.common.shift
    }

    /// The coordinates u of a state, `V^-1 (x - mu_a)`.
    pub(crate) fn along_axes(&self, state: &DVector<f64>) -> DVector<f64> {
        let offset = state - self.base.mean();
        self.common.axes.tr_mul(&(self.base.precision() * offset))
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
        // Along each axis: -1/2 (1 - beta) u^2 - 1/2 beta lambda (u - s)^2.
        let CommonAxes {
            axes,
            precisions: lambda,
            shift,
        } = &self.common;
        let precisions = lambda.map(|l| (1.0 - beta) + beta * l);
        let pulls = lambda.component_mul(shift) * beta;
        let centre = pulls.component_div(&precisions);
        GaussianAt {
            path: self,
            beta,
            constant: -0.5
                * (1.0 - beta)
                * pulls.component_mul(shift).dot(&precisions.map(f64::recip)),
            log_normalizer: a.log_normalizer() - 0.5 * precisions.map(f64::ln).sum(),
            form: QuadraticForm::new(
                a.mean() + axes * centre,
                a.precision() * (1.0 - beta) + b.precision() * beta,
            ),
            deviations: precisions.map(|p| p.sqrt().recip()),
        }
    }
}

/// The Gaussian at one beta of a [`GaussianPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianAt<'a> {
    path: &'a GaussianPath,
    beta: f64,
    form: QuadraticForm,
    /// Standard deviations along the path's axes.
    deviations: DVector<f64>,
    /// `log f_beta` at the mean.
    constant: f64,
    /// log Z of the quadratic form.
    log_normalizer: f64,
}

impl UnnormalizedModel for GaussianAt<'_> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.constant + self.form.value(state)
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
        self.constant + self.log_normalizer
    }
}

impl Sampleable for GaussianAt<'_> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let draw = |deviation: f64| deviation * StandardNormal::get().draw(rng);
        let along_axes = self.deviations.map(draw);
        let mut state = self.form.mean().clone();
        state.gemv(1.0, &self.path.common.axes, &along_axes, 1.0);
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

impl FullConditionals for GaussianAt<'_> {
    fn coordinates(&self) -> usize {
        self.path.base.dimension()
    }

    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        self.form.sample_coordinate(state, index, rng)
    }
}
