//! One round of a run in rounds, and the state of the run between two rounds.

use super::barrier::{Barrier, BarrierRecorder};
use super::covariance::{CovarianceRecorder, Shapes};
use super::first_pass::FirstPassRun;
use super::first_pass_task::MOST_STAGES;
use super::fitted::{FittedBase, Refused};
use super::rounds_run::{Last, Round};
use crate::ais::{Ais, BlockCodec, RunPart};
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::population::Resampling;
use crate::random::{Purpose, StreamRng, stream};
use crate::schedule::Schedule;
use crate::work::{Job, StoppedBy};
use crate::{Error, Result};

/// Smallest number of stages of the first round. With 16, each bin of covariances (`BINS`) and each knot of the step
/// sizes has a stage of its own.
pub(super) const FEWEST_STAGES: usize = 16;

/// Number of chains in a block of a round, unless `block_size` is set: the default of `Ais`. Chains resample within a
/// block, so 256 chains are two islands.
pub(super) const LATER_BLOCK: usize = 128;

/// ESS, as a share of the chains, below which a round resamples: one half, the usual threshold of sequential Monte
/// Carlo.
const RESAMPLE_BELOW: f64 = 0.5;

/// The settings of a round, whatever its path.
pub(super) struct Layout<S> {
    pub(super) chains: usize,
    pub(super) block_size: usize,
    pub(super) seed: u64,
    pub(super) log_base_normalizer: f64,
    /// Function that returns a state's coordinates. A round records the covariance of the coordinates.
    pub(super) coordinates: Option<fn(&S) -> &[f64]>,
}

impl<S: Clone + Send> Layout<S> {
    /// Runs a round along `path`.
    pub(super) fn run<Q, K>(
        &self,
        path: Q,
        kernel: K,
        schedule: Schedule,
        codec: Option<RoundCodec<Q>>,
        job: &mut Job<'_>,
    ) -> Result<RoundPart<S>>
    where
        Q: AnnealingPath<State = S> + Send + Sync,
        K: TransitionKernel<Q::At> + Send + Sync,
    {
        let steps = schedule.stages();
        let recorder = |of| CovarianceRecorder::new(of, self.chains, steps);
        let shapes = self.coordinates.map(recorder);
        let run = Ais::with_base_log_z(path, kernel, self.log_base_normalizer)
            .schedule(schedule)
            .chains(self.chains)
            .block_size(self.block_size)
            .seed(self.seed)
            .recorded_stages(steps.min(MOST_RECORDED));
        // Draws that do not move are independent, so each of them is a family of its own.
        let run = match steps {
            1 => run,
            _ => run.resampling(Resampling::when_ess_below(RESAMPLE_BELOW)?),
        };
        let run = run.recorder((BarrierRecorder::default(), shapes));
        run.task()?.saved_by(codec).run_by(job)
    }
}

#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Reached<S, K> {
    /// Number of chains of each round.
    pub(super) chains: usize,
    pub(super) spent: u64,
    /// Number of stages of the next round.
    pub(super) stages: usize,
    pub(super) seeds: StreamRng,
    pub(super) kernel: K,
    pub(super) barrier: Barrier,
    pub(super) shapes: Shapes,
    /// The base of the rounds, if it is not the path's own.
    pub(super) fitted: Option<FittedBase>,
    pub(super) not_fitted: Option<Refused>,
    /// Number of draws of the fitted base in the next round, if there is one.
    pub(super) draws: Option<u64>,
    /// The first pass, then the rounds. Its length is the number of the next round.
    pub(super) rounds: Vec<Round>,
    pub(super) last: Option<Last<S, K>>,
    pub(super) stopped_by: Option<StoppedBy>,
}

impl<S, K> Reached<S, K> {
    /// Refuses a state read from a file if a run of `rounds` rounds cannot reach it.
    pub(super) fn check(&self, rounds: usize) -> Result<()> {
        let passed = self.rounds.len();
        let finished = passed.checked_sub(1);
        let expected = format!("a first pass and at most {rounds} rounds");
        let fits = finished.is_some_and(|finished| finished <= rounds);
        Error::check(fits, "passes", passed, expected)?;
        Error::check_count("chains", self.chains, 1)?;
        let ended = self.stopped_by.is_some();
        let expected = "a result of what has ended";
        Error::check(
            !ended || self.last.is_some(),
            "last round",
            "none",
            expected,
        )?;
        // A first pass has at most `MOST_STAGES` stages, and each round asks the next one for twice as many.
        let most = MOST_STAGES.saturating_mul(2_usize.saturating_pow(passed as u32));
        let expected = format!("at most {most}");
        Error::check(self.stages <= most, "stages", self.stages, expected)
    }

    pub(super) fn after_first(seed: u64, chains: usize, first: FirstPassRun<K>) -> Self {
        let round = Round::of_first_pass(&first);
        Self {
            barrier: first.barrier,
            shapes: first.shapes,
            ..Self::new(seed, chains, round, first.kernel)
        }
    }

    /// Returns the state after a first round about which nothing else is known.
    pub(super) fn new(seed: u64, chains: usize, first: Round, kernel: K) -> Self {
        Self {
            chains,
            spent: first.evaluations,
            stages: first.stages.max(FEWEST_STAGES),
            seeds: stream(seed, Purpose::ROUNDS, 0),
            rounds: vec![first],
            kernel,
            barrier: Barrier::unknown(),
            shapes: Shapes::default(),
            fitted: None,
            not_fitted: None,
            draws: None,
            last: None,
            stopped_by: None,
        }
    }
}

pub(crate) type RoundRecorder<S> = (BarrierRecorder, Option<CovarianceRecorder<S>>);

/// The chains of a round that were done before it ended.
pub(super) type RoundPart<S> = RunPart<S, RoundRecorder<S>>;

/// Functions that write and read unfinished blocks of a round, for checkpoints.
pub(super) type RoundCodec<Q> = BlockCodec<Q, RoundRecorder<<Q as AnnealingPath>::State>>;

/// Largest number of recorded stages of a round. It bounds memory: with more stages a recorded one stands for several,
/// and the barrier is still known at 10,000 betas.
const MOST_RECORDED: usize = 10_000;

#[cfg(test)]
mod tests {
    use nalgebra::DVector;

    use super::*;
    use crate::adaptive::FirstPass;
    use crate::kernel::RandomWalkMetropolis;
    use crate::model::Gaussian;
    use crate::path::GeometricPath;

    type At = Reached<DVector<f64>, RandomWalkMetropolis>;

    #[test]
    fn forged_rounds_are_refused() -> Result<()> {
        let line = GeometricPath::new(Gaussian::standard(1)?, Gaussian::standard(1)?);
        let pass = FirstPass::new(&line, RandomWalkMetropolis::new(0.5)?).chains(20);
        let first = pass.run()?;
        let refused = |forge: &dyn Fn(&mut At)| {
            let mut at = Reached::after_first(0, 20, first.clone());
            forge(&mut at);
            at.check(2).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(
            Reached::<DVector<f64>, _>::after_first(0, 20, first.clone())
                .check(usize::MAX)
                .is_ok()
        );
        assert!(refused(&|at| at.rounds.clear()));
        assert!(refused(&|at| at.chains = 0));
        assert!(refused(&|at| at.rounds = vec![at.rounds[0]; 4]));
        assert!(refused(&|at| at.stages = 1 << 40));
        assert!(refused(&|at| at.stopped_by = Some(StoppedBy::Chains)));
        Ok(())
    }
}
