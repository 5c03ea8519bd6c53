//! One round of a run in rounds, and what such a run has reached between two.

use std::time::Instant;

use super::barrier::{Barrier, BarrierRecorder};
use super::covariance::{CovarianceRecorder, Shapes};
use super::refit::Refit;
use super::rounds_run::{Round, RoundsRun};
use super::smc::FirstPass;
use crate::Result;
use crate::ais::{Ais, AisTask, Along, Run};
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::population::Resampling;
use crate::random::{Purpose, StreamRng, stream};
use crate::schedule::Schedule;
use crate::work::StoppedBy;

/// Least number of stages of the first round.
pub(super) const LEAST: usize = 16;

/// The settings that all rounds of a run share, whatever their path.
pub(super) struct Layout<S> {
    pub(super) chains: usize,
    pub(super) block_size: usize,
    pub(super) log_base_normalizer: f64,
    /// Function that shows the coordinates of a state, of which a round records the covariance.
    pub(super) coordinates: Option<fn(&S) -> &[f64]>,
}

/// Kernel, schedule and seed of a round.
pub(super) type Start<K> = (K, Schedule, u64);

impl<S: Clone + Send> Layout<S> {
    /// Returns the task of a round along `path`.
    pub(super) fn task<'s, 'q: 's, Q, K>(
        &self,
        path: &'q Q,
        (kernel, schedule, seed): Start<K>,
        along: fn(&'q Q, K) -> Along<'s, 'q, Q>,
    ) -> Result<RoundTask<'s, S>>
    where
        Q: AnnealingPath<State = S> + Sync,
        K: TransitionKernel<Q::At<'q>> + Send + Sync + 's,
    {
        let steps = schedule.stages();
        let recorder = |of| CovarianceRecorder::new(of, self.chains, steps);
        let shapes = self.coordinates.map(recorder);
        Ais::with_base_log_z(path, kernel, self.log_base_normalizer)
            .schedule(schedule)
            .chains(self.chains)
            .block_size(self.block_size)
            .seed(seed)
            .recorded_stages(steps.min(RECORDED))
            .resampling(Resampling::when_ess_below(RESAMPLE_BELOW)?)
            .recorder((BarrierRecorder::default(), shapes))
            .into_task(along)
    }
}

#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Reached<S, K> {
    pub(super) spent: u64,
    /// Number of stages of the next round.
    pub(super) stages: usize,
    pub(super) seeds: StreamRng,
    pub(super) kernel: K,
    pub(super) barrier: Barrier,
    pub(super) shapes: Shapes,
    /// The base of the next round, if it is not the path's own.
    pub(super) refit: Option<Refit>,
    pub(super) rounds: Vec<Round>,
    pub(super) last: Option<Last<S, K>>,
    pub(super) stopped_by: Option<StoppedBy>,
}

/// The last finished round.
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Last<S, K> {
    pub(super) run: Run<S>,
    pub(super) kernel: K,
    pub(super) barrier: Barrier,
    pub(super) refit: Option<Refit>,
    pub(super) rounds: Vec<Round>,
    pub(super) candidates: Option<usize>,
}

/// The end of a round.
pub(super) enum Ended<S> {
    Stopped(StoppedBy),
    With(Box<Result<Run<S, RoundRecorder<S>>>>),
}

pub(super) fn seconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64()
}

impl<S, K> Reached<S, K> {
    pub(super) fn after_first(seed: u64, first: FirstPass<K>) -> Self {
        Self {
            spent: first.evaluations,
            stages: first.schedule.stages().max(LEAST),
            seeds: stream(seed, Purpose::Rounds, 0),
            rounds: vec![Round::of_first_pass(&first)],
            kernel: first.kernel,
            barrier: first.barrier,
            shapes: first.shapes,
            refit: None,
            last: None,
            stopped_by: None,
        }
    }
}

impl<S, K> From<Last<S, K>> for RoundsRun<S, K> {
    fn from(last: Last<S, K>) -> Self {
        Self {
            run: last.run,
            kernel: last.kernel,
            barrier: last.barrier,
            refit: last.refit,
            rounds: last.rounds,
            stopped_by: StoppedBy::Chains,
            candidates: last.candidates,
        }
    }
}

pub(crate) type RoundRecorder<S> = (BarrierRecorder, Option<CovarianceRecorder<S>>);

pub(super) type RoundTask<'s, S> = AisTask<'s, S, RoundRecorder<S>, S>;

/// Most recorded stages of a round.
const RECORDED: usize = 10_000;

/// ESS, as a share of the chains, below which a round resamples.
const RESAMPLE_BELOW: f64 = 0.5;
