//! Log densities of a state under the two ends of a path.

/// Log densities of a state under both ends of a path; NaN where not known.
///
/// They serve every beta of a path that blends its ends: neither a weight nor a move evaluates the state again.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ends {
    /// `log f_a(x)`.
    pub base: f64,
    /// `log f_b(x)`, or the log likelihood.
    pub target: f64,
}

impl Ends {
    /// Nothing known.
    pub const UNKNOWN: Self = Self {
        base: f64::NAN,
        target: f64::NAN,
    };

    /// Returns the same, with the base evaluated unless it is known.
    #[inline(always)]
    #[must_use]
    pub fn or_base(mut self, evaluate: impl FnOnce() -> f64) -> Self {
        if self.base.is_nan() {
            self.base = evaluate();
        }
        self
    }

    /// Returns the same, with the target evaluated unless it is known.
    #[inline(always)]
    #[must_use]
    pub fn or_target(mut self, evaluate: impl FnOnce() -> f64) -> Self {
        if self.target.is_nan() {
            self.target = evaluate();
        }
        self
    }

    /// Returns whether both log densities are known.
    #[inline(always)]
    pub fn are_known(self) -> bool {
        !self.base.is_nan() && !self.target.is_nan()
    }

    /// Keeps `log f_beta(x)` on a path that does not split it.
    #[inline(always)]
    pub(crate) fn at_beta(log_density: f64, beta: f64) -> Self {
        Self {
            base: log_density,
            target: beta,
        }
    }

    /// Returns `log f_beta(x)` if it was kept by [`at_beta`](Self::at_beta).
    #[inline(always)]
    pub(crate) fn of_beta(self, beta: f64) -> Option<f64> {
        (self.target == beta).then_some(self.base)
    }
}
