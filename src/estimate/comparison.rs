//! Comparisons of two results: the ratio for two targets, the agreement for one target.

use std::fmt::{self, Display, Formatter};

use super::log_z::{is_skewed, write_figures, write_warnings};
use super::sides::{Sides, weighted};
use super::{LogZ, Warning};
use crate::{Error, Result};

/// The log of the ratio of two normalising constants, `log Z_1/Z_2`: the log Bayes factor of two models with evidences
/// Z, or minus the free-energy difference `(F_1 - F_2) / kT`.
///
/// ```
/// use annealed::estimate::LogRatio;
/// use annealed::prelude::*;
///
/// let path = |deviation| Ok::<_, annealed::Error>(GeometricPath::new(
///     Gaussian::standard(2)?,
///     Gaussian::isotropic(DVector::zeros(2), deviation)?,
/// ));
/// let (wide, narrow) = (path(2.0)?, path(0.5)?);
/// let kernel = RandomWalkMetropolis::new(0.8)?;
/// let run = |path, seed| Ais::new(path, &kernel).schedule(Schedule::linear(50)?).seed(seed).run();
/// let ratio = LogRatio::new(&run(&wide, 1)?, &run(&narrow, 2)?);
/// println!("{ratio}"); // of two dimensions: log(2 / .5)^2 = 2.773
/// assert!((ratio.value - 16_f64.ln()).abs() < 4.0 * ratio.standard_error);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias(
    "Bayes factor",
    "free energy difference",
    "log evidence ratio",
    "model comparison",
    "posterior odds"
))]
#[must_use]
#[non_exhaustive]
pub struct LogRatio {
    /// The estimate of `log Z_1/Z_2`.
    pub value: f64,
    /// Standard error of `value`, the root of the sum of both results' squared errors.
    pub standard_error: f64,
    /// 95% confidence interval of `log Z_1/Z_2`; see [`new`](Self::new).
    pub interval: (f64, f64),
    /// Warnings of the first result, then of the second.
    pub warnings: Vec<Warning>,
}

impl LogRatio {
    /// Compares the results of two targets. The results must be independent, so give runs from one base different
    /// seeds.
    ///
    /// Each side of the interval joins opposite sides of the results' intervals, whose sides may differ in length. With
    /// estimates a and b, and intervals `(l_a, u_a)` and `(l_b, u_b)`, it is `a - b - sqrt((a - l_a)^2 + (u_b - b)^2)`
    /// to `a - b + sqrt((u_a - a)^2 + (b - l_b)^2)` (Zou and Donner 2008).
    pub fn new(first: &(impl LogZ + ?Sized), second: &(impl LogZ + ?Sized)) -> Self {
        let (one, other) = (Sides::of(first), Sides::of(second));
        let difference = Sides::difference(&one, &other);
        Self {
            value: difference.value,
            standard_error: difference.error,
            interval: difference.interval(),
            warnings: [first.warnings(), second.warnings()].concat(),
        }
    }

    /// Writes `2.310 +- 0.050 (95% interval 2.210 to 2.410)`. The error is left out if the interval is skewed.
    fn write_difference(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let figures = (self.value, self.standard_error, self.interval);
        write_figures(f, figures, self.is_skewed(), "")?;
        write!(f, ")")
    }

    /// Returns whether one side of the interval is more than twice as long as the other, or more than twice as long as
    /// the error implies. The second test is needed because two skewed intervals can join to a symmetric one.
    pub(super) fn is_skewed(&self) -> bool {
        let (value, (lower, upper)) = (self.value, self.interval);
        let farthest = (value - lower).max(upper - value);
        is_skewed(value, self.interval) || farthest > WIDE * self.standard_error
    }
}

/// Writes `log(Z_1/Z_2) = 2.310 +- 0.050 (95% interval 2.210 to 2.410)`, and a line for each warning of either result.
impl Display for LogRatio {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "log(Z_1/Z_2) = ")?;
        self.write_difference(f)?;
        write_warnings(f, &self.warnings)
    }
}

/// Agreement of two independent results for one target, for example from two methods, bases or paths.
///
/// ```
/// use annealed::estimate::Agreement;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&path, &kernel).schedule(Schedule::linear(50)?).chains(500).run()?;
/// let tempered = Tempering::new(&path, &kernel).schedule(Schedule::linear(8)?).seed(2).run()?;
/// let agreement = Agreement::new(&run, &tempered)?;
/// println!("{agreement}");
/// let pooled = agreement.pooled.expect("both are right");
/// assert!((pooled.log_z - target.log_normalizer()).abs() < 4.0 * pooled.standard_error);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
#[non_exhaustive]
pub struct Agreement {
    /// The first estimate minus the second one. The true value is 0.
    pub difference: LogRatio,
    /// [`BelowBound`](Warning::BelowBound) if a [certified bound](LogZ::certified_lower_bound) of one result lies above
    /// the 99% interval of the other. Each of the two bounds has a confidence of 99.5%.
    pub contradiction: Option<Warning>,
    /// The joint estimate; `None` if a result is contradicted, or if the 99% interval of the difference does not
    /// contain 0.
    pub pooled: Option<Pooled>,
}

/// The mean of two results for one target.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Pooled {
    /// The weighted mean of both estimates of log Z. The weights are proportional to `1 / (u - l)^2`, with the bounds l
    /// and u of the 95% intervals. Standard errors are not used, because they mislead if weights are skewed.
    pub log_z: f64,
    /// Standard error of `log_z`.
    pub standard_error: f64,
    /// 95% confidence interval, from the sides of both intervals as in [`LogRatio::new`].
    pub interval: (f64, f64),
}

/// Length of a side of an interval, in standard errors, above which the standard error misleads.
const WIDE: f64 = 4.0;
/// Level of the interval that must contain the difference 0: of 100 pairs of correct results, one disagrees by chance.
const LEVEL: f64 = 0.99;

impl Agreement {
    /// Compares two results for one target. They must be independent, so give runs from one base different seeds. To
    /// join chains of one run from several seeds, [pool](crate::ais::Run::pooled) them instead.
    ///
    /// # Errors
    /// - Two results with the same estimate and error, because one run was given twice or repeated with the same seed.
    /// - Errors of [`LogZ::interval_at`] and [`LogZ::certified_lower_bound`], which the results of this crate do not
    ///   return at these levels.
    pub fn new(first: &(impl LogZ + ?Sized), second: &(impl LogZ + ?Sized)) -> Result<Self> {
        let is_new = !is_repetition(first, second);
        let expected = "another estimate than that of the first result: a run of another seed";
        Error::check(is_new, "second", second.log_z(), expected)?;
        let contradiction = contradicted(first, second)?.or(contradicted(second, first)?);
        let (one, other) = (Sides::at(LEVEL, first)?, Sides::at(LEVEL, second)?);
        let (lower, upper) = Sides::difference(&one, &other).interval();
        // Results without an error still differ by rounding.
        let rounding = 1e-9 * (1.0 + one.value.abs());
        let agree = contradiction.is_none() && lower <= rounding && -rounding <= upper;
        Ok(Self {
            difference: LogRatio::new(first, second),
            contradiction,
            pooled: agree.then(|| Sides::of(first).pooled(&Sides::of(second))),
        })
    }
}

/// Returns whether two results have the same estimate and error: one run given twice, or repeated with the same seed.
pub(super) fn is_repetition(first: &(impl LogZ + ?Sized), second: &(impl LogZ + ?Sized)) -> bool {
    let error = second.standard_error();
    // Two exact results, without an error, may be equal without being one run.
    second.log_z() == first.log_z() && error == first.standard_error() && error > 1e-9
}

/// Returns the warning, if any, that the interval of the second result lies below a certified bound of the first.
fn contradicted(
    first: &(impl LogZ + ?Sized),
    second: &(impl LogZ + ?Sized),
) -> Result<Option<Warning>> {
    // An agreement compares two bounds, so each gets half of the probability of an error (Bonferroni).
    let confidence = 1.0 - 0.5 * (1.0 - LEVEL);
    let bound = first.certified_lower_bound(confidence)?;
    let (_, upper) = second.interval_at(LEVEL)?;
    Ok(bound.and_then(|bound| Warning::below_bound(bound, confidence, upper)))
}

/// Writes one line, such as `the results agree: difference 0.030 +- 0.050 (95% interval -0.070 to 0.130); pooled log Z
/// = 208.631 +- 0.021 (95% interval 208.590 to 208.672)`, any contradiction, and one line per warning of either result.
impl Display for Agreement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = match (&self.contradiction, self.pooled) {
            (Some(_), _) => "one result is contradicted",
            (None, Some(_)) => "the results agree",
            (None, None) => "the results differ",
        };
        let found = &self.difference;
        write!(f, "{verdict}: difference ")?;
        found.write_difference(f)?;
        if let Some(pooled) = self.pooled {
            write!(f, "; pooled log Z = ")?;
            let figures = (pooled.log_z, pooled.standard_error, pooled.interval);
            write_figures(f, figures, is_skewed(pooled.log_z, pooled.interval), "")?;
            write!(f, ")")?;
        }
        write_warnings(f, self.contradiction.as_slice())?;
        write_warnings(f, &found.warnings)
    }
}

impl Sides {
    fn pooled(&self, other: &Self) -> Pooled {
        let share = share(self.below + self.above, other.below + other.above);
        let mean = |one, other| weighted(share, one) + weighted(1.0 - share, other);
        let joint = |one, other| weighted(share, one).hypot(weighted(1.0 - share, other));
        let log_z = mean(self.value, other.value);
        let below = joint(self.below, other.below);
        let above = joint(self.above, other.above);
        Pooled {
            log_z,
            standard_error: joint(self.error, other.error),
            interval: (log_z - below, log_z + above),
        }
    }
}

/// Returns the weight of the first estimate in the pooled one, given the widths `one` and `other` of both intervals.
fn share(one: f64, other: f64) -> f64 {
    let ratio = one / other;
    match ratio.is_nan() {
        // Both intervals are points, or both are infinite: neither estimate counts more.
        true => 0.5,
        false => 1.0 / (1.0 + ratio * ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wider_interval_counts_less() {
        let infinite = f64::INFINITY;
        for (one, other, expected) in [
            (1.0, 1.0, 0.5),
            (1.0, 2.0, 0.8),
            (0.0, 0.0, 0.5),
            (0.0, 1.0, 1.0),
            (1.0, 0.0, 0.0),
            (infinite, 1.0, 0.0),
            (1.0, infinite, 1.0),
            (infinite, infinite, 0.5),
        ] {
            assert_eq!(share(one, other), expected, "{one}, {other}");
        }
    }

    #[test]
    fn sides_are_joined_crosswise() {
        let one = Sides::new(5.0, 1.0, (2.0, 9.0));
        let other = Sides::new(1.0, 2.0, (-11.0, 5.0));
        let difference = Sides::difference(&one, &other);
        assert_eq!(difference.interval(), (4.0 - 5.0, 4.0 + 160_f64.sqrt()));
        let pooled = one.pooled(&other);
        let share = 256.0 / (256.0 + 49.0);
        assert!((pooled.log_z - (5.0 * share + (1.0 - share))).abs() < 1e-12);
        let below = (3.0 * share).hypot(12.0 * (1.0 - share));
        let above = (4.0 * share).hypot(4.0 * (1.0 - share));
        assert!((pooled.log_z - below - pooled.interval.0).abs() < 1e-12);
        assert!((pooled.log_z + above - pooled.interval.1).abs() < 1e-12);
        let unknown = Sides::new(3.0, f64::INFINITY, (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(one.pooled(&unknown).interval, (2.0, 9.0));
        assert_eq!(one.pooled(&unknown).standard_error, 1.0);
    }

    #[test]
    fn an_interval_far_wider_than_the_error_stands_alone() {
        let text = |half: f64| {
            let ratio = LogRatio {
                value: 2.0,
                standard_error: 0.4,
                interval: (2.0 - half, 2.0 + half),
                warnings: Vec::new(),
            };
            ratio.to_string()
        };
        assert_eq!(
            text(1.5),
            "log(Z_1/Z_2) = 2.000 +- 0.400 (95% interval 0.500 to 3.500)"
        );
        let alone = "log(Z_1/Z_2) = 2.000 (95% interval -0.500 to 4.500, weights are skewed)";
        assert_eq!(text(2.5), alone);
    }
}
