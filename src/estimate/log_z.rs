//! The trait of all results, log Z with its error, and their text form.

use std::fmt::{self, Display, Formatter};

use super::Warning;
use crate::{Error, Result};

/// A result that estimates log Z, with its uncertainty, its cost and the reasons to doubt it.
///
/// The docs of each result's methods explain how it computes its figures. Its text is one line that ends with the
/// number of evaluations, and one line for each warning. Methods that run in rounds add how the rounds ended.
///
/// ```
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let run = Ais::new(&path, &kernel).schedule(Schedule::linear(50)?).chains(500).run()?;
/// let tempered = Tempering::new(&path, &kernel).schedule(Schedule::linear(8)?).run()?;
/// let results: [&dyn LogZ; 2] = [&run, &tempered];
/// for result in results {
///     println!("{result}");
///     println!("{:.1} s", result.seconds());
/// #   assert!((result.log_z() - target.log_normalizer()).abs() < 5.0 * result.standard_error());
/// }
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias("partition function", "marginal likelihood", "evidence", "free energy"))]
pub trait LogZ: Display {
    /// Returns the estimate of the target's log Z.
    fn log_z(&self) -> f64;

    /// Returns the standard error of [`log_z`](Self::log_z).
    fn standard_error(&self) -> f64;

    /// Returns the lower and upper bound of the confidence interval of log Z at a `level` in (0, 1).
    ///
    /// # Errors
    /// A level outside (0, 1).
    fn interval_at(&self, level: f64) -> Result<(f64, f64)>;

    /// Returns the lower and upper bound of the 95% confidence interval of log Z.
    ///
    /// # Panics
    /// If [`interval_at`](Self::interval_at) refuses this level.
    fn interval(&self) -> (f64, f64) {
        self.interval_at(0.95).expect("0.95 is a level")
    }

    /// Returns whether one end of the 95% interval is more than twice as far from [`log_z`](Self::log_z) as the other.
    /// The weights are then skewed and the standard error misleads: log Z may lie many errors off within the interval.
    /// The text then gives the interval alone. See `docs/intervals.md`.
    fn is_skewed(&self) -> bool {
        is_skewed(self.log_z(), self.interval())
    }

    /// Returns a [lower bound](crate::estimate::certified_lower_bound) on log Z that holds with probability
    /// `confidence`. It is `None` if the method has no bound, because it lacks independent and unbiased estimates of Z.
    ///
    /// # Errors
    /// A `confidence` outside (0, 1).
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        Error::check_inner_fraction("confidence", confidence).map(|()| None)
    }

    /// Returns the reasons to doubt the result; empty if there are none.
    fn warnings(&self) -> &[Warning];

    /// Returns the number of density evaluations of the result, as its kernel
    /// [counts](crate::kernel::TransitionKernel::evaluations) them. A value with its gradient counts as one.
    fn evaluations(&self) -> u64;

    /// Returns the number of density evaluations that a [`Challenge`](crate::adaptive::Challenge) to this result spends by
    /// default: as many as the result took, since the power of a challenge grows with its budget. Of rounds from a fitted
    /// base it is at least the number that they may take without `.fitted()`.
    fn challenge_budget(&self) -> u64 {
        self.evaluations()
    }

    /// Returns the wall time in seconds, summed over parts and calls.
    fn seconds(&self) -> f64;
}

/// Writes a result by [`write_estimate`] and [`write_warnings`].
pub(crate) fn write_headline(
    f: &mut Formatter<'_>,
    result: &dyn LogZ,
    kind: &str,
    details: impl Display,
) -> fmt::Result {
    write_estimate(f, result, kind, details)?;
    write_warnings(f, result.warnings())
}

/// Writes `log Z = 208.631 +- 0.021 (kind; 95% interval 208.590 to 208.672, details, 5.0e5 evaluations)`. `kind` is
/// empty for a forward run. The evaluations are left out if they are 0, as in a run saved by an older version.
pub(crate) fn write_estimate(
    f: &mut Formatter<'_>,
    result: &dyn LogZ,
    kind: &str,
    details: impl Display,
) -> fmt::Result {
    let figures = (result.log_z(), result.standard_error(), result.interval());
    write!(f, "log Z = ")?;
    write_figures(f, figures, result.is_skewed(), kind)?;
    write!(f, ", {details}")?;
    match result.evaluations() {
        0 => write!(f, ")"),
        evaluations => write!(f, ", {evaluations:.1e} evaluations)"),
    }
}

/// Returns the warnings without repetitions.
pub(crate) fn distinct<'w>(warnings: impl IntoIterator<Item = &'w Warning>) -> Vec<Warning> {
    let mut distinct: Vec<Warning> = Vec::new();
    for warning in warnings {
        if !distinct.contains(warning) {
            distinct.push(warning.clone());
        }
    }
    distinct
}

/// Writes a line for each warning.
pub(crate) fn write_warnings(f: &mut Formatter<'_>, warnings: &[Warning]) -> fmt::Result {
    let mut warnings = warnings.iter();
    warnings.try_for_each(|warning| write!(f, "\nwarning: {warning}"))
}

/// Writes a value, its error and its 95% interval as `208.631 +- 0.021 (kind; 95% interval 208.590 to 208.672`, or as
/// `208.631 (kind; 95% interval 208.590 to 208.921, weights are skewed`. It leaves the bracket open.
pub(super) fn write_figures(
    f: &mut Formatter<'_>,
    figures: (f64, f64, (f64, f64)),
    skewed: bool,
    kind: &str,
) -> fmt::Result {
    let [figure, interval] = figure_and_interval(figures, skewed);
    let joint = if kind.is_empty() { "" } else { "; " };
    let weights = if skewed { ", weights are skewed" } else { "" };
    write!(f, "{figure} ({kind}{joint}95% interval {interval}{weights}")
}

/// Returns a value with its error, and its interval, as `208.631 +- 0.021` and `208.590 to 208.672`. If the interval is
/// `skewed`, the error is left out.
pub(super) fn figure_and_interval(
    (value, error, (lower, upper)): (f64, f64, (f64, f64)),
    skewed: bool,
) -> [String; 2] {
    let digits = decimals(error);
    let figure = match skewed {
        true => format!("{value:.digits$}"),
        false => format!("{value:.digits$} +- {error:.digits$}"),
    };
    [figure, format!("{lower:.digits$} to {upper:.digits$}")]
}

/// Returns the lines of a table. The columns are as wide as their widest cells. The first one stands on the left, and the
/// others on the right if they hold `numbers`.
pub(super) fn table(rows: &[Vec<String>], numbers: bool) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = Vec::from_iter((0..rows[0].len()).filter_map(width));
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match numbers && column > 0 {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        Vec::from_iter(cells).join("  ").trim_end().to_owned()
    };
    Vec::from_iter(rows.iter().map(line)).join("\n")
}

/// Writes `208.631 +- 0.021`.
pub(crate) fn write_value(f: &mut Formatter<'_>, value: f64, error: f64) -> fmt::Result {
    let digits = decimals(error);
    write!(f, "{value:.digits$} +- {error:.digits$}")
}

/// Ratio of the longer to the shorter side of an interval, above which the interval counts as skewed.
const SKEWED: f64 = 2.0;

pub(super) fn is_skewed(value: f64, (lower, upper): (f64, f64)) -> bool {
    let (below, above) = (value - lower, upper - value);
    // If the interval has no width, its sides are rounding errors.
    let rounding = 1e-12 * (1.0 + value.abs());
    below.max(above) > SKEWED * below.min(above) + rounding
}

/// Returns the number of decimals for a figure with this `error`: three, or enough for two digits of an error below
/// 1e-3.
pub(crate) fn decimals(error: f64) -> usize {
    match error > 0.0 && error < 1e-3 {
        // At most 15 decimals, because an f64 of size 1 has hardly more.
        true => 1 + (-error.log10().floor()).min(14.0) as usize,
        false => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(f64, u64);

    const INTERVAL: (f64, f64) = (16.153_220_2, 16.153_230_1);

    impl LogZ for Fixed {
        fn log_z(&self) -> f64 {
            16.153_226_7
        }

        fn standard_error(&self) -> f64 {
            self.0
        }

        fn interval_at(&self, _level: f64) -> Result<(f64, f64)> {
            Ok(INTERVAL)
        }

        fn warnings(&self) -> &[Warning] {
            &[]
        }

        fn evaluations(&self) -> u64 {
            self.1
        }

        fn seconds(&self) -> f64 {
            0.0
        }
    }

    impl Display for Fixed {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write_headline(f, self, "reverse", "ESS 9 of 10")
        }
    }

    #[test]
    fn digits_follow_the_error() {
        let line = |error: f64| Fixed(error, 525_100).to_string();
        assert_eq!(
            line(2.5e-6),
            "log Z = 16.1532267 +- 0.0000025 \
             (reverse; 95% interval 16.1532202 to 16.1532301, ESS 9 of 10, 5.3e5 evaluations)"
        );
        assert!(Fixed(0.1, 0).to_string().ends_with(", ESS 9 of 10)"));
        for (error, expected) in [(0.021, "16.153 +- 0.021 "), (0.0, "16.153 +- 0.000 ")] {
            assert!(line(error).contains(expected), "{}", line(error));
        }
        assert!(line(f64::NAN).contains("16.153 +- NaN"));
        assert!(line(1e-300).contains(" +- 0.000000000000000 "));
    }

    #[test]
    fn a_skewed_interval_stands_alone() {
        let text = |interval| {
            struct Figures((f64, f64));
            impl Display for Figures {
                fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                    write_figures(f, (-7.0, 0.2, self.0), is_skewed(-7.0, self.0), "")
                }
            }
            Figures(interval).to_string()
        };
        let even = "-7.000 +- 0.200 (95% interval -7.400 to -6.250";
        assert_eq!(text((-7.4, -6.25)), even);
        let upward = "-7.000 (95% interval -7.400 to -6.150, weights are skewed";
        assert_eq!(text((-7.4, -6.15)), upward);
        let downward = "-7.000 (95% interval -7.850 to -6.600, weights are skewed";
        assert_eq!(text((-7.85, -6.6)), downward);
        let infinite = (f64::NEG_INFINITY, f64::INFINITY);
        for level in [(-7.0, -7.0 + 1e-14), infinite] {
            assert!(text(level).contains("+-"), "{}", text(level));
        }
        let result: &dyn LogZ = &Fixed(1e-6, 1);
        assert!(!result.is_skewed());
    }

    #[test]
    fn no_bound_is_certified_unless_a_result_says_so() {
        let result: &dyn LogZ = &Fixed(0.1, 1);
        assert_eq!(result.certified_lower_bound(0.9).unwrap(), None);
        assert!(result.certified_lower_bound(1.0).is_err());
    }
}
