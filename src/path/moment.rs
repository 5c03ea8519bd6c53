//! The moment-averaged path between two Gaussians.

use nalgebra::{DMatrix, DVector};

use crate::model::{Gaussian, NormalizedModel, QuadraticForm};
use crate::path::gaussian::CommonAxes;
use crate::path::{AnnealingPath, GaussianAt};
use crate::{Error, Result};

/// Greatest distance of the means, in standard deviations of the narrower end.
const FARTHEST: f64 = 1e6;

/// The moment-averaged path between two Gaussians (Grosse, Maddison and Salakhutdinov 2013, equations 9 and 10). Its
/// models are the Gaussians whose moments `E[x]`, `E[x x']` are linear in beta,
///
/// `mu(beta) = (1 - beta) mu_a + beta mu_b`,
/// `Sigma(beta) = (1 - beta) Sigma_a + beta Sigma_b + beta (1 - beta) (mu_b - mu_a)(mu_b - mu_a)'`.
///
/// Halfway the model covers both ends, while the geometric path between narrow, distant Gaussians covers neither.
/// Each density carries the constant of [`Gaussian`]: `log f` is 0 at the mean. For other exponential families take
/// the [`MomentSplinePath`](super::MomentSplinePath).
///
/// ```
/// use annealed::ais::Ais;
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
#[derive(Debug, Clone, PartialEq)]
pub struct MomentPath {
    ends: CommonAxes,
    /// `V^-1 = V' P_a`, with V the common axes.
    inverse: DMatrix<f64>,
    /// `mu_b - mu_a`.
    pub(super) difference: DVector<f64>,
    /// `Sigma_b - Sigma_a`.
    pub(super) widening: DMatrix<f64>,
}

impl MomentPath {
    /// Creates the path between two Gaussians over the same space.
    ///
    /// # Errors
    /// If their dimensions differ or exceed 16,384, no common axes are found because their scales differ too much, or
    /// their means lie more than 1e6 standard deviations apart.
    pub fn new(base: Gaussian, target: Gaussian) -> Result<Self> {
        let ends = CommonAxes::new(base, target)?;
        let deviations = ends.shift.iter().zip(&ends.precisions);
        let apart = deviations
            .map(|(shift, precision)| shift.abs() * precision.max(1.0).sqrt())
            .fold(0.0, f64::max);
        let found = format!("a mean {apart:.1e} standard deviations from that of the base");
        let expected = format!("at most {FARTHEST:.0e}");
        Error::check(apart <= FARTHEST, "target", found, expected)?;
        Ok(Self {
            inverse: ends.axes.tr_mul(&ends.base.precision()),
            difference: ends.target.mean() - ends.base.mean(),
            widening: ends.target.covariance() - ends.base.covariance(),
            ends,
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
    type At<'a> = GaussianAt<'a>;

    fn base(&self) -> &Gaussian {
        &self.ends.base
    }

    /// Inverts the covariance along the common axes, `diag(1 - beta + beta / lambda) + beta (1 - beta) s s'`, by the
    /// formula of Sherman and Morrison.
    fn at(&self, beta: f64) -> GaussianAt<'_> {
        let shift = &self.ends.shift;
        let variances = self.ends.precisions.map(|l| (1.0 - beta) + beta / l);
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
        GaussianAt {
            ends: &self.ends,
            averaged: Some(self),
            beta,
            constant: 0.0,
            log_normalizer: self.ends.base.log_normalizer()
                + 0.5 * (variances.map(f64::ln).sum() + stretch.ln()),
            form: QuadraticForm::new(
                self.ends.base.mean() + &self.difference * beta,
                precision.into(),
            ),
            deviations: variances.map(f64::sqrt),
        }
    }
}
