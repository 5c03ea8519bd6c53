//! The objectives that a training may maximise.

use crate::{Error, Result};

/// What the transitions are trained to maximise.
///
/// Two quantities occur. `L` is the evidence lower bound,
/// `E[log f_T(z_T) + sum_t (log r_t - log q_t) - log f_0(z_0)]`. `F_t` is
/// `E[log f_t(z_t) + log r_t(z_{t-1}|z_t) - log q_t(z_t|z_{t-1})]` with `z_{t-1}` held fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Objective {
    /// The annealed variational objectives of Huang et al. (2018): transition t maximises `F_t`, with
    /// no gradient through `z_{t-1}`. They take T gradients of densities a sample.
    Annealed,
    /// The hierarchical evidence lower bound `L`, differentiated through all transitions. It takes
    /// one gradient of a density a sample.
    Hierarchical,
    /// `a sum_t F_t + (1 - a) L`, of Huang et al. (2018). It takes T gradients a sample.
    LossCalibrated {
        /// The weight a, in `(0, 1)`.
        weight: f64,
    },
    /// Alpha-annealing: `L` with `alpha log f_T` in place of `log f_T`. Alpha goes linearly from
    /// `start` to 1. It takes one gradient a sample.
    EnergyTempered {
        /// Alpha at first, in `(0, 1]`.
        start: f64,
        /// Fraction of the training after which alpha is 1, in `[0, 1]`.
        until: f64,
    },
    /// Beta-annealing (warm-up): a likelihood, less beta times the divergence from the prior,
    /// `E[log f_T(z_T) - log f_0(z_T)] + beta E[log f_0(z_T) + sum_t (log r_t - log q_t) -
    /// log f_0(z_0)]`. Beta goes linearly from 0 to 1. It takes one gradient a sample; that of
    /// `log f_0` is not counted.
    WarmUp {
        /// Fraction of the training after which beta is 1, in `[0, 1]`.
        until: f64,
    },
}

impl Objective {
    /// Weight of the `F_t`; that of `L` is 1 less this.
    pub(super) fn local_weight(self) -> f64 {
        match self {
            Self::Annealed => 1.0,
            Self::LossCalibrated { weight } => weight,
            _ => 0.0,
        }
    }

    /// Number of gradients of log densities that one sample costs, with this many transitions.
    pub fn gradients_per_sample(self, transitions: usize) -> usize {
        if self.local_weight() > 0.0 {
            transitions
        } else {
            1
        }
    }

    /// Factor on `log f_T` after a fraction of the training.
    pub(super) fn energy_scale(self, progress: f64) -> f64 {
        match self {
            Self::EnergyTempered { start, until } => start + (1.0 - start) * ramp(progress, until),
            _ => 1.0,
        }
    }

    /// Factor beta on the logarithms of the prior and of r and q after a fraction of the training.
    pub(super) fn density_weight(self, progress: f64) -> f64 {
        match self {
            Self::WarmUp { until } => ramp(progress, until),
            _ => 1.0,
        }
    }

    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Annealed | Self::Hierarchical => Ok(()),
            Self::LossCalibrated { weight } => {
                let expected = "a number in (0, 1): 1 is Annealed, 0 is Hierarchical";
                Error::check(weight > 0.0 && weight < 1.0, "weight", weight, expected)
            }
            Self::EnergyTempered { start, until } => {
                Error::check_positive_fraction("start", start)?;
                Error::check_fraction("until", until)
            }
            Self::WarmUp { until } => Error::check_fraction("until", until),
        }
    }
}

/// From 0 to 1 over the first `until`.
fn ramp(progress: f64, until: f64) -> f64 {
    if progress >= until {
        1.0
    } else {
        progress / until
    }
}
