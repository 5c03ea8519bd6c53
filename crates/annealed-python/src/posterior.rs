//! The posterior from a run: parameters, draws and a table, together with the log evidence.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use annealed::ais::Run;
use annealed::estimate::{
    Quantities, SummaryRow, Warning, WeightSums, WeightedSample, WeightedStates,
};
use annealed::{Error, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods, ToPyArray};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::OrRaise;
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::log_z::{Figures, LogZ};
use crate::priors::{Named, joint, names};
use crate::problem::{Problem, State};

/// A posterior: its figures, the states of the run whose log Z is reported, and the parameters at these states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Posterior {
    pub figures: Figures,
    pub source: Source,
    pub parameters: Parameters,
}

/// The states of a posterior.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Source {
    /// A run of annealing.
    Run(Box<Run<State>>),
    /// Weighted states of another method.
    Sample(Sample),
}

/// Weighted states of nested levels or of tempering.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    states: Vec<State>,
    log_weights: Vec<f64>,
    /// Index of each state's island or ladder.
    units: Vec<usize>,
    /// Number of islands or ladders.
    groups: usize,
    /// Number of levels, or of steps from one beta to the next.
    stages: usize,
}

impl Sample {
    /// Copies the states of a run.
    pub fn of(run: &impl WeightedSample<State = State>, groups: usize, stages: usize) -> Self {
        let found = run.weighted_states();
        Self {
            states: found.states.to_vec(),
            log_weights: found.log_weights.into_owned(),
            units: found.units.into_owned(),
            groups,
            stages,
        }
    }
}

impl WeightedSample for Posterior {
    type State = State;

    fn weighted_states(&self) -> WeightedStates<'_, State> {
        match &self.source {
            Source::Run(run) => run.weighted_states(),
            Source::Sample(sample) => WeightedStates {
                states: &sample.states,
                log_weights: Cow::Borrowed(&sample.log_weights),
                units: Cow::Borrowed(&sample.units),
            },
        }
    }
}

impl Display for Posterior {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.figures.fmt(f)
    }
}

/// The figures, which combine both runs after a challenge.
impl annealed::estimate::LogZ for Posterior {
    fn log_z(&self) -> f64 {
        self.figures.log_z()
    }

    fn standard_error(&self) -> f64 {
        self.figures.standard_error()
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.figures.interval_at(level)
    }

    fn warnings(&self) -> &[Warning] {
        self.figures.warnings()
    }

    fn evaluations(&self) -> u64 {
        self.figures.evaluations()
    }

    fn seconds(&self) -> f64 {
        self.figures.seconds()
    }
}

/// A result of the library that is about to become an object of Python.
pub struct Found {
    pub posterior: Posterior,
    /// The result itself, which a challenge judges.
    pub first: Box<dyn annealed::estimate::LogZ + Send + Sync>,
    /// The kernel of the last of several rounds, if they had a base of their own.
    pub kernel: Option<Box<dyn Any + Send + Sync>>,
}

impl Found {
    /// Takes the result of nested levels or of tempering with its states.
    pub fn of_sample(
        run: impl annealed::estimate::LogZ + Send + Sync + 'static,
        sample: Sample,
        (call, seed): (&str, u64),
        problem: &Problem,
    ) -> Self {
        let figures = Figures::of(&run).by(call, seed);
        let parameters = Parameters::Priors(problem.named());
        Self {
            posterior: Posterior::new(figures, Source::Sample(sample), parameters),
            first: Box::new(run),
            kernel: None,
        }
    }

    /// Adds the evaluations and the seconds of the work before the run.
    pub fn after(mut self, evaluations: u64, seconds: f64) -> Self {
        self.posterior.figures = self.posterior.figures.after(evaluations, seconds);
        self
    }

    /// Creates the Python object, which keeps the problem.
    pub fn object<'py>(
        self,
        py: Python<'py>,
        problem: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let live = Live {
            problem: problem.clone().unbind(),
            first: self.first,
            kernel: self.kernel,
        };
        self.posterior.object_with(py, Some(live))
    }
}

/// The parts of a result that further runs need, and that no pickle keeps.
pub struct Live {
    problem: Py<PyAny>,
    first: Box<dyn annealed::estimate::LogZ + Send + Sync>,
    kernel: Option<Box<dyn Any + Send + Sync>>,
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
    pub fn new(figures: Figures, source: Source, parameters: Parameters) -> Self {
        Self {
            figures,
            source,
            parameters,
        }
    }

    fn object_with(self, py: Python<'_>, live: Option<Live>) -> PyResult<Bound<'_, PyAny>> {
        let figures = self.figures.clone();
        let base = PyClassInitializer::from(LogZ { figures });
        let made = base.add_subclass(Evidence { kept: self, live });
        Ok(Bound::new(py, made)?.into_any())
    }

    /// Returns the run of annealing.
    ///
    /// # Errors
    /// The states are not those of such a run.
    pub fn run(&self) -> Result<&Run<State>> {
        match &self.source {
            Source::Run(run) => Ok(run),
            Source::Sample(_) => {
                let expected = "one of annealed.evidence or annealed.stan";
                Err(Error::invalid(
                    "run",
                    "a result of levels or ladders",
                    expected,
                ))
            }
        }
    }

    /// Returns the names, and the parameters of each state, row after row.
    fn table(&self) -> Result<(Vec<String>, Vec<f64>)> {
        match &self.parameters {
            Parameters::Listed(names, values) => Ok((names.clone(), values.clone())),
            Parameters::Priors(named) => {
                let priors = joint(named)?;
                let states = self.weighted_states().states.iter();
                let values = states.flat_map(|state| priors.parameters(state).as_slice().to_vec());
                let values = values.collect();
                Ok((names(named), values))
            }
        }
    }
}

impl Kept for Posterior {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        self.object_with(py, None)
    }
}

/// The result of `annealed.evidence`, `annealed.log_z`, `annealed.nested`, `annealed.tempering` and `annealed.stan`: log Z,
/// and the distribution with this normaliser.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct Evidence {
    kept: Posterior,
    live: Option<Live>,
}

impl Evidence {
    /// Returns the content of pickles.
    pub fn kept(&self) -> &Posterior {
        &self.kept
    }

    fn live(&self) -> Result<&Live> {
        let expected = "one of annealed.evidence, annealed.nested or annealed.tempering in this process, since it keeps the \
                        prior and the function; a pickle and the result of a challenge do not";
        self.live
            .as_ref()
            .ok_or_else(|| Error::invalid("run", "a result without its function", expected))
    }

    /// Returns the library's own result.
    pub fn first(&self) -> Result<&(dyn annealed::estimate::LogZ + Send + Sync)> {
        Ok(&*self.live()?.first)
    }

    /// Returns the kernel of the last round.
    pub fn kernel(&self) -> Result<&(dyn Any + Send + Sync)> {
        let kernel = self.live()?.kernel.as_deref();
        let expected = "one of annealed.evidence without fitted=True";
        kernel.ok_or_else(|| {
            Error::invalid("run", "a result without rounds from the prior", expected)
        })
    }
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
        PyArray1::from_vec(py, values)
            .reshape([self.kept.weighted_states().states.len(), names.len()])
    }

    /// The log weights of the chains, (chains,).
    #[getter]
    fn log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let found = self.kept.weighted_states();
        found.log_weights.to_pyarray(py)
    }

    /// Number of chains, of islands of chains (`annealed.nested`) or of ladders (`annealed.tempering`).
    #[getter]
    fn chains(&self) -> usize {
        match &self.kept.source {
            Source::Run(run) => run.chains(),
            Source::Sample(sample) => sample.groups,
        }
    }

    /// Number of stages of the run whose log Z is reported; of levels, or of steps between the betas of a ladder.
    #[getter]
    fn stages(&self) -> usize {
        match &self.kept.source {
            Source::Run(run) => run.schedule().stages(),
            Source::Sample(sample) => sample.stages,
        }
    }

    /// Effective sample size of the log weights.
    #[getter]
    fn effective_sample_size(&self) -> f64 {
        match &self.kept.source {
            Source::Run(run) => run.effective_sample_size(),
            Source::Sample(sample) => {
                let mut sums = WeightSums::default();
                sample
                    .log_weights
                    .iter()
                    .for_each(|&log_weight| sums.add(log_weight));
                sums.effective_sample_size()
            }
        }
    }

    /// The prior and the function, for further runs.
    #[getter]
    fn _problem(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.live().or_raise()?.problem.clone_ref(py))
    }

    /// The seed of the run.
    #[getter]
    fn _seed(&self) -> u64 {
        self.kept.figures.seed()
    }

    /// Looks for mass that this run missed, by a second run from bases around other modes.
    ///
    /// budget: density evaluations, by default as many as this run took (with `fitted`, as all rounds without it). The
    /// search evaluates single states, so it makes far more calls than the run: one run of 0.8 s took 19 s more, for
    /// 299,043 such calls. seed: by default this run's. time_limit, threads, progress: as of `annealed.evidence`.
    ///
    /// Returns an Evidence: this one or a better second run, with a line on the judgement and both runs' cost. Raises
    /// ValueError for a result of a pickle, since a pickle keeps no function.
    #[pyo3(signature = (*, budget = None, seed = None, time_limit = None, threads = None, progress = None))]
    fn challenge<'py>(
        slf: &Bound<'py, Self>,
        budget: Option<Bound<'py, PyAny>>,
        seed: Option<Bound<'py, PyAny>>,
        time_limit: Option<Bound<'py, PyAny>>,
        threads: Option<Bound<'py, PyAny>>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._evidence")?;
        let challenge = package.getattr("challenge")?;
        challenge.call1((slf, budget, seed, time_limit, threads, progress))
    }

    /// Runs from samples of the posterior back to the prior, and forward again, and joins both directions.
    ///
    /// samples: parameters drawn from the posterior, a dict by name as `draws(n)` of another run returns, or an array
    /// (n, d). exact: whether they are exact; with exact samples the result narrows the interval, other samples can only
    /// show that the stages are too few. seed: by default this run's. The stages and the kernel are those of the last
    /// round, so `fitted=True` has no reverse. Returns a BothDirections.
    #[pyo3(signature = (samples, *, exact = false, seed = None, time_limit = None, threads = None, progress = None))]
    fn reverse<'py>(
        slf: &Bound<'py, Self>,
        samples: Bound<'py, PyAny>,
        exact: bool,
        seed: Option<Bound<'py, PyAny>>,
        time_limit: Option<Bound<'py, PyAny>>,
        threads: Option<Bound<'py, PyAny>>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._evidence")?;
        let reverse = package.getattr("reverse")?;
        reverse.call1((slf, samples, exact, seed, time_limit, threads, progress))
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
    /// Raises OSError if the file cannot be written, and ValueError for levels and ladders, which have no picture.
    fn plot(&self, path: PathBuf) -> PyResult<()> {
        let picture = annealed_plot::runs([("", self.kept.run().or_raise()?)]);
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
        let draws = WeightedSample::draws(self, n, seed)?;
        let columns = self.with_quantities(|quantities| draws.columns(quantities))?;
        Ok(columns.into_iter().map(|(_, column)| column).collect())
    }

    fn summary(&self) -> Result<(String, Vec<Row>)> {
        let table = self.with_quantities(|quantities| WeightedSample::summary(self, quantities))?;
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
                let rows: HashMap<_, _> = self
                    .weighted_states()
                    .states
                    .iter()
                    .map(bits)
                    .zip(rows)
                    .collect();
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
