//! Exponential families: the trait, moment matching without closed form, and independent bits.

use nalgebra::DVector;
use rand::{Rng, RngExt};

use crate::error::demand_dimension;
use crate::model::{FullConditionals, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{Lbfgs, log_add_exp, sigmoid};
use crate::{Error, Result};

/// Tolerance of each moment, relative to `1 + max |s|`, with s the moments to match.
const TOLERANCE: f64 = 1e-8;

const ITERATIONS: usize = 1_000;

/// An exponential family: `log p(x) = eta . g(x) - A(eta)`, up to a term that does not depend on `eta`.
pub trait ExponentialFamily: NormalizedModel + Sized {
    /// Returns the natural parameters `eta`.
    fn natural_parameters(&self) -> DVector<f64>;

    /// Returns the sufficient statistics `g(x)`, as long as `eta`.
    fn sufficient_statistics(&self, state: &Self::State) -> DVector<f64>;

    /// Returns the moments `s = E g(x)`, which are the gradient of `A` in `eta`.
    fn moments(&self) -> DVector<f64>;

    /// Returns `A(eta)`, the log of the integral (or sum) of `exp(eta . g(x))`, convex in `eta`. At any x it equals
    /// `log Z + eta . g(x) - log f(x)`.
    fn log_partition(&self) -> f64;

    /// Returns the member of the same family with these natural parameters.
    ///
    /// # Errors
    /// An `eta` of the wrong length or outside the natural parameter space.
    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self>;

    /// Returns the member of the same family with these moments.
    ///
    /// The provided method minimises the convex `A(eta) - eta . s` by L-BFGS from this member, until each moment is
    /// matched within `1e-8 (1 + max |s|)`. Override it if there is a closed form.
    ///
    /// # Errors
    /// Moments of the wrong length, or moments that no member has. The provided method then returns
    /// [`Error::NotConverged`].
    fn with_moments(&self, moments: &DVector<f64>) -> Result<Self> {
        match_moments(self, moments)
    }
}

fn match_moments<M: ExponentialFamily>(start: &M, moments: &DVector<f64>) -> Result<M> {
    let eta = start.natural_parameters();
    Error::check_dimension("moments", moments.len(), eta.len())?;
    Error::check_finite("moments", moments.iter().copied())?;
    let solver = Lbfgs {
        memory: 20,
        iterations: ITERATIONS,
        tolerance: TOLERANCE * (1.0 + moments.amax()),
    };
    let minimum = solver.minimize(eta, |eta| {
        // Outside the natural parameter space A is infinite.
        let Ok(member) = start.with_natural_parameters(eta) else {
            return (f64::INFINITY, DVector::zeros(eta.len()));
        };
        (
            member.log_partition() - eta.dot(moments),
            member.moments() - moments,
        )
    });
    if minimum.gradient.amax() <= solver.tolerance {
        return start.with_natural_parameters(&minimum.position);
    }
    Err(Error::NotConverged {
        what: "moment matching",
        detail: format!(
            "a moment is off by {:.3e} after {} iterations, expected at most {:.3e}; check \
             that the moments belong to a member of the family",
            minimum.gradient.amax(),
            minimum.iterations,
            solver.tolerance
        ),
    })
}

/// Independent bits with logits b: `log f(v) = b . v`, `log Z = sum_i log(1 + e^(b_i))`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Bernoulli {
    logits: DVector<f64>,
}

impl Bernoulli {
    /// Creates the model from logits `b_i = log(p_i / (1 - p_i))`.
    ///
    /// # Errors
    /// No logit, or one that is not finite.
    pub fn new(logits: DVector<f64>) -> Result<Self> {
        Error::check_not_empty("logits", logits.len())?;
        Error::check_finite("logits", logits.iter().copied())?;
        Ok(Self { logits })
    }

    /// Creates the model from probabilities `p_i` of a one, each strictly between 0 and 1.
    ///
    /// # Errors
    /// No probability, or one outside (0, 1). Smoothed estimates `(ones + 1) / (samples + 2)` stay inside.
    pub fn from_probabilities(probabilities: &DVector<f64>) -> Result<Self> {
        for &p in probabilities.iter() {
            let expected = "numbers strictly between 0 and 1";
            Error::check(p > 0.0 && p < 1.0, "probabilities", p, expected)?;
        }
        Self::new(probabilities.map(|p| (p / (1.0 - p)).ln()))
    }

    /// Returns the logits b.
    pub fn logits(&self) -> &DVector<f64> {
        &self.logits
    }
}

impl UnnormalizedModel for Bernoulli {
    type State = Vec<bool>;

    fn log_density(&self, state: &Vec<bool>) -> f64 {
        demand_dimension("a state", state.len(), self.logits.len());
        let pairs = self.logits.iter().zip(state);
        pairs.filter(|(_, on)| **on).map(|(logit, _)| logit).sum()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.logits.len())
    }
}

impl NormalizedModel for Bernoulli {
    fn log_normalizer(&self) -> f64 {
        let log_normalizer = |&logit: &f64| log_add_exp(0.0, logit);
        self.logits.iter().map(log_normalizer).sum()
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl Sampleable for Bernoulli {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        let draw = |&logit: &f64| rng.random::<f64>() < sigmoid(logit);
        self.logits.iter().map(draw).collect()
    }
}

/// The natural parameters are `eta = b`, the sufficient statistics `g(v) = v`.
impl ExponentialFamily for Bernoulli {
    fn natural_parameters(&self) -> DVector<f64> {
        self.logits.clone()
    }

    fn sufficient_statistics(&self, state: &Vec<bool>) -> DVector<f64> {
        DVector::from_iterator(state.len(), state.iter().map(|&on| f64::from(u8::from(on))))
    }

    fn moments(&self) -> DVector<f64> {
        self.logits.map(sigmoid)
    }

    fn log_partition(&self) -> f64 {
        self.log_normalizer()
    }

    fn with_natural_parameters(&self, eta: &DVector<f64>) -> Result<Self> {
        Error::check_dimension("natural parameters", eta.len(), self.logits.len())?;
        Self::new(eta.clone())
    }

    /// Returns the bits with these moments directly, because the moments are the probabilities of a one.
    fn with_moments(&self, moments: &DVector<f64>) -> Result<Self> {
        Error::check_dimension("moments", moments.len(), self.logits.len())?;
        Self::from_probabilities(moments)
    }
}

impl FullConditionals for Bernoulli {
    fn coordinates(&self) -> usize {
        self.logits.len()
    }

    fn sample_coordinate<R: Rng + ?Sized>(&self, state: &mut Vec<bool>, index: usize, rng: &mut R) {
        state[index] = rng.random::<f64>() < sigmoid(self.logits[index]);
    }
}

crate::num::deserialize_checked! { Bernoulli as (logits: DVector<f64>) => Self::new(logits) }
