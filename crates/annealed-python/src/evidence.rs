//! The evidence of a prior and a likelihood, by rounds of annealing, with a challenge to them if requested.

use std::time::{Duration, Instant};

use annealed::adaptive::{Challenge, ChallengeRun, Judgement, Rounds, RoundsRun};
use annealed::ais::{Run, StoppedBy};
use annealed::estimate::Warning;
use annealed::kernel::{Hmc, RandomWalkMetropolis, TransitionKernel};
use annealed::model::UnnormalizedModel as _;
use annealed::nalgebra::DVector;
use annealed::path::{AnnealingPath, TemperedPath};
use annealed::{Error, Result};
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
pub const FIRST_ROUND: &str = "before the first round was done, so that there is no estimate; fewer chains and a faster function \
                           end that round sooner";

/// Smallest budget of a challenge, in moves of the kernel. It is the library's.
const LEAST_MOVES: u64 = 5_000;

/// The settings of the rounds.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub chains: usize,
    pub rounds: usize,
    pub block_size: Option<usize>,
    pub budget: Option<u64>,
    pub until_error: Option<f64>,
    pub time_limit: Option<Duration>,
    pub challenge: bool,
    pub seed: u64,
}

impl Settings {
    /// Refuses a budget without room for the challenge.
    pub fn check<P: AnnealingPath, K: TransitionKernel<P::At>>(
        &self,
        path: P,
        kernel: &K,
    ) -> Result<()> {
        let dimension = path.base().state_dimension().unwrap_or(1);
        let least = 2 * LEAST_MOVES * kernel.evaluations(dimension) as u64;
        match self.budget {
            Some(budget) if self.challenge && budget < least => Err(Error::invalid(
                "budget",
                budget,
                format!("at least {least} for rounds and challenge"),
            )),
            _ => Ok(()),
        }
    }

    pub fn set<'c, P: AnnealingPath<State = State>, K>(
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
            rounds = rounds.budget(budget / if self.challenge { 2 } else { 1 });
        }
        if let Some(error) = self.until_error {
            rounds = rounds.until_error(error);
        }
        if let Some(limit) = self.time_limit {
            rounds = rounds.time_limit(limit);
        }
        rounds
    }

    /// Returns whether `run` is challenged. Rounds that a callback or the time limit ended are not.
    pub fn challenges<K>(&self, run: &RoundsRun<State, K>) -> bool {
        let is_stopped = matches!(run.stopped_by(), StoppedBy::Callback | StoppedBy::TimeLimit);
        self.challenge && !is_stopped
    }

    /// Gives the challenge the time that is left.
    pub fn set_challenge<'c, P: AnnealingPath<State = State>, K>(
        &self,
        challenge: Challenge<'c, P, K>,
        begun: Instant,
        calls: &'c Calls,
    ) -> Challenge<'c, P, K> {
        let challenge = challenge
            .seed(self.seed)
            .stop_when(|| calls.is_stopped())
            .progress(|at| calls.progress(at));
        match self.time_limit {
            Some(limit) => challenge.time_limit(limit.saturating_sub(begun.elapsed())),
            None => challenge,
        }
    }

    /// Returns the figures of the rounds and of a challenge to them, and the run whose log Z is reported.
    pub fn reported<K>(
        &self,
        run: &RoundsRun<State, K>,
        challenge: Option<Result<ChallengeRun<'_, State>>>,
    ) -> (Figures, Run<State>) {
        let rounds = Figures::of(run);
        let (figures, reported, failure) = match challenge {
            Some(Ok(challenge)) => {
                let is_better = matches!(
                    challenge.judgement(),
                    Judgement::Contradicted { .. } | Judgement::Improved { .. }
                );
                let second = is_better.then(|| challenge.second().clone());
                (rounds.challenged(&challenge), second, None)
            }
            Some(Err(Error::Stopped { .. })) | None => (rounds, None, None),
            Some(Err(error)) => (rounds, None, Some(error.to_string())),
        };
        let failure = failure.map(|reason| Warning::ChallengeFailed { reason });
        let advised = figures.warnings().iter().cloned();
        let advised = advised.map(|warning| match self.challenge {
            true => of_both(warning),
            false => warning,
        });
        let warnings = advised.chain(failure).collect();
        let reported = reported.unwrap_or_else(|| run.run().clone());
        (figures.with_warnings(warnings), reported)
    }
}

/// Adds the evaluations of a challenge to the advice on a budget of rounds.
fn of_both(warning: Warning) -> Warning {
    match warning {
        Warning::ErrorNotReached {
            asked,
            reached,
            chains,
            budget: Some(budget),
            advice,
        } => Warning::ErrorNotReached {
            asked,
            reached,
            chains,
            budget: Some(budget.saturating_mul(2)),
            advice: format!("{advice}, and the challenge takes as many again"),
        },
        other => other,
    }
}

/// Runs rounds from the prior along a path with a kernel, then a challenge (a second run) if requested.
macro_rules! rounds {
    ($path:expr, $kernel:expr, $settings:expr, $fitted:expr, $calls:expr $(, $with_gradient:ident)?) => {{
        let (path, kernel, begun) = ($path, $kernel, Instant::now());
        $settings.check(path, &kernel)?;
        let rounds = $settings.set(Rounds::new(path, kernel.clone()), $calls);
        let rounds = if $fitted { rounds.fitted() } else { rounds };
        let run = rounds.run()?;
        let challenge = $settings.challenges(&run).then(|| {
            let challenge = Challenge::new(path, kernel, &run)$(.$with_gradient())?;
            $settings.set_challenge(challenge, begun, $calls).run()
        });
        $settings.reported(&run, challenge)
    }};
}
pub(crate) use rounds;

/// Estimates the log evidence from priors with names and a function that returns the log likelihoods of a batch.
#[pyfunction]
#[pyo3(signature = (priors, function, *, with_gradient, epsilon, step_size, leapfrog, fitted, challenge, chains, rounds,
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
    fitted: bool,
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
                rounds!(&path, kernel, settings, fitted, calls, with_gradient)
            }
            false => {
                let likelihood = laws.likelihood(Likelihood::of_values(dimension, epsilon, calls)?);
                let path = TemperedPath::new(&laws, likelihood);
                let kernel = RandomWalkMetropolis::new(step_size)?;
                rounds!(&path, kernel, settings, fitted, calls)
            }
        };
        let figures = figures.by("annealed.evidence", seed);
        Ok(Posterior::new(figures, run, Parameters::Priors(named)))
    };
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    let desk = Desk::new(threads, progress)?.time_limit(time_limit);
    desk.run(py, &call, work, |py, kept| kept.object(py))
}
