//! Log densities of a state, and their gradients, under the two ends of a path.

use nalgebra::{DMatrixViewMut, DVector};

use super::Differentiable;

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

/// Log density and gradient of a state under one end of a path; a log density of NaN where they are not known.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EndGradient {
    pub(crate) log_density: f64,
    pub(crate) gradient: DVector<f64>,
}

impl Default for EndGradient {
    fn default() -> Self {
        Self {
            log_density: f64::NAN,
            gradient: DVector::zeros(0),
        }
    }
}

impl EndGradient {
    pub(crate) fn is_known(&self) -> bool {
        !self.log_density.is_nan()
    }

    /// Evaluates the end at `state` unless it is known, and returns its log density.
    pub fn or_evaluate(&mut self, end: &impl Differentiable, state: &DVector<f64>) -> f64 {
        if !self.is_known() {
            if self.gradient.len() != state.len() {
                self.gradient = DVector::zeros(state.len());
            }
            self.log_density = end.gradient_into(state, &mut self.gradient);
        }
        self.log_density
    }
}

/// [`EndGradient`]s of a state under both ends of a path.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EndGradients {
    /// Under the base.
    pub base: EndGradient,
    /// Under the target, or of the log likelihood.
    pub target: EndGradient,
}

impl EndGradients {
    /// Forgets both ends, and keeps their buffers.
    pub(crate) fn forget(&mut self) {
        self.base.log_density = f64::NAN;
        self.target.log_density = f64::NAN;
    }

    pub(crate) fn are_known(&self) -> bool {
        self.base.is_known() || self.target.is_known()
    }

    /// Returns the log densities.
    pub(crate) fn ends(&self) -> Ends {
        Ends {
            base: self.base.log_density,
            target: self.target.log_density,
        }
    }
}

/// Log densities and gradients of several states under one end of a path. Rows of `gradients` are states. Where the end
/// is not known, log densities are NaN and gradients 0.
#[derive(Debug)]
pub struct EndBatch<'b> {
    /// Log densities.
    pub log_densities: &'b mut [f64],
    /// Gradients of the log density.
    pub gradients: DMatrixViewMut<'b, f64>,
}

impl EndBatch<'_> {
    /// Returns whether the end is known for all states.
    pub fn is_known(&self) -> bool {
        self.log_densities.iter().all(|x| !x.is_nan())
    }
}
