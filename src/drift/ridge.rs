//! The joint Gaussian of a direction and its noisy projections.

use std::f64::consts::TAU;

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand::Rng;

use crate::drift::ridge_function::RidgeFunction;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::log_integral;
use crate::random::StandardNormal;
use crate::{Error, Result};

/// A direction w and one noisy projection `z_i` of it for each ridge.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RidgeState {
    /// The direction w.
    pub w: DVector<f64>,
    /// The projections z; `z_i` lies near `x_i . w`.
    pub z: DVector<f64>,
}

/// The augmented Gaussian `w ~ N(0, sigma0^2 I)`, `z_i | w ~ N(x_i . w, delta^2)`, normalised. Then
/// `w | z ~ N(S X' z / delta^2, S)` with `S = (I / sigma0^2 + X' X / delta^2)^-1`.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RidgePrior {
    design: DMatrix<f64>,
    prior_deviation: f64,
    deviation: f64,
    /// Cholesky factor of `S^-1`.
    #[cfg_attr(feature = "serde", serde(skip))]
    cholesky: Cholesky<f64, Dyn>,
}

impl RidgePrior {
    /// Creates the Gaussian for `design`, the matrix X with one row `x_i` for each ridge. The deviation sigma0 of w is
    /// `prior_deviation`, the deviation delta of the projections is `deviation`.
    ///
    /// # Errors
    /// An empty matrix; entries not finite; deviations not finite and positive, or so far apart that `S` has no factor.
    pub fn new(design: DMatrix<f64>, prior_deviation: f64, deviation: f64) -> Result<Self> {
        Error::check_positive("prior deviation", prior_deviation)?;
        Error::check_positive("deviation of the projections", deviation)?;
        Error::check_finite("design", design.iter().copied())?;
        Error::check_not_empty("design", design.len())?;
        let d = design.ncols();
        Error::check_count("entries of the precision of w", d.saturating_mul(d), 1)?;
        let precision = DMatrix::identity(d, d) / prior_deviation.powi(2)
            + design.tr_mul(&design) / deviation.powi(2);
        let cholesky = Cholesky::new(precision).ok_or_else(|| {
            let value = "a precision of w without Cholesky factor";
            Error::invalid("design", value, "deviations closer to each other")
        })?;
        Ok(Self {
            design,
            prior_deviation,
            deviation,
            cholesky,
        })
    }

    /// Returns the matrix X, with one row for each ridge.
    pub fn design(&self) -> &DMatrix<f64> {
        &self.design
    }

    /// Returns the deviation `sigma0` of w.
    pub fn prior_deviation(&self) -> f64 {
        self.prior_deviation
    }

    /// Returns the deviation `delta` of a projection given w.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// Returns the mean of w given z.
    pub(super) fn mean_direction(&self, z: &DVector<f64>) -> DVector<f64> {
        let pulls = self.design.tr_mul(z) / self.deviation.powi(2);
        self.cholesky.solve(&pulls)
    }

    /// Returns `S a`, the shift of the mean of w given z by a factor `exp(a . w)`.
    pub(super) fn shift(&self, a: &DVector<f64>) -> DVector<f64> {
        self.cholesky.solve(a)
    }

    /// Draws w given z, in place.
    pub fn sample_direction<R: Rng + ?Sized>(&self, state: &mut RidgeState, rng: &mut R) {
        let mut noise = normals(self.design.ncols(), rng);
        // With `S^-1 = L L'` the noise `L'^-1 xi` has covariance S.
        let factor = self.cholesky.l_dirty();
        let solved = factor.tr_solve_lower_triangular_mut(&mut noise);
        debug_assert!(solved, "a Cholesky factor has no zero on its diagonal");
        state.w = self.mean_direction(&state.z) + noise;
    }

    /// Returns `log E exp(scale f(u + delta xi))` with xi a standard normal: a ridge's log factor with the projection
    /// integrated out. The relative error is 1e-8, unless f has a feature narrower than a fifth of a deviation.
    ///
    /// # Errors
    /// [`Error::NotConverged`] if f is NaN, or if the quadrature takes more than about 16,000 cells.
    pub fn log_smoothed(&self, function: &impl RidgeFunction, u: f64, scale: f64) -> Result<f64> {
        let log_integrand =
            |xi: f64| scale * function.value(u + self.deviation * xi) - 0.5 * xi * xi;
        let above = scale * (function.upper_bound() - function.value(u));
        // Beyond the reach f cannot lift the integrand above e^-40 of its height at xi = 0.
        let reach = (2.0 * (above.max(0.0) + 40.0)).sqrt().ceil();
        let log_integral = log_integral(log_integrand, -reach, reach, reach as usize);
        let found = log_integral.ok_or_else(|| Error::NotConverged {
            what: "the smoothing of a ridge function",
            detail: format!(
                "at u = {u} with deviation {}; expected a function that varies less within a \
                 deviation, or `RidgeGibbs::augmented`, which does without",
                self.deviation
            ),
        })?;
        Ok(found - 0.5 * TAU.ln())
    }
}

fn normals<R: Rng + ?Sized>(len: usize, rng: &mut R) -> DVector<f64> {
    let normal = StandardNormal::get();
    DVector::from_fn(len, |_, _| normal.draw(rng))
}

impl UnnormalizedModel for RidgePrior {
    type State = RidgeState;

    fn log_density(&self, state: &RidgeState) -> f64 {
        let factor = |values: &DVector<f64>, deviation: f64| {
            let constant = values.len() as f64 * (deviation * TAU.sqrt()).ln();
            -0.5 * (values / deviation).norm_squared() - constant
        };
        let offsets = &state.z - &self.design * &state.w;
        factor(&state.w, self.prior_deviation) + factor(&offsets, self.deviation)
    }
}

impl NormalizedModel for RidgePrior {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl Sampleable for RidgePrior {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> RidgeState {
        let (n, d) = self.design.shape();
        let w = normals(d, rng) * self.prior_deviation;
        let z = &self.design * &w + normals(n, rng) * self.deviation;
        RidgeState { w, z }
    }
}

crate::num::deserialize_checked! {
    RidgePrior { design: crate::num::serial::Matrix, prior_deviation: f64, deviation: f64 } =>
        Self::new(design.0, prior_deviation, deviation)
}
