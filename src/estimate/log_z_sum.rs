//! The sum of the log Z of several independent targets.

use std::fmt::{self, Debug, Display, Formatter};

use super::comparison::is_repetition;
use super::log_z::write_headline;
use super::sides::Sides;
use super::{LogZ, Warning};
use crate::{Error, Result};

/// The sum of the log Z of independent targets, the log of the product of their Z. An example is the log evidence of
/// one model for several data sets (subjects or folds), each with its own parameters.
///
/// ```
/// use annealed::estimate::LogZSum;
/// use annealed::prelude::*;
///
/// // The measurement of each subject has an error of 1, and its own mean, whose prior is N(0, 1).
/// let run = |(seed, measured): (u64, f64)| {
///     let likelihood = Gaussian::isotropic(DVector::from_element(1, measured), 1.0)?;
///     let path = TemperedPath::new(Gaussian::standard(1)?, likelihood);
///     Ais::new(&path, RandomWalkMetropolis::new(1.0)?).schedule(Schedule::linear(20)?).seed(seed).run()
/// };
/// let subjects = [(1, 0.3), (2, -1.2), (3, 2.1)].map(run).into_iter().collect::<annealed::Result<Vec<_>>>()?;
/// let all = LogZSum::new(subjects.iter().map(|run| run as &dyn LogZ))?;
/// println!("{all}");
/// let exact = -1.5 * 2f64.ln() - (0.09 + 1.44 + 4.41) / 4.0; // each likelihood lacks its constant
/// assert!((all.log_z() - exact).abs() < 4.0 * all.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct LogZSum<'r> {
    results: Vec<&'r dyn LogZ>,
    warnings: Vec<Warning>,
}

impl<'r> LogZSum<'r> {
    /// Adds the log Z of results. The results must be independent, so give each run its own seed.
    ///
    /// # Errors
    /// No result; two results with the same estimate and error, because one was given twice or repeated with its seed.
    pub fn new(results: impl IntoIterator<Item = &'r dyn LogZ>) -> Result<Self> {
        let results: Vec<&dyn LogZ> = results.into_iter().collect();
        Error::check_not_empty("results", results.len())?;
        for (place, result) in results.iter().enumerate() {
            let mut earlier = results[..place].iter();
            let is_new = earlier.all(|other| !is_repetition(*other, *result));
            let expected = "independent results: each once, by runs of different seeds";
            let found = format!("an earlier result again as result {place}");
            Error::check(is_new, "results", found, expected)?;
        }
        let warnings = results.iter().flat_map(|result| result.warnings());
        Ok(Self {
            warnings: warnings.cloned().collect(),
            results,
        })
    }
}

impl LogZ for LogZSum<'_> {
    fn log_z(&self) -> f64 {
        self.results.iter().map(|result| result.log_z()).sum()
    }

    /// Returns the root of the sum of the squared errors.
    fn standard_error(&self) -> f64 {
        let errors = self.results.iter().map(|result| result.standard_error());
        errors.fold(0.0, f64::hypot)
    }

    /// Returns the interval whose lower side is the root of the sum of the squared lower sides of all intervals. Its
    /// upper side is computed from the upper sides in the same way (Zou and Donner 2008).
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        let sides = self.results.iter().map(|result| Sides::at(level, *result));
        let sides = sides.collect::<Result<Vec<_>>>()?;
        Ok(Sides::sum(sides).interval())
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn evaluations(&self) -> u64 {
        let evaluations = self.results.iter().map(|result| result.evaluations());
        evaluations.fold(0, u64::saturating_add)
    }

    fn seconds(&self) -> f64 {
        self.results.iter().map(|result| result.seconds()).sum()
    }
}

/// Writes one line, such as `log Z = -12.310 +- 0.050 (95% interval -12.410 to -12.210, sum of 3, 5.0e5 evaluations)`,
/// and a line for each warning.
impl Display for LogZSum<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_headline(f, self, "", format_args!("sum of {}", self.results.len()))
    }
}

impl Debug for LogZSum<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.results.iter().map(|result| result.log_z()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;

    /// A result for tests: an estimate from weights, and warnings.
    struct Weights(Estimate, Vec<Warning>);

    impl Weights {
        fn new(log_weights: &[f64]) -> Self {
            let estimate = Estimate::from_log_weights(log_weights).unwrap();
            Self(estimate, estimate.warnings())
        }
    }

    impl Display for Weights {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Display::fmt(&self.0, f)
        }
    }

    impl LogZ for Weights {
        fn log_z(&self) -> f64 {
            self.0.value()
        }

        fn standard_error(&self) -> f64 {
            self.0.standard_error()
        }

        fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
            self.0.interval_at(level)
        }

        fn warnings(&self) -> &[Warning] {
            &self.1
        }

        fn evaluations(&self) -> u64 {
            7
        }

        fn seconds(&self) -> f64 {
            0.5
        }
    }

    #[test]
    fn values_add_and_errors_add_by_squares() {
        let (few, many) = (
            Weights::new(&[0.0, 2.0, 0.5]),
            Weights::new(&[1.0, 1.5].repeat(20)),
        );
        let sum = LogZSum::new([&few as &dyn LogZ, &many]).unwrap();
        assert_eq!(sum.log_z(), few.log_z() + many.log_z());
        let error = few.standard_error().hypot(many.standard_error());
        assert_eq!(sum.standard_error(), error);
        for level in [0.5, 0.95] {
            let (a, b) = (
                few.interval_at(level).unwrap(),
                many.interval_at(level).unwrap(),
            );
            let below = (few.log_z() - a.0).hypot(many.log_z() - b.0);
            let above = (a.1 - few.log_z()).hypot(b.1 - many.log_z());
            let (lower, upper) = sum.interval_at(level).unwrap();
            assert!((sum.log_z() - below - lower).abs() < 1e-12);
            assert!((sum.log_z() + above - upper).abs() < 1e-12);
        }
        assert_eq!(sum.warnings(), few.warnings());
        assert!(!sum.warnings().is_empty());
        assert_eq!((sum.evaluations(), sum.seconds()), (14, 1.0));
        assert!(
            sum.to_string().contains(", sum of 2, 1.4e1 evaluations)"),
            "{sum}"
        );
        assert!(sum.interval_at(1.0).is_err());
        assert!(LogZSum::new([]).is_err());
        let twice = LogZSum::new([&many as &dyn LogZ, &few, &many]).unwrap_err();
        let text = twice.to_string();
        assert!(
            text.contains("got an earlier result again as result 2"),
            "{text}"
        );
    }
}
