//! The evidence of a Stan model, read by `annealed-stan`.

use std::path::PathBuf;

use annealed::ais::Ais;
use annealed::kernel::{Hmc, Preconditioner, Tunable as _};
use annealed::model::{Gaussian, StudentT, UnnormalizedModel};
use annealed::nalgebra::DVector;
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;
use annealed_stan::StanModel;
use pyo3::prelude::*;

use crate::desk::{Calls, Desk, no_function};
use crate::errors::OrRaise;

use crate::kept::Kept;
use crate::log_z::Figures;
use crate::posterior::{Parameters, Posterior, Source};
use crate::problem::DEGREES;

/// Exponent of the schedule of the run.
const POWER: f64 = 2.0;

/// Anneals from Student's t around Laplace's approximation to a Stan model, same as the example of `annealed-stan`.
#[pyfunction]
#[pyo3(signature = (library, data, *, chains, stages, step_size, leapfrog, seed, threads, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn stan<'py>(
    py: Python<'py>,
    library: PathBuf,
    data: &str,
    chains: usize,
    stages: usize,
    step_size: f64,
    leapfrog: usize,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let model = StanModel::open(library, data).or_raise()?;
    let work = |calls: &Calls| {
        let start = DVector::zeros(model.state_dimension().unwrap_or(0));
        let laplace = Gaussian::laplace(&model, start)?;
        let shape = Preconditioner::covariance(&laplace.covariance())?;
        let path = GeometricPath::new(StudentT::new(laplace, DEGREES)?, &model);
        let run = Ais::new(&path, Hmc::new(step_size, leapfrog)?.preconditioned(shape))
            .schedule(Schedule::power(stages, POWER)?)
            .chains(chains)
            .seed(seed)
            .stop_when(|| calls.is_stopped())
            .progress(|at| calls.progress(at))
            .run()?;
        let mut parameters = Vec::new();
        for state in run.states() {
            parameters.extend(model.constrain(state)?);
        }
        let figures = Figures::of(&run).by("annealed.stan", seed);
        let listed = Parameters::Listed(model.param_names().to_vec(), parameters);
        Ok(Posterior::new(figures, Source::Run(Box::new(run)), listed))
    };
    Desk::new(threads, progress)?.run(py, &no_function, work, |py, kept| kept.object(py))
}
