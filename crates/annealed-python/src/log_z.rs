//! The base class of all results: log Z, its error, interval and warnings.

use std::fmt::{self, Display, Formatter};

use annealed::estimate::{LogRatio, Warning};
use annealed::{Error, Result};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::words::in_python;

/// Beginning of each warning in the library's texts.
pub const WARNING: &str = "\nwarning: ";

/// Functions of the package whose standard error is 1 if one chain carries all the weight.
const MAY_BE_UNKNOWN: [&str; 4] = [
    "annealed.evidence",
    "annealed.log_z",
    "annealed.rbm",
    "annealed.stan",
];

/// The numbers and texts that every result has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    log_z: f64,
    standard_error: f64,
    interval: (f64, f64),
    certified: Option<f64>,
    warnings: Vec<Warning>,
    /// Names and texts of the package's own warnings.
    notes: Doubts,
    evaluations: u64,
    seconds: f64,
    text: String,
    /// The function of the package that the user called, and its seed.
    source: (String, u64),
    /// The results whose log Z are added; none for a single result.
    parts: Vec<Figures>,
}

/// Names and texts of warnings.
pub type Doubts = Vec<(String, String)>;

impl Figures {
    /// Reads the figures of a result.
    pub fn of(result: &dyn annealed::estimate::LogZ) -> Self {
        Self {
            log_z: result.log_z(),
            standard_error: result.standard_error(),
            interval: result.interval(),
            certified: result.certified_lower_bound(0.95).ok().flatten(),
            warnings: result.warnings().to_vec(),
            notes: Vec::new(),
            evaluations: result.evaluations(),
            seconds: result.seconds(),
            text: result.to_string(),
            source: (String::new(), 0),
            parts: Vec::new(),
        }
    }

    /// Sets the function `call` of the package that the user called and its seed, and puts the text into the words of
    /// Python.
    pub fn by(mut self, call: &str, seed: u64) -> Self {
        self.source = (call.to_owned(), seed);
        self.text = self.worded(&self.text);
        self
    }

    /// Returns a text of the library about this result in the words of Python, with "unknown" for an unknown standard error.
    pub fn worded(&self, text: &str) -> String {
        let call = self.source.0.as_str();
        let text = in_python(call, text).replace("+- inf", "+- unknown");
        match MAY_BE_UNKNOWN.contains(&call) {
            true => text.replace("+- 1.000", "+- unknown"),
            false => text,
        }
    }

    /// Adds warnings of the package itself, by their names and texts.
    pub fn noting(mut self, notes: Doubts) -> Self {
        for (_, note) in &notes {
            self.text += WARNING;
            self.text += note;
        }
        self.notes = notes;
        self
    }

    /// Takes these warnings of the package in the place of the library's, in the text, too.
    pub fn noting_alone(mut self, notes: Doubts) -> Self {
        self.text
            .truncate(self.text.find(WARNING).unwrap_or(self.text.len()));
        self.warnings.clear();
        self.noting(notes)
    }

    /// Returns the warnings, and one if the standard error is unknown.
    pub fn all_doubts(&self) -> Doubts {
        let unknown = self.is_unknown().then(|| {
            let text = "the standard error is unknown, because one chain carries all the weight";
            ("UnknownError".to_owned(), text.to_owned())
        });
        self.doubts().into_iter().chain(unknown).collect()
    }

    /// Sets the results whose log Z are added.
    pub fn of_parts(mut self, parts: Vec<Self>) -> Self {
        self.parts = parts;
        self
    }

    /// Returns the results of single data sets whose log Z are added; of a single result itself.
    pub fn parts(&self) -> &[Self] {
        match self.parts.is_empty() {
            true => std::slice::from_ref(self),
            false => &self.parts,
        }
    }

    /// Returns the warning, if any, that this result and another one, or parts of both, share random numbers.
    pub fn shares_seed(&self, other: &Self) -> Option<(String, String)> {
        let mut parts = self.parts().iter();
        parts.find_map(|one| other.parts().iter().find_map(|two| one.has_seed_of(two)))
    }

    fn has_seed_of(&self, other: &Self) -> Option<(String, String)> {
        let (call, seed) = &self.source;
        (!call.is_empty() && self.source == other.source).then(|| {
            let text = format!(
                "both results are of {call} with seed={seed}, so they share random numbers, and the interval assumes that \
                 they do not: give each run its own seed"
            );
            ("SharedSeed".to_owned(), text)
        })
    }

    /// Returns whether the standard error is unknown, because one chain carries all the weight. Its formula then
    /// gives 1, or infinity for a family of chains.
    pub fn is_unknown(&self) -> bool {
        let is_one = (self.standard_error - 1.0).abs() < 5e-4;
        let call = self.source.0.as_str();
        self.standard_error.is_infinite() || MAY_BE_UNKNOWN.contains(&call) && is_one
    }

    /// Returns the name and the text of each warning, in the words of Python.
    pub fn doubts(&self) -> Doubts {
        let own = self.notes.iter().cloned();
        doubts(&self.source.0, &self.warnings)
            .into_iter()
            .chain(own)
            .collect()
    }

    /// Returns the seed that the user gave.
    pub fn seed(&self) -> u64 {
        self.source.1
    }

    /// Returns the function of the package that the user called.
    pub fn call(&self) -> &str {
        &self.source.0
    }

    /// Adds the evaluations and the seconds of the work before the run.
    pub fn after(mut self, evaluations: u64, seconds: f64) -> Self {
        self.evaluations = self.evaluations.saturating_add(evaluations);
        self.seconds += seconds;
        self
    }

    /// Takes the figures of `challenge`, a challenge to this result. Evaluations and seconds are the sums over
    /// both, and the text keeps its details.
    pub fn challenged(self, challenge: &dyn annealed::estimate::LogZ, is_better: bool) -> Self {
        let mut both = Self::of(challenge).after(self.evaluations, self.seconds);
        let text = |evaluations: u64| format!("{evaluations:.1e} evaluations");
        let (headline, judged) = both.text.split_once('\n').unwrap_or((&both.text, ""));
        let headline = headline.replace(&text(challenge.evaluations()), &text(both.evaluations));
        let details = self.text.split(WARNING).next().unwrap_or_default();
        let details = details.split_once('\n').unwrap_or_default().1;
        // What follows the headline describes the first run, even if the number is the second run's.
        let of_first = if is_better { "first run: " } else { "" };
        both.text = format!("{headline}\n{of_first}{details}\n{judged}");
        both
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

    /// Returns the standard error, which is infinite if it is unknown.
    fn standard_error(&self) -> f64 {
        match self.is_unknown() {
            true => f64::INFINITY,
            false => self.standard_error,
        }
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

    /// Standard error of `log_z`; infinite if it is unknown.
    #[getter]
    fn standard_error(&self) -> f64 {
        annealed::estimate::LogZ::standard_error(&self.figures)
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
        let doubts = self.figures.doubts().into_iter();
        doubts.map(|(_, text)| text).collect()
    }

    /// The names of `warnings`, in the same order, such as "LowEffectiveSampleSize".
    #[getter]
    fn warning_names(&self) -> Vec<String> {
        let doubts = self.figures.doubts().into_iter();
        doubts.map(|(name, _)| name).collect()
    }

    /// Whether one end of the interval is more than twice as far from `log_z` as the other. If so, use the interval and
    /// not the standard error.
    #[getter]
    fn is_skewed(&self) -> bool {
        annealed::estimate::LogZ::is_skewed(&self.figures)
    }

    /// Number of evaluations of the density: rows of the function. A value with its gradient counts as one.
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
        match self.figures.warnings.len() + self.figures.notes.len() {
            0 => headline.to_owned(),
            1 => format!("{headline}, 1 warning"),
            count => format!("{headline}, {count} warnings"),
        }
    }

    fn __str__(&self) -> String {
        self.figures.text.clone()
    }
}

/// Returns the name and the text of each warning of a result of `call`, in the words of Python.
pub fn doubts(call: &str, warnings: &[Warning]) -> Doubts {
    let text = |warning: &Warning| in_python(call, &warning.to_string());
    let doubts = warnings.iter();
    doubts
        .map(|warning| (warning.name(), text(warning)))
        .collect()
}

/// Value, error, interval, warnings with their names, and text of an estimate.
pub type Estimated = (f64, f64, (f64, f64), Doubts, String);

/// Compares two results by the logarithm of the ratio of their Z.
#[pyfunction]
pub fn log_ratio(first: &LogZ, second: &LogZ) -> Estimated {
    let (first, second) = (&first.figures, &second.figures);
    let found = LogRatio::new(first, second);
    let error = found.standard_error;
    let mut doubts = [first.doubts(), second.doubts()].concat();
    doubts.extend(first.shares_seed(second));
    let text = found.to_string();
    let mut text = text.lines().next().unwrap_or_default().to_owned();
    if first.is_unknown() || second.is_unknown() {
        text = text.replace(&format!("+- {error:.3}"), "+- unknown");
    }
    let lines = doubts.iter().map(|(_, text)| format!("{WARNING}{text}"));
    text.extend(lines);
    (found.value, error, found.interval, doubts, text)
}
