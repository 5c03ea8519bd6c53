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
use super::refit::{Refitting, refitting};
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
use crate::random::{Purpose, stream};
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

/// The next round: its stages, or its draws of a fitted base if it has no stages.
pub(super) struct Plan {
    stages: usize,
    draws: Option<u64>,
    is_last: bool,
}

/// Number of moves at the target after a first pass whose states a base is fitted to, too.
pub(super) const FURTHER_MOVES: usize = 0;
/// Largest number of fits of a base before the rounds go on from the path's own.
const MOST_FITS: u32 = 2;
/// Effective share of the draws of a fitted base below which a round from it has stages: a stage costs as much as a draw.
const LEAST_SHARE: f64 = 0.05;
/// Standard error for which a round without stages is planned if none is asked for.
const DEFAULT_ERROR: f64 = 0.01;
/// Factor by which the number of draws exceeds the least for the error asked for, so that most rounds reach it.
const DRAWS_MARGIN: f64 = 1.2;
/// Smallest and largest number of draws of a round without stages.
const FEWEST_DRAWS: u64 = 256;
const MOST_DRAWS: u64 = 1 << 24;

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
        let first = self.first_pass(self.chains, self.moves, self.seed);
        Ok((first, |stages| self.chain_steps(stages, 0)))
    }

    fn first_pass(&self, chains: usize, moves: usize, seed: u64) -> FirstPass<'p, P, K> {
        let (path, kernel) = (self.path.clone(), self.kernel.clone());
        FirstPass::with(path, kernel, self.tuner, self.log_base_normalizer)
            .chains(chains)
            .moves(moves)
            .block_size(self.block_size.unwrap_or(FIRST_BLOCK))
            .seed(seed)
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
                let reached = match &self.refitting {
                    Some(refitting) => self.fitted(refitting, later, job)?,
                    None => Reached::after_first(self.seed, first.run_with(job, later)?),
                };
                let figures = [reached.barrier.global(), reached.stages as f64];
                job.carry(reached, &figures)?
            }
        };
        job.foresee(self.chain_steps(at.stages, at.spent));
        while at.stopped_by.is_none() {
            let begun = Instant::now();
            let (plan, seed) = (self.plan(&at)?, at.seeds.next_u64());
            let reached = match self.pass(&at, &plan, seed, codec, job)? {
                Ended::Stopped(by) => self.stopped(at, by),
                Ended::With(run) => self.after(at, *run, plan, begun),
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

    /// Makes two first passes, and fits a base to their states. If they disagree, both are made once more, with twice the
    /// chains and moves. Without a base the rounds go on from the path's own.
    fn fitted<J>(
        &self,
        refitting: &Refitting<'p, P::State, K>,
        later: Later<'_>,
        job: &mut J,
    ) -> Result<Reached<P::State, K>>
    where
        J: Runs<Single<Arrived<P::State, K>>>,
    {
        let mut seeds = stream(self.seed, Purpose::FITTED, 0);
        let (mut spent, mut tries) = (0, 0..MOST_FITS);
        loop {
            let fit = tries.next().expect("the last try returns");
            let mut half = || {
                let chains = (self.chains << fit).div_ceil(2);
                let first = self.first_pass(chains, self.moves << fit, seeds.next_u64());
                first.arrive(
                    job,
                    std::env::var("FURTHER").map_or(0, |x| x.parse().unwrap()),
                    later,
                )
            };
            let halves = [half()?, half()?];
            spent += halves
                .iter()
                .map(|half| half.found.evaluations)
                .sum::<u64>();
            let fitted = refitting.fit(&halves, self.log_base_normalizer, &mut seeds)?;
            spent += fitted.evaluations;
            if let (Err(reason), false) = (&fitted.found, tries.is_empty())
                && reason.may_pass()
            {
                continue;
            }
            let [one, _] = halves;
            let mut reached = Reached::after_first(self.seed, one.found);
            reached.spent = spent;
            match fitted.found {
                Err(reason) => reached.no_refit = Some(reason),
                Ok((refit, share)) => {
                    reached.refit = Some(refit);
                    reached.draws = (share >= LEAST_SHARE).then(|| self.draws_for(share));
                    reached.barrier = Barrier::unknown();
                    reached.stages = FEWEST_STAGES;
                    reached.shapes.keep_last();
                    if let Some(tuner) = self.tuner {
                        reached.kernel = tuner.as_at_target(&reached.kernel, &reached.shapes)?;
                    }
                }
            }
            return Ok(reached);
        }
    }

    /// Returns the number of draws with which a round without stages reaches the error asked for, if they are worth
    /// `share` draws of the target each; without an error asked for, the number that reaches [`DEFAULT_ERROR`].
    fn draws_for(&self, share: f64) -> u64 {
        let error = self.until_error.unwrap_or(DEFAULT_ERROR);
        let draws = DRAWS_MARGIN * (1.0 / share - 1.0) / (error * error);
        (draws as u64).clamp(FEWEST_DRAWS, MOST_DRAWS)
    }

    /// Runs a round, from the path's own base or a fitted one.
    fn pass(
        &self,
        at: &Reached<P::State, K>,
        plan: &Plan,
        seed: u64,
        codec: Option<RoundCodec<P>>,
        job: &mut RoundJob<'_, P::State>,
    ) -> Result<Ended<P::State>> {
        let mut layout = self.layout();
        let start = || -> Result<Start<K>> {
            Ok((at.kernel.clone(), at.barrier.schedule(plan.stages)?, seed))
        };
        match (&at.refit, &self.refitting) {
            (Some(refit), Some(from)) => {
                let start = match plan.draws {
                    Some(draws) => {
                        (layout.chains, layout.coordinates) = (draws as usize, None);
                        None
                    }
                    None => Some(start()?),
                };
                from.round(refit, (start, seed), &layout, job)
            }
            _ => layout.run(self.path.clone(), start()?, codec, job),
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
        plan: Plan,
        begun: Instant,
    ) -> Result<Reached<P::State, K>> {
        let Plan {
            stages: now,
            is_last,
            ..
        } = plan;
        let evaluations = plan.draws.unwrap_or(self.evaluations(now));
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
        if at.stopped_by.is_none() {
            if let Some(recorder) = recorder {
                self.improve(&mut at, &last.run, &recorder)?;
            }
            if plan.draws.is_some() {
                let share = last.run.effective_sample_size() / last.run.chains() as f64;
                at.draws = Some(self.draws_for(share));
            }
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
        Ok(())
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
        RoundsRun { last, stopped_by }
    }

    /// Returns whether a fitted base may lead to the target on a shorter path.
    fn may_refit(&self, last: &Last<P::State, K>) -> bool {
        // The path from a fitted base has a length of about 1 at most, so it shortens only longer paths.
        self.refitting.is_none() && self.tuner.is_some() && last.barrier.global() > 1.0
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

    /// Returns the plan of the next round. Earlier rounds together may spend a quarter of the budget; half if a base was
    /// fitted.
    fn plan(&self, at: &Reached<P::State, K>) -> Result<Plan> {
        let (wanted, spent, round) = (at.stages, at.spent, at.rounds.len());
        if let Some(draws) = at.draws {
            let left = self
                .budget
                .map_or(u64::MAX, |budget| budget.saturating_sub(spent));
            let draws = match (self.until_error, self.budget) {
                (None, Some(_)) => left.min(MOST_DRAWS),
                _ => draws.min(left),
            };
            return Ok(Plan {
                stages: 1,
                draws: Some(draws),
                is_last: self.until_error.is_none() || draws == left || round == self.rounds,
            });
        }
        let plan = |stages, is_last| Plan {
            stages,
            draws: None,
            is_last,
        };
        let Some(budget) = self.budget else {
            return Ok(plan(wanted, round == self.rounds));
        };
        if round == 1 {
            let least = spent.saturating_mul(divisor_before_last(false));
            let expected =
                format!("at least {least}, or fewer chains: the first pass took {spent}");
            Error::check(least <= budget, "budget", budget, expected)?;
        }
        let refits = at.refit.is_some();
        let most = budget / divisor_before_last(refits);
        let after = spent.saturating_add(self.evaluations(wanted));
        if after <= most && round < self.rounds {
            return Ok(plan(wanted, false));
        }
        let stages = budget.saturating_sub(spent) / self.evaluations(1);
        Ok(plan(stages as usize, true))
    }
}

crate::num::debug_by_fields! {
    Rounds for [P: AnnealingPath, K: fmt::Debug] Rounds<'_, P, K> { kernel, chains, rounds, budget, until_error, seed }
}
