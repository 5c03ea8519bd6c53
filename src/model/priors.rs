//! Independent priors of several parameters: in coordinates without bounds, or uniform on a box.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::error::{Failure, demand_dimension};
use crate::estimate::Quantities;
use crate::model::{Differentiable, NormalizedModel, Prior, Sampleable, UnnormalizedModel};
use crate::num::{set_zero, with_buffer};
use crate::{Error, Result};

/// Independent priors of parameters, as a model over coordinates without bounds.
///
/// A coordinate is the parameter itself on the whole line, its log above 0, and a logit in an interval, so kernels
/// never leave the support. The density includes the Jacobian, and log Z is 0. [`likelihood`](Self::likelihood)
/// transforms a likelihood of the parameters, and [`parameters`](Self::parameters) takes samples back.
///
/// ```
/// use annealed::prelude::*;
///
/// // Counts of a Poisson law whose rate has the gamma prior.
/// let counts = [3.0, 5.0, 2.0, 4.0];
/// let priors = Priors::new([Prior::gamma(2.0, 1.0)?])?;
/// let likelihood = priors.likelihood(GradientModel::new(1, |x: &[f64], gradient: &mut [f64]| {
///     let (rate, sum) = (x[0], counts.iter().sum::<f64>());
///     gradient[0] = sum / rate - 4.0;
///     let log_factorials = (6.0f64 * 120.0 * 2.0 * 24.0).ln();
///     sum * rate.ln() - 4.0 * rate - log_factorials
/// })?);
/// let path = TemperedPath::new(&priors, likelihood);
/// let run = Ais::new(&path, Hmc::new(0.3, 3)?).schedule(Schedule::linear(50)?).run()?;
/// let (rate, _) = run.expectation(|u| priors.parameters(u)[0]);
/// println!("mean rate {rate:.2}, log evidence {run}");
/// # let exact = (1..=15).map(|k| f64::from(k).ln()).sum::<f64>() - 16.0 * 5f64.ln() - (34_560f64).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # assert!((rate - 3.2).abs() < 0.1);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Priors {
    priors: Vec<Prior>,
    /// Names of the parameters.
    names: Vec<String>,
}

impl Priors {
    /// Creates a model from one prior for each parameter. The parameters have the names `x[0]`, `x[1]` and so on.
    ///
    /// # Errors
    /// No prior.
    pub fn new(priors: impl IntoIterator<Item = Prior>) -> Result<Self> {
        let priors = priors.into_iter().enumerate();
        Self::named(priors.map(|(i, prior)| (format!("x[{i}]"), prior)))
    }

    /// Creates a model from a name and a prior for each parameter. A [summary](crate::estimate::WeightedSample::summary)
    /// has the names in its rows.
    ///
    /// # Errors
    /// No prior.
    pub fn named(priors: impl IntoIterator<Item = (impl Into<String>, Prior)>) -> Result<Self> {
        let named = priors.into_iter().map(|(name, prior)| (name.into(), prior));
        let (names, priors): (Vec<String>, Vec<_>) = named.unzip();
        Error::check_not_empty("priors", priors.len())?;
        Ok(Self { priors, names })
    }

    /// Returns the number of parameters.
    pub fn dimension(&self) -> usize {
        self.priors.len()
    }

    /// Creates a likelihood of the coordinates from one of the parameters. A
    /// [`GradientModel`](crate::model::GradientModel) keeps its gradient.
    pub fn likelihood<M>(&self, likelihood: M) -> Unbounded<M>
    where
        M: UnnormalizedModel<State = DVector<f64>>,
    {
        Unbounded::new(self.clone(), likelihood)
    }

    /// Returns the parameters of a state. They lie strictly inside their supports.
    ///
    /// # Panics
    /// Where the state has another dimension.
    pub fn parameters(&self, state: &DVector<f64>) -> DVector<f64> {
        let mut parameters = DVector::zeros(self.dimension());
        self.write_parameters(state, &mut parameters);
        parameters
    }

    /// Returns the state of `parameters`, such as a start for [`Gaussian::laplace`](crate::model::Gaussian::laplace).
    ///
    /// # Errors
    /// Another number of parameters, or one outside its support.
    pub fn state(&self, parameters: &[f64]) -> Result<DVector<f64>> {
        Error::check_dimension("parameters", parameters.len(), self.dimension())?;
        let pairs = self.priors.iter().zip(parameters);
        let coordinates = pairs.map(|(prior, &x)| {
            let u = prior.coordinate(x);
            Error::check(u.is_finite(), "parameter", x, prior.support())?;
            Ok(u)
        });
        let coordinates: Vec<f64> = coordinates.collect::<Result<_>>()?;
        Ok(coordinates.into())
    }

    pub(super) fn write_parameters(&self, state: &DVector<f64>, parameters: &mut DVector<f64>) {
        for ((x, u), prior) in parameters
            .iter_mut()
            .zip(self.checked(state))
            .zip(&self.priors)
        {
            *x = prior.parameter(*u).0;
        }
    }

    /// Adds `slope_i dx_i/du_i` to each `gradient_i`: 0 where the parameter stays at its last number, also if the slope
    /// there is infinite.
    pub(super) fn chain(
        &self,
        state: &DVector<f64>,
        slopes: &DVector<f64>,
        gradient: &mut DVector<f64>,
    ) {
        let each = gradient.iter_mut().zip(slopes.iter()).zip(state.iter());
        for (((total, slope), u), prior) in each.zip(&self.priors) {
            let derivative = prior.parameter(*u).1;
            if derivative != 0.0 {
                *total += slope * derivative;
            }
        }
    }

    fn checked<'s>(&self, state: &'s DVector<f64>) -> impl Iterator<Item = &'s f64> {
        demand_dimension("a state", state.len(), self.dimension());
        state.iter()
    }
}

impl UnnormalizedModel for Priors {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let pairs = self.checked(state).zip(&self.priors);
        pairs.map(|(u, prior)| prior.log_density(*u).0).sum()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension())
    }
}

impl NormalizedModel for Priors {
    fn log_normalizer(&self) -> f64 {
        0.0
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Sampleable for Priors {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let coordinates = self.priors.iter().map(|prior| prior.sample(rng));
        DVector::from_iterator(self.dimension(), coordinates)
    }
}

impl Differentiable for Priors {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut total = 0.0;
        for ((slope, u), prior) in gradient
            .iter_mut()
            .zip(self.checked(state))
            .zip(&self.priors)
        {
            let (log_density, own) = prior.log_density(*u);
            total += log_density;
            *slope += scale * own;
        }
        total
    }
}

/// The parameters by their names. A value is NaN where the state has another dimension.
impl<'p> From<&'p Priors> for Quantities<'p, DVector<f64>> {
    fn from(priors: &'p Priors) -> Self {
        let named = priors.names.iter().enumerate();
        named.fold(Self::default(), |all, (i, name)| {
            all.with(name, move |state: &DVector<f64>| {
                match state.len() == priors.dimension() {
                    true => priors.parameters(state)[i],
                    false => f64::NAN,
                }
            })
        })
    }
}

crate::num::deserialize_checked! { Priors as (named: Vec<(String, Prior)>) => Self::named(named) }
crate::num::serialize_as! { Priors as priors (Vec::from_iter(priors.names.iter().zip(&priors.priors))) }

/// A likelihood of parameters as a function of the coordinates of their [`Priors`], made by [`Priors::likelihood`]. Its
/// value holds no Jacobian, which belongs to the prior. Its gradient follows by the chain rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Unbounded<M> {
    priors: Priors,
    likelihood: M,
}

impl<M> Unbounded<M> {
    pub(super) fn new(priors: Priors, likelihood: M) -> Self {
        Self { priors, likelihood }
    }
}

impl<M: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for Unbounded<M> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(self.priors.dimension(), |parameters| {
            self.priors.write_parameters(state, parameters);
            self.likelihood.log_density(parameters)
        })
    }

    /// Returns the likelihood's own dimension if known, so that a path compares it with the prior's.
    fn state_dimension(&self) -> Option<usize> {
        let own = self.likelihood.state_dimension();
        own.or(Some(self.priors.dimension()))
    }

    fn epsilon(&self) -> f64 {
        self.likelihood.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.likelihood.failure()
    }
}

impl<M: Differentiable> Differentiable for Unbounded<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let dimension = self.priors.dimension();
        with_buffer(dimension, |parameters| {
            with_buffer(dimension, |slopes| {
                self.priors.write_parameters(state, parameters);
                set_zero(slopes.as_mut_slice());
                let model = &self.likelihood;
                let log_likelihood = model.accumulate_gradient(parameters, scale, slopes);
                if log_likelihood > f64::NEG_INFINITY {
                    self.priors.chain(state, slopes, gradient);
                }
                log_likelihood
            })
        })
    }
}

/// The uniform distribution on a box: `log f(x) = 0` inside, edges included, and `-inf` outside; `log Z = log volume`.
///
/// It suits kernels without gradients, such as [`Slice`](crate::kernel::Slice) or a random walk. The gradient is 0, so
/// Langevin and Hamiltonian kernels leave the box. Take [`Priors`](crate::model::Priors) for them.
///
/// ```
/// use annealed::prelude::*;
///
/// let base = UniformBox::new([(0.0, 2.0), (-1.0, 1.0)])?;
/// assert_eq!(base.log_normalizer(), 4f64.ln());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UniformBox {
    sides: Vec<(f64, f64)>,
}

impl UniformBox {
    /// Creates a box from the lower and the upper end of each side.
    ///
    /// # Errors
    /// No side; ends that are not finite, or `low` not below `high`; a side whose length overflows.
    pub fn new(sides: impl IntoIterator<Item = (f64, f64)>) -> Result<Self> {
        let sides: Vec<(f64, f64)> = sides.into_iter().collect();
        Error::check_not_empty("sides", sides.len())?;
        for &(low, high) in &sides {
            let length = high - low;
            let found = format!("{low} to {high}");
            let expected = "finite ends, the lower one below the upper one";
            Error::check(length.is_finite() && low < high, "side", found, expected)?;
        }
        Ok(Self { sides })
    }

    fn contains(&self, state: &DVector<f64>) -> bool {
        demand_dimension("a state", state.len(), self.sides.len());
        let mut sides = self.sides.iter().zip(state.iter());
        sides.all(|(&(low, high), x)| (low..=high).contains(x))
    }
}

impl UnnormalizedModel for UniformBox {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        if self.contains(state) {
            0.0
        } else {
            f64::NEG_INFINITY
        }
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.sides.len())
    }
}

impl NormalizedModel for UniformBox {
    fn log_normalizer(&self) -> f64 {
        self.sides.iter().map(|(low, high)| (high - low).ln()).sum()
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Differentiable for UniformBox {
    fn accumulate_gradient(&self, state: &DVector<f64>, _: f64, _: &mut DVector<f64>) -> f64 {
        self.log_density(state)
    }
}

impl Sampleable for UniformBox {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let coordinates = self.sides.iter();
        let coordinates = coordinates.map(|&(low, high)| rng.random_range(low..high));
        DVector::from_iterator(self.sides.len(), coordinates)
    }
}

crate::num::deserialize_checked! { UniformBox as (sides: Vec<(f64, f64)>) => Self::new(sides) }
crate::num::serialize_as! { UniformBox as uniform (uniform.sides) }
