//! The evidence by rising levels of the likelihood.

use annealed::kernel::RandomWalkMetropolis;
use annealed::nested::NestedSmc;
use annealed::path::TemperedPath;
use pyo3::prelude::*;

use crate::desk::Calls;
use crate::posterior::{Found, Sample};
use crate::problem::{Control, Problem, controlled};

/// End of the message for a run that stops before an island is done.
const FIRST_ISLAND: &str = "before the first island was done, so that there is no estimate; fewer chains and moves end it \
                            sooner";

/// The settings of the levels: the attributes of a namespace in Python.
#[derive(Debug, FromPyObject)]
pub struct Settings {
    islands: usize,
    chains: usize,
    moves: usize,
    share: f64,
    precision: f64,
    max_levels: usize,
    kept: usize,
    until_error: Option<f64>,
}

/// Estimates the log evidence of a problem by nested levels.
#[pyfunction]
pub fn nested<'py>(
    py: Python<'py>,
    problem: Bound<'py, PyAny>,
    settings: Settings,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let asked: Problem = problem.extract()?;
    let work = |calls: &Calls| {
        let laws = asked.laws()?;
        let path = TemperedPath::new(&laws, laws.likelihood(asked.values(calls)?));
        let runner = NestedSmc::new(&path, RandomWalkMetropolis::new(asked.step_size)?)
            .islands(settings.islands)
            .chains(settings.chains)
            .moves(settings.moves)
            .share(settings.share)
            .precision(settings.precision)
            .max_levels(settings.max_levels)
            .kept(settings.kept);
        let run = controlled!(runner, control, calls, until_error: settings.until_error).run()?;
        let (islands, levels) = (run.islands(), run.levels().len());
        let sample = Sample::of(&run, islands, levels);
        Ok(Found::of_sample(
            run,
            sample,
            ("annealed.nested", control.seed),
            &asked,
        ))
    };
    let shown = |py, found: Found| found.object(py, &problem);
    asked.run(py, &control, FIRST_ISLAND, work, shown)
}
