//! The difference of log Z of two states, with its error.

use std::fmt::{self, Display, Formatter};

use crate::estimate::log_z::write_headline;
use crate::estimate::{BennettEstimate, LogZ, Warning};
use crate::num::student_quantile;
use crate::{Error, Result};

/// An estimate of log Z of one state less log Z of another one, from [`Mbar`](super::Mbar).
///
/// As a [`LogZ`] its value is `log Z_i/Z_j`, or log Z of a state if log Z of the other one is known and
/// [added](Self::shifted). A free-energy difference over kT is minus the value. Its evaluations and seconds are 0.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Difference {
    pub(super) value: f64,
    /// Standard error by the sandwich.
    pub(super) error: f64,
    pub(super) freedom: f64,
    /// Gaps between the two states. Each estimate is of the correction to the value; the sign is -1 if it is of the
    /// negative one.
    pub(super) gaps: Vec<(f64, BennettEstimate)>,
    pub(super) warnings: Vec<Warning>,
}

impl Difference {
    /// Adds a constant, such as a known log Z, to the value.
    pub fn shifted(mut self, constant: f64) -> Self {
        self.value += constant;
        self
    }
}

impl LogZ for Difference {
    fn log_z(&self) -> f64 {
        self.value
    }

    /// Returns the standard error by the sandwich. Across groups of states with little overlap it is at least half the
    /// distance between the estimates from the draws of each group alone.
    fn standard_error(&self) -> f64 {
        let gaps = self.gaps.iter().map(|(_, gap)| 0.5 * gap.one_sided_gap());
        self.error.max(gaps.sum())
    }

    /// Returns `value +- t SE` with Student's quantile t. Across groups of states with little overlap, the interval also
    /// contains the intervals of the estimates from the draws of each group alone.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        let half = self.standard_error() * student_quantile(0.5 + 0.5 * level, self.freedom);
        let (mut lower, mut upper) = (self.value, self.value);
        for (sign, bennett) in &self.gaps {
            let (one, other) = bennett.interval_at(level)?;
            let (one, other) = (sign * one, sign * other);
            lower += one.min(other).min(0.0);
            upper += one.max(other).max(0.0);
        }
        Ok((lower.min(self.value - half), upper.max(self.value + half)))
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn evaluations(&self) -> u64 {
        0
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

/// Writes `log Z = 1.471 +- 0.029 (many states; 95% interval ..)` and any warnings.
impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let details = format!("{:.0} degrees of freedom", self.freedom.min(1e9));
        write_headline(f, self, "many states", details)
    }
}
