//! Checks of arguments.

use std::fmt::{Debug, Display};
use std::num::NonZeroUsize;
use std::ops::Range;

use super::{Error, Result};

/// Largest number of stages, chains, updates or coordinates. That many numbers take 8 GiB.
const LARGEST_COUNT: usize = 1 << 30;

/// Checks of arguments. They return an [`Error::InvalidArgument`] unless their docs name another error.
impl Error {
    pub(crate) fn panicked(message: String, chains: Range<usize>) -> Self {
        let (stage, beta) = (0, 0.0);
        Self::Panicked {
            message,
            chains,
            stage,
            beta,
        }
    }

    /// Returns an [`Error::OtherRun`] if `found` differs from the setting of this run.
    pub(crate) fn check_found<T: PartialEq + Debug>(
        setting: &'static str,
        found: &T,
        expected: &T,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Self::OtherRun {
            setting,
            found: format!("{found:?}"),
            expected: format!("{expected:?}"),
        })
    }

    pub(crate) fn check(
        holds: bool,
        argument: &'static str,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Result<()> {
        match holds {
            true => Ok(()),
            false => Err(Self::invalid(argument, value, expected)),
        }
    }

    pub(crate) fn check_at_least(argument: &'static str, count: usize, least: usize) -> Result<()> {
        Self::check(count >= least, argument, count, format!("at least {least}"))
    }

    /// Refuses a count below `least`, or above `LARGEST_COUNT`.
    pub(crate) fn check_count(argument: &'static str, count: usize, least: usize) -> Result<()> {
        Self::check_at_least(argument, count, least)?;
        let expected = format!("at most {LARGEST_COUNT}");
        Self::check(count <= LARGEST_COUNT, argument, count, expected)
    }

    /// Returns an empty list with room for `count` entries, or an error if the memory does not suffice.
    pub(crate) fn reserved<T>(argument: &'static str, count: usize) -> Result<Vec<T>> {
        let mut list = Vec::new();
        let reserved = list.try_reserve_exact(count);
        let expected = "a number that fits into the memory";
        reserved.map_err(|_| Self::invalid(argument, count, expected))?;
        Ok(list)
    }

    pub(crate) fn check_not_empty(argument: &'static str, length: usize) -> Result<()> {
        Self::check(length > 0, argument, "none", "at least one")
    }

    pub(crate) fn check_nonzero(argument: &'static str, count: usize) -> Result<NonZeroUsize> {
        NonZeroUsize::new(count).ok_or_else(|| Self::invalid(argument, 0, "at least 1"))
    }

    /// Returns an [`Error::DimensionMismatch`] unless the two sizes agree.
    pub(crate) fn check_dimension(
        argument: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<()> {
        match found == expected {
            true => Ok(()),
            false => Err(Self::DimensionMismatch {
                argument,
                found,
                expected,
            }),
        }
    }

    pub(crate) fn check_positive(argument: &'static str, value: f64) -> Result<()> {
        let positive = value.is_finite() && value > 0.0;
        Self::check(positive, argument, value, "a finite number above 0")
    }

    /// Refuses a value outside `[0, 1]`.
    pub(crate) fn check_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = (0.0..=1.0).contains(&value);
        Self::check(within, argument, value, "a number in [0, 1]")
    }

    /// Refuses a value outside `(0, 1]`.
    pub(crate) fn check_positive_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = value > 0.0 && value <= 1.0;
        Self::check(within, argument, value, "a number in (0, 1]")
    }

    /// Refuses a value outside `(0, 1)`.
    pub(crate) fn check_inner_fraction(argument: &'static str, value: f64) -> Result<()> {
        let within = value > 0.0 && value < 1.0;
        Self::check(within, argument, value, "a number in (0, 1)")
    }

    pub(crate) fn check_number(argument: &'static str, value: f64) -> Result<()> {
        Self::check(value.is_finite(), argument, value, "a finite number")
    }

    pub(crate) fn check_finite(
        argument: &'static str,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<()> {
        let values = values.into_iter().enumerate();
        Self::check_each(argument, "index", values, f64::is_finite, "finite numbers")
    }

    /// Refuses the first value for which `holds` is false and names its place; `place` is the kind of place, such as
    /// "index".
    pub(crate) fn check_each(
        argument: &'static str,
        place: &str,
        values: impl IntoIterator<Item = (impl Display, f64)>,
        holds: impl Fn(f64) -> bool,
        expected: &str,
    ) -> Result<()> {
        match values.into_iter().find(|(_, x)| !holds(*x)) {
            None => Ok(()),
            Some((at, x)) => Err(Self::invalid(
                argument,
                format!("{x} at {place} {at}"),
                expected,
            )),
        }
    }
}
