//! The base class of all results: log Z, its error, interval and warnings.

use std::fmt::{self, Display, Formatter};

use annealed::estimate::{LogRatio, Warning};
use annealed::{Error, Result};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// Beginning of each warning in the library's texts.
const WARNING: &str = "\nwarning: ";

/// The numbers and texts that every result has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    log_z: f64,
    standard_error: f64,
    interval: (f64, f64),
    certified: Option<f64>,
    warnings: Vec<Warning>,
    evaluations: u64,
    seconds: f64,
    text: String,
}

impl Figures {
    /// Reads the figures of a result.
    pub fn of(result: &dyn annealed::estimate::LogZ) -> Self {
        Self {
            log_z: result.log_z(),
            standard_error: result.standard_error(),
            interval: result.interval(),
            certified: result.certified_lower_bound(0.95).ok().flatten(),
            warnings: result.warnings().to_vec(),
            evaluations: result.evaluations(),
            seconds: result.seconds(),
            text: result.to_string(),
        }
    }

    /// Adds the seconds of the work before the run.
    pub fn after(mut self, seconds: f64) -> Self {
        self.seconds += seconds;
        self
    }

    /// Takes the figures of `challenge`, a challenge to this result. Evaluations and seconds are the sums over
    /// both, and the text keeps its details.
    pub fn challenged(self, challenge: &dyn annealed::estimate::LogZ) -> Self {
        let mut both = Self::of(challenge).after(self.seconds);
        both.evaluations = both.evaluations.saturating_add(self.evaluations);
        let text = |evaluations: u64| format!("{evaluations:.1e} evaluations");
        let (headline, judged) = both.text.split_once('\n').unwrap_or((&both.text, ""));
        let headline = headline.replace(&text(challenge.evaluations()), &text(both.evaluations));
        let details = self.text.split(WARNING).next().unwrap_or_default();
        let details = details.split_once('\n').unwrap_or_default().1;
        both.text = format!("{headline}\n{details}\n{judged}");
        both
    }

    /// Replaces the warnings, also in the text.
    pub fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        let end = self.text.find(WARNING).unwrap_or(self.text.len());
        let lines = warnings.iter().map(|warning| format!("{WARNING}{warning}"));
        self.text = self.text[..end].to_owned() + &String::from_iter(lines);
        self.warnings = warnings;
        self
    }

    /// Returns the warnings of the library.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl annealed::estimate::LogZ for Figures {
    fn log_z(&self) -> f64 {
        self.log_z
    }

    fn standard_error(&self) -> f64 {
        self.standard_error
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        match level == 0.95 {
            true => Ok(self.interval),
            false => Err(Error::invalid("level", level, "0.95")),
        }
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// A result that estimates log Z, in nats.
///
/// `str(result)` is the library's text with the warnings, and `repr(result)` is its headline.
#[pyclass(subclass, frozen, module = "annealed")]
pub struct LogZ {
    /// The numbers and texts that every result has.
    pub figures: Figures,
}

#[pymethods]
impl LogZ {
    /// The estimate of log Z, in nats.
    #[getter]
    fn log_z(&self) -> f64 {
        self.figures.log_z
    }

    /// Standard error of `log_z`.
    #[getter]
    fn standard_error(&self) -> f64 {
        self.figures.standard_error
    }

    /// The 95% interval of log Z, (lower, upper). It extends farther above log Z than below if the weights are skewed.
    #[getter]
    fn interval(&self) -> (f64, f64) {
        self.figures.interval
    }

    /// A lower bound on log Z that holds with a probability of 95%, whatever the tails of the weights are. None if the
    /// method has no bound.
    #[getter]
    fn certified_lower_bound(&self) -> Option<f64> {
        self.figures.certified
    }

    /// Reasons to doubt the result, one sentence each. Empty if there are none.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        texts(&self.figures.warnings)
    }

    /// The names of `warnings`, in the same order, such as "LowEffectiveSampleSize".
    #[getter]
    fn warning_names(&self) -> Vec<String> {
        names(&self.figures.warnings)
    }

    /// Whether one end of the interval is more than twice as far from `log_z` as the other. If so, use the interval and
    /// not the standard error.
    #[getter]
    fn is_skewed(&self) -> bool {
        annealed::estimate::LogZ::is_skewed(&self.figures)
    }

    /// Number of density evaluations. A gradient counts as one more evaluation.
    #[getter]
    fn evaluations(&self) -> u64 {
        self.figures.evaluations
    }

    /// Wall time in seconds. In `annealed.rbm` it includes the search for a start.
    #[getter]
    fn seconds(&self) -> f64 {
        self.figures.seconds
    }

    fn __repr__(&self) -> String {
        let headline = self.figures.text.lines().next().unwrap_or_default();
        match self.figures.warnings.len() {
            0 => headline.to_owned(),
            1 => format!("{headline}, 1 warning"),
            count => format!("{headline}, {count} warnings"),
        }
    }

    fn __str__(&self) -> String {
        self.figures.text.clone()
    }
}

/// Returns the sentence of each warning.
pub fn texts(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(Warning::to_string).collect()
}

/// Returns the name of each warning.
pub fn names(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(Warning::name).collect()
}

/// Value, error, interval, warnings and text of an estimate.
pub type Estimated = (f64, f64, (f64, f64), Vec<String>, Vec<String>, String);

/// Compares two results by the logarithm of the ratio of their Z.
#[pyfunction]
pub fn log_ratio(first: &LogZ, second: &LogZ) -> Estimated {
    let found = LogRatio::new(&first.figures, &second.figures);
    let text = found.to_string();
    let (warnings, error) = (&found.warnings, found.standard_error);
    let warnings = (texts(warnings), names(warnings));
    (
        found.value,
        error,
        found.interval,
        warnings.0,
        warnings.1,
        text,
    )
}
