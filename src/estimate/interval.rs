//! The confidence interval of log Z. Its upper bound is corrected for the skewness of the weights
//! and widened where they may have a heavy tail or where few of them carry the sum.
//!
//! `docs/intervals.md` says how often it holds the true value.

use super::{Estimate, quantile};

/// Between these Pareto shapes the upper bound widens from its own width to [`HEAVY`] times that.
/// The figures of this file are calibrated on weights of known mean: log-normal, log-gamma, and those of
/// annealed runs to targets with light and heavy tails, 50 to 1,000 chains each.
const SHAPES: (f64, f64) = (0.35, 0.65);
/// The factor for a heavy tail.
const HEAVY: f64 = 3.0;
/// The effective sample size at which the upper bound widens twofold; with islands, as far as their weights are uneven.
const FEW: f64 = 15.0;

/// Returns the allowance for chance in a Pareto shape fitted to the weights of `chains` chains.
pub(super) fn margin(chains: usize) -> f64 {
    1.5 / (chains as f64).sqrt()
}

impl Estimate {
    /// Returns the distances of the bounds of the given level below and above the estimate, on the log scale.
    pub(super) fn offsets(&self, level: f64) -> (f64, f64) {
        // The weights say no more than ESS equal ones would.
        let dof = (self.effective_sample_size() - 1.0).max(1.0);
        let t = quantile::student(0.5 + 0.5 * level, dof);
        let above = self.widening() * self.standard_error() * self.skewed(t);
        (t * self.standard_error(), above.ln_1p())
    }

    /// Returns `-g^-1(-t)` for Hall's (1992) cubic `g(T) = T + a T^2 + a^2 T^3 / 3 + b`, which removes
    /// the skewness of a studentised mean; `a = skewness / (3 sqrt n)`, `b = a / 2`.
    fn skewed(&self, t: f64) -> f64 {
        let a = self.skewness / (3.0 * (self.units as f64).sqrt());
        let shifted = t + 0.5 * a;
        if a.abs() < 1e-6 {
            return shifted.max(0.0);
        }
        ((1.0 - (1.0 - 3.0 * a * shifted).cbrt()) / a).max(0.0)
    }

    /// Returns the factor by which the upper side widens: large weights that no chain happened to draw make the true
    /// mean larger, never smaller. It ends at [`HEAVY`], because a run that lacks the large weights has a smaller
    /// shape than one that has them.
    fn widening(&self) -> f64 {
        let (light, heavy) = SHAPES;
        let shape = self.pareto_shape.map_or(light, |k| k + margin(self.units));
        let heaviness = ((shape - light) / (heavy - light)).clamp(0.0, 1.0);
        let few = (FEW / self.effective_sample_size()).powi(2);
        // Islands of about the same weight do not lack a large one.
        let uneven = match self.is_of_islands() {
            true => self.relative_variance.min(1.0),
            false => 1.0,
        };
        (1.0 + (HEAVY - 1.0) * heaviness) * (1.0 + few * uneven)
    }
}
