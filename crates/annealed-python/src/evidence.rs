//! The evidence of a prior and a likelihood, by rounds of annealing.

use std::time::Duration;

use annealed::adaptive::{Rounds, RoundsRun};
use annealed::ais::Run;
use annealed::estimate::WeightedSample as _;
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::nalgebra::DVector;
use annealed::path::{AnnealingPath, TemperedPath};
use pyo3::prelude::*;

use crate::desk::{Calls, Desk};
use crate::errors::OrRaise;
use crate::kept::Kept;
use crate::likelihood::{Likelihood, PythonFunction};
use crate::log_z::Figures;
use crate::posterior::{Parameters, Posterior};
use crate::priors::{Prior, joint, names, of_call};
use crate::rbm::seconds;

type State = DVector<f64>;

/// End of the message for a run that stops before the first round is done.
const FIRST_ROUND: &str = "before the first round was done, so that there is no estimate; fewer chains and a faster function \
                           end that round sooner";

/// The settings of the rounds.
#[derive(Debug, Clone, Copy)]
struct Settings {
    chains: usize,
    rounds: usize,
    block_size: Option<usize>,
    budget: Option<u64>,
    until_error: Option<f64>,
    time_limit: Option<Duration>,
    challenge: bool,
    seed: u64,
}

impl Settings {
    fn set<'c, P: AnnealingPath<State = State>, K>(
        &self,
        rounds: Rounds<'c, P, K>,
        calls: &'c Calls,
    ) -> Rounds<'c, P, K> {
        let mut rounds = rounds
            .chains(self.chains)
            .rounds(self.rounds)
            .seed(self.seed)
            .stop_when(|| calls.is_stopped())
            .progress(|at| calls.progress(at));
        if let Some(size) = self.block_size {
            rounds = rounds.block_size(size);
        }
        if let Some(budget) = self.budget {
            rounds = rounds.budget(budget);
        }
        if let Some(error) = self.until_error {
            rounds = rounds.until_error(error);
        }
        if let Some(limit) = self.time_limit {
            rounds = rounds.time_limit(limit);
        }
        rounds
    }
}

/// Runs rounds from the prior along a path with a kernel, and ends with a challenge (a second run) if requested.
macro_rules! rounds {
    ($path:expr, $kernel:expr, $settings:expr, $refit:expr, $calls:expr, $challenge:ident) => {{
        let rounds = $settings.set(Rounds::new($path, $kernel), $calls);
        let rounds = if $refit { rounds.refit() } else { rounds };
        let rounds = if $settings.challenge {
            rounds.$challenge()
        } else {
            rounds
        };
        rounds.run().map(reported)
    }};
}

/// Returns the `Figures` of the rounds, and the run whose log Z is reported.
fn reported<K>(found: RoundsRun<State, K>) -> (Figures, Run<State>) {
    let figures = Figures::of(&found);
    let of_reported = found.weighted_states().states.as_ptr();
    let second = found.second();
    let run = second.filter(|second| second.states().as_ptr() == of_reported);
    (figures, run.unwrap_or(found.run()).clone())
}

/// Estimates the log evidence from priors with names and a function that returns the log likelihoods of a batch.
#[pyfunction]
#[pyo3(signature = (priors, function, *, with_gradient, epsilon, step_size, leapfrog, refit, challenge, chains, rounds,
                    block_size, budget, until_error, time_limit, seed, threads, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn evidence<'py>(
    py: Python<'py>,
    priors: Vec<(String, PyRef<'py, Prior>)>,
    function: Py<PyAny>,
    with_gradient: bool,
    epsilon: f64,
    step_size: f64,
    leapfrog: usize,
    refit: bool,
    challenge: bool,
    chains: usize,
    rounds: usize,
    block_size: Option<usize>,
    budget: Option<u64>,
    until_error: Option<f64>,
    time_limit: Option<f64>,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = of_call(priors);
    let laws = joint(&named).or_raise()?;
    let time_limit = time_limit.map(seconds).transpose().or_raise()?;
    let settings = Settings {
        chains,
        rounds,
        block_size,
        budget,
        until_error,
        time_limit,
        challenge,
        seed,
    };
    let dimension = names(&named).len();
    let function = PythonFunction {
        function,
        dimension,
    };
    let work = |calls: &Calls| {
        calls.enter(Some(FIRST_ROUND));
        let (figures, run) = match with_gradient {
            true => {
                let likelihood =
                    laws.likelihood(Likelihood::of_gradients(dimension, epsilon, calls)?);
                let path = TemperedPath::new(&laws, likelihood);
                let kernel = Hmc::new(step_size, leapfrog)?;
                rounds!(
                    &path,
                    kernel,
                    settings,
                    refit,
                    calls,
                    challenge_with_gradient
                )?
            }
            false => {
                let likelihood = laws.likelihood(Likelihood::of_values(dimension, epsilon, calls)?);
                let path = TemperedPath::new(&laws, likelihood);
                let kernel = RandomWalkMetropolis::new(step_size)?;
                rounds!(&path, kernel, settings, refit, calls, challenge)?
            }
        };
        Ok(Posterior::new(figures, run, Parameters::Priors(named)))
    };
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    Desk::new(threads, progress)?.run(py, &call, work, |py, kept| kept.object(py))
}
