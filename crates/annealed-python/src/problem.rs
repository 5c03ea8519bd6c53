//! A prior and a likelihood of Python, and the controls of a run.

use std::time::Duration;

use annealed::Result;
use annealed::model::Priors;
use annealed::nalgebra::DVector;
use pyo3::prelude::*;

use crate::desk::{Calls, Desk, Values};
use crate::errors::OrRaise;
use crate::likelihood::{Likelihood, PythonFunction};
use crate::priors::{Named, Prior, joint, names};
use crate::rbm::seconds;

pub type State = DVector<f64>;

/// Degrees of freedom of a base around Laplace's approximation.
pub const DEGREES: f64 = 5.0;

/// A prior, a function that returns log likelihoods, and the settings of the kernel: the attributes of the class
/// `Problem` in Python.
#[derive(FromPyObject)]
pub struct Problem {
    priors: Vec<(String, Py<Prior>)>,
    function: Py<PyAny>,
    /// Whether the function returns gradients, too. Chains then move by Hamiltonian dynamics.
    pub with_gradient: bool,
    epsilon: f64,
    pub step_size: f64,
    pub leapfrog: usize,
    /// Whether runs start near the posterior's mode, and not from the prior.
    pub laplace: bool,
}

/// The seed and the controls of a run: the attributes of a namespace in Python.
#[derive(FromPyObject)]
pub struct Control {
    pub seed: u64,
    time_limit: Option<f64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
}

impl Control {
    /// Returns the time limit.
    pub fn limit(&self) -> Result<Option<Duration>> {
        self.time_limit.map(seconds).transpose()
    }
}

impl Problem {
    /// Returns the priors by their names.
    pub fn named(&self) -> Vec<(String, Named)> {
        let priors = self.priors.iter();
        priors
            .map(|(name, prior)| (name.clone(), prior.get().named.clone()))
            .collect()
    }

    /// Returns the prior of all parameters.
    pub fn laws(&self) -> Result<Priors> {
        joint(&self.named())
    }

    /// Returns the number of parameters.
    fn dimension(&self) -> usize {
        names(&self.named()).len()
    }

    /// Returns the likelihood as a function without gradients.
    pub fn values<'c>(&self, calls: &'c Calls) -> Result<Likelihood<'c, Vec<f64>>> {
        Likelihood::of_values(self.dimension(), self.epsilon, calls)
    }

    /// Returns the likelihood as a function with gradients.
    pub fn gradients<'c>(&self, calls: &'c Calls) -> Result<Likelihood<'c, Values>> {
        Likelihood::of_gradients(self.dimension(), self.epsilon, calls)
    }

    /// Runs `work`, which calls the function ([`called`]).
    pub fn run<'py, T: Send>(
        &self,
        py: Python<'py>,
        control: &Control,
        phase: &'static str,
        work: impl FnOnce(&Calls) -> Result<T> + Send,
        shown: impl FnOnce(Python<'py>, T) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = PythonFunction {
            function: self.function.clone_ref(py),
            dimension: self.dimension(),
        };
        called(py, &function, control, phase, work, shown)
    }
}

/// Runs `work`, which calls a function. `phase` ends the message for a run that stops without a result.
pub fn called<'py, T: Send>(
    py: Python<'py>,
    function: &PythonFunction,
    control: &Control,
    phase: &'static str,
    work: impl FnOnce(&Calls) -> Result<T> + Send,
    shown: impl FnOnce(Python<'py>, T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    let progress = control.progress.as_ref().map(|show| show.clone_ref(py));
    let limit = control.limit().or_raise()?;
    let work = |calls: &Calls| {
        calls.enter(Some(phase));
        work(calls)
    };
    let desk = Desk::new(control.threads, progress)?.time_limit(limit);
    desk.run(py, &call, work, shown)
}

/// Sets seed, time limit, progress and the end by Ctrl-C of a runner of the library, and the error to reach if there is one.
macro_rules! controlled {
    ($runner:expr, $control:expr, $calls:expr, until_error: $error:expr) => {{
        let runner = $crate::problem::controlled!($runner, $control, $calls);
        match $error {
            Some(error) => runner.until_error(error),
            None => runner,
        }
    }};
    ($runner:expr, $control:expr, $calls:expr) => {{
        let runner = $runner.seed($control.seed);
        let runner = runner.stop_when(|| $calls.is_stopped());
        let runner = runner.progress(|at| $calls.progress(at));
        match $control.limit()? {
            Some(limit) => runner.time_limit(limit),
            None => runner,
        }
    }};
}

/// Evaluates an expression with the path from the prior to the posterior, and the kernel of the problem. If a second
/// expression is given, it is for a problem without gradients.
macro_rules! from_prior {
    ($problem:expr, $calls:expr, |$path:ident, $kernel:ident| $work:expr) => {
        $crate::problem::from_prior!($problem, $calls, |$path, $kernel| $work, $work)
    };
    ($problem:expr, $calls:expr, |$path:ident, $kernel:ident| $with:expr, $without:expr) => {{
        let (problem, laws) = ($problem, $problem.laws()?);
        match problem.with_gradient {
            true => {
                let likelihood = laws.likelihood(problem.gradients($calls)?);
                let path = annealed::path::TemperedPath::new(&laws, likelihood);
                let kernel = annealed::kernel::Hmc::new(problem.step_size, problem.leapfrog)?;
                let ($path, $kernel) = (&path, kernel);
                $with
            }
            false => {
                let likelihood = laws.likelihood(problem.values($calls)?);
                let path = annealed::path::TemperedPath::new(&laws, likelihood);
                let kernel = annealed::kernel::RandomWalkMetropolis::new(problem.step_size)?;
                let ($path, $kernel) = (&path, kernel);
                $without
            }
        }
    }};
}

/// Evaluates an expression as `from_prior` does, or with the path from Student's t around Laplace's approximation if the
/// problem asks for it.
macro_rules! from_base {
    ($problem:expr, $calls:expr, |$path:ident, $kernel:ident| $work:expr) => {
        $crate::problem::from_prior!(
            $problem,
            $calls,
            |$path, $kernel| match $problem.laplace {
                true => {
                    let target = $path.at(1.0);
                    let coordinates = $problem.laws()?.dimension();
                    let start = annealed::nalgebra::DVector::zeros(coordinates);
                    let laplace = annealed::model::Gaussian::laplace(&target, start)?;
                    let shape =
                        annealed::kernel::Preconditioner::covariance(&laplace.covariance())?;
                    let base = annealed::model::StudentT::new(laplace, $crate::problem::DEGREES)?;
                    let near = annealed::path::GeometricPath::new(base, &target);
                    let ($path, $kernel) = (&near, $kernel.preconditioned(shape));
                    $work
                }
                false => $work,
            },
            $work
        )
    };
}

pub(crate) use {controlled, from_base, from_prior};
