//! The objectives that a training may maximise.

use crate::{Error, Result};

/// The objective that a training maximises. `L` is the evidence lower bound
/// `E[log f_T(z_T) + sum_t (log r_t - log q_t) - log f_0(z_0)]`. `F_t` is
/// `E[log f_t(z_t) + log r_t(z_{t-1}|z_t) - log q_t(z_t|z_{t-1})]` with `z_{t-1}` held fixed.
///
/// ```
/// use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// for objective in [Objective::Annealed, Objective::LossCalibrated { weight: 0.5 }, Objective::Hierarchical] {
///     let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 3, 1)?;
///     let trained = Training::new(objective).iterations(20).train(flow, &path, &Schedule::linear(3)?)?;
///     let gradients = objective.gradients_per_sample(3); // 3, 3 and 1
///     assert_eq!(trained.target_gradients, (20 * 256 * gradients) as u64);
/// }
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Objective {
    /// The annealed variational objectives (Huang et al. 2018): transition t maximises `F_t`, without a gradient
    /// through `z_{t-1}`. A sample costs T gradients of densities.
    #[doc(alias("AVO", "annealed variational objectives"))]
    Annealed,
    /// The hierarchical evidence lower bound `L`, differentiated through all transitions.
    Hierarchical,
    /// `a sum_t F_t + (1 - a) L` (Huang et al. 2018).
    LossCalibrated {
        /// The weight a, in `(0, 1)`.
        weight: f64,
    },
    /// The importance-weighted bound `E[log (1/k) sum_{i <= k} w_i]` (Burda, Grosse and Salakhutdinov 2016), where w_i
    /// are the weights of k trajectories. It is differentiated like `L`, and equals `L` if `k = 1`.
    #[doc(alias = "IWAE")]
    ImportanceWeighted {
        /// Number k of trajectories in a group. It divides the size of the minibatch.
        samples: usize,
    },
    /// Alpha-annealing: `L` with `alpha log f_T` in place of `log f_T`. Alpha rises linearly from `start` to 1.
    #[doc(alias = "alpha-annealing")]
    EnergyTempered {
        /// Initial alpha, in `(0, 1]`.
        start: f64,
        /// Fraction of the training after which alpha is 1, in `[0, 1]`.
        until: f64,
    },
    /// Beta-annealing (warm-up): the expected log likelihood, less beta times the divergence from the prior,
    /// `E[log f_T(z_T) - log f_0(z_T)] + beta E[log f_0(z_T) + sum_t (log r_t - log q_t) - log f_0(z_0)]`. Beta rises
    /// linearly from 0 to 1. The field `target_gradients` does not count gradients of `log f_0`.
    #[doc(alias = "beta-annealing")]
    WarmUp {
        /// Fraction of the training after which beta is 1, in `[0, 1]`.
        until: f64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectiveWeights {
    /// Weight a of the `F_t`; `L` has the weight 1 - a.
    pub(super) local: f64,
    /// Alpha, the factor on `log f_T`.
    pub(super) energy: f64,
    /// Beta, the factor on the logarithms of the prior, r and q.
    pub(super) density: f64,
}

impl Objective {
    pub(super) fn weights(self, progress: f64) -> ObjectiveWeights {
        let mut weights = ObjectiveWeights {
            local: 0.0,
            energy: 1.0,
            density: 1.0,
        };
        match self {
            Self::Annealed => weights.local = 1.0,
            Self::Hierarchical | Self::ImportanceWeighted { .. } => {}
            Self::LossCalibrated { weight } => weights.local = weight,
            Self::EnergyTempered { start, until } => {
                weights.energy = start + (1.0 - start) * ramp(progress, until);
            }
            Self::WarmUp { until } => weights.density = ramp(progress, until),
        }
        weights
    }

    /// Returns the number of gradients of log densities that one sample costs, with this many `transitions`.
    pub fn gradients_per_sample(self, transitions: usize) -> usize {
        match self.weights(0.0).local > 0.0 {
            true => transitions,
            false => 1,
        }
    }

    /// Returns the number of trajectories in a group: k for the importance-weighted bound, otherwise 1.
    pub(super) fn group(self) -> usize {
        match self {
            Self::ImportanceWeighted { samples } => samples,
            _ => 1,
        }
    }

    pub(super) fn check(self, batch_size: usize) -> Result<()> {
        match self {
            Self::Annealed | Self::Hierarchical => Ok(()),
            Self::LossCalibrated { weight } => {
                let expected = "a number in (0, 1): 1 is Annealed, 0 is Hierarchical";
                Error::check(weight > 0.0 && weight < 1.0, "weight", weight, expected)
            }
            Self::ImportanceWeighted { samples } => {
                Error::check_at_least("samples", samples, 1)?;
                let expected = format!("a multiple of the {samples} samples of a group");
                let fits = batch_size.is_multiple_of(samples);
                Error::check(fits, "batch_size", batch_size, expected)
            }
            Self::EnergyTempered { start, until } => {
                Error::check_positive_fraction("start", start)?;
                Error::check_fraction("until", until)
            }
            Self::WarmUp { until } => Error::check_fraction("until", until),
        }
    }
}

/// Returns a number that rises linearly from 0 to 1 over the first fraction `until` of the training.
fn ramp(progress: f64, until: f64) -> f64 {
    // An `until` of 0 works too, since `min` ignores the NaN of 0/0.
    (progress / until).min(1.0)
}
