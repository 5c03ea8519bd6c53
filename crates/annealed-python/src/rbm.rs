//! Restricted Boltzmann machines: a run as in the program `annealed rbm`, with scores and a picture.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use annealed::ais::{Ais, Run};
use annealed::path::SimdLevel;
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Start, StartSearch};
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use numpy::ndarray::Array2;
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use pyo3::types::PyFloat;
use serde::{Deserialize, Serialize};

use crate::convert::{bits, matrix, numbers};
use crate::desk::{Calls, Desk, no_function};
use crate::errors::OrRaise;
use crate::kept::{Kept, Reduced, reduce, restore};
use crate::log_z::{Doubts, Figures, LogZ, doubts};
use crate::rbm_reverse::{BothDirections, BothWays, Samples};

/// End of the message for a run that stops during its search for a start.
const SEARCH: &str = "during the search for a start, so that there is no estimate; fewer stages make the search shorter, and \
                      base=\"uniform\" or base=\"data-rate\" leaves it out";

/// The base from which chains start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Base {
    /// A mixture of the bases that a search found.
    Found(Box<Start>),
    /// A base without a search.
    Plain(BaseRate),
}

/// A machine with its run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Annealed {
    rbm: Rbm,
    /// The base rates of the data, if there are any.
    rates: Option<BaseRate>,
    base: Base,
    engine: Option<SimdLevel>,
    run: Run<Vec<bool>>,
}

/// The settings of a run of an RBM.
#[derive(Debug, Clone, Copy)]
struct Settings {
    stages: usize,
    chains: usize,
    block_size: usize,
    seed: u64,
    until_error: Option<f64>,
    time_limit: Option<Duration>,
    engine: Option<SimdLevel>,
}

impl Settings {
    /// Chooses the base, same as the option `--base` of the program.
    fn base(&self, name: &str, rbm: &Rbm, rates: Option<&BaseRate>, calls: &Calls) -> Result<Base> {
        match (name, rates) {
            ("auto", _) => {
                let mut search = StartSearch::new(self.stages)
                    .seed(self.seed)
                    .simd_level(self.engine)
                    .stop_when(|| calls.is_stopped())
                    .progress(|at| calls.progress(at));
                if let Some(limit) = self.time_limit {
                    search = search.time_limit(limit);
                }
                if let Some(rates) = rates {
                    search = search.given(rates.clone());
                }
                calls.enter(Some(SEARCH));
                let start = search.run(rbm).map_err(|error| of_weights(rbm, error))?;
                calls.enter(None);
                Ok(Base::Found(Box::new(start)))
            }
            ("data-rate", Some(rates)) => Ok(Base::Plain(rates.clone())),
            ("data-rate", None) => {
                let expected = "base_data beside it, an array of rows of 0 and 1";
                Err(Error::invalid("base", "data-rate", expected))
            }
            ("uniform", _) => {
                let base = BaseRate::uniform(rbm.hidden_units(), rbm.visible_units())?;
                Ok(Base::Plain(base))
            }
            _ => Err(Error::invalid("base", name, "auto, data-rate or uniform")),
        }
    }

    /// Creates the runner of a run along a path.
    fn ais<'c>(
        &self,
        path: &'c RbmPath,
        calls: &'c Calls,
    ) -> Result<Ais<'c, &'c RbmPath, BlockGibbs>> {
        let mut ais = Ais::new(path, BlockGibbs)
            .schedule(Schedule::linear(self.stages)?)
            .chains(self.chains)
            .seed(self.seed)
            .block_size(self.block_size)
            .stop_when(|| calls.is_stopped())
            .progress(|at| calls.progress(at));
        if let Some(error) = self.until_error {
            ais = ais.until_error(error);
        }
        if let Some(limit) = self.time_limit {
            ais = ais.time_limit(limit);
        }
        Ok(ais)
    }
}

impl Annealed {
    fn path(rbm: &Rbm, base: &Base, engine: Option<SimdLevel>) -> Result<RbmPath> {
        let path = match base {
            Base::Found(start) => start.path(rbm.clone()),
            Base::Plain(base) => RbmPath::new(base.clone(), rbm.clone()),
        }?;
        engine.map_or(Ok(path.clone()), |engine| path.with_simd_level(engine))
    }

    /// Returns the seconds of the search for a start.
    fn search_seconds(&self) -> f64 {
        match &self.base {
            Base::Found(start) => start.seconds(),
            Base::Plain(_) => 0.0,
        }
    }

    /// Runs backward from samples of the machine.
    fn both_ways(&self, samples: Samples, calls: &Calls) -> Result<BothWays> {
        let path = Self::path(&self.rbm, &self.base, self.engine)?;
        let settings = Settings {
            stages: self.run.schedule().stages(),
            chains: self.run.chains(),
            block_size: self.run.block_size(),
            seed: self.run.seed(),
            until_error: None,
            time_limit: None,
            engine: self.engine,
        };
        samples.run(&settings.ais(&path, calls)?, &self.rbm, &self.run)
    }
}

impl Kept for Annealed {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let figures = Figures::of(&self.run).after(0, self.search_seconds());
        let figures = figures.by("annealed.rbm", self.run.seed());
        let base = PyClassInitializer::from(LogZ { figures });
        let made = base.add_subclass(RbmRun { kept: self });
        Ok(Bound::new(py, made)?.into_any())
    }
}

/// The result of `annealed.rbm`: log Z of a machine of 0/1 units. It also scores data.
#[pyclass(extends = LogZ, frozen, module = "annealed")]
pub struct RbmRun {
    kept: Annealed,
}

/// Mean log likelihood of rows, its error over rows, mean under the base rates, interval, log likelihood of each row,
/// warnings and their names.
type Scored<'py> = (f64, f64, f64, (f64, f64), Bound<'py, PyArray1<f64>>, Doubts);

#[pymethods]
impl RbmRun {
    /// Number of hidden units, M.
    #[getter]
    fn hidden_units(&self) -> usize {
        self.kept.rbm.hidden_units()
    }

    /// Number of visible units, D.
    #[getter]
    fn visible_units(&self) -> usize {
        self.kept.rbm.visible_units()
    }

    /// Number of finished chains.
    #[getter]
    fn chains(&self) -> usize {
        self.kept.run.chains()
    }

    /// Number of stages, K.
    #[getter]
    fn stages(&self) -> usize {
        self.kept.run.schedule().stages()
    }

    /// Effective sample size of the log weights.
    #[getter]
    fn effective_sample_size(&self) -> f64 {
        self.kept.run.effective_sample_size()
    }

    /// The instructions of the inner loops: portable, neon, avx2 or avx512. Results with portable differ in the last
    /// bits from results with the others.
    #[getter]
    fn engine(&self) -> Option<String> {
        self.kept.run.simd_level().map(|engine| engine.to_string())
    }

    /// The table of starts that the search tried. None without a search.
    #[getter]
    fn starts(&self) -> Option<String> {
        match &self.kept.base {
            Base::Found(start) => Some(start.to_string()),
            Base::Plain(_) => None,
        }
    }

    /// The log weights of the chains, (chains,).
    #[getter]
    fn log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.kept.run.log_weights().to_pyarray(py)
    }

    /// The visible states in which the chains ended, (chains, D), booleans. Weight them by `exp(log_weights)`.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<bool>> {
        let states = self.kept.run.states();
        let units = self.kept.rbm.visible_units();
        Array2::from_shape_fn((states.len(), units), |(chain, i)| states[chain][i]).to_pyarray(py)
    }

    /// Returns log Z without error, by a sum over all states of the smaller layer.
    ///
    /// Raises ValueError if both layers have more than 25 units.
    fn exact<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let work = |_: &Calls| self.kept.rbm.exact_log_normalizer();
        let shown = |py: Python<'py>, log_z| Ok(PyFloat::new(py, log_z).into_any());
        Desk::new(None, None)?.run(py, &no_function, work, shown)
    }

    /// Returns the mean log likelihood of rows, in nats a row, with the interval that follows from log Z's interval.
    ///
    /// X: array (rows, D) of 0 and 1. log_z: another log Z to score by, as a number, such as `run.exact()`, or as a
    /// result, such as `run.reverse()`; by default this run's. Returns a Score.
    ///
    /// The base rates for comparison come from `base_data`, or else from the rows themselves, a generous baseline.
    #[pyo3(signature = (X, *, log_z = None))]
    #[allow(non_snake_case)] // As scikit-learn names data.
    fn score<'py>(
        slf: &Bound<'py, Self>,
        X: Bound<'py, PyAny>,
        log_z: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._rbm")?;
        package.getattr("score")?.call1((slf, X, log_z))
    }

    /// Runs backward from the machine to the base, and joins both directions.
    ///
    /// samples: "exact", for up to 25 units in a layer; "resampled", from the forward chains' own states, which can
    /// only show that the stages are too few; or an array (rows, D) of 0 and 1, such as the states of other chains.
    /// Only exact samples narrow the interval. Returns a BothDirections.
    #[pyo3(signature = (samples, *, threads = None, progress = None))]
    fn reverse<'py>(
        slf: &Bound<'py, Self>,
        samples: Bound<'py, PyAny>,
        threads: Option<Bound<'py, PyAny>>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let package = slf.py().import("annealed._rbm")?;
        let reverse = package.getattr("reverse")?;
        reverse.call1((slf, samples, threads, progress))
    }

    /// Scores rows by `log_z` and the ends of its interval.
    fn _score<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'py, bool>,
        log_z: f64,
        interval: (f64, f64),
    ) -> PyResult<Scored<'py>> {
        let (rows, rbm) = (bits(&rows), &self.kept.rbm);
        let baseline = match &self.kept.rates {
            Some(rates) => rates.clone(),
            None => BaseRate::from_data(rbm.hidden_units(), &rows, 1.0).or_raise()?,
        };
        let found = py.detach(|| rbm.log_likelihood(&rows, log_z, &baseline));
        let found = found.or_raise()?;
        let (lower, upper) = interval;
        let interval = (found.upper_bound(upper), found.upper_bound(lower));
        let warning = Vec::from_iter(found.warning());
        let doubts = doubts("annealed.rbm", &warning);
        let (error, base_rate) = (found.standard_error, found.base_rate);
        let by_row = PyArray1::from_vec(py, found.by_row);
        Ok((found.mean, error, base_rate, interval, by_row, doubts))
    }

    /// Runs backward from exact samples, from the forward chains' own states, or from given rows.
    fn _reverse<'py>(
        &self,
        py: Python<'py>,
        samples: Samples,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let work = |calls: &Calls| self.kept.both_ways(samples, calls);
        Desk::new(threads, progress)?.run(py, &no_function, work, BothDirections::object)
    }

    /// Draws the run as an SVG file: error of log Z along the path, effective sample size, variance by stage, log weights.
    ///
    /// Raises OSError if the file cannot be written.
    fn plot(&self, path: PathBuf) -> PyResult<()> {
        annealed_plot::Plot::plot(&self.kept.run, path).or_raise()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce::<Self>(py, &self.kept)
    }

    #[staticmethod]
    fn _restore<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        restore::<Annealed>(py, bytes)
    }
}

/// Estimates log Z of an RBM with weights (M, D), hidden biases (M,) and visible biases (D,).
#[pyfunction]
#[pyo3(signature = (w, a, b, *, base, base_data, chains, stages, block_size, seed, until_error, time_limit, threads, engine, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn rbm<'py>(
    py: Python<'py>,
    w: PyReadonlyArray2<'py, f64>,
    a: PyReadonlyArray1<'py, f64>,
    b: PyReadonlyArray1<'py, f64>,
    base: &str,
    base_data: Option<PyReadonlyArray2<'py, bool>>,
    chains: usize,
    stages: usize,
    block_size: usize,
    seed: u64,
    until_error: Option<f64>,
    time_limit: Option<f64>,
    threads: Option<usize>,
    engine: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (a, b) = (numbers(&a).into(), numbers(&b).into());
    let rbm: Rbm = Rbm::<f64>::new(matrix(&w), a, b)
        .and_then(|rbm| rbm.cast())
        .or_raise()?;
    let rates = base_data.map(|rows| BaseRate::from_data(rbm.hidden_units(), &bits(&rows), 1.0));
    let rates: Option<BaseRate> = rates.transpose().or_raise()?;
    let settings = Settings {
        stages,
        chains,
        block_size,
        seed,
        until_error,
        time_limit: time_limit.map(seconds).transpose().or_raise()?,
        engine: engine.map(str::parse).transpose().or_raise()?,
    };
    let work = |calls: &Calls| {
        let begun = Instant::now();
        let base = settings.base(base, &rbm, rates.as_ref(), calls)?;
        let path = Annealed::path(&rbm, &base, settings.engine)?;
        let left = |limit: Duration| limit.saturating_sub(begun.elapsed());
        let settings = Settings {
            time_limit: settings.time_limit.map(left),
            ..settings
        };
        let run = settings.ais(&path, calls)?.run()?;
        let engine = settings.engine;
        Ok(Annealed {
            rbm,
            rates,
            base,
            engine,
            run,
        })
    };
    let desk = Desk::new(threads, progress)?.time_limit(settings.time_limit);
    desk.run(py, &no_function, work, |py, kept| kept.object(py))
}

/// Rewords the error for an infinite bias so that it names the weights. A mean field whose rate rounds to 0 or 1 causes
/// this error.
fn of_weights(rbm: &Rbm, error: Error) -> Error {
    match error {
        Error::InvalidArgument {
            argument: "visible_bias",
            ..
        } => {
            let largest = rbm.weights().amax();
            let expected = "parameters so small that no unit's rate in a mean field rounds to 0 or 1 in single precision; or \
                            base=\"uniform\", which leaves out the search";
            Error::invalid("W", format!("weights up to {largest}"), expected)
        }
        other => other,
    }
}

/// Returns a time limit in `seconds`.
pub fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Error::invalid("time_limit", seconds, "a number of seconds, 0 or more"))
}
