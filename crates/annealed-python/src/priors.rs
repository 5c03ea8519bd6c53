//! Priors that Python creates by name and arguments.

use annealed::bidirectional::TargetSamples;
use annealed::model::{JointPrior, Prior as Law, Priors};
use annealed::{Error, Result};
use numpy::PyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::OrRaise;
use crate::kept::{Kept, Reduced, reduce, restore};

/// The content of a prior: its name and arguments, as they came from Python.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Named {
    name: String,
    arguments: Vec<f64>,
    /// The prior of a single parameter that `ordered`, `effects` and `independent` use `count` times.
    of: Option<Box<Named>>,
    count: usize,
}

impl Named {
    fn single(&self) -> Result<Law> {
        let (name, arguments) = (self.name.as_str(), self.arguments.as_slice());
        match (name, arguments) {
            ("normal", &[mean, deviation]) => Law::normal(mean, deviation),
            ("student_t", &[degrees, location, scale]) => Law::student_t(degrees, location, scale),
            ("log_normal", &[mean, deviation]) => Law::log_normal(mean, deviation),
            ("exponential", &[rate]) => Law::exponential(rate),
            ("gamma", &[shape, rate]) => Law::gamma(shape, rate),
            ("inverse_gamma", &[shape, scale]) => Law::inverse_gamma(shape, scale),
            ("half_normal", &[deviation]) => Law::half_normal(deviation),
            ("half_cauchy", &[scale]) => Law::half_cauchy(scale),
            ("truncated_normal", &[mean, deviation, low, high]) => {
                Law::truncated_normal(mean, deviation, low, high)
            }
            ("beta", &[a, b]) => Law::beta(a, b),
            ("uniform", &[low, high]) => Law::uniform(low, high),
            _ => Err(Error::invalid(
                "prior",
                name,
                "a prior of a single parameter",
            )),
        }
    }

    fn part(&self) -> Result<Law> {
        let of = self.of.as_deref();
        of.map_or_else(
            || Err(Error::invalid("prior", "none", "a prior")),
            Self::single,
        )
    }

    /// Returns the prior distributions in the order of the parameters. A single distribution may be of several
    /// parameters.
    fn laws(&self) -> Result<Vec<JointPrior>> {
        let index = |i: usize| match self.arguments.get(i) {
            Some(&index) if index >= 0.0 => Some(index as usize),
            _ => None,
        };
        let law = match self.name.as_str() {
            "dirichlet" => JointPrior::dirichlet(self.arguments.clone())?,
            "ordered" => JointPrior::ordered(self.part()?, self.count)?,
            "effects" => match (index(1), self.arguments.get(2)) {
                (Some(of), Some(&power)) if power != 1.0 => {
                    JointPrior::effects_by_power(self.part()?, self.count, index(0), of, power)?
                }
                (scale, _) => JointPrior::effects(self.part()?, self.count, index(0), scale)?,
            },
            "independent" => return Ok(vec![self.part()?.into(); self.count]),
            _ => self.single()?.into(),
        };
        Ok(vec![law])
    }

    /// Returns the name and the arguments of the prior of each parameter, and the number of parameters if they are
    /// independent.
    pub fn repeated(&self) -> (&str, &[f64], usize) {
        match (self.name.as_str(), &self.of) {
            ("independent", Some(of)) => (&of.name, &of.arguments, self.count),
            (name, _) => (name, &self.arguments, 1),
        }
    }

    /// Returns the number of parameters. `None` means a single parameter, whose name has no index.
    pub fn parameters(&self) -> Option<usize> {
        match self.name.as_str() {
            "dirichlet" => Some(self.arguments.len()),
            "ordered" | "effects" | "independent" => Some(self.count),
            _ => None,
        }
    }
}

impl Kept for Named {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, Prior { named: self })?.into_any())
    }
}

/// The prior of one or several parameters. Create it by a function of the package, such as `annealed.normal(0, 1)`.
#[pyclass(frozen, module = "annealed", eq)]
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// Name and arguments.
    pub named: Named,
}

#[pymethods]
impl Prior {
    /// Number of parameters. None for a single one.
    #[getter]
    fn parameters(&self) -> Option<usize> {
        self.named.parameters()
    }

    fn __repr__(&self) -> String {
        self.named.text()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.named)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Named>(py, bytes)
    }
}

impl Named {
    /// Refuses effects of the prior `name` whose location or scale is not among the `earlier` parameters.
    fn check_places(&self, name: &str, earlier: usize) -> Result<()> {
        let places = ["location", self.of_scale()]
            .into_iter()
            .zip(&self.arguments);
        let late = |(_, index): &(&str, &f64)| **index >= earlier as f64;
        match places.filter(|_| self.name == "effects").find(late) {
            None => Ok(()),
            Some((place, index)) => Err(Error::invalid(
                "prior",
                format!("{name} with {place}={index}, after {earlier} parameters"),
                format!(
                    "the index of an earlier one: put the parameter of {place} before its effects"
                ),
            )),
        }
    }

    /// Returns the name of the argument of effects that gives their scale.
    fn of_scale(&self) -> &'static str {
        match self.arguments.get(2) {
            Some(&0.5) => "variance",
            Some(&-0.5) => "precision",
            _ => "scale",
        }
    }

    fn text(&self) -> String {
        let arguments = self.arguments.iter().map(f64::to_string);
        let arguments = Vec::from_iter(arguments).join(", ");
        match (&self.of, self.name.as_str()) {
            (Some(of), "effects") => {
                let places = ["location", self.of_scale()]
                    .into_iter()
                    .zip(&self.arguments);
                let places = places.filter(|(_, index)| **index >= 0.0);
                let places = places.map(|(name, index)| format!(", {name}={index}"));
                let places = String::from_iter(places);
                format!("annealed.effects({}, {}{places})", of.text(), self.count)
            }
            (Some(of), _) => format!("annealed.{}({}, {})", self.name, of.text(), self.count),
            (None, "dirichlet") => format!("annealed.dirichlet([{arguments}])"),
            (None, name) => format!("annealed.{name}({arguments})"),
        }
    }
}

/// Creates a prior by its name. If `of` is given, it is the prior of each of `count` parameters.
#[pyfunction]
#[pyo3(signature = (name, arguments, of = None, count = 1))]
pub fn prior(
    name: String,
    arguments: Vec<f64>,
    of: Option<&Prior>,
    count: usize,
) -> PyResult<Prior> {
    let of = of.map(|of| Box::new(of.named.clone()));
    let named = Named {
        name,
        arguments,
        of,
        count,
    };
    named.laws().or_raise()?;
    Ok(Prior { named })
}

/// Returns the priors of all parameters, by their names.
pub fn joint(named: &[(String, Named)]) -> Result<Priors> {
    let mut all = Vec::new();
    for (i, (name, prior)) in named.iter().enumerate() {
        prior.check_places(name, names(&named[..i]).len())?;
        for (i, law) in prior.laws()?.into_iter().enumerate() {
            // The library adds indices to a law of several parameters, but not to a law of a single one.
            let name = match (prior.name.as_str(), prior.parameters()) {
                ("independent", _) | (_, Some(1)) => format!("{name}[{i}]"),
                _ => name.clone(),
            };
            all.push((name, law));
        }
    }
    Priors::named(all)
}

/// Returns the names of parameters as in the library's tables.
pub fn names(named: &[(String, Named)]) -> Vec<String> {
    let of = |(name, prior): &(String, Named)| match prior.parameters() {
        None => vec![name.clone()],
        Some(count) => (0..count).map(|i| format!("{name}[{i}]")).collect(),
    };
    named.iter().flat_map(of).collect()
}

/// Draws states from the priors, and returns their parameters, (n, d).
#[pyfunction]
pub fn prior_draws<'py>(
    py: Python<'py>,
    priors: Vec<(String, PyRef<'py, Prior>)>,
    n: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let priors = joint(&of_call(priors)).or_raise()?;
    let draws = TargetSamples::draw(&priors, n, seed);
    let rows = draws.states().iter().map(|state| priors.parameters(state));
    let rows = Vec::from_iter(rows.map(|row| row.as_slice().to_vec()));
    PyArray2::from_vec2(py, &rows).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the contents of the priors that a call from Python passes.
pub fn of_call(priors: Vec<(String, PyRef<'_, Prior>)>) -> Vec<(String, Named)> {
    let priors = priors.into_iter();
    priors
        .map(|(name, prior)| (name, prior.named.clone()))
        .collect()
}
