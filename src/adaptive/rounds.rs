//! Annealing in rounds. Each round doubles the stages and improves schedule and kernel, until the error is small.

use std::fmt;
use std::time::Instant;

use nalgebra::DVector;
use rand::Rng;

use super::barrier::Barrier;
use super::base_search::MixtureAt;
use super::covariance::CovarianceRecorder;
use super::first_pass::{FIRST_BLOCK, FirstPass};
use super::first_pass_task::{Arrived, Later};
use super::refit::{Refit, Refitting, refitting, shows_one_mode};
use super::round::{
    Ended, FEWEST_STAGES, LATER_BLOCK, Layout, Reached, RoundCodec, RoundJob, RoundRecorder, Start,
    seconds,
};
use super::rounds_run::{Last, Round, RoundsRun};
use super::tuner::Tuner;
use crate::ais::{BlockResult, Run};
use crate::estimate::{LogZ, Warning};
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{NormalizedModel, StudentT};
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::population::Moves;
use crate::work::{Carries, Execution, Job, Runs, Single, StoppedBy, controls};
use crate::{Error, Result};

/// A run that anneals in rounds: it finds schedule and kernel, then log Z (after Syed, Bouchard-Cote, Chern and Doucet
/// 2024).
///
/// A [first pass](FirstPass) finds stages and tunes the kernel. Each round then has twice as many stages,
/// placed at equal [intensities](Barrier), and a newly tuned kernel.
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
///
/// The last round's run is the result. Its weights are unbiased: schedule and kernel do not depend on its own chains.
///
/// The run ends when the [`budget`](Self::budget) is spent; at most a quarter of it precedes the last round, or a half
/// with [`refit`](Self::refit). With
/// [`until_error`](Self::until_error) the run ends at that standard error, or
/// [warns](crate::estimate::Warning::ErrorNotReached) of a larger one. It always ends after the [number of
/// rounds](Self::rounds). [`RoundsRun::stopped_by`] returns the reason.
#[must_use]
#[doc(alias("marginal likelihood", "evidence"))]
pub struct Rounds<'p, P: AnnealingPath, K> {
    pub(super) path: P,
    pub(super) kernel: K,
    pub(super) tuner: Option<Tuner<K, P::State>>,
    pub(super) refitting: Option<Refitting<'p, P::State, K>>,
    /// Log normaliser of the base, to which the log ratio of normalisers is added.
    pub(super) log_base_normalizer: f64,
    pub(super) chains: usize,
    pub(super) moves: usize,
    pub(super) block_size: Option<usize>,
    pub(super) rounds: usize,
    pub(super) budget: Option<u64>,
    pub(super) until_error: Option<f64>,
    pub(super) seed: u64,
    pub(super) execution: Execution<'p>,
}

/// Returns a divisor of the budget. The quotient is the most that all before the last round may spend. The last round
/// then has three quarters, and its error is at most 16% above the error of the whole budget. If a base is fitted, the
/// last round has half, and its error is at most 41% higher.
pub(super) fn divisor_before_last(refits: bool) -> u64 {
    if refits { 2 } else { 4 }
}

impl<'p, P: AnnealingPath, K> Rounds<'p, P, K> {
    /// Creates the rounds along `path`, with a tuned kernel over `R^d`. Tuning starts from its step size.
    pub fn new(path: P, kernel: K) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable + TransitionKernel<P::At>,
    {
        Self {
            tuner: Some(Tuner::new()),
            ..Self::fixed(path, kernel)
        }
    }

    /// Creates the rounds along `path`, with a kernel that is not tuned, over any state.
    pub fn fixed(path: P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self {
            log_base_normalizer: path.base().log_normalizer(),
            path,
            kernel,
            tuner: None,
            refitting: None,
            chains: 256,
            moves: 3,
            block_size: None,
            rounds: 8,
            budget: None,
            until_error: None,
            seed: 0,
            execution: Execution::default(),
        }
    }

    /// Sets the log normaliser of the base, in place of the base's own. With 0 the result is `log(Z_K / Z_0)`.
    pub fn base_log_z(mut self, log_base_normalizer: f64) -> Self {
        self.log_base_normalizer = log_base_normalizer;
        self
    }

    /// Starts each round from a base fitted to the states of earlier rounds; off by default.
    ///
    /// The base ([`Refit`]) is a mixture of the path's own base and a fitted distribution. A geometric path leads from
    /// it to the same target. The last round remains unbiased, since its base only depends on earlier rounds.
    ///
    /// ```
    /// use annealed::adaptive::Rounds;
    /// use annealed::prelude::*;
    ///
    /// let target = Gaussian::isotropic(DVector::from_element(20, 3.0), 0.1)?;
    /// let path = GeometricPath::new(Gaussian::standard(20)?, &target);
    /// let kernel = Hmc::new(0.5, 3)?;
    /// let rounds = || Rounds::new(&path, kernel.clone()).chains(64).budget(300_000).seed(1);
    /// let (plain, refitted) = (rounds().run()?, rounds().refit().run()?);
    /// println!("{refitted}");
    /// # assert!((refitted.log_z() - target.log_normalizer()).abs() < 4.0 * refitted.standard_error());
    /// assert!(refitted.standard_error() < 0.5 * plain.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// The fitted distribution has mean and covariance of the weighted states, or only their variances if there are
    /// fewer than four chains per dimension. Its deviations are 15% wider (`(2 d)^(-1/2)` beyond 25 dimensions), and it
    /// is a Student t if the states show heavier tails. The path's own base gets the share at which the mixture is
    /// likeliest, at least 0.1%.
    ///
    /// No base is fitted to fewer than 16 effective states, or fewer than 16 in each of the modes that dips of the
    /// states' marginals show. None is fitted if the own base's share exceeds one half, if the target has density 0 at
    /// one of 64 samples of the distribution, or if the ratios of the target's density to the base's have a heavy tail
    /// among the states (Pareto shape above 0.6). [`RoundsRun::no_refit`] returns the reason.
    ///
    /// Modes remain unseen if no round finds them or few chains share them. A distribution fitted to the other modes
    /// then starts chains near those modes alone, and log Z may be too low by many standard errors.
    ///
    /// The rounds before the last may take half of the budget if a base is fitted. [`RoundsRun::refit`] returns
    /// the base; the result's kernel is tuned for the path from this base. If the kernel needs a gradient, both ends
    /// must have one.
    ///
    /// `docs/evidence.md` measures this. Source: Surjanovic, Syed, Bouchard-Cote and Campbell (2022), variational
    /// references.
    #[doc(alias("variational reference", "variational base"))]
    pub fn refit(mut self) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync + 'p,
        P::At: Send + Sync,
        K: TransitionKernel<MixtureAt<P, StudentT>> + Clone + Send + Sync,
    {
        self.refitting = Some(refitting(self.path.clone()));
        self
    }

    setters! {
        /// Sets the number of chains; 256 by default.
        chains: usize,
        /// Sets the number of moves at each stage of the first pass; 3 by default.
        moves: usize,
        /// Sets the largest number of rounds after the first pass; 8 by default.
        rounds: usize,
        /// Sets the seed; 0 by default.
        seed: u64,
        /// Sets the number of chains that move together; by default 64 in the first pass and 128 in the rounds. In the
        /// rounds these chains also resample together if their ESS falls below half. A model that [evaluates
        /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call a step if a block holds all
        /// chains.
        block_size in Some: usize,
        /// Sets the number of density evaluations to spend; a gradient counts as one more. The first pass may take at
        /// most a quarter, and needs some tens of stages at `chains * moves` times the kernel's
        /// [`evaluations`](TransitionKernel::evaluations).
        budget in Some: u64,
        /// Sets the standard error of log Z to reach.
        until_error in Some: f64,
    }

    controls! { 'p, "The result is that of the last round that was finished; without one it is an [`Error::Stopped`]." }
}

impl<'p, P, K> Rounds<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Runs the first pass and all rounds.
    ///
    /// # Errors
    /// Settings out of range; a first pass that takes more than a quarter of the budget; the errors of
    /// [`FirstPass::run`] and [`Ais::run`](crate::ais::Ais::run); [`Error::Stopped`] before a round is done.
    pub fn run(&self) -> Result<RoundsRun<P::State, K>> {
        let (first, later) = self.first()?;
        self.go_with(&first, &later, None, &mut Job::new(&self.execution)?)
    }

    /// Returns the first pass, and a function from its number of stages to the later chain-steps: chains times stages.
    pub(super) fn first(&self) -> Result<(FirstPass<'p, P, K>, impl Fn(usize) -> u64 + Sync + '_)> {
        Error::check_at_least("rounds", self.rounds, 1)?;
        if let Some(target) = self.until_error {
            Error::check_positive("until_error", target)?;
        }
        let (path, kernel) = (self.path.clone(), self.kernel.clone());
        let first = FirstPass::with(path, kernel, self.tuner, self.log_base_normalizer)
            .chains(self.chains)
            .moves(self.moves)
            .block_size(self.block_size.unwrap_or(FIRST_BLOCK))
            .seed(self.seed);
        Ok((first, |stages| self.chain_steps(stages, 0)))
    }

    /// Runs the first pass and all rounds.
    pub(super) fn go_with<J>(
        &self,
        first: &FirstPass<'p, P, K>,
        later: Later<'_>,
        codec: Option<RoundCodec<P>>,
        job: &mut J,
    ) -> Result<RoundsRun<P::State, K>>
    where
        J: Runs<Single<Arrived<P::State, K>>>
            + Runs<BlockResult<P::State, RoundRecorder<P::State>>>
            + Carries<Reached<P::State, K>>,
    {
        let mut at = match job.carried(&|at| at.check(self.rounds))? {
            Some(at) => at,
            None => {
                let found = first.run_with(job, later)?;
                let figures = found.schedule.betas().to_vec();
                job.carry(Reached::after_first(self.seed, found), &figures)?
            }
        };
        job.foresee(self.chain_steps(at.stages, at.spent));
        while at.stopped_by.is_none() {
            let (now, is_last) = self.stages(&at)?;
            let begun = Instant::now();
            let start = (
                at.kernel.clone(),
                at.barrier.schedule(now)?,
                at.seeds.next_u64(),
            );
            let reached = match self.pass(at.refit.as_ref(), start, codec, job)? {
                Ended::Stopped(by) => self.stopped(at, by),
                Ended::With(run) => self.after(at, *run, (now, is_last), begun),
            }?;
            let figures = [reached.barrier.global(), reached.stages as f64];
            at = job.carry(reached, &figures)?;
        }
        let Reached {
            last, stopped_by, ..
        } = at;
        let (last, by) = last.zip(stopped_by).expect("the rounds have ended");
        Ok(self.concluded(last, by))
    }

    /// Runs a round, from the path's own base or a refitted one.
    fn pass(
        &self,
        refit: Option<&Refit>,
        start: Start<K>,
        codec: Option<RoundCodec<P>>,
        job: &mut RoundJob<'_, P::State>,
    ) -> Result<Ended<P::State>> {
        let layout = self.layout();
        match (refit, &self.refitting) {
            (Some(refit), Some(from)) => from.round(refit, start, &layout, job),
            _ => layout.run(self.path.clone(), start, codec, job),
        }
    }

    /// Ends a stopped run with the result of the round before.
    fn stopped(&self, at: Reached<P::State, K>, by: StoppedBy) -> Result<Reached<P::State, K>> {
        let mut last = at.last.ok_or_else(|| by.error(self.chains))?;
        last.candidates = None;
        Ok(Reached {
            last: Some(last),
            stopped_by: Some(by),
            ..at
        })
    }

    /// Updates schedule and kernel after a round.
    fn after(
        &self,
        mut at: Reached<P::State, K>,
        run: Result<Run<P::State, RoundRecorder<P::State>>>,
        (now, is_last): (usize, bool),
        begun: Instant,
    ) -> Result<Reached<P::State, K>> {
        let evaluations = self.evaluations(now);
        at.spent = at.spent.saturating_add(evaluations);
        if !is_last {
            at.stages = 2 * now;
        }
        // The next round has more stages, with which chains may reach the target. After the last round it is an error.
        if !is_last && matches!(run, Err(Error::AllWeightsZero { .. })) {
            let cost = (evaluations, seconds(begun));
            at.rounds
                .push(Round::without_survivors(now, &at.barrier, cost));
            return Ok(at);
        }
        let (run, (intensities, recorder)) = run?.split_recorder();
        at.barrier = Barrier::of(run.stages(), &intensities);
        at.rounds
            .push(Round::of_run(&run, &at.barrier, evaluations));
        let reached = |target| run.standard_error() <= target;
        at.stopped_by = match self.until_error.is_some_and(reached) {
            true => Some(StoppedBy::StandardError),
            false => is_last.then(|| {
                self.budget
                    .map_or(StoppedBy::Chains, |_| StoppedBy::Evaluations)
            }),
        };
        // Copied before `improve` changes them for the next round.
        let last = Last {
            kernel: at.kernel.clone(),
            barrier: at.barrier.clone(),
            refit: at.refit.clone(),
            no_refit: at.no_refit,
            rounds: at.rounds.clone(),
            candidates: Some(self.until_error.map_or(1, |_| self.rounds)),
            run,
        };
        if at.stopped_by.is_none()
            && let Some(recorder) = recorder
        {
            self.improve(&mut at, &last.run, &recorder)?;
        }
        at.last = Some(last);
        Ok(at)
    }

    /// Tunes the kernel, and refits the base, for the next round.
    fn improve(
        &self,
        at: &mut Reached<P::State, K>,
        run: &Run<P::State>,
        recorder: &CovarianceRecorder<P::State>,
    ) -> Result<()> {
        match self.tuner {
            Some(tuner) => {
                at.kernel =
                    tuner.after_round(&at.kernel, &mut at.shapes, recorder, run.stages())?;
            }
            None => at.shapes = at.shapes.improved(recorder, |_| true),
        }
        match &self.refitting {
            Some(refitting) => at.refit(refitting, self.tuner, run),
            None => Ok(()),
        }
    }

    /// Returns the result, with the reason for its end and a warning if the requested error was not reached.
    fn concluded(
        &self,
        mut last: Last<P::State, K>,
        stopped_by: StoppedBy,
    ) -> RoundsRun<P::State, K> {
        let (asked, reached) = (self.until_error, last.run.standard_error());
        if let Some(error) = asked.filter(|&error| reached > error) {
            let remedy = last.remedy(error, self.may_refit(&last));
            let chains = Some(self.chains);
            last.run
                .warn(Warning::error_not_reached(asked, reached, chains, remedy));
        }
        last.run.warn(last.merged_families());
        last.run
            .doubt(&|states, steps, interval| self.path.doubts(states, steps, interval));
        RoundsRun {
            last,
            stopped_by,
            seed: self.seed,
        }
    }

    /// Returns whether a base fitted to the states of the last round may lead to the target on a shorter path.
    fn may_refit(&self, last: &Last<P::State, K>) -> bool {
        let tuner = self.tuner.filter(|_| self.refitting.is_none());
        // The path from a fitted base has a length of about 1 at most (`inflation`), so it shortens only longer paths.
        let far = last.barrier.global() > 1.0;
        far && tuner.is_some_and(|tuner| shows_one_mode(&last.run, tuner.coordinates()))
    }

    /// Returns the settings that all rounds share.
    fn layout(&self) -> Layout<P::State> {
        let coordinates = self.tuner.map(|tuner| tuner.coordinates());
        let of_refit = || self.refitting.as_ref().map(|from| from.coordinates());
        Layout {
            chains: self.chains,
            block_size: self.block_size.unwrap_or(LATER_BLOCK),
            log_base_normalizer: self.log_base_normalizer,
            coordinates: coordinates.or_else(of_refit),
        }
    }

    /// Returns the largest number of chain-steps (chains times stages) in the rounds after a first pass of `stages`
    /// stages.
    fn chain_steps(&self, stages: usize, spent: u64) -> u64 {
        let stages = match self.budget {
            Some(budget) => budget.saturating_sub(spent) / self.evaluations(1),
            // Each round has twice as many as the one before.
            None => {
                let rounds = u32::try_from(self.rounds).unwrap_or(u32::MAX);
                let firsts = 2_u64.saturating_pow(rounds) - 1;
                firsts.saturating_mul(stages.max(FEWEST_STAGES) as u64)
            }
        };
        stages.saturating_mul(self.chains as u64)
    }

    /// Returns the number of evaluations that one chain's move takes.
    fn of_move(&self) -> u64 {
        // With a kernel that claims to cost nothing, the rounds would not end.
        self.kernel.cost(dimension(&self.path))
    }

    /// Returns the number of evaluations in a round of `stages` stages.
    fn evaluations(&self, stages: usize) -> u64 {
        let of_stage = self.of_move().saturating_mul(self.chains as u64);
        of_stage.saturating_mul(stages as u64)
    }

    /// Returns the number of stages of the next round, and whether it is the last. Earlier rounds together may spend a
    /// quarter of the budget; half if `refit` is set and this is the first round, or if a base was fitted.
    fn stages(&self, at: &Reached<P::State, K>) -> Result<(usize, bool)> {
        let (wanted, spent, round) = (at.stages, at.spent, at.rounds.len());
        let Some(budget) = self.budget else {
            return Ok((wanted, round == self.rounds));
        };
        if round == 1 {
            let least = spent.saturating_mul(divisor_before_last(false));
            let expected =
                format!("at least {least}, or fewer chains: the first pass took {spent}");
            Error::check(least <= budget, "budget", budget, expected)?;
        }
        let refits = self.refitting.is_some() && (round == 1 || at.refit.is_some());
        let most = budget / divisor_before_last(refits);
        let after = spent.saturating_add(self.evaluations(wanted));
        if after <= most && round < self.rounds {
            return Ok((wanted, false));
        }
        let stages = budget.saturating_sub(spent) / self.evaluations(1);
        Ok((stages as usize, true))
    }
}

crate::num::debug_by_fields! {
    Rounds for [P: AnnealingPath, K: fmt::Debug] Rounds<'_, P, K> { kernel, chains, rounds, budget, until_error, seed }
}
