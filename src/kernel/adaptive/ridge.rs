//! Gibbs sampling of ridge superpositions.

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::error::Result;
use crate::kernel::{Increment, NonFinite, Stage, Step, TransitionKernel};
use crate::model::{RidgeFunction, RidgeState, UnnormalizedModel};
use crate::path::{AnnealingPath, RidgeAt};

/// Proposals for one projection after which a bound counts as useless.
const MAX_PROPOSALS: usize = 1_000_000;

/// Gibbs on a [`RidgePath`](crate::path::RidgePath): all projections z given w, by exact rejection
/// from their Gaussians, then w given z.
///
/// A projection takes `exp(gamma/n (bound - f~))` proposals on average, f~ being the smoothed
/// function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RidgeGibbs {
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Weight {
    Augmented,
    Collapsed,
}

impl RidgeGibbs {
    /// Weighs with the projections, by `(beta_k - beta_{k-1}) gamma L(z)`; exactly unbiased.
    pub const fn augmented() -> Self {
        Self {
            weight: Weight::Augmented,
        }
    }

    /// Weighs with the projections integrated out:
    ///
    /// `sum_i log [E exp(beta_k gamma/n f_i(u_i + delta xi)) / E exp(beta_{k-1} gamma/n f_i(u_i +
    /// delta xi))]`, with `u_i = x_i . w`.
    ///
    /// This is a forward kernel that draws z from `p_k(z|w)` before it is weighed, with
    /// `p_{k-1}(z|w)` as its reversal: the factor by which the density of w changes takes the
    /// place of the change at a drawn z. By Jensen its weights have the smaller variance. Each
    /// expectation is a quadrature over 65 nodes
    /// ([`RidgePrior::log_smoothed`](crate::model::RidgePrior::log_smoothed)), and the weights are
    /// unbiased to its error.
    pub const fn collapsed() -> Self {
        Self {
            weight: Weight::Collapsed,
        }
    }
}

impl<F: RidgeFunction> TransitionKernel<RidgeAt<'_, F>> for RidgeGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<RidgeAt<'_, F>>,
        _chain: usize,
        state: &mut RidgeState,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let prior = stage.model.path().base();
        let centres = prior.design() * &state.w;
        let functions = stage.model.path().functions();
        for ((z, &centre), f) in state.z.iter_mut().zip(&centres).zip(functions) {
            *z = sample_projection(f, stage.model.scale(), centre, prior.deviation(), rng)?;
        }
        prior.sample_direction(state, rng);
        Ok(Step::invariant())
    }

    fn increment<R: Rng + ?Sized>(
        &self,
        stage: &Stage<RidgeAt<'_, F>>,
        chain: usize,
        state: &mut <RidgeAt<'_, F> as UnnormalizedModel>::State,
        workspace: &mut (),
        rng: &mut R,
    ) -> Result<Increment, NonFinite> {
        let log_ratio = match self.weight {
            Weight::Augmented => stage.log_ratio(state),
            Weight::Collapsed => collapsed_log_ratio(stage, state),
        };
        let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)?;
        let step = self.step(stage, chain, state, workspace, rng)?;
        Ok(Increment::new(log_ratio, step))
    }
}

/// Draws from `exp(scale f(z)) N(z; centre, deviation^2)`.
fn sample_projection<R: Rng + ?Sized>(
    function: &impl RidgeFunction,
    scale: f64,
    centre: f64,
    deviation: f64,
    rng: &mut R,
) -> Result<f64, NonFinite> {
    let bound = function.upper_bound();
    for _ in 0..MAX_PROPOSALS {
        let z = centre + deviation * rng.sample::<f64, _>(StandardNormal);
        let below = function.value(z) - bound;
        // Written so that a NaN fails too; rounding may exceed an attained bound.
        if !matches!(below.partial_cmp(&(1e-9 * (1.0 + bound.abs()))), Some(o) if o.is_le()) {
            return Err(NonFinite {
                quantity: "ridge function less its upper bound",
                value: below,
                expected: "at most 0",
            });
        }
        if rng.random::<f64>() < (scale * below).exp() {
            return Ok(z);
        }
    }
    Err(NonFinite {
        quantity: "number of refused proposals for a projection",
        value: MAX_PROPOSALS as f64,
        expected: "an upper bound closer to the function, or a smaller gain",
    })
}

/// How `log` of the density of w, with z integrated out, changes from the stage's one end to the
/// other.
fn collapsed_log_ratio<F: RidgeFunction>(stage: &Stage<RidgeAt<'_, F>>, state: &RidgeState) -> f64 {
    let path = stage.model.path();
    let prior = path.base();
    let centres = prior.design() * &state.w;
    let factors = path.functions().iter().zip(&centres);
    factors
        .map(|(f, &u)| {
            prior.log_smoothed(f, u, stage.model.scale())
                - prior.log_smoothed(f, u, stage.previous.scale())
        })
        .sum()
}
