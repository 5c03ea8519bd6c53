//! Log Z by bridge sampling from given draws.

use annealed::bidirectional::BridgeSampling as Bridge;
use annealed::model::{Gaussian, GaussianMixture, StudentT, UnnormalizedModel};
use annealed::nalgebra::DVector;
use annealed::path::TemperedPath;
use annealed::{Error, Result};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::convert::states;
use crate::desk::{Calls, Desk};
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::likelihood::{Likelihood, PythonFunction};
use crate::log_z::{Figures, LogZ};
use crate::priors::{Prior, joint, names, of_call};

/// The part of the error after "expected", for a density that is not finite at some draw.
const GIVEN_DENSITY: &str = "a finite log density at each draw: draws of a positive parameter need their logarithm, and the \
                             density its Jacobian, or give prior and log_likelihood in its place";
/// The part of the error after "expected", for a likelihood that is not finite at some draw.
const GIVEN_PRIORS: &str = "a finite log likelihood at each draw, whose columns are the parameters in the order of the prior";

/// The numbers that bridge sampling returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bridged {
    figures: Figures,
    overlap: f64,
    effective_draws: f64,
}

impl Kept for Bridged {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let figures = self.figures.clone();
        let base = PyClassInitializer::from(LogZ { figures });
        let made = base.add_subclass(BridgeSampling { kept: self });
        Ok(Bound::new(py, made)?.into_any())
    }
}

/// The result of `annealed.from_draws`: log Z by bridge sampling. It leaves out modes that no draw visited.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct BridgeSampling {
    kept: Bridged,
}

#[pymethods]
impl BridgeSampling {
    /// Overlap of the draws and the fitted distributions: 1 if they are equal, 0 if they are disjoint.
    #[getter]
    fn overlap(&self) -> f64 {
        self.kept.overlap
    }

    /// Number of independent draws that would estimate the mean of the log density as well as these draws.
    #[getter]
    fn effective_draws(&self) -> f64 {
        self.kept.effective_draws
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.kept)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Bridged>(py, bytes)
    }
}

/// Fits a distribution of the family `law` to the draws, and estimates log Z of the target.
fn estimate<M>(
    law: &str,
    target: &M,
    chains: &[Vec<DVector<f64>>],
    seed: u64,
    divergences: usize,
) -> Result<Bridged>
where
    M: UnnormalizedModel<State = DVector<f64>>,
{
    macro_rules! by {
        ($law:ty) => {{
            let found = Bridge::<$law>::new(target, chains, seed)?.with_divergences(divergences);
            Ok(Bridged {
                figures: Figures::of(&found),
                overlap: found.overlap(),
                effective_draws: found.effective_draws(),
            })
        }};
    }
    match law {
        "student_t" => by!(StudentT),
        "gaussian" => by!(Gaussian),
        "mixture" => by!(GaussianMixture),
        _ => Err(Error::invalid("law", law, "student_t, gaussian or mixture")),
    }
}

/// Estimates log Z from draws (draws, d) of each chain and a function of a batch of draws. The function returns their log
/// densities, or with priors the log likelihoods of the parameters.
#[pyfunction]
#[pyo3(signature = (draws, function, *, priors, law, epsilon, seed, divergences, notes, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn bridge_sampling<'py>(
    py: Python<'py>,
    draws: Vec<PyReadonlyArray2<'py, f64>>,
    function: Py<PyAny>,
    priors: Option<Vec<(String, PyRef<'py, Prior>)>>,
    law: &str,
    epsilon: f64,
    seed: u64,
    divergences: usize,
    notes: Vec<(String, String)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dimension = draws.first().map_or(0, |chain| chain.shape()[1]);
    let draws: Vec<_> = draws.iter().map(states).collect();
    let named = priors.map(of_call);
    let expected = match named {
        Some(_) => GIVEN_PRIORS,
        None => GIVEN_DENSITY,
    };
    let bridged = |calls: &Calls| {
        let likelihood = Likelihood::of_values(dimension, epsilon, calls)?;
        let Some(named) = &named else {
            return estimate(law, &likelihood, &draws, seed, divergences);
        };
        let priors = joint(named)?;
        check_count(dimension, names(named).len())?;
        let states = |(c, chain): (usize, &Vec<DVector<f64>>)| {
            let draws = chain.iter().enumerate().map(|(i, draw)| {
                let state = priors.state(draw.as_slice());
                state.map_err(|error| outside(error, format!("draw {i} of chain {c}")))
            });
            draws.collect::<Result<Vec<_>>>()
        };
        let draws = draws.iter().enumerate().map(states);
        let draws = draws.collect::<Result<Vec<_>>>()?;
        let path = TemperedPath::new(&priors, priors.likelihood(likelihood));
        estimate(law, &path.at(1.0), &draws, seed, divergences)
    };
    let work = |calls: &Calls| {
        let found = bridged(calls).map_err(|error| hinted(error, expected))?;
        let figures = found.figures.by("annealed.from_draws", seed).noting(notes);
        Ok(Bridged { figures, ..found })
    };
    let function = PythonFunction {
        function,
        dimension,
    };
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    Desk::new(Some(1), progress)?.run(py, &call, work, |py, kept| kept.object(py))
}

/// Adds the `place` of a draw that the prior excludes.
fn outside(error: Error, place: String) -> Error {
    match error {
        Error::InvalidArgument {
            value, expected, ..
        } => Error::invalid("draws", format!("{value} at {place}"), expected),
        other => other,
    }
}

/// Adds `expected` to the error for a draw at which the density is not finite.
fn hinted(error: Error, expected: &'static str) -> Error {
    match error {
        Error::InvalidArgument {
            argument: "draws",
            value,
            ..
        } if value.starts_with("log density") => Error::invalid("draws", value, expected),
        other => other,
    }
}

fn check_count(found: usize, expected: usize) -> Result<()> {
    let argument = "draws";
    match found == expected {
        true => Ok(()),
        false => Err(Error::DimensionMismatch {
            argument,
            found,
            expected,
        }),
    }
}
