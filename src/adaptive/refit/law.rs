//! Laws fitted to weighted states: a Gaussian, or a Student t where the tails are heavier.

use nalgebra::DVector;
use rand::Rng;

use crate::Result;
use crate::model::{
    Differentiable, Gaussian, NormalizedModel, Sampleable, StudentT, UnnormalizedModel,
};

/// A Gaussian, or a Student t.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Law {
    Gaussian(Gaussian),
    Student(StudentT),
}

/// Degrees of freedom that are tried.
const DEGREES: [f64; 4] = [30.0, 10.0, 5.0, 3.0];
/// Least gain in the log likelihood of the states for which a Student t is preferred.
const GAIN: f64 = 3.0;

impl Law {
    /// Returns the likeliest law with this mean and covariance, given `count` states' worth of weighted states: the
    /// Gaussian unless a Student t is clearly better.
    pub(super) fn likeliest(
        gaussian: Gaussian,
        count: f64,
        weighted: &[(f64, &DVector<f64>)],
    ) -> Result<Self> {
        let likelihood = |law: &Self| {
            let terms = weighted.iter().map(|(w, x)| w * law.log_probability(x));
            count * terms.sum::<f64>()
        };
        let mut best = Self::Gaussian(gaussian.clone());
        let mut highest = likelihood(&best) + GAIN;
        for nu in DEGREES {
            // The covariance of a Student t is nu / (nu - 2) times its scale matrix.
            let law = Self::Student(StudentT::new(gaussian.scaled((nu - 2.0) / nu)?, nu)?);
            let found = likelihood(&law);
            if found > highest {
                (best, highest) = (law, found);
            }
        }
        Ok(best)
    }

    /// Returns the log of the normalised density.
    pub(super) fn log_probability(&self, state: &DVector<f64>) -> f64 {
        self.log_density(state) - self.log_normalizer()
    }

    pub(super) fn log_density(&self, state: &DVector<f64>) -> f64 {
        match self {
            Self::Gaussian(gaussian) => gaussian.log_density(state),
            Self::Student(student) => student.log_density(state),
        }
    }

    pub(super) fn log_normalizer(&self) -> f64 {
        match self {
            Self::Gaussian(gaussian) => gaussian.log_normalizer(),
            Self::Student(student) => student.log_normalizer(),
        }
    }

    pub(super) fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        match self {
            Self::Gaussian(gaussian) => gaussian.accumulate_gradient(state, scale, gradient),
            Self::Student(student) => student.accumulate_gradient(state, scale, gradient),
        }
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        match self {
            Self::Gaussian(gaussian) => gaussian.sample(rng),
            Self::Student(student) => student.sample(rng),
        }
    }
}
