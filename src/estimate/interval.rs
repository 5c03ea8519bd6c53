//! The confidence interval of log Z. Its upper bound is corrected for the skewness of the weights
//! and widened where they have a heavy tail.
//!
//! `docs/intervals.md` compares it with the usual intervals.

use super::{Estimate, quantile};

/// The Pareto shape above which the upper bound is widened. This and [`WIDENING`] are calibrated
/// on the problems of `examples/coverage.rs`.
const LIGHT_TAIL: f64 = 0.3;
/// How fast the upper bound widens with the Pareto shape.
const WIDENING: f64 = 6.0;

impl Estimate {
    /// How far the bounds of the given level lie below and above the estimate, on the log scale.
    pub(super) fn offsets(&self, level: f64) -> (f64, f64) {
        // The weights say no more than ESS equal ones would.
        let dof = (self.effective_sample_size() - 1.0).max(1.0);
        let t = quantile::student(0.5 + 0.5 * level, dof);
        let above = self.widening() * self.standard_error() * self.skewed(t);
        (t * self.standard_error(), above.ln_1p())
    }

    /// `-g^-1(-t)` for Hall's (1992) cubic `g(T) = T + a T^2 + a^2 T^3 / 3 + b`, which removes
    /// the skewness of a studentised mean; `a = skewness / (3 sqrt n)`, `b = a / 2`.
    fn skewed(&self, t: f64) -> f64 {
        let a = self.skewness / (3.0 * (self.chains as f64).sqrt());
        let shifted = t + 0.5 * a;
        if a.abs() < 1e-6 {
            return shifted.max(0.0);
        }
        ((1.0 - (1.0 - 3.0 * a * shifted).cbrt()) / a).max(0.0)
    }

    /// The factor by which a heavy tail widens the upper side. The lower side needs none: the large
    /// weights that no chain happened to draw make the true mean larger, never smaller.
    fn widening(&self) -> f64 {
        let k = self.pareto_shape.unwrap_or(0.0).min(1.0);
        1.0 + WIDENING * (k - LIGHT_TAIL).max(0.0)
    }
}
