//! Several results beside each other: models of one data set, data sets of one model, scores of the same rows.

use annealed::estimate::{ComparedModel, ModelComparison, ScoreDifference};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::convert::numbers;
use crate::errors::OrRaise;
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::log_z::{Doubts, Figures, LogZ, WARNING};

/// Value, error and interval of an estimate.
type Estimated = (f64, f64, (f64, f64));
/// A model of a comparison: name, log Z, log ratio to the best model, prior, probability, warnings.
type Model = (String, Estimated, Option<Estimated>, f64, Estimated, Doubts);

/// Returns the first line of a table or all its lines, without the library's warnings, and a line for each of `doubts`.
fn with_doubts(text: &str, doubts: &Doubts) -> String {
    let mut text = text.split(WARNING).next().unwrap_or_default().to_owned();
    text.extend(doubts.iter().map(|(_, doubt)| format!("{WARNING}{doubt}")));
    text
}

/// Returns the warning of the first pair of results that share random numbers.
fn shared(results: &[&Figures]) -> Option<(String, String)> {
    let mut pairs = results.iter().enumerate();
    pairs.find_map(|(place, one)| {
        results[..place]
            .iter()
            .find_map(|other| one.shares_seed(other))
    })
}

/// Returns the warning, if any, that models have different numbers of data sets.
fn unlike(names: &[&str], results: &[&Figures]) -> Option<(String, String)> {
    let counts = Vec::from_iter(results.iter().map(|result| result.parts().len()));
    counts.windows(2).any(|pair| pair[0] != pair[1]).then(|| {
        let counts = names.iter().zip(counts);
        let counts = counts.map(|(name, count)| format!("{name} of {count}"));
        let text = format!(
            "the results are sums over different numbers of data sets ({}): compare models of the same data",
            Vec::from_iter(counts).join(", ")
        );
        ("DifferentData".to_owned(), text)
    })
}

/// Compares models by their names, results and prior probabilities. Returns the models from the best on, warnings of all
/// together, and the text.
#[pyfunction]
pub fn compare(
    models: Vec<(String, PyRef<'_, LogZ>, f64)>,
) -> PyResult<(Vec<Model>, Doubts, String)> {
    let named = models.iter();
    let named = named.map(|(name, result, prior)| (name.as_str(), &result.figures, *prior));
    let found = ModelComparison::with_priors(named).or_raise()?;
    let of = |name: &str| {
        let result = models.iter().find(|(other, ..)| other == name);
        result.map_or(Vec::new(), |(_, result, _)| result.figures.all_doubts())
    };
    let all = Vec::from_iter(models.iter().map(|(_, result, _)| &result.figures));
    let names = Vec::from_iter(models.iter().map(|(name, ..)| name.as_str()));
    let common = Vec::from_iter(shared(&all).into_iter().chain(unlike(&names, &all)));
    let rows = found.models.iter().map(|model| {
        let ComparedModel {
            name,
            log_z,
            standard_error,
            interval,
            prior,
            ..
        } = model;
        let ratio = model.from_best.as_ref();
        let ratio = ratio.map(|ratio| (ratio.value, ratio.standard_error, ratio.interval));
        let probability = (
            model.probability,
            model.probability_error,
            model.probability_interval,
        );
        let log_z = (*log_z, *standard_error, *interval);
        (name.clone(), log_z, ratio, *prior, probability, of(name))
    });
    let rows = Vec::from_iter(rows);
    let own = rows.iter().flat_map(|(name, .., doubts)| {
        let named =
            move |(warning, text): &(String, String)| (warning.clone(), format!("{name}: {text}"));
        doubts.iter().map(named)
    });
    let text = with_doubts(&found.to_string(), &own.chain(common.clone()).collect());
    Ok((rows, common, text))
}

/// The figures of a sum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sum(Figures);

impl Kept for Sum {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let figures = self.0.clone();
        let base = PyClassInitializer::from(LogZ { figures });
        Ok(Bound::new(py, base.add_subclass(LogZSum { kept: self }))?.into_any())
    }
}

/// The result of `annealed.log_z_sum`: the log Z of several data sets together.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct LogZSum {
    kept: Sum,
}

#[pymethods]
impl LogZSum {
    /// Number of data sets.
    #[getter]
    fn data_sets(&self) -> usize {
        self.kept.0.parts().len()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.kept)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Sum>(py, bytes)
    }
}

/// Adds the log Z of independent results.
#[pyfunction]
pub fn log_z_sum<'py>(
    py: Python<'py>,
    results: Vec<PyRef<'py, LogZ>>,
) -> PyResult<Bound<'py, PyAny>> {
    // A sum inside the sum stands for its parts, so that a part given twice is found.
    let parts = results.iter().flat_map(|result| result.figures.parts());
    let all = Vec::from_iter(parts);
    let parts = all
        .iter()
        .map(|figures| *figures as &dyn annealed::estimate::LogZ);
    let found = annealed::estimate::LogZSum::new(parts).or_raise()?;
    let number = |(place, figures): (usize, &&Figures)| {
        let numbered = |(name, text)| (name, format!("result {place}: {text}"));
        Vec::from_iter(figures.all_doubts().into_iter().map(numbered))
    };
    let doubts = all.iter().enumerate().flat_map(number).chain(shared(&all));
    let figures = Figures::of(&found).noting_alone(doubts.collect());
    let parts = all.into_iter().cloned().collect();
    Sum(figures.of_parts(parts)).object(py)
}

/// Difference of two scores: value, error and interval, error over rows and of log Z, warnings, text.
type Difference = (Estimated, (f64, f64), Doubts, String);

/// Compares the log likelihoods of the same rows under two models, which are normalised by these results, or exactly.
#[pyfunction]
pub fn score_difference(
    first: PyReadonlyArray1<'_, f64>,
    second: PyReadonlyArray1<'_, f64>,
    log_z: (Option<PyRef<'_, LogZ>>, Option<PyRef<'_, LogZ>>),
) -> PyResult<Difference> {
    let (first, second) = (numbers(&first), numbers(&second));
    let log_z = [&log_z.0, &log_z.1].map(|result| result.as_ref().map(|result| &result.figures));
    let results = log_z.map(|result| result.map(|result| result as &dyn annealed::estimate::LogZ));
    let found = ScoreDifference::new([&first, &second], results).or_raise()?;
    let of_both = log_z.into_iter().flatten().flat_map(Figures::all_doubts);
    let [one, other] = log_z;
    let shared = one
        .zip(other)
        .and_then(|(one, other)| one.shares_seed(other));
    let doubts = Vec::from_iter(of_both.chain(shared));
    let text = with_doubts(&found.to_string(), &doubts);
    let value = (found.value, found.standard_error, found.interval);
    Ok((
        value,
        (found.error_over_rows, found.error_of_log_z),
        doubts,
        text,
    ))
}
