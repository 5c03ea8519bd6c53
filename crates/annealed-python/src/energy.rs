//! Log Z of an energy model: from a base over vectors by rounds of annealing, or from bits by flips.

use annealed::adaptive::{Challenge, Rounds, RoundsRun};
use annealed::ais::Run;
use annealed::kernel::{
    BitFlip, GibbsWithGradients, Hmc, Metropolis, RandomWalkMetropolis, Repeat,
};
use annealed::model::{Bernoulli, Bits, Fit as _, Gaussian, StudentT};
use annealed::nalgebra::DVector;
use annealed::path::{GeometricPath, TemperedPath};
use annealed::{Error, Result};
use numpy::{PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use crate::challenge::{SECOND_RUN, judged};
use crate::convert::states;
use crate::desk::Calls;
use crate::errors::OrRaise;
use crate::evidence::{FIRST_ROUND, Settings};
use crate::kept::Kept as _;
use crate::likelihood::{Likelihood, PythonFunction};
use crate::log_z::Figures;
use crate::posterior::{Evidence, Found, Parameters, Posterior, Source};
use crate::priors::{Named, Prior, joint, names};
use crate::problem::{Control, State, called, controlled};

/// A base, a function that returns log densities, and the settings of the kernels: the attributes of the class `Energy` in
/// Python.
#[derive(FromPyObject)]
pub struct Energy {
    /// The base is one of priors, samples, and the probabilities of bits.
    priors: Option<Vec<(String, Py<Prior>)>>,
    samples: Option<Py<PyArray2<f64>>>,
    bits: Option<Vec<f64>>,
    function: Py<PyAny>,
    with_gradient: bool,
    epsilon: f64,
    step_size: f64,
    leapfrog: usize,
    flips: usize,
}

impl Energy {
    /// Reads the base.
    fn base(&self, py: Python<'_>) -> Result<Base> {
        match (&self.priors, &self.samples, &self.bits) {
            (Some(priors), _, _) => {
                let named = priors.iter();
                let named = named.map(|(name, prior)| (name.clone(), prior.get().named.clone()));
                Base::of_priors(named.collect())
            }
            (None, Some(samples), _) => {
                let states = states(&samples.bind(py).readonly());
                let weights = vec![1.0; states.len()];
                Ok(Base::Law(StudentT::fit(&states, &weights)?, None))
            }
            (None, None, bits) => {
                let probabilities = DVector::from_vec(bits.clone().unwrap_or_default());
                let bits = Bernoulli::from_probabilities(&probabilities)?;
                Ok(Base::Bits(Bits(bits)))
            }
        }
    }

    /// Returns the function of states of a base.
    fn function(&self, py: Python<'_>, base: &Base) -> PythonFunction {
        PythonFunction {
            function: self.function.clone_ref(py),
            dimension: base.dimension(),
        }
    }
}

/// The distribution from which chains start.
enum Base {
    /// A Gaussian or Student t. The names of its coordinates are those of priors, if there are any.
    Law(StudentT, Option<Vec<(String, Named)>>),
    /// Uniform priors with the log volume of their box.
    Box(Vec<(String, Named)>, f64),
    Bits(Bits),
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
    fn parameters(&self, run: &Run<State>) -> Parameters {
        let names = (0..self.dimension()).map(|i| format!("x[{i}]"));
        match self {
            Self::Law(_, Some(named)) | Self::Box(named, _) => Parameters::Priors(named.clone()),
            Self::Law(_, None) | Self::Bits(_) => {
                let values = run.states().iter().flat_map(|x| x.iter().copied());
                Parameters::Listed(names.collect(), values.collect())
            }
        }
    }

    /// Returns the result of rounds from this base.
    fn found<K: Send + Sync + 'static>(&self, run: RoundsRun<State, K>, seed: u64) -> Found {
        let figures = Figures::of(&run).by("annealed.log_z", seed);
        let source = Source::Run(Box::new(run.run().clone()));
        let parameters = self.parameters(run.run());
        Found {
            posterior: Posterior::new(figures, source, parameters),
            kernel: None,
            first: Box::new(run),
        }
    }
}

/// The part of an error after "expected".
const LAWS: &str = "annealed.normal for all coordinates, or annealed.student_t with the same degrees of freedom, or annealed.uniform";

/// Evaluates an expression with the path from a base over vectors and the kernel: the first if there are gradients, the second
/// if there are none, the third with bits.
macro_rules! from_energy {
    ($energy:expr, $base:expr, $calls:expr, |$path:ident, $kernel:ident| $with:expr, $without:expr, $bits:expr) => {{
        let (energy, base): (&Energy, &Base) = ($energy, $base);
        let (d, epsilon) = (base.dimension(), energy.epsilon);
        let hmc = || Hmc::new(energy.step_size, energy.leapfrog);
        let walk = || RandomWalkMetropolis::new(energy.step_size);
        let slopes = || Likelihood::of_gradients(d, epsilon, $calls);
        let values = || Likelihood::of_values(d, epsilon, $calls);
        match (base, energy.with_gradient) {
            (Base::Law(law, _), true) => {
                let path = GeometricPath::new(law, slopes()?);
                let ($path, $kernel) = (&path, hmc()?);
                $with
            }
            (Base::Law(law, _), false) => {
                let path = GeometricPath::new(law, values()?);
                let ($path, $kernel) = (&path, walk()?);
                $without
            }
            // The integral over the box is the evidence under its uniform law, times its volume.
            (Base::Box(named, log_volume), true) => {
                let laws = joint(named)?;
                let path =
                    TemperedPath::new(&laws, laws.likelihood(slopes()?.shifted(*log_volume)));
                let ($path, $kernel) = (&path, hmc()?);
                $with
            }
            (Base::Box(named, log_volume), false) => {
                let laws = joint(named)?;
                let path =
                    TemperedPath::new(&laws, laws.likelihood(values()?.shifted(*log_volume)));
                let ($path, $kernel) = (&path, walk()?);
                $without
            }
            (Base::Bits(bits), true) => {
                let path = GeometricPath::new(bits, slopes()?);
                let ($path, $kernel) = (&path, Repeat::new(GibbsWithGradients, energy.flips)?);
                $bits
            }
            (Base::Bits(bits), false) => {
                let path = GeometricPath::new(bits, values()?);
                let ($path, $kernel) = (&path, Repeat::new(Metropolis(BitFlip), energy.flips)?);
                $bits
            }
        }
    }};
}

/// Estimates log Z of an energy.
#[pyfunction]
pub fn log_z<'py>(
    py: Python<'py>,
    energy: Bound<'py, PyAny>,
    settings: Settings,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let asked: Energy = energy.extract()?;
    let base = asked.base(py).or_raise()?;
    macro_rules! rounds {
        ($rounds:expr, $calls:expr) => {{
            let rounds = settings.set($rounds);
            controlled!(rounds, control, $calls)
        }};
    }
    macro_rules! tuned {
        ($path:expr, $kernel:expr, $calls:expr) => {{
            let rounds = rounds!(Rounds::new($path, $kernel), $calls);
            let run = match settings.fitted {
                true => rounds.fitted().run()?,
                false => rounds.run()?,
            };
            Ok(base.found(run, control.seed))
        }};
    }
    let work = |calls: &Calls| {
        from_energy!(
            &asked,
            &base,
            calls,
            |path, kernel| tuned!(path, kernel, calls),
            tuned!(path, kernel, calls),
            {
                let run = rounds!(Rounds::fixed(path, kernel), calls).run()?;
                Ok(base.found(run, control.seed))
            }
        )
    };
    let function = asked.function(py, &base);
    let shown = |py, found: Found| found.object(py, &energy);
    called(py, &function, &control, FIRST_ROUND, work, shown)
}

/// Challenges a result of `log_z`.
#[pyfunction]
pub fn challenge_log_z<'py>(
    py: Python<'py>,
    run: &Evidence,
    energy: Energy,
    budget: Option<u64>,
    control: Control,
) -> PyResult<Bound<'py, PyAny>> {
    let (first, kept) = (run.first().or_raise()?, run.kept());
    let base = energy.base(py).or_raise()?;
    macro_rules! challenge {
        ($path:expr, $kernel:expr, $calls:expr $(, $with_gradient:ident)?) => {{
            let challenge = Challenge::new($path, $kernel, first)$(.$with_gradient())?;
            let mut challenge = controlled!(challenge, control, $calls);
            if let Some(budget) = budget {
                challenge = challenge.budget(budget);
            }
            let mut found = judged(kept, &challenge.run()?, kept.figures.call());
            found.parameters = base.parameters(found.run()?);
            Ok(found)
        }};
    }
    let work = |calls: &Calls| {
        from_energy!(
            &energy,
            &base,
            calls,
            |path, kernel| challenge!(path, kernel, calls, with_gradient),
            challenge!(path, kernel, calls),
            {
                let _ = (path, kernel);
                let expected = "a base over vectors: there is no challenge to bits";
                Err(Error::invalid("base", "bits", expected))
            }
        )
    };
    let function = energy.function(py, &base);
    called(py, &function, &control, SECOND_RUN, work, |py, kept| {
        kept.object(py)
    })
}
