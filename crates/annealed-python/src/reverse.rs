//! The run from samples of a posterior back to the base of its rounds, joined with a forward run.

use std::any::Any;

use annealed::Result;
use annealed::ais::Ais;
use annealed::bidirectional::TargetSamples;
use annealed::kernel::Tunable as _;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;

use crate::convert::states;
use crate::desk::Calls;
use crate::errors::OrRaise;
use crate::posterior::Evidence;
use crate::problem::{Control, Problem, controlled, from_base};
use crate::rbm_reverse::{BothDirections, BothWays};

/// End of the message for runs that stop before a block of chains is done in both directions.
const BOTH: &str = "before both directions had a result; fewer chains end them sooner";

/// Returns the tuned kernel, which has the type of `kernel`.
fn like<K: Clone + 'static>(kernel: K, tuned: &(dyn Any + Send + Sync)) -> K {
    tuned.downcast_ref().cloned().unwrap_or(kernel)
}

/// Runs forward and from `samples` (rows of parameters) backward, with the stages and the kernel of the last round.
#[pyfunction]
pub fn reverse<'py>(
    py: Python<'py>,
    run: &Evidence,
    problem: Problem,
    samples: PyReadonlyArray2<'py, f64>,
    exact: bool,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let (tuned, last) = (run.kernel().or_raise()?, run.kept().run().or_raise()?);
    let laws = problem.laws().or_raise()?;
    let rows = states(&samples).into_iter().take(last.chains());
    let rows = rows
        .map(|row| laws.state(row.as_slice()))
        .collect::<Result<Vec<_>>>();
    let samples = match exact {
        true => TargetSamples::exact(rows.or_raise()?),
        false => TargetSamples::approximate(rows.or_raise()?),
    };
    let work = |calls: &Calls| {
        from_base!(&problem, calls, |path, kernel| {
            let ais = Ais::new(path, like(kernel, tuned))
                .schedule(last.schedule().clone())
                .chains(last.chains())
                .block_size(last.block_size());
            let ais = controlled!(ais, control, calls);
            let (forward, backward) = (ais.run()?, ais.reverse(&samples)?);
            BothWays::new(&forward, &backward, ("annealed.evidence", exact))
        })
    };
    problem.run(py, &control, BOTH, work, BothDirections::object)
}
