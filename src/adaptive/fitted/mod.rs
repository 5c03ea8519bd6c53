//! Fitted bases: mixtures that searches find close to the target, and from which rounds draw.

mod base;
mod check;
mod mixture;
mod modes;
mod pool;
mod search;
mod target;
mod task;

pub use base::{FittedBase, NotFitted};
pub(super) use target::TOGETHER;

use std::sync::Arc;

use nalgebra::DVector;

use super::base_search::{MixtureBase, compare_normalizer, from_base};
use super::first_pass::FirstPassRun;
use super::round::{Layout, RoundPart};
use super::rounds_run::Round;
use crate::Result;
#[cfg(feature = "checkpoint")]
use crate::ais::block_codec;
use crate::kernel::Rest;
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::schedule::Schedule;
use crate::work::{Halt, Job, Pulse};

/// A type that fits bases, and runs rounds from them. The trait does not require vectors as states.
pub(super) trait Fits<S>: Send + Sync {
    /// Returns whether the log normaliser of the path's own base is right. Refuses a wrong one.
    fn has_normalizer(&self, rng: &mut StreamRng) -> Result<bool>;

    /// Searches for a base close to the target that covers the states of a witness, or returns the reason against it.
    fn fit(
        &self,
        effort: FitEffort,
        witness: Witness<S>,
        rng: &mut StreamRng,
        pulse: &Pulse<'_>,
    ) -> Result<Fitted, Halt>;

    /// Runs a round of draws from a fitted base.
    fn round(
        &self,
        base: &FittedBase,
        layout: Layout<S>,
        job: &mut Job<'_>,
    ) -> Result<RoundPart<S>>;
}

/// A small first pass, which moves chains where searches draw: neither follows the other.
pub(super) struct Witness<S> {
    /// The states at the target.
    states: Vec<S>,
    /// Estimate of `log(Z_K / Z_0)`.
    log_ratio: f64,
}

/// The effort that a fit may make.
#[derive(Debug, Clone, Copy)]
pub(super) struct FitEffort {
    /// Number of draws in each step of the first two searches.
    draws: usize,
    /// Number of evaluations that all searches together may take.
    allowance: u64,
    /// Standard error of log Z that the rounds are to reach.
    error: f64,
    /// Forecast of the evaluations after them.
    later: u64,
}

/// A fitted base with the effective share of its draws, or the reason why there is none.
pub(super) type Found = std::result::Result<(FittedBase, f64), Refused>;

/// The reason against a base, with log Z and its error by draws of the mixture of both searches, if there are any. Where the
/// searches disagree, their mixture may have mass that rounds from the path's own base miss.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refused {
    pub(super) reason: NotFitted,
    pub(super) log_z: Option<(f64, f64)>,
}

/// The end of a fit: a base or a reason against one.
pub(super) struct Fitted {
    found: Found,
    evaluations: u64,
    /// Estimate of `log(Z_K / Z_0)` by all draws of the last two searches.
    log_ratio: f64,
}

/// The outcome of the searches before the rounds.
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::adaptive) enum Begun<K> {
    /// A base, the effective share of its draws, and the searches as a round.
    Fitted {
        base: FittedBase,
        share: f64,
        round: Round,
    },
    /// The reason against a base, and a first pass of `chains` chains. Searches, and a pass with too many chains for the budget,
    /// took `spent` evaluations.
    Refused {
        refused: Refused,
        spent: u64,
        found: FirstPassRun<K>,
        chains: usize,
    },
}

pub(super) type Fitting<'p, S> = Arc<dyn Fits<S> + 'p>;

/// Fits bases for the target of a path.
pub(super) struct BaseOfPath<P>(pub(super) P);

impl<P> Fits<DVector<f64>> for BaseOfPath<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync,
    P::At: Send + Sync,
{
    fn has_normalizer(&self, rng: &mut StreamRng) -> Result<bool> {
        let base = self.0.base();
        let log_density = |state: &DVector<f64>| base.log_density(state);
        Ok(base.has_certain_normalizer()
            || compare_normalizer(base, log_density, base.log_normalizer(), rng)?)
    }

    fn fit(
        &self,
        effort: FitEffort,
        witness: Witness<DVector<f64>>,
        rng: &mut StreamRng,
        pulse: &Pulse<'_>,
    ) -> Result<Fitted, Halt> {
        check::fit(&self.0, effort, witness, rng, pulse)
    }

    fn round(
        &self,
        base: &FittedBase,
        layout: Layout<DVector<f64>>,
        job: &mut Job<'_>,
    ) -> Result<RoundPart<DVector<f64>>> {
        let log_z = self.0.base().log_normalizer();
        let base = MixtureBase::with_log_z(self.0.clone(), log_z, base.laws().to_vec());
        let path = from_base(&self.0, base);
        // The new base is normalised.
        let layout = Layout {
            log_base_normalizer: layout.log_base_normalizer - log_z,
            ..layout
        };
        #[cfg(feature = "checkpoint")]
        let codec = Some(block_codec());
        #[cfg(not(feature = "checkpoint"))]
        let codec = None;
        // Each draw is a chain that does not move, in one stage.
        layout.run(path, Rest, Schedule::linear(1)?, codec, job)
    }
}
