//! Free energies of many states.

use annealed::estimate::{Dependence, Difference, LogZ, Mbar, WeightedSample};
use annealed::nalgebra::DMatrix;
use annealed::{Error, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::convert::numbers;
use crate::errors::OrRaise;
use crate::log_z::doubts;

/// Arguments of the estimate: log densities (draws, states), the state of each draw, how draws depend, times.
type Given = (Py<PyArray2<f64>>, Vec<usize>, String, Option<Vec<f64>>);

/// The estimate with what it was made from, so that it can be pickled.
#[pyclass(frozen, module = "annealed")]
pub struct States {
    found: Mbar,
    given: Given,
}

/// Estimates log Z of all states from log densities of draws (rows) under the states (columns).
#[pyfunction]
pub fn mbar(
    py: Python<'_>,
    log_densities: Bound<'_, PyArray2<f64>>,
    labels: Vec<usize>,
    draws: String,
    times: Option<Vec<f64>>,
) -> PyResult<States> {
    let matrix = crate::convert::matrix(&log_densities.readonly());
    let made = || -> Result<Mbar> {
        let dependence = dependence(&draws, times.as_deref(), &labels)?;
        Mbar::from_labels(matrix, labels.clone(), dependence)
    };
    let found = py.detach(made).or_raise()?;
    Ok(States {
        found,
        given: (log_densities.unbind(), labels, draws, times),
    })
}

fn dependence(draws: &str, times: Option<&[f64]>, labels: &[usize]) -> Result<Dependence> {
    match (draws, times) {
        ("independent", _) => Ok(Dependence::Independent),
        ("chains", None) => Ok(Dependence::Chains),
        ("chains", Some(times)) => Dependence::chains(times, labels),
        ("replicas", Some(times)) => Dependence::replicas(times),
        ("replicas", None) => Err(Error::invalid(
            "times",
            "None",
            "the time of each draw, for draws=\"replicas\"",
        )),
        _ => Err(Error::invalid(
            "draws",
            draws,
            "independent, chains or replicas",
        )),
    }
}

/// A value with its error and its interval, and warnings with their names.
type Figures = (f64, f64, (f64, f64), Vec<(String, String)>);

fn figures(found: &impl LogZ) -> Figures {
    let doubts = doubts("annealed.mbar", found.warnings());
    (
        found.log_z(),
        found.standard_error(),
        found.interval(),
        doubts,
    )
}

fn array<'py>(py: Python<'py>, matrix: &DMatrix<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let values = Vec::from_iter(
        matrix
            .row_iter()
            .flat_map(|row| Vec::from_iter(row.iter().copied())),
    );
    PyArray1::from_vec(py, values).reshape([matrix.nrows(), matrix.ncols()])
}

/// A mean with its error, and the warnings.
type Mean = ((f64, f64), Vec<(String, String)>);
/// Free energy, standard error and warnings of a bin.
type Bin = (f64, f64, Vec<(String, String)>);
/// The function and the arguments that make States again: densities, labels, draws and times.
type Reduced<'py> = (
    Bound<'py, PyAny>,
    (Bound<'py, PyAny>, Vec<usize>, String, Option<Vec<f64>>),
);

#[pymethods]
impl States {
    /// log Z of each state (row) less log Z of each state (column), and the standard errors.
    fn differences<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyArray2<f64>>; 2]> {
        let k = self.found.log_z().len();
        let (mut values, mut errors) = (DMatrix::zeros(k, k), DMatrix::zeros(k, k));
        for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
            let found = self.found.difference(i, j).or_raise()?;
            (values[(i, j)], errors[(i, j)]) = (found.log_z(), found.standard_error());
        }
        Ok([array(py, &values)?, array(py, &errors)?])
    }

    fn difference(&self, i: usize, j: usize) -> PyResult<Figures> {
        Ok(figures(&self.found.difference(i, j).or_raise()?))
    }

    fn overlap<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        array(py, self.found.overlap_matrix())
    }

    /// Bennett's overlap of two states.
    fn overlap_of(&self, i: usize, j: usize) -> PyResult<f64> {
        self.found.overlap(i, j).or_raise()
    }

    /// Effective draws and autocorrelation times of each state.
    fn draws(&self) -> (Vec<f64>, Vec<f64>) {
        (
            self.found.effective_draws().to_vec(),
            self.found.autocorrelation_times().to_vec(),
        )
    }

    fn doubts(&self) -> Vec<(String, String)> {
        doubts("annealed.mbar", self.found.warnings())
    }

    /// The figures of log Z at a further state, its effective draws, and the log weights of all draws there.
    fn at<'py>(
        &self,
        py: Python<'py>,
        log_densities: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<(Figures, f64, Bound<'py, PyArray1<f64>>)> {
        let further = numbers(&log_densities);
        let weights = py.detach(|| self.found.weights_at(&further)).or_raise()?;
        let of_weights = PyArray1::from_slice(py, &weights.weighted_states().log_weights);
        Ok((
            figures(weights.log_z()),
            weights.effective_draws(),
            of_weights,
        ))
    }

    /// The mean of values of the draws at a further state with its standard error, and the warnings of this state.
    fn mean(
        &self,
        py: Python<'_>,
        log_densities: PyReadonlyArray1<'_, f64>,
        values: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Mean> {
        let (further, values) = (numbers(&log_densities), numbers(&values));
        let mean = || -> Result<_> {
            let weights = self.found.weights_at(&further)?;
            if values.len() != further.len() {
                return Err(Error::invalid("values", values.len(), "one for each draw"));
            }
            let doubts = doubts("annealed.mbar", weights.log_z().warnings());
            Ok((weights.expectation(|draw| values[*draw]), doubts))
        };
        py.detach(mean).or_raise()
    }

    /// The free energy of each bin of a coordinate less that of the lowest bin, with its standard error and the warnings;
    /// `(inf, NaN)` for a bin without draws.
    fn profile(
        &self,
        py: Python<'_>,
        log_densities: PyReadonlyArray1<'_, f64>,
        values: PyReadonlyArray1<'_, f64>,
        edges: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Vec<Bin>> {
        let [further, values, edges] = [&log_densities, &values, &edges].map(numbers);
        let bins = py
            .detach(|| self.found.profile(&further, &values, &edges))
            .or_raise()?;
        let figures = |bin: Option<Difference>| match bin {
            Some(bin) => (
                -bin.log_z(),
                bin.standard_error(),
                doubts("annealed.mbar", bin.warnings()),
            ),
            None => (f64::INFINITY, f64::NAN, Vec::new()),
        };
        Ok(bins.into_iter().map(figures).collect())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let (densities, labels, draws, times) = &self.given;
        let make = py.import("annealed._annealed")?.getattr("mbar")?;
        Ok((
            make,
            (
                densities.bind(py).clone().into_any(),
                labels.clone(),
                draws.clone(),
                times.clone(),
            ),
        ))
    }
}
