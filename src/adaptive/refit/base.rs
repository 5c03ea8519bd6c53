//! Fitted bases, and reasons against fitting a base.

use std::fmt;

use crate::model::StudentT;
use crate::{Error, Result};

/// The base of a [refitted](crate::adaptive::Rounds::refit) run: a mixture of the path's own base and of Student t
/// distributions, fitted to the states of two first passes.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Refit {
    laws: Vec<(f64, StudentT)>,
    own_share: f64,
}

impl Refit {
    pub(super) fn new(laws: Vec<(f64, StudentT)>, own_share: f64) -> Result<Self> {
        Error::check_inner_fraction("share of the path's own base", own_share)?;
        Error::check_not_empty("laws", laws.len())?;
        let sum = laws.iter().map(|(share, _)| share).sum::<f64>() + own_share;
        let is_whole = (sum - 1.0).abs() < 1e-9 && laws.iter().all(|(share, _)| *share > 0.0);
        Error::check(
            is_whole,
            "sum of the shares",
            sum,
            "positive shares that sum to 1",
        )?;
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

impl fmt::Display for Refit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.laws.len();
        let own = 100.0 * self.own_share;
        write!(
            f,
            "{parts} Student t distributions and {own:.1}% of the path's own base"
        )
    }
}

crate::num::deserialize_checked! {
    Refit { laws: Vec<(f64, StudentT)>, own_share: f64 } => Self::new(laws, own_share)
}

/// The reason why no base was [fitted](super::super::Rounds::refit).
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NoRefit {
    /// The states of a first pass are too few for a fit, or a coordinate does not vary.
    FewStates,
    /// Hardly any draw of the fitted base is worth something under the target.
    FewDraws {
        /// Effective number of draws.
        effective: f64,
    },
    /// A distribution fitted to the states of one first pass does not cover the states of the other.
    Uncovered {
        /// Mean of `p / (Z q)` over the other states, divided by its value under the target.
        excess: f64,
    },
    /// The fitted base gives a lower log Z than the first passes.
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
}

impl NoRefit {
    /// Returns whether more chains and moves may lead to a base.
    pub(in crate::adaptive) fn may_pass(self) -> bool {
        !matches!(self, Self::Tails { .. })
    }
}

impl fmt::Display for NoRefit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewStates => f.write_str("too few states that vary"),
            Self::FewDraws { effective } => {
                write!(
                    f,
                    "draws of a fit are worth {effective:.1} draws of the target"
                )
            }
            Self::Uncovered { excess } => write!(
                f,
                "a fit to the chains of one first pass misses those of the other ({excess:.1} times)"
            ),
            Self::Lower { log_z, first } => {
                write!(
                    f,
                    "a fit gives {log_z:.2}, less than {first:.2} of the first passes"
                )
            }
            Self::Tails { k_hat } => write!(f, "a fit is too light (Pareto shape {k_hat:.2})"),
        }
    }
}
