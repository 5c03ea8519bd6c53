//! The evidence by parallel tempering, after a first pass that tunes the kernel.

use annealed::adaptive::FirstPass;
use annealed::tempering::Tempering;
use pyo3::prelude::*;

use crate::desk::Calls;
use crate::posterior::{Found, Sample};
use crate::problem::{Control, Problem, controlled, from_prior};

/// End of the message for a run that stops before a round is done.
const FIRST_ROUND: &str = "before the first round was done, so that there is no estimate; fewer ladders and betas end it \
                           sooner";

/// The settings of the ladders: the attributes of a namespace in Python.
#[derive(Debug, FromPyObject)]
pub struct Settings {
    ladders: usize,
    stages: usize,
    rounds: usize,
    samples: usize,
    block_size: usize,
    until_error: Option<f64>,
}

/// Estimates the log evidence of a problem by parallel tempering.
#[pyfunction]
pub fn tempering<'py>(
    py: Python<'py>,
    problem: Bound<'py, PyAny>,
    settings: Settings,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let asked: Problem = problem.extract()?;
    let work = |calls: &Calls| {
        from_prior!(&asked, calls, |path, kernel| {
            let first = controlled!(FirstPass::new(path, kernel), control, calls).run()?;
            let runner = Tempering::new(path, first.kernel)
                .schedule(first.barrier.schedule(settings.stages)?)
                .ladders(settings.ladders)
                .rounds(settings.rounds)
                .samples(settings.samples)
                .block_size(settings.block_size);
            let run =
                controlled!(runner, control, calls, until_error: settings.until_error).run()?;
            let (ladders, stages) = (run.ladders(), run.schedule().stages());
            let sample = Sample::of(&run, ladders, stages);
            let found = Found::of_sample(run, sample, ("annealed.tempering", control.seed), &asked);
            Ok(found.after(first.evaluations, first.seconds))
        })
    };
    let shown = |py, found: Found| found.object(py, &problem);
    asked.run(py, &control, FIRST_ROUND, work, shown)
}
