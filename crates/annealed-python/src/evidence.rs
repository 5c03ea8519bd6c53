//! The evidence of a prior and a likelihood, by rounds of annealing.

use annealed::adaptive::{Rounds, RoundsRun};
use annealed::kernel::Tunable as _;
use annealed::path::AnnealingPath;
use pyo3::prelude::*;

use crate::desk::Calls;
use crate::log_z::Figures;
use crate::posterior::{Found, Parameters, Posterior, Source};
use crate::problem::{Control, Problem, State, controlled, from_base};

/// End of the message for a run that stops before the first round is done.
pub const FIRST_ROUND: &str = "before the first round was done, so that there is no estimate; fewer chains and a faster function \
                           end that round sooner";

/// The settings of the rounds: the attributes of a namespace in Python.
#[derive(Debug, FromPyObject)]
pub struct Settings {
    chains: Option<usize>,
    rounds: Option<usize>,
    block_size: Option<usize>,
    budget: Option<u64>,
    until_error: Option<f64>,
    pub fitted: bool,
}

impl Settings {
    /// Sets the settings of rounds.
    pub fn set<'c, P: AnnealingPath, K>(&self, mut rounds: Rounds<'c, P, K>) -> Rounds<'c, P, K> {
        if let Some(chains) = self.chains {
            rounds = rounds.chains(chains);
        }
        if let Some(most) = self.rounds {
            rounds = rounds.rounds(most);
        }
        if let Some(size) = self.block_size {
            rounds = rounds.block_size(size);
        }
        if let Some(budget) = self.budget {
            rounds = rounds.budget(budget);
        }
        if let Some(error) = self.until_error {
            rounds = rounds.until_error(error);
        }
        rounds
    }
}

/// Returns the posterior of the rounds, and what they can be asked later.
fn found<K>(run: RoundsRun<State, K>, problem: &Problem, seed: u64) -> Found
where
    K: Clone + Send + Sync + 'static,
{
    let figures = Figures::of(&run).by("annealed.evidence", seed);
    let source = Source::Run(Box::new(run.run().clone()));
    // A fitted base is of the rounds alone.
    let is_own = run.fitted().is_none();
    Found {
        posterior: Posterior::new(figures, source, Parameters::Priors(problem.named())),
        kernel: is_own.then(|| Box::new(run.kernel().clone()) as _),
        first: Box::new(run),
    }
}

/// Estimates the log evidence of a problem.
#[pyfunction]
pub fn evidence<'py>(
    py: Python<'py>,
    problem: Bound<'py, PyAny>,
    settings: Settings,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let asked: Problem = problem.extract()?;
    let work = |calls: &Calls| {
        from_base!(&asked, calls, |path, kernel| {
            let rounds = settings.set(Rounds::new(path, kernel));
            let mut rounds = controlled!(rounds, control, calls);
            if settings.fitted {
                rounds = rounds.fitted();
            }
            Ok(found(rounds.run()?, &asked, control.seed))
        })
    };
    let shown = |py, found: Found| found.object(py, &problem);
    asked.run(py, &control, FIRST_ROUND, work, shown)
}
