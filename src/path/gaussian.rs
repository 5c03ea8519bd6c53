//! Paths between two Gaussians, geometric and moment-averaged, and the axes along which both ends are diagonal.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::Rng;

use crate::model::{
    Differentiable, Gaussian, NormalizedModel, QuadraticForm, Sampleable, UnnormalizedModel,
    forward_model,
};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, ratio_given};
use crate::random::StandardNormal;
use crate::{Error, Result};

/// The largest dimension; a matrix then takes 2 GiB.
const LARGEST: usize = 1 << 14;

/// The geometric path between two Gaussians. Its densities equal those of a [`GeometricPath`](super::GeometricPath)
/// between the same ends, constants included.
///
/// Every intermediate model is a Gaussian, whose precision and precision times mean are linear in beta. It can be
/// sampled exactly and its log Z is known. Perfect transitions, coordinate Gibbs and tests use this.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianPath {
    pub(crate) ends: Arc<CommonAxes>,
}

impl GaussianPath {
    /// Creates the path between two Gaussians over the same space.
    ///
    /// # Errors
    /// Dimensions that differ or exceed 16,384; ends whose scales differ so much that no common axes are found; means
    /// so far apart that log densities overflow.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        Ok(Self {
            ends: CommonAxes::new(base, target)?.into(),
        })
    }

    /// Returns the target.
    pub fn target(&self) -> &Gaussian {
        &self.ends.target
    }
}

impl AnnealingPath for GaussianPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = GaussianAt;

    fn base(&self) -> &Gaussian {
        &self.ends.base
    }

    fn at(&self, beta: f64) -> GaussianAt {
        // Along each axis: -1/2 (1 - beta) u^2 - 1/2 beta lambda (u - s)^2.
        let (ends, shift) = (&self.ends, &self.ends.shift);
        let (a, b) = (&ends.base, &ends.target);
        let precisions = ends.precisions.map(|l| (1.0 - beta) + beta * l);
        let pulls = ends.precisions.component_mul(shift) * beta;
        let centre = pulls.component_div(&precisions);
        let apart = pulls.component_mul(shift).dot(&precisions.map(f64::recip));
        let constant = -0.5 * (1.0 - beta) * apart;
        let (p, q) = (a.form().precision(), b.form().precision());
        let precision = p.blend(1.0 - beta, beta, q);
        GaussianAt {
            ends: Arc::clone(&self.ends),
            averaged: None,
            beta,
            constant,
            log_normalizer: constant + (a.log_normalizer() - 0.5 * precisions.map(f64::ln).sum()),
            form: QuadraticForm::new(a.mean() + &ends.axes * centre, precision),
            deviations: precisions.map(|p| p.sqrt().recip()),
        }
    }
}

/// The Gaussian at one beta of a [`GaussianPath`](super::GaussianPath) or a [`MomentPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianAt {
    pub(super) ends: Arc<CommonAxes>,
    /// The matrices that moment averaging needs; `None` on the geometric path.
    pub(super) averaged: Option<Arc<Averaging>>,
    pub(super) beta: f64,
    pub(super) form: QuadraticForm,
    /// Standard deviations along the common axes, without the spread of the means that a [`MomentPath`] adds.
    pub(super) deviations: DVector<f64>,
    /// `log f_beta` at the mean.
    pub(super) constant: f64,
    pub(super) log_normalizer: f64,
}

forward_model! { [] GaussianAt as QuadraticForm, self => self.form; FullConditionals }

impl UnnormalizedModel for GaussianAt {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.constant + self.form.log_density(state)
    }
}

impl Intermediate for GaussianAt {
    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, state: &DVector<f64>) -> f64 {
        match &self.averaged {
            None => (self.beta - previous.beta) * self.beta_derivative(state),
            Some(_) => ratio_given(previous, state, self.log_density(state), None),
        }
    }

    fn log_ratio_given(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        here: f64,
        before: Option<f64>,
    ) -> f64 {
        match &self.averaged {
            None => self.log_ratio(previous, state),
            Some(_) => ratio_given(previous, state, here, before),
        }
    }
}

impl BetaDerivative for GaussianAt {
    /// Returns `log f_b(x) - log f_a(x)` on the geometric path. With averaged moments it is
    /// `r . mu' + r' Sigma' r / 2`, where `r = Sigma^-1 (x - mu)`, `mu' = mu_b - mu_a`,
    /// `Sigma' = Sigma_b - Sigma_a + (1 - 2 beta) mu' mu'^T`.
    fn beta_derivative(&self, state: &DVector<f64>) -> f64 {
        let Some(averaged) = &self.averaged else {
            return self.ends.target.log_density(state) - self.ends.base.log_density(state);
        };
        let mut r = DVector::zeros(state.len());
        self.form.accumulate_gradient(state, -1.0, &mut r);
        let along = r.dot(&averaged.difference);
        let widening = r.dot(&(&averaged.widening * &r));
        along + 0.5 * (widening + (1.0 - 2.0 * self.beta) * along * along)
    }
}

impl NormalizedModel for GaussianAt {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for GaussianAt {
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

impl Differentiable for GaussianAt {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.constant + self.form.accumulate_gradient(state, scale, gradient)
    }
}

/// The ends of a path, with the coordinates u of `x = mu_a + V u`. In these coordinates the base is `N(0, I)` and the
/// target has a diagonal precision. The models in between need no factorisation, so nothing can fail and no large
/// constants cancel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CommonAxes {
    pub(super) base: Gaussian,
    pub(super) target: Gaussian,
    /// V, with `V' P_a V = I` and `V' P_b V = diag(lambda)`, for the precisions P of the ends.
    pub(crate) axes: DMatrix<f64>,
    /// lambda, the precisions of the target along the axes.
    pub(crate) precisions: DVector<f64>,
    /// `V^-1 (mu_b - mu_a)`.
    pub(crate) shift: DVector<f64>,
}

impl CommonAxes {
    pub(super) fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        let dimension = base.dimension();
        Error::check_dimension("target", target.dimension(), dimension)?;
        let expected = format!("at most {LARGEST}, since axes are matrices");
        Error::check(dimension <= LARGEST, "dimension", dimension, expected)?;
        let factor = base.factor().to_dense();
        let relative = factor.transpose() * target.precision() * &factor;
        let eigen = SymmetricEigen::try_new(relative, f64::EPSILON, 100 * dimension)
            .ok_or_else(|| not_diagonalized("the iteration ran out of sweeps"))?;
        let bad = |l: &&f64| !(l.is_finite() && **l > 0.0);
        if let Some(bad) = eigen.eigenvalues.iter().find(bad) {
            let detail = format!("a precision ratio came out as {bad}");
            return Err(not_diagonalized(&detail));
        }
        let axes = factor * eigen.eigenvectors;
        let shift = axes.tr_mul(&base.precision()) * (target.mean() - base.mean());
        let apart = shift.norm_squared() + shift.component_mul(&eigen.eigenvalues).dot(&shift);
        let found = "a mean so far from that of the base that log densities overflow";
        let expected = "a mean nearer to that of the base";
        Error::check(apart.is_finite(), "target", found, expected)?;
        Ok(Self {
            shift,
            axes,
            precisions: eigen.eigenvalues,
            base,
            target,
        })
    }

    /// Returns the coordinates u of a state, `V^-1 (x - mu_a)`.
    pub(crate) fn coordinates(&self, state: &DVector<f64>) -> DVector<f64> {
        let offset = state - self.base.mean();
        let pull = self.base.form().precision().times(&offset);
        self.axes.tr_mul(&pull)
    }
}

fn not_diagonalized(detail: &str) -> Error {
    Error::NotConverged {
        what: "the common axes of base and target",
        detail: detail.into(),
    }
}

/// Greatest distance of the means, in standard deviations of the narrower end.
const FARTHEST: f64 = 1e6;

/// The moment-averaged path between two Gaussians (Grosse, Maddison and Salakhutdinov 2013, equations 9 and 10). Its
/// models are the Gaussians whose moments `E[x]`, `E[x x']` are linear in beta,
///
/// `mu(beta) = (1 - beta) mu_a + beta mu_b`,
/// `Sigma(beta) = (1 - beta) Sigma_a + beta Sigma_b + beta (1 - beta) (mu_b - mu_a)(mu_b - mu_a)'`.
///
/// Halfway the model covers both ends, while the geometric path between narrow, distant Gaussians covers neither. Each
/// density has the constant of [`Gaussian`]: `log f` is 0 at the mean. For other exponential families use the
/// [`MomentSplinePath`](super::MomentSplinePath).
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::estimate::LogZ;
/// use annealed::kernel::CoordinateGibbs;
/// use annealed::model::{Gaussian, NormalizedModel};
/// use annealed::path::MomentPath;
/// use nalgebra::{dmatrix, dvector};
///
/// let base = Gaussian::new(dvector![-5.0, 0.0], dmatrix![1.0, -0.85; -0.85, 1.0])?;
/// let target = Gaussian::new(dvector![5.0, 0.0], dmatrix![1.0, 0.85; 0.85, 1.0])?;
/// let path = MomentPath::new(base, target.clone())?;
/// let run = Ais::new(&path, CoordinateGibbs::systematic()).seed(1).run()?;
/// let error = run.log_z() - target.log_normalizer();
/// assert!(error.abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias("moment averaging", "averaged moments"))]
#[derive(Debug, Clone, PartialEq)]
pub struct MomentPath {
    ends: Arc<CommonAxes>,
    averaging: Arc<Averaging>,
}

/// The matrices that moment averaging needs in addition to the [`CommonAxes`].
#[derive(Debug, PartialEq)]
pub(super) struct Averaging {
    /// `V^-1 = V' P_a`, with V the common axes.
    inverse: DMatrix<f64>,
    /// `mu_b - mu_a`.
    difference: DVector<f64>,
    /// `Sigma_b - Sigma_a`.
    widening: DMatrix<f64>,
}

impl MomentPath {
    /// Creates the path between two Gaussians over the same space.
    ///
    /// # Errors
    /// Dimensions that differ or exceed 16,384; ends whose scales differ so much that no common axes are found; means
    /// more than 1e6 standard deviations apart.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        let ends = CommonAxes::new(base, target)?;
        let deviations = ends.shift.iter().zip(&ends.precisions);
        let apart = deviations
            .map(|(shift, precision)| shift.abs() * precision.max(1.0).sqrt())
            .fold(0.0, f64::max);
        let found = format!("a mean {apart:.1e} standard deviations from that of the base");
        let expected = format!("at most {FARTHEST:.0e}");
        Error::check(apart <= FARTHEST, "target", found, expected)?;
        let averaging = Averaging {
            inverse: ends.axes.tr_mul(&ends.base.precision()),
            difference: ends.target.mean() - ends.base.mean(),
            widening: ends.target.covariance() - ends.base.covariance(),
        };
        Ok(Self {
            ends: ends.into(),
            averaging: averaging.into(),
        })
    }

    /// Returns the target.
    pub fn target(&self) -> &Gaussian {
        &self.ends.target
    }
}

impl AnnealingPath for MomentPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At = GaussianAt;

    fn base(&self) -> &Gaussian {
        &self.ends.base
    }

    /// Inverts the covariance along the common axes, `diag(1 - beta + beta / lambda) + beta (1 - beta) s s'` with the
    /// shift s of the means, by the formula of Sherman and Morrison.
    fn at(&self, beta: f64) -> GaussianAt {
        let shift = &self.ends.shift;
        let variances = self.ends.precisions.map(|l| (1.0 - beta) + beta / l);
        let spread = beta * (1.0 - beta);
        let pull = shift.component_div(&variances);
        let stretch = 1.0 + spread * shift.dot(&pull);
        let scaled = DMatrix::from_fn(shift.len(), shift.len(), |i, j| {
            self.averaging.inverse[(i, j)] / variances[i].sqrt()
        });
        let mut precision = scaled.tr_mul(&scaled);
        let pull = self.averaging.inverse.tr_mul(&pull);
        precision.ger(-spread / stretch, &pull, &pull, 1.0);
        // The density uses the entries below the diagonal, the gradient uses all. Rounding must not make them differ.
        precision.fill_upper_triangle_with_lower_triangle();
        GaussianAt {
            ends: Arc::clone(&self.ends),
            averaged: Some(Arc::clone(&self.averaging)),
            beta,
            constant: 0.0,
            // log |Sigma| by the matrix determinant lemma.
            log_normalizer: self.ends.base.log_normalizer()
                + 0.5 * (variances.map(f64::ln).sum() + stretch.ln()),
            form: QuadraticForm::new(
                self.ends.base.mean() + &self.averaging.difference * beta,
                precision.into(),
            ),
            deviations: variances.map(f64::sqrt),
        }
    }
}
