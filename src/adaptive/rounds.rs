//! Annealing in rounds. Each round after the first doubles the stages, and each improves schedule and kernel.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use nalgebra::DVector;
use rand::Rng;

use super::barrier::Barrier;
use super::covariance::CovarianceRecorder;
use super::first_pass::{FIRST_BLOCK, FirstPass, FirstPassRun};
use super::first_pass_task::PassFormat;
use super::fitted::{BaseOfPath, Begun, Fitting, TOGETHER};
use super::round::{
    FEWEST_STAGES, LATER_BLOCK, Layout, Reached, RoundCodec, RoundPart, RoundRecorder,
};
use super::rounds_run::{Last, Round, RoundsRun, divisor_before_last};
use super::tuner::Tuner;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning};
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::population::Moves;
use crate::work::{Execution, Format, Job, Single, StoppedBy, controls};
use crate::{Error, Result};

/// A run that anneals in rounds: it finds schedule and kernel, then log Z (after Syed, Bouchard-Cote, Chern and Doucet
/// 2024).
///
/// A [first pass](FirstPass) finds stages and tunes the kernel. The first round has as many stages, at least 16, and each further
/// round twice as many, placed at equal [intensities](Barrier), with a newly tuned kernel. The last round of a budget has what is left.
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
/// with [`fitted`](Self::fitted). With
/// [`until_error`](Self::until_error) the run ends at that standard error, or
/// [warns](crate::estimate::Warning::ErrorNotReached) of a larger one if the budget, the [number of rounds](Self::rounds) or
/// the time limit ends it first, or if, from the eighth round on, the variance of the rounds fell by less than half while their
/// stages grew fourfold (at errors above .25, with more than 256 Lambda^2 stages).
/// [`RoundsRun::stopped_by`] returns the reason.
#[must_use]
#[doc(alias("marginal likelihood", "evidence"))]
pub struct Rounds<'p, P: AnnealingPath, K> {
    pub(super) path: P,
    pub(super) kernel: K,
    pub(super) tuner: Option<Tuner<K, P::State>>,
    pub(super) fitting: Option<Fitting<'p, P::State>>,
    /// Log normaliser of the base, to which the log ratio of normalisers is added.
    pub(super) base_log_z: f64,
    pub(super) chains: Option<usize>,
    pub(super) moves: Option<usize>,
    pub(super) block_size: Option<usize>,
    pub(super) rounds: Option<usize>,
    pub(super) budget: Option<u64>,
    pub(super) until_error: Option<f64>,
    pub(super) seed: u64,
    pub(super) execution: Execution<'p>,
}

/// Functions that write and read all that a run in rounds saves.
pub(super) struct RoundsCodec<P: AnnealingPath, K> {
    pub(super) pass: PassFormat<P::State, K>,
    pub(super) fit: Format<Single<Begun<K>>>,
    pub(super) block: RoundCodec<P>,
    pub(super) reached: Format<Reached<P::State, K>>,
}

crate::num::copy! { for [P: AnnealingPath, K] RoundsCodec<P, K> }

/// The next round: its stages, or its draws of a fitted base if it has no stages.
struct NextRound {
    stages: usize,
    draws: Option<u64>,
    is_last: bool,
}

/// Number of chains unless it is set, and the number if the budget is too small for these.
const CHAINS: usize = 256;
pub(super) const FEWEST_CHAINS: usize = 64;
/// Number of moves at each stage of the first pass, unless it is set.
const MOVES: usize = 3;
/// Number of rounds, unless it is set or the rounds go on until an error is reached.
const ROUNDS: usize = 8;
/// Effective share of the draws for which progress is forecast before a base is fitted.
const LIKELY_SHARE: f64 = 0.4;
/// Standard error for which a round without stages is planned if neither an error nor a budget is set.
const DEFAULT_ERROR: f64 = 0.01;
/// Factor by which the number of draws exceeds the least for the error asked for, so that most rounds reach it.
const DRAWS_MARGIN: f64 = 1.2;
/// Least effective number of draws for which a round without stages is planned, since posterior means need them.
const EFFECTIVE_DRAWS: f64 = 200.0;
/// Largest number of draws of a round, all of which are kept.
const MOST_DRAWS: u64 = 1 << 20;

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
            base_log_z: path.base().log_normalizer(),
            path,
            kernel,
            tuner: None,
            fitting: None,
            chains: None,
            moves: None,
            block_size: None,
            rounds: None,
            budget: None,
            until_error: None,
            seed: 0,
            execution: Execution::default(),
        }
    }

    /// Draws all rounds from a base fitted to the target; off by default.
    ///
    /// On many posteriors this takes a tenth to a hundredth of the evaluations.
    ///
    /// ```
    /// use annealed::adaptive::Rounds;
    /// use annealed::prelude::*;
    ///
    /// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
    /// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
    /// let rounds = || Rounds::new(&path, Hmc::new(0.5, 3).unwrap()).until_error(0.02).seed(1);
    /// let (plain, fitted) = (rounds().run()?, rounds().fitted().run()?);
    /// println!("{fitted}");
    /// # assert!((fitted.log_z() - target.log_normalizer()).abs() < 4.0 * fitted.standard_error());
    /// assert!(fitted.evaluations() < plain.evaluations() / 4);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// Two searches share nothing. Each draws from the path's own base, weighs all its draws, and fits a mixture of Student
    /// t distributions with 5 degrees of freedom to them at the largest beta where enough of them count. Draws of this mixture
    /// follow, and so on to the target. A draw x weighs `f_beta(x) / sum_s n_s q_s(x)`, with the numbers of draws n_s of all
    /// mixtures q_s so far, and `f_beta = f_0^(1 - beta) f^beta`. The new base q mixes both last mixtures in equal shares with
    /// 4% of the path's own base ([`FittedBase`](super::FittedBase)). A round weighs n independent draws of q:
    ///
    /// `Z^ = (1/n) sum_i f(x_i) / q(x_i)`, for the density f of the target.
    ///
    /// q is fixed before the round, so E[Z^] = Z. If s is the effective share of the draws, the relative variance of Z^
    /// is `(1/s - 1) / n`, so an error e takes about `(1/s - 1) / e^2` draws. A round that misses its error sizes the
    /// next. With a budget alone, one round has at least three quarters of it. No chain moves in it.
    ///
    /// Each mixture is checked by the draws of the *other* search: the means of `f / (Z q)` and of its log over these draws
    /// must not exceed their values under the target, which draws of q give. The base must cover the chains of a small first
    /// pass in the same way, which move where the searches draw: these may end in the largest of many modes. The searches must agree in log Z, and the tail of
    /// `f / q` must be light (Pareto shape below .9). If a check fails, or if a mixture has more than 4 distributions (or 4, and fewer
    /// than half of its draws are effective), two more searches have twice as many draws in a step. They go on from all draws before, and must agree with log Z of the
    /// searches before. If the sixth pair fails, too, or the next would take more than a quarter of the budget (of the
    /// evaluations of eight rounds without this method; with an error to reach, half of a small budget), all rounds start from
    /// the path's own base, and the printed result says so ([`RoundsRun::not_fitted`]).
    ///
    /// A mode that is narrow beside another has few draws while the path is wide. A draw shows it if `f_beta` falls and rises again on the
    /// way from the nearest distribution (the hill-valley test, Ursem 1999). It becomes a distribution of its own. A mode that no
    /// draw shows is missed without a warning, so the result can be too low: of two modes with half of the mass each and
    /// deviations of .25 and 1 in five dimensions, in nearly all runs. The evidence page has a table. More
    /// [`chains`](Self::chains) find more.
    ///
    /// [`states`](crate::ais::Run::states) are the draws with their weights, the [barrier](RoundsRun::barrier) is the
    /// distance from q to the target, and the [kernel](RoundsRun::kernel) is as given. The first entry of
    /// [`RoundsRun::rounds`] counts the evaluations of all searches.
    ///
    /// # Errors
    /// Those of [`run`](Self::run); fewer than 4 chains; a log normaliser of the base that its samples contradict.
    ///
    /// Sources: Liu (2014) on annealed mixtures of Student t distributions; Cornuet, Marin, Mira and Robert (2012) on weights of
    /// all draws; Hesterberg (1995) on the share of the own base.
    #[doc(alias(
        "variational reference",
        "population Monte Carlo",
        "importance sampling"
    ))]
    pub fn fitted(mut self) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync + 'p,
        P::At: Send + Sync,
    {
        self.fitting = Some(Arc::new(BaseOfPath(self.path.clone())));
        self
    }

    /// Returns the number of chains, if the budget is not too small for them.
    pub(super) fn most_chains(&self) -> usize {
        self.chains.unwrap_or(CHAINS)
    }

    setters! {
        /// Sets the log normaliser of the base, in place of the base's own. With 0 the result is `log(Z_K / Z_0)`.
        base_log_z: f64,
        /// Sets the number of chains; 256 by default, or 64 if the [`budget`](Self::budget) is too small for 256. With
        /// [`fitted`](Self::fitted), a quarter of them are the chains of the small first pass, and three quarters
        /// the draws in a step of the first two searches.
        chains in Some: usize,
        /// Sets the number of moves at each stage of the first pass; 3 by default.
        moves in Some: usize,
        /// Sets the seed; 0 by default.
        seed: u64,
        /// Sets the number of chains that move together; by default 64 in the first pass and 128 in the rounds. With
        /// [`fitted`](Self::fitted), a first pass and rounds of draws have 16 if the model evaluates single states, so that
        /// many threads share the work. In the rounds these chains also resample together if their ESS falls below half. A
        /// model that [evaluates batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call a step if a
        /// block holds all chains.
        block_size in Some: usize,
        /// Sets the largest number of rounds after the first pass; by default 8, or as many as [`until_error`](Self::until_error)
        /// takes.
        rounds in Some: usize,
        /// Sets the number of evaluations of the target to spend; a value with its gradient counts as one. The first pass may take at
        /// most a quarter, and searches for a [fitted](Self::fitted) base, too. It needs some tens of stages at `chains *
        /// moves` times the kernel's [`evaluations`](TransitionKernel::evaluations). If that is too much for 256 chains, all
        /// goes on with 64, unless [`chains`](Self::chains) is set: a new first pass may take a quarter, too. If this is
        /// too much, an error names a budget that works.
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
        self.go_with(None, &mut Job::new(&self.execution)?)
    }

    fn check(&self) -> Result<()> {
        Error::check_at_least("rounds", self.most_rounds(), 1)?;
        if self.fitting.is_some() {
            Error::check_count("chains", self.most_chains(), 4)?;
        }
        self.until_error
            .map_or(Ok(()), |error| Error::check_positive("until_error", error))
    }

    /// Returns the number of draws of a fitted base that will follow, before it is known.
    pub(super) fn draws_ahead(&self) -> u64 {
        match (self.until_error, self.budget) {
            (None, Some(budget)) => (budget / divisor_before_last(true)).min(MOST_DRAWS),
            _ => self
                .draws_for(LIKELY_SHARE)
                .min(self.budget.unwrap_or(u64::MAX)),
        }
    }

    /// Returns the number of chains that move together, where it only divides the work: `default` if the model evaluates
    /// batches or no base is fitted.
    pub(super) fn together(&self, default: usize) -> usize {
        let is_small = self.fitting.is_some() && !self.path.at(1.0).evaluates_batches();
        self.block_size
            .unwrap_or(if is_small { TOGETHER } else { default })
    }

    /// Returns a first pass along the path.
    pub(super) fn first_pass(&self, chains: usize, seed: u64) -> FirstPass<'p, P, K> {
        let (path, kernel) = (self.path.clone(), self.kernel.clone());
        FirstPass::with(path, kernel, self.tuner, self.base_log_z)
            .chains(chains)
            .moves(self.moves_of_pass())
            .block_size(self.together(FIRST_BLOCK))
            .seed(seed)
    }

    /// Runs the first pass and all rounds.
    pub(super) fn go_with(
        &self,
        codec: Option<RoundsCodec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<RoundsRun<P::State, K>> {
        self.check()?;
        let format = codec.map(|codec| codec.reached);
        let mut at = match job.carried(format, &|at| at.check(self.most_rounds()))? {
            Some(at) => at,
            None => {
                let reached = match &self.fitting {
                    Some(fitting) => self.after_fit(fitting, codec, job)?,
                    None => self.after_pass(codec, job)?,
                };
                let figures = [reached.barrier.global(), reached.stages as f64];
                job.carry(format, reached, &figures)?
            }
        };
        job.foresee(self.chain_steps(at.chains, at.stages, at.spent));
        while at.stopped_by.is_none() {
            let begun = Instant::now();
            let (plan, seed) = (self.plan(&at), at.seeds.next_u64());
            plan.draws.into_iter().for_each(|draws| job.foresee(draws));
            let part = self.pass(&at, &plan, seed, codec, job)?;
            let reached = match part.stopped_by() {
                StoppedBy::Chains => self.after(at, part.result(), plan, begun),
                by => self.stopped(at, by),
            }?;
            let figures = [reached.barrier.global(), reached.stages as f64];
            at = job.carry(format, reached, &figures)?;
        }
        let ended = at.last.zip(at.stopped_by);
        let (last, by) = ended.expect("the rounds have ended");
        Ok(self.concluded(last, by))
    }

    /// Makes a first pass. If it takes more than a quarter of the budget, makes another one with fewer chains.
    fn after_pass(
        &self,
        codec: Option<RoundsCodec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<Reached<P::State, K>> {
        let first = self.first_pass(self.most_chains(), self.seed);
        let smaller = self.first_pass(FEWEST_CHAINS, self.seed);
        let smaller = self.limit_of_pass().map(|most| (most, &smaller));
        let format = codec.map(|codec| codec.pass);
        let later = |stages| self.chain_steps(self.most_chains(), stages, 0);
        let arrived = first.arrive(job, format, &later, smaller)?;
        self.begun((arrived.found, arrived.in_vain), arrived.states.len())
    }

    /// Returns the state after a first pass with `chains` chains, which followed others `in_vain`. Refuses a budget that is too
    /// small.
    pub(super) fn begun(
        &self,
        (mut first, in_vain): (FirstPassRun<K>, u64),
        chains: usize,
    ) -> Result<Reached<P::State, K>> {
        let spent = first.evaluations;
        if let Some(budget) = self.budget {
            let least = spent.saturating_mul(divisor_before_last(false));
            let fewer = if chains < self.most_chains() {
                ""
            } else {
                ", or fewer chains"
            };
            let expected =
                format!("at least {least}{fewer}: the first pass of {chains} chains took {spent}");
            Error::check(least <= budget, "budget", budget, expected)?;
        }
        first.evaluations = first.evaluations.saturating_add(in_vain);
        Ok(Reached::after_first(self.seed, chains, first))
    }

    /// Returns the standard error for which a round of draws is planned.
    pub(super) fn error(&self) -> f64 {
        self.until_error.unwrap_or(DEFAULT_ERROR)
    }

    /// Returns the number of evaluations in the usual number of rounds from the path's own base.
    pub(super) fn usual(&self) -> u64 {
        let stages = ((1 << ROUNDS) - 1) * FEWEST_STAGES as u64;
        let steps = stages.saturating_mul(self.most_chains() as u64);
        steps.saturating_mul(self.of_move())
    }

    /// Returns the number of evaluations that all rounds from the path's own base may take.
    pub(super) fn unfitted(&self) -> u64 {
        let steps = self.chain_steps(self.most_chains(), FEWEST_STAGES, 0);
        steps.saturating_mul(self.of_move())
    }

    /// Returns the number of draws with which a round without stages reaches the error asked for, if the effective share
    /// of its draws is `share`.
    pub(super) fn draws_for(&self, share: f64) -> u64 {
        let error = self.error();
        let draws = DRAWS_MARGIN * (1.0 / share - 1.0) / (error * error);
        (draws.max(EFFECTIVE_DRAWS / share) as u64).min(MOST_DRAWS)
    }

    /// Runs a round, from the path's own base or a fitted one.
    fn pass(
        &self,
        at: &Reached<P::State, K>,
        plan: &NextRound,
        seed: u64,
        codec: Option<RoundsCodec<P, K>>,
        job: &mut Job<'_>,
    ) -> Result<RoundPart<P::State>> {
        let mut layout = self.layout(at.chains, seed);
        if let (Some(base), Some(from), Some(draws)) = (&at.fitted, &self.fitting, plan.draws) {
            (layout.chains, layout.coordinates) = (draws as usize, None);
            layout.block_size = self.together(LATER_BLOCK);
            return from.round(base, layout, job);
        }
        let (kernel, codec) = (at.kernel.clone(), codec.map(|codec| codec.block));
        let schedule = at.barrier.schedule(plan.stages)?;
        layout.run(self.path.clone(), kernel, schedule, codec, job)
    }

    /// Ends a stopped run with the result of the round before.
    fn stopped(&self, at: Reached<P::State, K>, by: StoppedBy) -> Result<Reached<P::State, K>> {
        let mut last = at.last.ok_or_else(|| by.error(at.chains))?;
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
        plan: NextRound,
        begun: Instant,
    ) -> Result<Reached<P::State, K>> {
        let (now, is_last) = (plan.stages, plan.is_last);
        let evaluations = plan.draws.unwrap_or(self.evaluations(at.chains, now));
        at.spent = at.spent.saturating_add(evaluations);
        if !is_last {
            at.stages = 2 * now;
        }
        // The next round has more stages, with which chains may reach the target. After the last round it is an error.
        let may_reach = !is_last && at.rounds.len() < self.rounds.unwrap_or(ROUNDS);
        if may_reach && matches!(run, Err(Error::AllWeightsZero { .. })) {
            at.rounds.push(Round {
                stages: now,
                log_z: f64::NEG_INFINITY,
                standard_error: f64::INFINITY,
                barrier: at.barrier.global(),
                evaluations,
                seconds: begun.elapsed().as_secs_f64(),
            });
            return Ok(at);
        }
        let (run, (intensities, recorder)) = run?.split_recorder();
        at.barrier = Barrier::of(run.stages(), &intensities);
        at.rounds
            .push(Round::of_run(&run, &at.barrier, evaluations));
        // Copied before `improve` changes them for the next round.
        let last = Last {
            kernel: at.kernel.clone(),
            barrier: at.barrier.clone(),
            fitted: at.fitted.clone(),
            not_fitted: at.not_fitted,
            rounds: at.rounds.clone(),
            candidates: Some(self.candidates(at.rounds.len() - 1)),
            run,
        };
        at.stopped_by = self.ended_by(&last, is_last);
        if at.stopped_by.is_none() {
            self.improve(&mut at, &last.run, recorder)?;
        }
        at.last = Some(last);
        Ok(at)
    }

    /// Returns the reason for which the run ends with a round, if it does.
    fn ended_by(&self, round: &Last<P::State, K>, is_last: bool) -> Option<StoppedBy> {
        let is_reached = |error| round.run.standard_error() <= error;
        if self.until_error.is_some_and(is_reached) {
            return Some(StoppedBy::StandardError);
        }
        if is_last {
            let of_budget = self.budget.map(|_| StoppedBy::Evaluations);
            return Some(of_budget.unwrap_or(StoppedBy::Chains));
        }
        let may_stand = self.rounds.is_none() && round.rounds.len() > ROUNDS;
        (may_stand && round.stands()).then_some(StoppedBy::NoProgress)
    }

    /// Tunes the kernel for the next round.
    fn improve(
        &self,
        at: &mut Reached<P::State, K>,
        run: &Run<P::State>,
        recorder: Option<CovarianceRecorder<P::State>>,
    ) -> Result<()> {
        if at.draws.is_some() {
            let share = run.effective_sample_size() / run.chains() as f64;
            at.draws = Some(self.draws_for(share));
        }
        match (recorder, self.tuner) {
            (Some(recorder), Some(tuner)) => {
                at.kernel =
                    tuner.after_round(&at.kernel, &mut at.shapes, &recorder, run.stages())?;
            }
            (Some(recorder), None) => at.shapes = at.shapes.improved(&recorder, |_| true),
            (None, _) => {}
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
            let remedy = last.remedy(error, self.may_fit(&last));
            let chains = Some(self.most_chains());
            last.run
                .warn(Warning::error_not_reached(asked, reached, chains, remedy));
        }
        let may_fit = self.fitting.is_none() && self.tuner.is_some();
        last.run.warn(last.merged_families(may_fit));
        last.run.warn(last.below_earlier());
        let flat = last.flat_first_pass(self.base_log_z, may_fit);
        last.run.warn(flat);
        last.run.warn(last.rising());
        last.run.warn(last.below_fits());
        if !last.has_stages() {
            // Draws off the target's support have weight 0, and the error contains this.
            last.run
                .unwarn(|warning| matches!(warning, Warning::DeadChains { .. }));
        }
        last.run.doubt(&self.path);
        RoundsRun {
            last,
            stopped_by,
            seed: self.seed,
            unfitted: self.unfitted(),
        }
    }

    /// Returns whether a fitted base may lead to the target on a shorter path.
    fn may_fit(&self, last: &Last<P::State, K>) -> bool {
        // The path from a fitted base has a length of about 1 at most, so it shortens only longer paths.
        self.fitting.is_none() && self.tuner.is_some() && last.barrier.global() > 1.0
    }

    /// Returns the largest number of rounds after the first pass.
    pub(super) fn most_rounds(&self) -> usize {
        let unset = if self.until_error.is_some() {
            usize::MAX
        } else {
            ROUNDS
        };
        self.rounds.unwrap_or(unset)
    }

    /// Returns the divisor of the level of a bound by round number `round`. Any round could end the run by its own error, so
    /// each takes a part of the level, and the parts `1 / (i (i + 1))` of any number of rounds add up to less than 1.
    fn candidates(&self, round: usize) -> usize {
        match self.until_error {
            None => 1,
            Some(_) => self.rounds.unwrap_or(round * (round + 1)),
        }
    }

    /// Returns the settings that all rounds share.
    fn layout(&self, chains: usize, seed: u64) -> Layout<P::State> {
        Layout {
            chains,
            block_size: self.block_size.unwrap_or(LATER_BLOCK),
            seed,
            log_base_normalizer: self.base_log_z,
            coordinates: self.tuner.map(|tuner| tuner.coordinates()),
        }
    }

    /// Returns the largest number of chain-steps (chains times stages) in the rounds after a first pass of `stages`
    /// stages.
    pub(super) fn chain_steps(&self, chains: usize, stages: usize, spent: u64) -> u64 {
        let stages = match self.budget {
            Some(budget) => self.affordable(chains, budget.saturating_sub(spent)),
            // Each round has twice as many as the one before.
            None => {
                let rounds = u32::try_from(self.rounds.unwrap_or(ROUNDS)).unwrap_or(u32::MAX);
                let firsts = 2_u64.saturating_pow(rounds) - 1;
                firsts.saturating_mul(stages.max(FEWEST_STAGES) as u64)
            }
        };
        stages.saturating_mul(chains as u64)
    }

    /// Returns the number of moves at each stage of the first pass.
    fn moves_of_pass(&self) -> usize {
        self.moves.unwrap_or(MOVES)
    }

    /// Returns the number of evaluations that one chain's move takes.
    pub(super) fn of_move(&self) -> u64 {
        // With a kernel that claims to cost nothing, the rounds would not end.
        self.kernel.cost(dimension(&self.path))
    }

    /// Returns the number of evaluations at which a pass has too many chains for the budget, if there may be fewer: a quarter of the budget, less the stage in which it spends this.
    pub(super) fn limit_of_pass(&self) -> Option<u64> {
        let budget = self.budget.filter(|_| self.chains.is_none())?;
        let of_stage = (self.moves_of_pass() * CHAINS) as u64;
        Some((budget / 4).saturating_sub(of_stage.saturating_mul(self.of_move())))
    }

    /// Returns the number of evaluations in a round of `stages` stages, one of each chain's first state included.
    fn evaluations(&self, chains: usize, stages: usize) -> u64 {
        let of_chain = self.of_move().saturating_mul(stages as u64);
        of_chain.saturating_add(1).saturating_mul(chains as u64)
    }

    /// Returns the number of stages of a round that takes at most `left` evaluations.
    fn affordable(&self, chains: usize, left: u64) -> u64 {
        (left / chains as u64).saturating_sub(1) / self.of_move()
    }

    /// Returns the plan of the next round. Earlier rounds together may spend a quarter of the budget; half if bases are
    /// fitted.
    fn plan(&self, at: &Reached<P::State, K>) -> NextRound {
        let (wanted, spent, round) = (at.stages, at.spent, at.rounds.len());
        let fits = self.fitting.is_some();
        if let Some(draws) = at.draws {
            return self.plan_of_draws(draws, spent, round);
        }
        let plan = |stages, is_last| NextRound {
            stages,
            draws: None,
            is_last,
        };
        let Some(budget) = self.budget else {
            return plan(wanted, round == self.most_rounds());
        };
        let most = budget / divisor_before_last(fits);
        let after = spent.saturating_add(self.evaluations(at.chains, wanted));
        if after <= most && round < self.most_rounds() {
            return plan(wanted, false);
        }
        let stages = self.affordable(at.chains, budget.saturating_sub(spent));
        plan(stages as usize, true)
    }

    /// Returns the plan of a round of draws. With a budget alone all that is left goes into one round.
    fn plan_of_draws(&self, wanted: u64, spent: u64, round: usize) -> NextRound {
        let left = self
            .budget
            .map_or(u64::MAX, |budget| budget.saturating_sub(spent));
        let most = left.min(MOST_DRAWS);
        let draws = match (self.until_error, self.budget) {
            (None, Some(_)) => most,
            _ => wanted.min(most),
        };
        NextRound {
            stages: 1,
            draws: Some(draws),
            is_last: self.until_error.is_none()
                || draws == most
                || round == self.rounds.unwrap_or(ROUNDS),
        }
    }
}

crate::num::debug_by_fields! {
    Rounds for [P: AnnealingPath, K: fmt::Debug] Rounds<'_, P, K> { kernel, chains, rounds, budget, until_error, seed }
}
