//! Refitted bases, the laws fitted to weighted states, and reasons to refit none.

use std::fmt;

use nalgebra::DVector;
use rand::Rng;

use crate::model::{
    Differentiable, Gaussian, NormalizedModel, Sampleable, StudentT, UnnormalizedModel,
};
use crate::{Error, Result};

/// The base of the last round of a [refitted](crate::adaptive::Rounds::refit) run: a Gaussian or Student t, fitted to
/// the weighted states of the rounds before, and a share of the path's own base.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Refit {
    pub(super) law: Law,
    pub(super) own_share: f64,
}

impl Refit {
    pub(super) fn new(law: Law, own_share: f64) -> crate::Result<Self> {
        Error::check_inner_fraction("share of the path's own base", own_share)?;
        Ok(Self { law, own_share })
    }

    /// Returns the Gaussian, or mean and scale matrix of the Student t.
    pub fn gaussian(&self) -> &Gaussian {
        match &self.law {
            Law::Gaussian(gaussian) => gaussian,
            Law::Student(student) => student.gaussian(),
        }
    }

    /// Returns the degrees of freedom of the Student t; `None` for a Gaussian.
    pub fn degrees_of_freedom(&self) -> Option<f64> {
        match &self.law {
            Law::Gaussian(_) => None,
            Law::Student(student) => Some(student.degrees_of_freedom()),
        }
    }

    /// Returns the share of the path's own base.
    pub fn own_share(&self) -> f64 {
        self.own_share
    }
}

impl fmt::Display for Refit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.degrees_of_freedom() {
            None => write!(f, "a Gaussian")?,
            Some(nu) => write!(f, "a Student t with {nu} degrees of freedom")?,
        }
        write!(
            f,
            " and {:.1}% of the path's own base",
            100.0 * self.own_share
        )
    }
}

crate::num::deserialize_checked! {
    Refit { law: Law, own_share: f64 } => Self::new(law, own_share)
}

/// Reason for which no base was [fitted](super::super::Rounds::refit) to the states of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NoRefit {
    /// Few effective states, or a coordinate that does not vary.
    FewStates {
        /// Effective number of states.
        effective: f64,
    },
    /// Modes that lie apart, and too few effective states in each: a law fitted to them keeps chains where those were. No
    /// later round is fitted to either, and a base that was fitted before is given up.
    Modes {
        /// Number of modes.
        modes: usize,
        /// Effective number of states.
        effective: f64,
    },
    /// States for which the path's own base is as likely.
    OwnBase {
        /// Its share in the likeliest mixture of both.
        share: f64,
    },
    /// Samples of the fitted law off the target's support.
    Edges,
    /// States at which the fitted law is too light, as on ridges.
    Tails {
        /// Pareto shape of the largest ratios of the target's density to the base's, among states of the target.
        k_hat: f64,
    },
}

impl fmt::Display for NoRefit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewStates { effective } => {
                write!(f, "{effective:.0} effective states are too few for a fit")
            }
            Self::Modes { modes, effective } => write!(
                f,
                "{effective:.0} effective states are too few for a fit in {modes} modes, which dips of single coordinates may show"
            ),
            Self::OwnBase { share } => write!(f, "a fit would keep {:.0}% of it", 100.0 * share),
            Self::Edges => f.write_str("samples of a fit leave the target's support"),
            Self::Tails { k_hat } => write!(f, "a fit is too light (Pareto shape {k_hat:.2})"),
        }
    }
}

/// A Gaussian, or a Student t.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Law {
    /// The Gaussian.
    Gaussian(Gaussian),
    /// The Student t.
    Student(StudentT),
}

/// Degrees of freedom that are tried.
const DEGREES: [f64; 4] = [30.0, 10.0, 5.0, 3.0];
/// Least gain in the log likelihood of the states for which a Student t is preferred.
const GAIN: f64 = 3.0;
/// Number of updates of a scale, each of which raises the likelihood.
const UPDATES: usize = 30;

impl Law {
    /// Returns `gaussian`, or a Student t around it where that is clearly likelier, given states and their weights, which
    /// sum to 1 and stand for `count` states. Both are compared at their likeliest scales, so that tails alone decide.
    pub(in crate::adaptive) fn likeliest(
        gaussian: Gaussian,
        count: f64,
        weighted: &[(f64, &DVector<f64>)],
    ) -> Result<Self> {
        let likelihood = |law: &Self| {
            let terms = weighted.iter().map(|(w, x)| w * law.log_probability(x));
            count * terms.sum::<f64>()
        };
        let distances = weighted
            .iter()
            .map(|(w, x)| (*w, -2.0 * gaussian.log_density(x)));
        let distances = Vec::from_iter(distances);
        let scaled = |nu| gaussian.scaled(likeliest_scale(nu, gaussian.dimension(), &distances));
        let mut highest = likelihood(&Self::Gaussian(scaled(f64::INFINITY)?)) + GAIN;
        let mut best = Self::Gaussian(gaussian.clone());
        for nu in DEGREES {
            let law = Self::Student(StudentT::new(scaled(nu)?, nu)?);
            let found = likelihood(&law);
            if found > highest {
                (best, highest) = (law, found);
            }
        }
        Ok(best)
    }

    /// Returns the law with `factor` times the covariance.
    pub(super) fn scaled(&self, factor: f64) -> Result<Self> {
        Ok(match self {
            Self::Gaussian(gaussian) => Self::Gaussian(gaussian.scaled(factor)?),
            Self::Student(student) => {
                let gaussian = student.gaussian().scaled(factor)?;
                Self::Student(StudentT::new(gaussian, student.degrees_of_freedom())?)
            }
        })
    }

    /// Returns the log of the normalised density.
    pub(super) fn log_probability(&self, state: &DVector<f64>) -> f64 {
        self.log_density(state) - self.log_normalizer()
    }

    /// Returns what does not depend on the law.
    fn model(&self) -> &dyn Differentiable<State = DVector<f64>> {
        match self {
            Self::Gaussian(gaussian) => gaussian,
            Self::Student(student) => student,
        }
    }
}

impl UnnormalizedModel for Law {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.model().log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model().state_dimension()
    }
}

impl Differentiable for Law {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.model().accumulate_gradient(state, scale, gradient)
    }
}

impl NormalizedModel for Law {
    fn log_normalizer(&self) -> f64 {
        match self {
            Self::Gaussian(gaussian) => gaussian.log_normalizer(),
            Self::Student(student) => student.log_normalizer(),
        }
    }
}

impl Sampleable for Law {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        match self {
            Self::Gaussian(gaussian) => gaussian.sample(rng),
            Self::Student(student) => student.sample(rng),
        }
    }
}

/// Returns the likeliest factor c of a scale matrix, given weights and squared distances q in units of the matrix, from
/// `c = sum_i w_i q_i (nu + d) / (nu + q_i / c) / d` (expectation-maximisation; Liu and Rubin 1995).
fn likeliest_scale(nu: f64, dimension: usize, distances: &[(f64, f64)]) -> f64 {
    let d = dimension as f64;
    let pull = |q: f64, scale: f64| match nu.is_finite() {
        true => (nu + d) / (nu + q / scale),
        false => 1.0,
    };
    (0..UPDATES).fold(1.0, |scale: f64, _| {
        let terms = distances.iter().map(|(w, q)| w * q * pull(*q, scale));
        terms.sum::<f64>() / d
    })
}
