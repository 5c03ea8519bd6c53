//! Step sizes that may vary along the path.

use std::convert::Infallible;
use std::sync::Arc;

use crate::{Error, Result};

/// A step size as a function of beta: constant, or interpolated between knots.
///
/// Between two knots its logarithm is linear in beta; outside of the knots it is constant. The size is the standard
/// deviation of the proposal for [`RandomWalkMetropolis`](crate::kernel::RandomWalkMetropolis), the variance `eps` of
/// the noise for Langevin kernels, and the length of a leapfrog step for Hamiltonian ones. With a
/// [`Preconditioner`](crate::kernel::Preconditioner) it is measured in the preconditioned coordinates.
///
/// ```
/// use annealed::kernel::StepSize;
///
/// let narrowing = StepSize::knots([(0.0, 1.0), (1.0, 0.01)])?;
/// assert!((narrowing.at(0.5) - 0.1).abs() < 1e-15);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")
)]
pub struct StepSize {
    /// At least one knot. Beta increases from knot to knot.
    knots: Vec<StepSizeKnot>,
    /// The step size of each datum; empty if all states have the same. It is not saved.
    data: Arc<Vec<Self>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct StepSizeKnot {
    beta: f64,
    size: f64,
    log_size: f64,
}

impl StepSize {
    /// Creates a step size that is the same at every beta.
    ///
    /// # Errors
    /// If the size is not finite and positive.
    pub fn constant(size: f64) -> Result<Self> {
        Self::knots([(0.0, size)])
    }

    /// Creates a step size from pairs `(beta, size)`.
    ///
    /// # Errors
    /// If there is no knot, the betas do not increase strictly within `[0, 1]`, or a size is not finite and positive.
    pub fn knots(knots: impl IntoIterator<Item = (f64, f64)>) -> Result<Self> {
        let mut valid: Vec<StepSizeKnot> = Vec::new();
        for (beta, size) in knots {
            Error::check_positive("step size", size)?;
            let increases = valid.last().is_none_or(|last| last.beta < beta);
            let expected = "strictly increasing values in [0, 1]";
            let fits = (0.0..=1.0).contains(&beta) && increases;
            Error::check(fits, "beta of a step size", beta, expected)?;
            let log_size = size.ln();
            valid.push(StepSizeKnot {
                beta,
                size,
                log_size,
            });
        }
        Error::check_not_empty("step size", valid.len())?;
        let data = Arc::default();
        Ok(Self { knots: valid, data })
    }

    /// Creates a step size that differs between data, from the step size of each.
    pub(crate) fn of_data(data: Vec<Self>) -> Result<Self> {
        let data = Arc::new(data);
        Ok(Self {
            data,
            ..Self::constant(1.0)?
        })
    }

    /// Returns the size for states of a datum; `None` if all states have the same.
    #[inline]
    pub(crate) fn for_datum(&self, beta: f64, datum: usize) -> Option<f64> {
        Some(self.data.get(datum)?.at(beta))
    }

    /// Returns the size at `beta`.
    #[inline]
    pub fn at(&self, beta: f64) -> f64 {
        let next = self.knots.partition_point(|knot| knot.beta <= beta);
        match (next.checked_sub(1), self.knots.get(next)) {
            (None, _) => self.knots[0].size,
            (Some(last), None) => self.knots[last].size,
            (Some(left), Some(right)) => {
                let left = self.knots[left];
                let t = (beta - left.beta) / (right.beta - left.beta);
                (left.log_size + t * (right.log_size - left.log_size)).exp()
            }
        }
    }
}

impl TryFrom<f64> for StepSize {
    type Error = Error;

    fn try_from(size: f64) -> Result<Self> {
        Self::constant(size)
    }
}

impl TryFrom<Vec<(f64, f64)>> for StepSize {
    type Error = Error;

    fn try_from(knots: Vec<(f64, f64)>) -> Result<Self> {
        Self::knots(knots)
    }
}

impl From<StepSize> for Vec<(f64, f64)> {
    fn from(step_size: StepSize) -> Self {
        let pairs = step_size.knots.iter().map(|knot| (knot.beta, knot.size));
        pairs.collect()
    }
}

/// Lets a constructor take a number or a [`StepSize`], whose conversion to a `StepSize` never fails.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
