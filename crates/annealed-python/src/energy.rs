//! Log Z of an energy model: from a base over vectors by rounds of annealing, or from bits by flips.

use std::time::Instant;

use annealed::adaptive::{Challenge, Rounds};
use annealed::ais::Run;
use annealed::kernel::{
    BitFlip, GibbsWithGradients, Hmc, Metropolis, RandomWalkMetropolis, Repeat,
};
use annealed::model::{Bernoulli, Bits, Fit as _, Gaussian, StudentT};
use annealed::nalgebra::DVector;
use annealed::path::{GeometricPath, TemperedPath};
use annealed::{Error, Result};
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;

use crate::convert::states;
use crate::desk::{Calls, Desk};
use crate::errors::OrRaise;
use crate::evidence::{FIRST_ROUND, Settings, rounds};
use crate::kept::Kept as _;
use crate::likelihood::{Likelihood, PythonFunction};
use crate::log_z::Figures;
use crate::posterior::{Parameters, Posterior};
use crate::priors::{Named, Prior, joint, names, of_call};
use crate::rbm::seconds;

type State = DVector<f64>;

/// The distribution from which chains start.
enum Base {
    /// A Gaussian or Student t. The names of its coordinates are those of priors, if there are any.
    Law(StudentT, Option<Vec<(String, Named)>>),
    /// Uniform priors with the log volume of their box.
    Box(Vec<(String, Named)>, f64),
    Bits(Bits),
}

/// The settings of the kernels.
#[derive(Clone, Copy)]
struct Moves {
    with_gradient: bool,
    step_size: f64,
    leapfrog: usize,
    flips: usize,
    fitted: bool,
}

impl Base {
    /// Reads priors of the coordinates: all uniform, or all with the same tails.
    fn of_priors(named: Vec<(String, Named)>) -> Result<Self> {
        let (mut centre, mut variances, mut degrees) = (Vec::new(), Vec::new(), Vec::new());
        let (mut log_volume, mut sides) = (0.0, 0);
        for (name, prior) in &named {
            let (law, arguments, count) = prior.repeated();
            let (nu, location, scale) = match (law, arguments) {
                ("uniform", &[low, high]) => {
                    log_volume += count as f64 * (high - low).ln();
                    sides += 1;
                    continue;
                }
                ("normal", &[mean, deviation]) => (f64::INFINITY, mean, deviation),
                ("student_t", &[nu, location, scale]) => (nu, location, scale),
                _ => {
                    let found = format!("annealed.{law} for {name}");
                    return Err(Error::invalid("base", found, LAWS));
                }
            };
            centre.extend(vec![location; count]);
            variances.extend(vec![scale * scale; count]);
            degrees.push(nu);
        }
        if sides == named.len() && sides > 0 {
            return Ok(Self::Box(named, log_volume));
        }
        if sides > 0 || degrees.windows(2).any(|pair| pair[0] != pair[1]) {
            let found = "different laws of the coordinates";
            return Err(Error::invalid("base", found, LAWS));
        }
        let gaussian = Gaussian::diagonal(centre.into(), variances.into())?;
        let nu = degrees.first().copied().unwrap_or(f64::INFINITY);
        Ok(Self::Law(StudentT::new(gaussian, nu)?, Some(named)))
    }

    /// Returns the number of coordinates of a state.
    fn dimension(&self) -> usize {
        match self {
            Self::Law(law, _) => law.gaussian().dimension(),
            Self::Box(named, _) => names(named).len(),
            Self::Bits(bits) => bits.0.logits().len(),
        }
    }

    /// Returns the names of the coordinates, and their values at the states of the run.
    fn parameters(self, run: &Run<State>) -> Parameters {
        let names = (0..self.dimension()).map(|i| format!("x[{i}]"));
        match self {
            Self::Law(_, Some(named)) | Self::Box(named, _) => Parameters::Priors(named),
            Self::Law(_, None) | Self::Bits(_) => {
                let values = run.states().iter().flat_map(|x| x.iter().copied());
                Parameters::Listed(names.collect(), values.collect())
            }
        }
    }

    /// Runs the rounds.
    fn run(
        &self,
        settings: &Settings,
        moves: Moves,
        epsilon: f64,
        calls: &Calls,
    ) -> Result<(Figures, Run<State>)> {
        match self {
            Self::Law(law, _) => from_law(law, settings, moves, epsilon, calls),
            Self::Box(named, log_volume) => {
                in_box(named, *log_volume, settings, moves, epsilon, calls)
            }
            Self::Bits(bits) => from_bits(bits, settings, moves, epsilon, calls),
        }
    }
}

/// The part of an error after "expected".
const LAWS: &str = "annealed.normal for all coordinates, or annealed.student_t with the same degrees of freedom, or annealed.uniform";

/// Anneals from a base over the whole space.
fn from_law(
    base: &StudentT,
    settings: &Settings,
    moves: Moves,
    epsilon: f64,
    calls: &Calls,
) -> Result<(Figures, Run<State>)> {
    let d = base.gaussian().dimension();
    Ok(match moves.with_gradient {
        true => {
            let path = GeometricPath::new(base, Likelihood::of_gradients(d, epsilon, calls)?);
            let kernel = Hmc::new(moves.step_size, moves.leapfrog)?;
            rounds!(&path, kernel, settings, moves.fitted, calls, with_gradient)
        }
        false => {
            let path = GeometricPath::new(base, Likelihood::of_values(d, epsilon, calls)?);
            let kernel = RandomWalkMetropolis::new(moves.step_size)?;
            rounds!(&path, kernel, settings, moves.fitted, calls)
        }
    })
}

/// Anneals within a box. The integral over the box is the evidence under its uniform law, times its volume.
fn in_box(
    named: &[(String, Named)],
    log_volume: f64,
    settings: &Settings,
    moves: Moves,
    epsilon: f64,
    calls: &Calls,
) -> Result<(Figures, Run<State>)> {
    let laws = joint(named)?;
    let d = laws.dimension();
    Ok(match moves.with_gradient {
        true => {
            let density = Likelihood::of_gradients(d, epsilon, calls)?.shifted(log_volume);
            let path = TemperedPath::new(&laws, laws.likelihood(density));
            let kernel = Hmc::new(moves.step_size, moves.leapfrog)?;
            rounds!(&path, kernel, settings, moves.fitted, calls, with_gradient)
        }
        false => {
            let density = Likelihood::of_values(d, epsilon, calls)?.shifted(log_volume);
            let path = TemperedPath::new(&laws, laws.likelihood(density));
            let kernel = RandomWalkMetropolis::new(moves.step_size)?;
            rounds!(&path, kernel, settings, moves.fitted, calls)
        }
    })
}

/// Anneals from independent bits, by flips.
fn from_bits(
    bits: &Bits,
    settings: &Settings,
    moves: Moves,
    epsilon: f64,
    calls: &Calls,
) -> Result<(Figures, Run<State>)> {
    let d = bits.0.logits().len();
    Ok(match moves.with_gradient {
        true => {
            let path = GeometricPath::new(bits, Likelihood::of_gradients(d, epsilon, calls)?);
            let kernel = Repeat::new(GibbsWithGradients, moves.flips)?;
            let run = settings.set(Rounds::fixed(&path, kernel), calls).run()?;
            settings.reported(&run, None)
        }
        false => {
            let path = GeometricPath::new(bits, Likelihood::of_values(d, epsilon, calls)?);
            let kernel = Repeat::new(Metropolis(BitFlip), moves.flips)?;
            let run = settings.set(Rounds::fixed(&path, kernel), calls).run()?;
            settings.reported(&run, None)
        }
    })
}

/// Estimates log Z of a function that returns the log densities of a batch. The base is one of `priors`, `samples` and
/// `bits`, the probabilities of ones.
#[pyfunction]
#[pyo3(signature = (function, *, priors, samples, bits, with_gradient, epsilon, step_size, leapfrog, flips, fitted,
                    challenge, chains, rounds, block_size, budget, until_error, time_limit, seed, threads, progress))]
#[allow(clippy::too_many_arguments)] // The keywords of a function of Python.
pub fn log_z<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    priors: Option<Vec<(String, PyRef<'py, Prior>)>>,
    samples: Option<PyReadonlyArray2<'py, f64>>,
    bits: Option<Vec<f64>>,
    with_gradient: bool,
    epsilon: f64,
    step_size: f64,
    leapfrog: usize,
    flips: usize,
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
    let base = match (priors, samples, bits) {
        (Some(priors), _, _) => Base::of_priors(of_call(priors)).or_raise()?,
        (None, Some(samples), _) => {
            let states = states(&samples);
            let weights = vec![1.0; states.len()];
            Base::Law(StudentT::fit(&states, &weights).or_raise()?, None)
        }
        (None, None, bits) => {
            let probabilities = DVector::from_vec(bits.unwrap_or_default());
            Base::Bits(Bits(
                Bernoulli::from_probabilities(&probabilities).or_raise()?,
            ))
        }
    };
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
    let moves = Moves {
        with_gradient,
        step_size,
        leapfrog,
        flips,
        fitted,
    };
    let dimension = base.dimension();
    let function = PythonFunction {
        function,
        dimension,
    };
    let work = |calls: &Calls| {
        calls.enter(Some(FIRST_ROUND));
        let (figures, run) = base.run(&settings, moves, epsilon, calls)?;
        let figures = figures.by("annealed.log_z", seed);
        let parameters = base.parameters(&run);
        Ok(Posterior::new(figures, run, parameters))
    };
    let call = |py: Python<'_>, states, n| function.call(py, states, n);
    let desk = Desk::new(threads, progress)?.time_limit(time_limit);
    desk.run(py, &call, work, |py, kept| kept.object(py))
}
