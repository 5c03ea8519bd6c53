//! The difference of two models' mean log likelihoods on the same rows.

use std::fmt::{self, Display, Formatter};

use super::log_z::{decimals, is_skewed, write_figures, write_warnings};
use super::sides::Sides;
use super::{LogZ, Warning};
use crate::num::{Moments, student_quantile};
use crate::{Error, Result};

/// The difference of the mean log likelihoods of two models on the same rows, in nats per row, with a paired error.
///
/// The rows that one model finds unlikely are mostly unlikely under the other model, too. The mean of the differences
/// by row therefore has a smaller error than the difference of two independent means.
///
/// ```
/// use annealed::estimate::ScoreDifference;
/// use annealed::prelude::*;
///
/// let digits = annealed::data::digits().images;
/// let (training, held_out) = digits.split_at(1_500);
/// let base = BaseRate::from_data(10, training, 1.0)?;
/// let score = |epochs, seed| {
///     let start = Rbm::<f32>::from_data(10, training, seed)?;
///     let rbm = ContrastiveDivergence::new(1).epochs(epochs).train(start, training)?.rbm;
///     let path = RbmPath::new(base.clone(), rbm.clone())?;
///     let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(300)?).chains(200).seed(seed).run()?;
///     Ok::<_, annealed::Error>((rbm.log_likelihood(held_out, run.log_z(), &base)?, run))
/// };
/// let ((long, long_run), (short, short_run)) = (score(12, 1)?, score(4, 2)?);
/// let by_row = [&*long.by_row, &*short.by_row];
/// let difference = ScoreDifference::new(by_row, [Some(&long_run), Some(&short_run)])?;
/// println!("{difference}");
/// assert!(difference.standard_error < long.standard_error.hypot(short.standard_error));
/// # assert!(difference.value - difference.standard_error > 0.0);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[doc(alias("paired test", "likelihood comparison"))]
#[must_use]
#[non_exhaustive]
pub struct ScoreDifference {
    /// Mean over the rows of the first log likelihood minus the second.
    pub value: f64,
    /// Standard error of `value`: `error_over_rows` and `error_of_log_z`, added in quadrature.
    pub standard_error: f64,
    /// 95% confidence interval of the difference.
    pub interval: (f64, f64),
    /// Standard error of the mean of the differences by row; infinite for a single row.
    pub error_over_rows: f64,
    /// Standard error of `log Z_1 - log Z_2`, which is common to all rows.
    pub error_of_log_z: f64,
    /// Number of rows.
    pub rows: usize,
    /// Warnings of the first log Z, then of the second.
    pub warnings: Vec<Warning>,
}

impl ScoreDifference {
    /// Compares log likelihoods of the same rows in the same order, such as two
    /// [`LogLikelihood::by_row`](crate::rbm::LogLikelihood::by_row). `log_z` holds the results that normalise the
    /// models, or `None` for an exact log Z. Both results must be independent, so give each run its own seed.
    ///
    /// With m rows, the error over rows is `sd(l_1 - l_2) / sqrt(m)`. Each side of the interval joins a quantile of
    /// Student's t with m - 1 degrees of freedom with a side of the interval of [`LogRatio`](super::LogRatio).
    ///
    /// # Errors
    /// No rows, different numbers of rows, or a log likelihood that is not finite.
    pub fn new(by_row: [&[f64]; 2], log_z: [Option<&dyn LogZ>; 2]) -> Result<Self> {
        let [first, second] = by_row;
        Error::check_not_empty("first scores", first.len())?;
        Error::check_dimension("second scores", second.len(), first.len())?;
        Error::check_finite("first scores", first.iter().copied())?;
        Error::check_finite("second scores", second.iter().copied())?;
        let mut rows = Moments::default();
        rows.add_differences(first, second);
        let [one, other] = log_z.map(|result| result.map_or_else(Sides::default, Sides::of));
        // A log Z that is too high makes its model's log likelihood too low. The values of both are in `rows`.
        let normalizers = Sides {
            value: 0.0,
            ..Sides::difference(&other, &one)
        };
        let error = rows.standard_error();
        let side = error * student_quantile(0.975, (first.len() - 1).max(1) as f64);
        let of_rows = Sides::new(rows.mean(), error, (rows.mean() - side, rows.mean() + side));
        let error_of_log_z = normalizers.error;
        let both = Sides::sum([of_rows, normalizers]);
        let warnings = log_z.into_iter().flatten().flat_map(LogZ::warnings);
        Ok(Self {
            value: rows.mean(),
            standard_error: both.error,
            interval: both.interval(),
            error_over_rows: error,
            error_of_log_z,
            rows: first.len(),
            warnings: warnings.cloned().collect(),
        })
    }
}

/// Writes `difference of 297 rows: -0.359 +- 0.134 (nats a row; 95% interval -0.622 to -0.096; +- 0.120 over rows, 0.060
/// from log Z)`, and a line for each warning.
impl Display for ScoreDifference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counted = if self.rows == 1 { "row" } else { "rows" };
        write!(f, "difference of {} {counted}: ", self.rows)?;
        let figures = (self.value, self.standard_error, self.interval);
        write_figures(
            f,
            figures,
            is_skewed(self.value, self.interval),
            "nats a row",
        )?;
        let digits = decimals(self.standard_error);
        let (rows, log_z) = (self.error_over_rows, self.error_of_log_z);
        write!(
            f,
            "; +- {rows:.digits$} over rows, {log_z:.digits$} from log Z)"
        )?;
        write_warnings(f, &self.warnings)
    }
}
