//! The moment-averaged path between two Gaussians.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::model::QuadraticForm;
use crate::model::{
    Differentiable, FullConditionals, Gaussian, NormalizedModel, Sampleable, UnnormalizedModel,
};
use crate::path::axes::{CommonAxes, inverse};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate};
use crate::random::StandardNormal;
use crate::{Error, Result};

/// The farthest that the means may lie apart, in standard deviations of the narrower end.
const FARTHEST: f64 = 1e6;

/// The moment-averaged path between two Gaussians (Grosse, Maddison and Salakhutdinov 2013,
/// equations 9 and 10): the Gaussians whose moments `E[x]`, `E[x x']` are linear in beta,
///
/// `mu(beta) = (1 - beta) mu_a + beta mu_b`,
/// `Sigma(beta) = (1 - beta) Sigma_a + beta Sigma_b + beta (1 - beta) (mu_b - mu_a)(mu_b - mu_a)'`.
///
/// Halfway it covers both ends, where the geometric path between two narrow, distant Gaussians
/// passes through a narrow one that covers neither.
///
/// Each intermediate density carries the constant of [`Gaussian`]: `log f` is 0 at the mean. Any
/// constant `c(beta)` that vanishes at both ends gives the same weights, because in a run the
/// increments `c(beta_k) - c(beta_{k-1})` add up to `c(1) - c(0) = 0`.
///
/// For other exponential families see [`MomentSplinePath`](super::MomentSplinePath); with a knot
/// at each stage of the schedule it visits moment-averaged models only.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::kernel::CoordinateGibbs;
/// use annealed::model::Gaussian;
/// use annealed::path::MomentPath;
/// use annealed::model::NormalizedModel;
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
#[derive(Debug, Clone, PartialEq)]
pub struct MomentPath {
    base: Gaussian,
    target: Gaussian,
    common: CommonAxes,
    /// `V^-1` of the common axes V.
    inverse: DMatrix<f64>,
    /// `mu_b - mu_a`.
    difference: DVector<f64>,
    /// `Sigma_b - Sigma_a`.
    widening: DMatrix<f64>,
}

impl MomentPath {
    /// Between two Gaussians over the same space.
    ///
    /// # Errors
    /// Where their dimensions differ, their scales do so much that no common axes are found, or
    /// their means lie more than 1e6 standard deviations apart.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        let common = CommonAxes::new(&base, &target)?;
        let apart = (0..base.dimension())
            .map(|i| common.shift[i].abs() * common.precisions[i].max(1.0).sqrt())
            .fold(0.0, f64::max);
        if apart > FARTHEST {
            return Err(Error::invalid(
                "target",
                format!("a mean {apart:.1e} standard deviations from that of the base"),
                format!("at most {FARTHEST:.0e}"),
            ));
        }
        Ok(Self {
            inverse: inverse(&common.axes, &base),
            difference: target.mean() - base.mean(),
            widening: target.covariance() - base.covariance(),
            common,
            base,
            target,
        })
    }

    /// The target.
    pub fn target(&self) -> &Gaussian {
        &self.target
    }
}

impl AnnealingPath for MomentPath {
    type State = DVector<f64>;
    type Base = Gaussian;
    type At<'a> = MomentAt<'a>;

    fn base(&self) -> &Gaussian {
        &self.base
    }

    /// Along the common axes the covariance is `diag(1 - beta + beta / lambda) + beta (1 - beta)
    /// s s'`, which the formula of Sherman and Morrison inverts.
    fn at(&self, beta: f64) -> MomentAt<'_> {
        let shift = &self.common.shift;
        let variances = self.common.precisions.map(|l| (1.0 - beta) + beta / l);
        let spread = beta * (1.0 - beta);
        let pull = shift.component_div(&variances);
        let stretch = 1.0 + spread * shift.dot(&pull);
        let scaled = DMatrix::from_fn(shift.len(), shift.len(), |i, j| {
            self.inverse[(i, j)] / variances[i].sqrt()
        });
        let mut precision = scaled.tr_mul(&scaled);
        let pull = self.inverse.tr_mul(&pull);
        precision.ger(-spread / stretch, &pull, &pull, 1.0);
        precision.fill_upper_triangle_with_lower_triangle();
        MomentAt {
            path: self,
            beta,
            log_normalizer: self.base.log_normalizer()
                + 0.5 * (variances.map(f64::ln).sum() + stretch.ln()),
            form: QuadraticForm::new(self.base.mean() + &self.difference * beta, precision),
            deviations: variances.map(f64::sqrt),
        }
    }
}

/// The Gaussian at one beta of a [`MomentPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct MomentAt<'a> {
    path: &'a MomentPath,
    beta: f64,
    form: QuadraticForm,
    /// Standard deviations along the common axes, without what the means' distance adds.
    deviations: DVector<f64>,
    log_normalizer: f64,
}

impl UnnormalizedModel for MomentAt<'_> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.form.value(state)
    }
}

impl Intermediate for MomentAt<'_> {
    fn beta(&self) -> f64 {
        self.beta
    }
}

impl BetaDerivative for MomentAt<'_> {
    /// `r . mu' + r' Sigma' r / 2` with `r = Sigma^-1 (x - mu)` and the derivatives in beta
    /// `mu' = mu_b - mu_a`, `Sigma' = Sigma_b - Sigma_a + (1 - 2 beta) mu' mu'^T`.
    fn beta_derivative(&self, state: &DVector<f64>) -> f64 {
        let mut r = DVector::zeros(state.len());
        self.form.accumulate_gradient(state, -1.0, &mut r);
        let along = r.dot(&self.path.difference);
        let widening = r.dot(&(&self.path.widening * &r));
        along + 0.5 * (widening + (1.0 - 2.0 * self.beta) * along * along)
    }
}

impl NormalizedModel for MomentAt<'_> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl Sampleable for MomentAt<'_> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let common = &self.path.common;
        let draw = |deviation: f64| deviation * StandardNormal::get().draw(rng);
        let mut along_axes = self.deviations.map(draw);
        let spread = (self.beta * (1.0 - self.beta)).sqrt();
        let noise = StandardNormal::get().draw(rng);
        along_axes.axpy(spread * noise, &common.shift, 1.0);
        let mut state = self.form.mean().clone();
        state.gemv(1.0, &common.axes, &along_axes, 1.0);
        state
    }
}

impl Differentiable for MomentAt<'_> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.form.accumulate_gradient(state, scale, gradient)
    }
}

impl FullConditionals for MomentAt<'_> {
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
