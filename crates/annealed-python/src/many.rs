//! Log p(x) of many data under one latent-variable model.

use annealed::Result;
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::many::{LogLikelihoods, LogLikelihoodsRun, SimulatedRun};
use annealed::model::{
    BatchOutput, Differentiable, Latent, LatentGradient, Priors, UnnormalizedModel,
};
use annealed::nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector};
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::states;
use crate::desk::{Calls, Desk, Values};
use crate::errors::OrRaise;
use crate::likelihood::{Likelihood, PythonFunction};
use crate::log_z::doubts;
use crate::priors::{Prior, joint, names, of_call};
use crate::rbm::seconds;

const CALL: &str = "annealed.log_likelihoods";

/// End of the message for a run that stops before the first block of data is done.
const FIRST_BLOCK: &str = "before the first data were done, so that there is no estimate";

/// A decoder, log p(x_b | z). The user's function gets a row of parameters z and the index b for each state.
struct Decoder<'c, O> {
    rows: Likelihood<'c, O>,
    priors: Priors,
}

/// A decoder at rows of parameters, given the datum of each row.
struct OfData<'d, 'c, O> {
    decoder: &'d Decoder<'c, O>,
    data: &'d [usize],
}

impl<O: BatchOutput<Number = f64>> UnnormalizedModel for OfData<'_, '_, O> {
    type State = DVector<f64>;

    fn log_density(&self, parameters: &DVector<f64>) -> f64 {
        let index = self.data[0] as f64;
        let row = parameters.push(index);
        self.decoder.rows.log_density(&row)
    }

    fn log_densities(&self, parameters: &[DVector<f64>], log_densities: &mut [f64]) {
        let rows = parameters.iter().zip(self.data);
        let rows = Vec::from_iter(rows.map(|(row, &datum)| row.push(datum as f64)));
        self.decoder.rows.log_densities(&rows, log_densities);
    }
}

impl Differentiable for OfData<'_, '_, Values> {
    fn accumulate_gradient(
        &self,
        parameters: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let d = parameters.len();
        let mut log_density = [0.0];
        let row = DMatrixView::from_slice(parameters.as_slice(), 1, d);
        let gradient = DMatrixViewMut::from_slice(gradient.as_mut_slice(), 1, d);
        self.accumulate_gradients(row, scale, gradient, &mut log_density);
        log_density[0]
    }

    fn accumulate_gradients(
        &self,
        parameters: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let (n, d) = parameters.shape();
        let mut rows = Vec::with_capacity(n * (d + 1));
        for column in parameters.column_iter() {
            rows.extend_from_slice(column.as_slice());
        }
        rows.extend(self.data.iter().map(|&datum| datum as f64));
        let rows = DMatrix::from_vec(n, d + 1, rows);
        let mut slopes = DMatrix::zeros(n, d + 1);
        let (rows, into) = (rows.as_view(), slopes.as_view_mut());
        (self.decoder.rows).accumulate_gradients(rows, scale, into, log_densities);
        gradients += slopes.columns(0, d);
    }
}

impl<O: BatchOutput<Number = f64>> UnnormalizedModel for Decoder<'_, O> {
    type State = Latent;

    fn log_density(&self, state: &Latent) -> f64 {
        let mut log_density = [0.0];
        self.log_densities(std::slice::from_ref(state), &mut log_density);
        log_density[0]
    }

    fn evaluates_batches(&self) -> bool {
        true
    }

    fn log_densities(&self, states: &[Latent], log_densities: &mut [f64]) {
        let data = Vec::from_iter(states.iter().map(Latent::datum));
        let vectors = Vec::from_iter(states.iter().map(|state| state.vector.clone()));
        let model = self.priors.likelihood(OfData {
            decoder: self,
            data: &data,
        });
        model.log_densities(&vectors, log_densities);
    }

    fn epsilon(&self) -> f64 {
        self.rows.epsilon()
    }

    fn failure(&self) -> Option<annealed::error::Failure> {
        self.rows.failure()
    }
}

impl LatentGradient for Decoder<'_, Values> {
    fn accumulate_gradients(
        &self,
        data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    ) {
        let decoder = self;
        let model = self.priors.likelihood(OfData { decoder, data });
        model.accumulate_gradients(latents, scale, gradients, log_likelihoods);
    }
}

/// A run of data, or of simulated data.
enum Found {
    Data(LogLikelihoodsRun),
    Simulated(SimulatedRun),
}

impl Found {
    /// Returns the figures by their names in the class of Python.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (run, text, simulated) = match self {
            Self::Data(run) => (run, run.to_string(), None),
            Self::Simulated(run) => {
                let bounds = (run.upper().to_vec(), run.gap());
                (run.forward(), run.to_string(), Some(bounds))
            }
        };
        let (mean, data) = (run.mean(), run.data());
        let interval = mean.interval_at(0.95).or_raise()?;
        let estimates = || data.iter().map(|datum| &datum.estimate);
        let warned = run.doubtful();
        let warned = warned.map(|datum| (datum.datum, doubts(CALL, &datum.warnings)));
        let found = PyDict::new(py);
        found.set_item(
            "indices",
            Vec::from_iter(data.iter().map(|datum| datum.datum)),
        )?;
        found.set_item("values", Vec::from_iter(estimates().map(|e| e.value())))?;
        found.set_item(
            "standard_errors",
            Vec::from_iter(estimates().map(|e| e.standard_error())),
        )?;
        found.set_item(
            "intervals",
            Vec::from_iter(estimates().map(|e| e.interval())),
        )?;
        let sizes = estimates().map(|e| e.effective_sample_size());
        found.set_item("effective_sample_sizes", Vec::from_iter(sizes))?;
        found.set_item("doubts", Vec::from_iter(warned))?;
        found.set_item(
            "mean",
            (
                mean.value,
                mean.standard_error,
                interval,
                mean.bias,
                mean.spread,
            ),
        )?;
        found.set_item("simulated", simulated)?;
        found.set_item("evaluations", run.evaluations())?;
        found.set_item("seconds", run.seconds())?;
        found.set_item("text", text)?;
        Ok(found.into_any())
    }
}

/// Sets the settings, and runs data, or simulated data if their latent vectors are given.
macro_rules! run {
    ($priors:expr, $decoder:expr, $data:expr, $kernel:expr, $settings:expr, $latents:expr, $calls:expr) => {{
        let settings: &Settings = $settings;
        let run = LogLikelihoods::new($priors, $decoder, $data, $kernel)
            .chains(settings.chains)
            .stages(settings.stages)
            .moves(settings.moves)
            .data_per_block(settings.data_per_block)
            .seed(settings.seed)
            .stop_when(|| $calls.is_stopped())
            .progress(|at| $calls.progress(at));
        let run = match settings.time_limit {
            Some(limit) => run.time_limit(limit),
            None => run,
        };
        match $latents {
            None => run.run().map(Found::Data),
            Some(latents) => run.run_simulated(&latents).map(Found::Simulated),
        }
    }};
}

struct Settings {
    chains: usize,
    stages: usize,
    moves: usize,
    data_per_block: usize,
    seed: u64,
    time_limit: Option<std::time::Duration>,
}

/// Returns rows of slopes, each with a slope of 0 by the index of its datum. A row then has `dimension` numbers.
fn with_index(slopes: &[f64], dimension: usize) -> Vec<f64> {
    let rows = slopes.chunks_exact(dimension - 1);
    let mut all = Vec::with_capacity(rows.len() * dimension);
    for row in rows {
        all.extend_from_slice(row);
        all.push(0.0);
    }
    all
}

/// Estimates log p(x) of `data` data. The function gets rows of parameters, each with the index of its datum at the end.
/// `latents` are the parameters that generated simulated data.
#[pyfunction]
#[pyo3(signature = (priors, function, data, *, latents, with_gradient, epsilon, step_size, leapfrog, chains, stages, moves,
                    data_per_block, time_limit, seed, threads, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn log_likelihoods<'py>(
    py: Python<'py>,
    priors: Vec<(String, PyRef<'py, Prior>)>,
    function: Py<PyAny>,
    data: usize,
    latents: Option<PyReadonlyArray2<'py, f64>>,
    with_gradient: bool,
    epsilon: f64,
    step_size: f64,
    leapfrog: usize,
    chains: usize,
    stages: usize,
    moves: usize,
    data_per_block: usize,
    time_limit: Option<f64>,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = of_call(priors);
    let priors = joint(&named).or_raise()?;
    let time_limit = time_limit.map(seconds).transpose().or_raise()?;
    let latents = latents.map(|rows| {
        let rows = states(&rows).into_iter();
        rows.map(|row| priors.state(row.as_slice()))
            .collect::<Result<Vec<_>>>()
    });
    let latents = latents.transpose().or_raise()?;
    let settings = Settings {
        chains,
        stages,
        moves,
        data_per_block,
        seed,
        time_limit,
    };
    let dimension = names(&named).len() + 1;
    let function = PythonFunction {
        function,
        dimension,
    };
    let work = |calls: &Calls| {
        calls.enter(Some(FIRST_BLOCK));
        let (priors, settings) = (priors.clone(), &settings);
        match with_gradient {
            true => {
                let rows = Likelihood::of_gradients(dimension, epsilon, calls)?;
                let decoder = Decoder {
                    rows,
                    priors: priors.clone(),
                };
                let kernel = Hmc::new(step_size, leapfrog)?;
                run!(priors, decoder, data, kernel, settings, latents, calls)
            }
            false => {
                let rows = Likelihood::of_values(dimension, epsilon, calls)?;
                let decoder = Decoder {
                    rows,
                    priors: priors.clone(),
                };
                let kernel = RandomWalkMetropolis::new(step_size)?;
                run!(priors, decoder, data, kernel, settings, latents, calls)
            }
        }
    };
    let call = |py: Python<'_>, states, n| {
        let (values, slopes) = function.call(py, states, n)?;
        Ok((values, with_index(&slopes, dimension)))
    };
    let desk = Desk::new(threads, progress)?.time_limit(time_limit);
    desk.run(py, &call, work, |py, found| found.figures(py))
}
