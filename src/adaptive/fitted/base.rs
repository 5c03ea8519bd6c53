//! Fitted bases, and reasons against fitting a base.

use std::fmt;

use crate::model::StudentT;
use crate::{Error, Result};

/// The base of [fitted](crate::adaptive::Rounds::fitted) rounds: a mixture of the path's own base and of Student t
/// distributions, found by two searches.
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
    /// A search did not reach the target.
    Unreached,
    /// Draws of the mixture of both searches hardly count as draws of the target.
    FewDraws {
        /// Effective number of draws.
        effective: f64,
    },
    /// The mixture of one search does not cover the draws of the other.
    Uncovered {
        /// Mean of `p / (Z q)` over the weighted draws of the other search, divided by its value under the target.
        excess: f64,
    },
    /// The mixture of a search has so many distributions that a second pair of searches was to confirm it.
    Intricate,
    /// Estimates of log Z by two searches, or before and after more draws, lie apart.
    Apart {
        /// The lower estimate.
        low: f64,
        /// The higher estimate.
        high: f64,
    },
    /// The mixture has lighter tails than the target, for example along a ridge.
    Tails {
        /// Pareto shape of the largest ratios of the target's density to the mixture's, among states of the target.
        k_hat: f64,
    },
    /// Samples of the path's own base do not decide whether its log normaliser is right. It would decide how much the
    /// own base counts in the mixture.
    Normalizer,
}

impl fmt::Display for NotFitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached => f.write_str("a search for one did not reach the target"),
            Self::FewDraws { effective } => {
                write!(
                    f,
                    "draws of a mixture count as {effective:.1} draws of the target"
                )
            }
            Self::Uncovered { excess } => write!(
                f,
                "the mixture of one search misses draws of another (density ratio {excess:.1})"
            ),
            Self::Intricate => {
                f.write_str("the target takes many distributions, and more searches")
            }
            Self::Apart { low, high } => {
                write!(f, "searches give log Z = {low:.2} and {high:.2}")
            }
            Self::Tails { k_hat } => write!(
                f,
                "the tails of a mixture are too light (Pareto shape {k_hat:.2})"
            ),
            Self::Normalizer => {
                f.write_str("its samples do not decide whether its log normaliser is right")
            }
        }
    }
}
