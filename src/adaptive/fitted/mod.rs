//! Fitted bases: distributions are fitted to the states of first passes, and rounds start from them.

mod adapted;
mod base;
mod check;
mod task;

pub(super) use adapted::TOGETHER;
pub use base::{FittedBase, NotFitted};

use std::sync::Arc;

use nalgebra::DVector;

use super::base_search::{MixtureAt, MixtureBase, compare_normalizer, from_base};
use super::first_pass::FirstPassRun;
use super::first_pass_task::Known;
use super::round::{Layout, RoundPart};
use crate::Result;
#[cfg(feature = "checkpoint")]
use crate::ais::block_codec;
use crate::kernel::{Rest, TransitionKernel};
use crate::model::{NormalizedModel, StudentT, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::schedule::Schedule;
use crate::work::{Halt, Job, Pulse};

/// A type that fits bases, and runs rounds from them. The trait does not require vectors as states.
pub(super) trait Fits<S, K>: Send + Sync {
    /// Returns the function that returns a state's coordinates.
    fn coordinates(&self) -> fn(&S) -> &[f64];

    /// Returns whether the log normaliser of the path's own base is right. Refuses a wrong one.
    fn has_normalizer(&self, rng: &mut StreamRng) -> Result<bool>;

    /// Fits a base to the states of first passes, or returns the reason against it.
    fn fit(
        &self,
        passes: &[PassStates<S>],
        settle: Settle<'_, S>,
        rng: &mut StreamRng,
        pulse: &Pulse<'_>,
    ) -> Result<Fitted, Halt>;

    /// Runs a round from a fitted base. Without a kernel and a schedule its chains are draws that do not move.
    fn round(
        &self,
        base: &FittedBase,
        start: Option<(K, Schedule)>,
        layout: Layout<S>,
        job: &mut Job<'_>,
    ) -> Result<RoundPart<S>>;
}

/// A function that moves states at the target.
type Settle<'s, S> = &'s mut dyn FnMut(Vec<S>) -> Result<Known<S>, Halt>;

/// The chains of a first pass.
pub(super) struct PassStates<S> {
    /// The states at the target.
    arrived: Known<S>,
    /// The states at each stage on the way.
    trail: Vec<Known<S>>,
    /// Estimate of `log(Z_K / Z_0)` with its standard error.
    log_ratio: (f64, f64),
    /// Whether each chain had a large share in the shape of its proposals, which makes this estimate too high.
    is_swayed: bool,
}

/// A fitted base with the effective share of its draws, or the reason why there is none.
pub(super) type Found = std::result::Result<(FittedBase, f64), Refused>;

/// The reason against a base, with log Z and its error by draws of the fits, if there are any. Where a check fails
/// because the passes disagree, the mixture of all fits may have mass that rounds from the path's own base miss.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refused {
    pub(super) reason: NotFitted,
    pub(super) log_z: Option<(f64, f64)>,
}

/// The end of a fit, with the evaluations spent.
pub(super) struct Fitted {
    found: Found,
    evaluations: u64,
}

/// The first of the last two passes, with the evaluations of all passes and fits; and the base, with the effective share of
/// its draws.
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::adaptive) struct Begun<K> {
    pub(in crate::adaptive) first: FirstPassRun<K>,
    pub(in crate::adaptive) base: Found,
    /// Number of chains of the first two passes together.
    pub(in crate::adaptive) chains: usize,
    /// Number of evaluations of passes with too many chains for the budget.
    pub(in crate::adaptive) in_vain: u64,
}

pub(super) type Fitting<'p, S, K> = Arc<dyn Fits<S, K> + 'p>;

/// Fits bases for the target of a path.
pub(super) struct BaseOfPath<P>(pub(super) P);

impl<P, K> Fits<DVector<f64>, K> for BaseOfPath<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, StudentT>> + Send + Sync,
{
    fn coordinates(&self) -> fn(&DVector<f64>) -> &[f64] {
        |state| state.as_slice()
    }

    fn has_normalizer(&self, rng: &mut StreamRng) -> Result<bool> {
        let base = self.0.base();
        let log_density = |state: &DVector<f64>| base.log_density(state);
        Ok(base.has_certain_normalizer()
            || compare_normalizer(base, log_density, base.log_normalizer(), rng)?)
    }

    fn fit(
        &self,
        passes: &[PassStates<DVector<f64>>],
        settle: Settle<'_, DVector<f64>>,
        rng: &mut StreamRng,
        pulse: &Pulse<'_>,
    ) -> Result<Fitted, Halt> {
        check::fit(&self.0, passes, settle, rng, pulse)
    }

    fn round(
        &self,
        base: &FittedBase,
        start: Option<(K, Schedule)>,
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
        match start {
            Some((kernel, schedule)) => layout.run(path, kernel, schedule, codec, job),
            None => layout.run(path, Rest, Schedule::linear(1)?, codec, job),
        }
    }
}
