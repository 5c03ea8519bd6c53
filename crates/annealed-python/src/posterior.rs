//! The posterior from a run: parameters, draws and a table, together with the log evidence.

use std::collections::HashMap;
use std::path::PathBuf;

use annealed::Result;
use annealed::ais::Run;
use annealed::estimate::{LogZ as _, Quantities, SummaryRow, WeightedSample};
use annealed::nalgebra::DVector;
use numpy::{PyArray1, PyArray2, PyArrayMethods, ToPyArray};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::OrRaise;
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::log_z::{Figures, LogZ};
use crate::priors::{Named, joint, names};

type State = DVector<f64>;

/// A posterior: its figures, the run whose log Z is reported, and the parameters at the run's states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Posterior {
    figures: Figures,
    run: Run<State>,
    parameters: Parameters,
}

/// The rule by which states become parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Parameters {
    /// Priors with the names of their parameters. The priors map states to parameters.
    Priors(Vec<(String, Named)>),
    /// Parameters of a Stan model: their names, and their values at each state of the run, row after row.
    Listed(Vec<String>, Vec<f64>),
}

impl Posterior {
    /// Creates the posterior from its parts.
    pub fn new(figures: Figures, run: Run<State>, parameters: Parameters) -> Self {
        Self {
            figures,
            run,
            parameters,
        }
    }

    /// Returns the names, and the parameters of each state, row after row.
    fn table(&self) -> Result<(Vec<String>, Vec<f64>)> {
        match &self.parameters {
            Parameters::Listed(names, values) => Ok((names.clone(), values.clone())),
            Parameters::Priors(named) => {
                let priors = joint(named)?;
                let states = self.run.states().iter();
                let values = states.flat_map(|state| priors.parameters(state).as_slice().to_vec());
                let values = values.collect();
                Ok((names(named), values))
            }
        }
    }
}

impl Kept for Posterior {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let figures = self.figures.clone();
        let base = PyClassInitializer::from(LogZ { figures });
        let made = base.add_subclass(Evidence { kept: self });
        Ok(Bound::new(py, made)?.into_any())
    }
}

/// The result of `annealed.evidence`, `annealed.log_z` and `annealed.stan`: log Z, and the distribution with this normaliser.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct Evidence {
    kept: Posterior,
}

#[pymethods]
impl Evidence {
    /// The names of the parameters. Elements of a vector have an index: "mu", "theta[0]", "theta[1]".
    #[getter]
    fn parameter_names(&self) -> PyResult<Vec<String>> {
        Ok(self.kept.table().or_raise()?.0)
    }

    /// The parameters at the final states of the chains, (chains, d). Weight them by `exp(log_weights)`, or use
    /// `draws(n)`.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (names, values) = self.kept.table().or_raise()?;
        PyArray1::from_vec(py, values).reshape([self.kept.run.states().len(), names.len()])
    }

    /// The log weights of the chains, (chains,).
    #[getter]
    fn log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.kept.run.log_weights().to_pyarray(py)
    }

    /// Number of chains.
    #[getter]
    fn chains(&self) -> usize {
        self.kept.run.chains()
    }

    /// Number of stages of the run whose log Z is reported.
    #[getter]
    fn stages(&self) -> usize {
        self.kept.run.schedule().stages()
    }

    /// Effective sample size of the log weights.
    #[getter]
    fn effective_sample_size(&self) -> f64 {
        self.kept.run.effective_sample_size()
    }

    /// Returns n equally weighted draws of the parameters: a dict by name of arrays, (n,) or (n, size) for a vector.
    ///
    /// n may be any number. If it exceeds the effective sample size, draws repeat. Copies are adjacent; do not shuffle
    /// them, because programs that count effective draws by autocorrelation, such as ArviZ, would then count copies as
    /// new.
    #[pyo3(signature = (n = None, *, seed = None), text_signature = "($self, n=1000, *, seed=0)")]
    fn draws<'py>(
        slf: &Bound<'py, Self>,
        n: Option<Bound<'py, PyAny>>,
        seed: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._evidence")?;
        package.getattr("draws")?.call1((slf, n, seed))
    }

    /// Returns means, deviations and quantiles of the parameters: a dict by name, whose text is a table.
    ///
    /// Each row has `mean`, `sd` (standard deviation), `q5`, `median` and `q95` of the parameter under the posterior. `error` is
    /// the standard error of the mean. `draws` is the number of independent draws whose mean would have this error.
    fn summary<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._evidence")?;
        package.getattr("summary")?.call1((slf,))
    }

    /// Returns n draws as InferenceData of ArviZ, in one chain, with the attributes log_evidence and
    /// log_evidence_error.
    #[pyo3(signature = (n = None, *, seed = None), text_signature = "($self, n=1000, *, seed=0)")]
    fn to_arviz<'py>(
        slf: &Bound<'py, Self>,
        n: Option<Bound<'py, PyAny>>,
        seed: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._evidence")?;
        package.getattr("to_arviz")?.call1((slf, n, seed))
    }

    /// Returns draws, an array (n, d) with a row of parameters for each draw.
    fn _draws<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let columns = self.kept.columns(n, seed).or_raise()?;
        let rows = (0..n).flat_map(|i| columns.iter().map(move |column| column[i]));
        let rows = rows.collect();
        PyArray1::from_vec(py, rows).reshape([n, columns.len()])
    }

    /// Returns the summary of the parameters as a text with a table, and as a row for each parameter.
    fn _summary(&self) -> PyResult<(String, Vec<Row>)> {
        self.kept.summary().or_raise()
    }

    /// Draws the run as an SVG file: error of log Z along the path, effective sample size, variance by stage, log weights.
    ///
    /// Raises OSError if the file cannot be written.
    fn plot(&self, path: PathBuf) -> PyResult<()> {
        let picture = annealed_plot::runs([("", &self.kept.run)]);
        picture
            .warnings(self.kept.figures.warnings())
            .seed(self.kept.figures.seed())
            .save(path)
            .or_raise()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.kept)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Posterior>(py, bytes)
    }
}

/// Summary of a parameter: name, mean, standard deviation, quantiles of 5%, 50% and 95%, error and effective draws of
/// the mean.
type Row = (String, f64, f64, [f64; 3], (f64, f64));

impl Posterior {
    fn columns(&self, n: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
        let draws = self.run.draws(n, seed)?;
        let columns = self.with_quantities(|quantities| draws.columns(quantities))?;
        Ok(columns.into_iter().map(|(_, column)| column).collect())
    }

    fn summary(&self) -> Result<(String, Vec<Row>)> {
        let mut table = self.with_quantities(|quantities| self.run.summary(quantities))?;
        // After a challenge the figures combine both runs.
        table.log_z = self.figures.log_z();
        table.standard_error = self.figures.standard_error();
        table.interval = self.figures.interval();
        table.warnings = self.figures.warnings().to_vec();
        let text = self.figures.worded(&table.to_string());
        let row = |row: SummaryRow| {
            let quantiles = [row.q5, row.median, row.q95];
            let of_mean = (row.standard_error, row.effective_draws);
            (
                row.name,
                row.mean,
                row.standard_deviation,
                quantiles,
                of_mean,
            )
        };
        Ok((text, table.rows.into_iter().map(row).collect()))
    }

    /// Calls `with` with the parameters as functions of the state.
    fn with_quantities<T>(
        &self,
        with: impl FnOnce(Quantities<'_, State>) -> Result<T>,
    ) -> Result<T> {
        match &self.parameters {
            Parameters::Priors(named) => with((&joint(named)?).into()),
            Parameters::Listed(names, values) => {
                let bits = |state: &State| Vec::from_iter(state.iter().map(|x| x.to_bits()));
                let rows = values.chunks_exact(names.len());
                let rows: HashMap<_, _> = self.run.states().iter().map(bits).zip(rows).collect();
                let rows = &rows;
                let quantities = (0..names.len()).fold(Quantities::default(), |all, i| {
                    all.with(&names[i], move |state: &State| {
                        rows.get(&bits(state)).map_or(f64::NAN, |row| row[i])
                    })
                });
                with(quantities)
            }
        }
    }
}
