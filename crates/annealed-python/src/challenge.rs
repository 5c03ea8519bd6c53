//! A challenge to a result: a second run, from bases around other modes.

use annealed::adaptive::{Challenge, ChallengeRun, Judgement};
use pyo3::prelude::*;

use crate::desk::Calls;
use crate::errors::OrRaise;
use crate::kept::Kept;
use crate::posterior::{Evidence, Posterior, Source};
use crate::problem::{Control, Problem, State, controlled, from_prior};

/// End of the message for a challenge that stops before its second run has finished a block of chains.
pub const SECOND_RUN: &str = "before the second run had a result; the first one stands as it was";

/// Returns the posterior of a result and of a challenge to it.
pub fn judged(first: &Posterior, challenge: &ChallengeRun<'_, State>, call: &str) -> Posterior {
    let judgement = challenge.judgement();
    let is_better = matches!(
        judgement,
        Judgement::Contradicted { .. } | Judgement::Improved { .. }
    );
    let source = match is_better {
        true => Source::Run(Box::new(challenge.second().clone())),
        false => first.source.clone(),
    };
    let figures = first.figures.clone().challenged(challenge, is_better);
    let figures = figures.by(call, first.figures.seed());
    Posterior::new(figures, source, first.parameters.clone())
}

/// Challenges a result of a problem.
#[pyfunction]
pub fn challenge<'py>(
    py: Python<'py>,
    run: &Evidence,
    problem: Problem,
    budget: Option<u64>,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let (first, kept) = (run.first().or_raise()?, run.kept());
    macro_rules! challenge {
        ($path:expr, $kernel:expr, $calls:expr $(, $with_gradient:ident)?) => {{
            let challenge = Challenge::new($path, $kernel, first)$(.$with_gradient())?;
            let challenge = controlled!(challenge, control, $calls);
            let challenge = match budget {
                Some(budget) => challenge.budget(budget),
                None => challenge,
            };
            Ok(judged(kept, &challenge.run()?, kept.figures.call()))
        }};
    }
    let work = |calls: &Calls| {
        from_prior!(
            &problem,
            calls,
            |path, kernel| challenge!(path, kernel, calls, with_gradient),
            challenge!(path, kernel, calls)
        )
    };
    problem.run(py, &control, SECOND_RUN, work, |py, kept| kept.object(py))
}
