//! Refitted bases, and reasons against refitting a base.

use std::fmt;

use crate::model::{Gaussian, StudentT};
use crate::{Error, Result};

/// The base of the last round of a [refitted](crate::adaptive::Rounds::refit) run: a mixture of the path's own base and
/// a Gaussian or Student t, fitted to the weighted states of the rounds before.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Refit {
    pub(super) law: StudentT,
    pub(super) own_share: f64,
}

impl Refit {
    pub(super) fn new(law: StudentT, own_share: f64) -> Result<Self> {
        Error::check_inner_fraction("share of the path's own base", own_share)?;
        Ok(Self { law, own_share })
    }

    /// Returns the Gaussian, or mean and scale matrix of the Student t.
    pub fn gaussian(&self) -> &Gaussian {
        self.law.gaussian()
    }

    /// Returns the degrees of freedom of the Student t; `None` for a Gaussian.
    pub fn degrees_of_freedom(&self) -> Option<f64> {
        Some(self.law.degrees_of_freedom()).filter(|nu| nu.is_finite())
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
    Refit { law: StudentT, own_share: f64 } => Self::new(law, own_share)
}

/// The reason why no base was [fitted](super::super::Rounds::refit) to the states of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NoRefit {
    /// Too few effective states, or a coordinate that does not vary.
    FewStates {
        /// Effective number of states.
        effective: f64,
    },
    /// The states show modes that lie apart, with too few effective states in each. A distribution fitted to the states
    /// would keep later chains near the earlier ones. No later round is refitted either, and an earlier fit is given
    /// up.
    Modes {
        /// Number of modes.
        modes: usize,
        /// Effective number of states.
        effective: f64,
    },
    /// The path's own base explains the states as well as the fitted distribution does.
    OwnBase {
        /// Share of the path's own base in the likeliest mixture of this base and the fitted distribution.
        share: f64,
    },
    /// At least one sample of the fitted distribution lies off the target's support.
    Edges,
    /// The fitted distribution has lighter tails than the target, for example along a ridge.
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
                "{effective:.0} effective states are too few for a fit in {modes} modes, counted by dips along single axes"
            ),
            Self::OwnBase { share } => write!(f, "a fit would keep {:.0}% of it", 100.0 * share),
            Self::Edges => f.write_str("samples of a fit leave the target's support"),
            Self::Tails { k_hat } => write!(f, "a fit is too light (Pareto shape {k_hat:.2})"),
        }
    }
}
