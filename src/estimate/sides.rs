//! The two sides of an interval, and how they join when results are combined (Zou and Donner 2008).

use super::LogZ;
use crate::Result;

/// An estimate, its standard error, and the distances from the estimate to both ends of its interval.
#[derive(Default)]
pub(super) struct Sides {
    pub(super) value: f64,
    pub(super) error: f64,
    pub(super) below: f64,
    pub(super) above: f64,
}

impl Sides {
    pub(super) fn of(result: &(impl LogZ + ?Sized)) -> Self {
        Self::new(result.log_z(), result.standard_error(), result.interval())
    }

    pub(super) fn at(level: f64, result: &(impl LogZ + ?Sized)) -> Result<Self> {
        let interval = result.interval_at(level)?;
        Ok(Self::new(result.log_z(), result.standard_error(), interval))
    }

    pub(super) fn new(value: f64, error: f64, (lower, upper): (f64, f64)) -> Self {
        Self {
            value,
            error,
            below: value - lower,
            above: upper - value,
        }
    }

    pub(super) fn interval(&self) -> (f64, f64) {
        (self.value - self.below, self.value + self.above)
    }

    /// Returns the difference of two independent estimates. Each of its sides joins opposite sides of the two
    /// intervals.
    pub(super) fn difference(one: &Self, other: &Self) -> Self {
        Self {
            value: one.value - other.value,
            error: one.error.hypot(other.error),
            below: one.below.hypot(other.above),
            above: one.above.hypot(other.below),
        }
    }

    /// Returns the sum of independent estimates.
    pub(super) fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |sum, part| Self {
            value: sum.value + part.value,
            error: sum.error.hypot(part.error),
            below: sum.below.hypot(part.below),
            above: sum.above.hypot(part.above),
        })
    }
}

/// Returns `share * x`, and 0 for a share of 0 even if x is infinite.
pub(super) fn weighted(share: f64, x: f64) -> f64 {
    if share > 0.0 { share * x } else { 0.0 }
}
