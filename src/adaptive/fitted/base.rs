//! Fitted bases, and reasons against fitting a base.

use std::fmt;

use crate::model::StudentT;
use crate::{Error, Result};

/// The base of [fitted](crate::adaptive::Rounds::fitted) rounds: a mixture of the path's own base and of Student t
/// distributions, fitted to the states of first passes.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct FittedBase {
    laws: Vec<(f64, StudentT)>,
    own_share: f64,
}

impl FittedBase {
    pub(super) fn new(laws: Vec<(f64, StudentT)>, own_share: f64) -> Result<Self> {
        Error::check_inner_fraction("share of the path's own base", own_share)?;
        Error::check_not_empty("laws", laws.len())?;
        let sum = laws.iter().map(|(share, _)| share).sum::<f64>() + own_share;
        let is_whole = (sum - 1.0).abs() < 1e-9 && laws.iter().all(|(share, _)| *share > 0.0);
        let expected = "positive shares that sum to 1";
        Error::check(is_whole, "sum of the shares", sum, expected)?;
        Ok(Self { laws, own_share })
    }

    /// Returns the distributions, each with its share.
    pub fn laws(&self) -> &[(f64, StudentT)] {
        &self.laws
    }

    /// Returns the share of the path's own base.
    pub fn own_share(&self) -> f64 {
        self.own_share
    }
}

impl fmt::Display for FittedBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.laws.len() {
            1 => write!(f, "a Student t distribution")?,
            count => write!(f, "{count} Student t distributions")?,
        }
        let own = 100.0 * self.own_share;
        write!(f, " and {own:.1}% of the path's own base")
    }
}

crate::num::deserialize_checked! {
    FittedBase { laws: Vec<(f64, StudentT)>, own_share: f64 } => Self::new(laws, own_share)
}

/// The reason why no base was [fitted](super::super::Rounds::fitted), so that all rounds start from the path's own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NotFitted {
    /// The states of a first pass are too few for a fit, or a coordinate does not vary.
    FewStates,
    /// Draws of a fitted base hardly count as draws of the target.
    FewDraws {
        /// Effective number of draws, of 256.
        effective: f64,
    },
    /// A distribution fitted to the chains of one first pass does not cover the chains of the other.
    Uncovered {
        /// Mean of `p / (Z q)` over the chains of the other pass, divided by its value under the target.
        excess: f64,
    },
    /// Chains on the way to the target were in a region that the base hardly covers, and none of them arrived.
    Lost {
        /// Largest `p / q` on the way, divided by its largest value among the chains that arrived.
        excess: f64,
    },
    /// Draws of the fitted base give a lower log Z than the first passes.
    Lower {
        /// Log Z by draws of the fitted base.
        log_z: f64,
        /// Log Z by the first passes.
        first: f64,
    },
    /// The fitted base has lighter tails than the target, for example along a ridge.
    Tails {
        /// Pareto shape of the largest ratios of the target's density to the base's, among states of the target.
        k_hat: f64,
    },
    /// Samples of the path's own base do not decide whether its log normaliser is right. It would decide how much the
    /// own base counts in the mixture.
    Normalizer,
}

impl NotFitted {
    /// Returns whether other chains or more moves may lead to a base.
    pub(in crate::adaptive) fn may_pass(self) -> bool {
        !matches!(self, Self::Normalizer)
    }
}

impl fmt::Display for NotFitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewStates => {
                f.write_str("the states of a first pass are too few for a fit, or do not vary")
            }
            Self::FewDraws { effective } => {
                write!(
                    f,
                    "256 draws of a fit count as {effective:.1} draws of the target"
                )
            }
            Self::Uncovered { excess } => write!(
                f,
                "a fit to the chains of one first pass misses chains of another (density ratio {excess:.1})"
            ),
            Self::Lost { excess } => write!(
                f,
                "chains of a first pass were lost in a region that a fit misses (density ratio {excess:.1})"
            ),
            Self::Lower { log_z, first } => write!(
                f,
                "a fit gives log Z = {log_z:.2}, below {first:.2} of the first passes"
            ),
            Self::Tails { k_hat } => write!(
                f,
                "the tails of a fit are too light (Pareto shape {k_hat:.2})"
            ),
            Self::Normalizer => {
                f.write_str("its samples do not decide whether its log normaliser is right")
            }
        }
    }
}
