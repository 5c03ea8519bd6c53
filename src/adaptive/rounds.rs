//! Annealing in rounds: stages doubled and schedule and kernel improved, until the error is small or a budget
//! is spent.

use std::fmt;
use std::time::Instant;

use nalgebra::DVector;
use rand::Rng;

use super::barrier::{Barrier, IntensityRecorder};
use super::covariance::CovarianceRecorder;
use super::rounds_run::{Round, RoundsRun};
use super::smc::{Adaptation, Adapted};
use super::tuner::Tuner;
use crate::ais::{Ais, Run};
use crate::estimate::Warning;
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::population::Resampling;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Counts, Execution, Job, StoppedBy, controls};
use crate::{Error, Result};

/// Annealing in rounds (after Syed, Bouchard-Cote, Chern and Doucet 2024): one call that finds schedule, step
/// sizes and the shape of proposals, and spends the rest on one run.
///
/// A [first pass](Adaptation::first_pass) finds stages and tunes the kernel. Then come rounds of twice as many
/// stages each. After each round the stages are placed where their [intensities](IntensityRecorder) are equal,
/// and a kernel over `R^d` is tuned anew. The result is the last round's run. Its schedule and its kernel do not
/// depend on its own chains, so that its weights are unbiased. Earlier rounds are not averaged in.
///
/// It ends by what is set, and [`RoundsRun::stopped_by`] says by which:
/// - With a [`budget`](Self::budget) of evaluations at most a quarter is spent before the last round, which
///   takes the rest.
/// - With a [`standard_error`](Self::standard_error) it ends at the round that reaches it. Where none does, the run
///   [warns](crate::estimate::Warning::ErrorNotReached).
/// - It ends after a [number of rounds](Self::rounds) in any case; 8 unless set.
///
/// A round before the last none of whose chains reaches the target's support is followed by one of twice as many
/// stages all the same.
///
/// Stopping by an error that was just estimated favours runs that estimate it too low. A round doubles the
/// stages, so that this costs little.
///
/// ```
/// use annealed::adaptive::Rounds;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
/// let rounds = Rounds::new(&path, Hmc::new(0.5, 3)?).budget(1_000_000).seed(1).run()?;
/// println!("{rounds}");
/// # assert!((rounds.log_z() - target.log_normalizer()).abs() < 4.0 * rounds.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct Rounds<'p, P: AnnealingPath, K> {
    path: &'p P,
    kernel: K,
    tuner: Option<Tuner<K, P::State>>,
    log_base_normalizer: f64,
    chains: usize,
    moves: usize,
    block_size: usize,
    rounds: usize,
    budget: Option<u64>,
    standard_error: Option<f64>,
    seed: u64,
    execution: Execution<'p>,
}

/// Stages of the first round, at least.
const LEAST: usize = 16;

impl<'p, P: AnnealingPath, K> Rounds<'p, P, K> {
    /// Along `path`, with a kernel over `R^d` that is tuned by the rounds; its step size is where the tuning
    /// starts.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable + TransitionKernel<P::At<'p>>,
    {
        Self {
            tuner: Some(Tuner::new()),
            ..Self::fixed(path, kernel)
        }
    }

    /// Along `path`, with a kernel as it is, over any state.
    pub fn fixed(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self {
            path,
            kernel,
            tuner: None,
            log_base_normalizer: path.base().log_normalizer(),
            chains: 256,
            moves: 3,
            block_size: 128,
            rounds: 8,
            budget: None,
            standard_error: None,
            seed: 0,
            execution: Execution::default(),
        }
    }

    /// With this log normaliser of the base, in place of the base's own: 0 to count log Z from the base.
    pub fn base_log_z(mut self, log_base_normalizer: f64) -> Self {
        self.log_base_normalizer = log_base_normalizer;
        self
    }

    setters! {
        /// Number of chains; 256 unless set.
        chains: usize,
        /// Moves at each stage of the first pass; 3 unless set.
        moves: usize,
        /// Number of chains that pass the schedule together, and that resample among themselves; 128 unless
        /// set.
        block_size: usize,
        /// Number of rounds after the first pass, at most; 8 unless set.
        rounds: usize,
        /// The seed; 0 unless set.
        seed: u64,
    }

    /// The number of evaluations of the density to spend; a gradient is one more. The first pass must not take
    /// more than a quarter: it takes `chains * stages * moves` times the kernel's
    /// [`evaluations`](TransitionKernel::evaluations), with some tens of stages.
    pub fn budget(mut self, evaluations: u64) -> Self {
        self.budget = Some(evaluations);
        self
    }

    /// The standard error of log Z to be reached.
    pub fn standard_error(mut self, standard_error: f64) -> Self {
        self.standard_error = Some(standard_error);
        self
    }

    controls! { 'p, "The result is that of the last round that was finished; without one it is an [`Error::Stopped`]." }
}

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Clone + Send + Sync,
{
    /// Runs the first pass and all rounds.
    ///
    /// # Errors
    /// Settings out of range; a budget that the first pass alone exceeds by a quarter; as
    /// [`Adaptation::first_pass`] and [`Ais::run`]; [`Error::Stopped`] where the callback says so before a round
    /// is finished.
    pub fn run(&self) -> Result<RoundsRun<P::State, K>> {
        Error::check_at_least("rounds", self.rounds, 1)?;
        if let Some(target) = self.standard_error {
            Error::check_positive("standard_error", target)?;
        }
        let mut job = Job::new(&self.execution)?;
        let first = self.first_pass(&mut job)?;
        let mut spent = first.evaluations;
        let mut rounds = vec![Round::of_first_pass(&first)];
        let mut seeds = stream(self.seed, Purpose::Rounds, 0);
        let (mut kernel, mut barrier, mut shapes) = (first.kernel, first.barrier, first.shapes);
        let mut stages = first.schedule.steps().max(LEAST);
        job.foresee(self.chain_steps(stages, spent));
        let mut last = None;
        loop {
            let (now, is_last) = self.stages(stages, spent, rounds.len())?;
            let begun = Instant::now();
            let round = self.round(&kernel, barrier.schedule(now)?, seeds.next_u64(), &mut job);
            if was_stopped(&round) {
                let mut last: Finished<P, K> = last.ok_or_else(|| self.stopped())?;
                last.candidates = None;
                return Ok(self.concluded(last, StoppedBy::Callback));
            }
            let evaluations = self.evaluations(now);
            spent = spent.saturating_add(evaluations);
            stages = 2 * now;
            if !is_last && matches!(round, Err(Error::AllWeightsZero { .. })) {
                let cost = (evaluations, begun.elapsed().as_secs_f64());
                rounds.push(Round::without_survivors(now, &barrier, cost));
                continue;
            }
            let (run, (intensities, recorder)) = round?.split_recorder();
            barrier = Barrier::of(run.stages(), &intensities);
            rounds.push(Round::of_run(&run, &barrier, evaluations));
            let finished = RoundsRun {
                run,
                kernel: kernel.clone(),
                barrier: barrier.clone(),
                rounds: rounds.clone(),
                stopped_by: StoppedBy::Chains,
                candidates: Some(self.standard_error.map_or(1, |_| self.rounds)),
            };
            let reached = |target| finished.standard_error() <= target;
            if self.standard_error.is_some_and(reached) {
                return Ok(self.concluded(finished, StoppedBy::StandardError));
            }
            if is_last {
                let spent = self.budget.map(|_| StoppedBy::Evaluations);
                return Ok(self.concluded(finished, spent.unwrap_or(StoppedBy::Chains)));
            }
            if let Some((tuner, recorder)) = self.tuner.zip(recorder) {
                let stages = finished.run.stages();
                kernel = tuner.after_round(&kernel, &mut shapes, &recorder, stages)?;
            }
            last = Some(finished);
        }
    }

    /// The result, which says what ended it, and whether it has reached the error asked for.
    fn concluded(&self, mut last: Finished<P, K>, stopped_by: StoppedBy) -> Finished<P, K> {
        last.stopped_by = stopped_by;
        let (reached, chains) = (last.standard_error(), Some(self.chains));
        let budget = self.standard_error.and_then(|error| last.budget_for(error));
        let warning = Warning::error_not_reached(self.standard_error, reached, chains, budget);
        last.run.warn(warning);
        last.run.warn_of_missed_mass(self.path);
        last
    }

    fn first_pass(&self, job: &mut Job<'_>) -> Result<Adapted<K>> {
        let (path, kernel) = (self.path, self.kernel.clone());
        Adaptation::with(path, kernel, self.tuner, self.log_base_normalizer)
            .chains(self.chains)
            .moves(self.moves)
            .seed(self.seed)
            .first_pass_within(job, &|stages| self.chain_steps(stages, 0))
    }

    /// One round along a schedule.
    fn round(
        &self,
        kernel: &K,
        schedule: Schedule,
        seed: u64,
        job: &mut Job<'_>,
    ) -> Result<Run<P::State, RoundRecorder<P::State>>> {
        let steps = schedule.steps();
        let shapes = self.tuner.map(|tuner| tuner.recorder(self.chains, steps));
        let ais = Ais::with_base_log_z(self.path, kernel, self.log_base_normalizer)
            .schedule(schedule)
            .chains(self.chains)
            .block_size(self.block_size)
            .seed(seed)
            .recorded_stages(steps.min(RECORDED))
            .resampling(Resampling::when_ess_below(0.5)?)
            .recorder((IntensityRecorder::default(), shapes));
        ais.run_within(job)
    }

    /// Chain-steps of all rounds after a first pass of so many stages, if a small error does not end them before.
    fn chain_steps(&self, stages: usize, spent: u64) -> u64 {
        let stages = match self.budget {
            Some(budget) => budget.saturating_sub(spent) / self.evaluations(1),
            // Each round has twice as many as the one before.
            None => {
                let rounds = u32::try_from(self.rounds).unwrap_or(u32::MAX);
                let firsts = 2_u64.saturating_pow(rounds) - 1;
                firsts.saturating_mul(stages.max(LEAST) as u64)
            }
        };
        stages.saturating_mul(self.chains as u64)
    }

    fn stopped(&self) -> Error {
        let (by, chains) = (StoppedBy::Callback.to_string(), self.chains);
        Error::Stopped { by, chains }
    }

    /// Evaluations of a round of so many stages.
    fn evaluations(&self, stages: usize) -> u64 {
        // A kernel that claims to cost nothing would have no end.
        let of_chain = self.kernel.evaluations(dimension(self.path)).max(1) as u64;
        let of_stage = of_chain.saturating_mul(self.chains as u64);
        of_stage.saturating_mul(stages as u64)
    }

    /// The number of stages of the next round, and whether it is the last.
    fn stages(&self, wanted: usize, spent: u64, round: usize) -> Result<(usize, bool)> {
        let Some(budget) = self.budget else {
            return Ok((wanted, round == self.rounds));
        };
        let after = spent.saturating_add(self.evaluations(wanted));
        if after <= budget / 4 && round < self.rounds {
            return Ok((wanted, false));
        }
        let stages = budget.saturating_sub(spent) / self.evaluations(1);
        let least = spent.saturating_mul(4);
        let expected = format!("at least {least}, or fewer chains: the first pass took {spent}");
        Error::check(least <= budget, "budget", budget, expected)?;
        Ok((stages as usize, true))
    }
}

/// Whether the callback has ended a round before all of its chains were done.
fn was_stopped<S, R>(round: &Result<Run<S, R>>) -> bool {
    match round {
        Ok(run) => run.stopped_by() == StoppedBy::Callback,
        Err(error) => matches!(error, Error::Stopped { .. }),
    }
}

/// A round and those before it.
type Finished<P, K> = RoundsRun<<P as AnnealingPath>::State, K>;

/// What a round records.
type RoundRecorder<S> = (IntensityRecorder, Option<CovarianceRecorder<S>>);

/// Recorded stages of a round, at most.
const RECORDED: usize = 10_000;

impl<P: AnnealingPath, K: fmt::Debug> fmt::Debug for Rounds<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds")
            .field("kernel", &self.kernel)
            .field("chains", &self.chains)
            .field("rounds", &self.rounds)
            .field("budget", &self.budget)
            .field("standard_error", &self.standard_error)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
