//! The runner, which takes ladders through rounds of scans.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::Rng;

use super::ladders::Ladders;
use super::round::{Finished, Outcome, Plan, Starts};
use super::run::TemperingRun;
use super::settings::Settings;
use crate::ais::{
    AtSite, Budget, Callback, Forest, Ledger, Meanwhile, Merge, Meter, Progress, Site, StoppedBy,
    Verdict, callback, caught, fold, work_through,
};
use crate::kernel::{Invariant, Workspace, refuse_stages};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet 2022).
///
/// A *ladder* has a chain at each beta. In a scan every chain moves at its beta, the one at beta = 0 to a
/// fresh sample of the base; then the chains of each second pair of neighbours exchange their states
/// x and y with probability
///
/// `min(1, exp(r(x) - r(y)))`, `r = log f_{j+1} - log f_j`,
///
/// the pairs (0, 1), (2, 3), .. in one scan and (1, 2), (3, 4), .. in the next. So states travel from the base
/// to the target and back, and bring modes along that no chain would reach at beta = 1.
///
/// Rounds of 2, 4, 8, .. scans follow one another. After each the betas are placed anew, such that all pairs
/// reject alike. The last round is the one that counts. Independent ladders run side by side, and the
/// error of all results comes from the differences between them.
///
/// ```
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::{Gaussian, GaussianMixture};
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use annealed::tempering::Tempering;
/// use nalgebra::dvector;
///
/// # fn main() -> annealed::Result<()> {
/// let mode = |x: f64| Gaussian::isotropic(dvector![x], 0.3);
/// let target = GaussianMixture::new([(0.8, mode(-2.0)?), (0.2, mode(2.0)?)])?;
/// let path = GeometricPath::new(Gaussian::isotropic(dvector![0.0], 2.0)?, target);
/// let run = Tempering::new(&path, RandomWalkMetropolis::new(0.5)?)
///     .schedule(Schedule::linear(5)?)
///     .rounds(8)
///     .seed(7)
///     .run()?;
/// assert!(run.log_z().abs() < 4.0 * run.standard_error());
/// let (share, error) = run.expectation(|x| f64::from(x[0] > 0.0));
/// assert!((share - 0.2).abs() < 4.0 * error);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Tempering<'p, P: AnnealingPath, K> {
    pub(super) path: &'p P,
    pub(super) kernel: K,
    pub(super) settings: Settings,
    budget: Budget,
    threads: Option<usize>,
    pub(super) progress: Option<Callback<'p>>,
}

impl<'p, P: AnnealingPath, K: Invariant<P::At<'p>>> Tempering<'p, P, K> {
    /// Ladders along `path`, whose base has a known normaliser, with `kernel` at each beta.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self::with_base_log_z(path, kernel, path.base().log_normalizer())
    }

    /// Ladders from a base that can be sampled and whose `log Z_0` the caller states: 0 to count log Z
    /// from the base.
    pub fn with_base_log_z(path: &'p P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            settings: Settings::new(log_base_normalizer),
            budget: Budget::default(),
            threads: None,
            progress: None,
        }
    }
}

impl<'p, P: AnnealingPath, K> Tempering<'p, P, K> {
    setters! {
        /// The betas of the first round, one for each chain of a ladder; 0, 1/20, .., 1 unless set. Their
        /// number stays. Twice the barrier ([`TemperingRun::barrier`]) is a good one.
        schedule of settings: Schedule,
        /// Number of independent ladders, at least 2; 8 unless set. The error has one degree of freedom
        /// less.
        ladders of settings: usize,
        /// Number of ladders that move together, and the unit of work that threads share; 1 unless set.
        /// Kernels that move chains as a block are faster with more.
        block_size of settings: usize,
        /// Number of rounds, 1 to 30, or the most where the run may end before; 10 unless set. Round i has
        /// `2^i` scans, so that each further one doubles the cost.
        rounds of settings: usize,
        /// Bound on the number of states at beta = 1 that are kept; 1,000 unless set. They are evenly
        /// spaced over the last round; a ladder keeps at least one.
        samples of settings: usize,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed of settings: u64,
    }

    /// Number of threads; rayon's global pool unless set. Without the feature `rayon` a run has
    /// one thread whatever is set.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Ends the run after the round, from the fifth on, in which its standard error is so small, in nats;
    /// [`rounds`](Self::rounds) is the most that it may have. The result is that of a run of so many rounds.
    pub fn until_error(mut self, standard_error: f64) -> Self {
        self.budget.standard_error = Some(standard_error);
        self
    }

    /// Ends the run after so much wall time. The result is that of the last round that was finished: of a run
    /// of so many rounds.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.budget.time = Some(time);
        self
    }

    /// Calls `progress` about a thousand times a run and ten times a second, as far as scans are that short,
    /// from whichever thread is at work. It returns nothing, or a
    /// [`ControlFlow`](std::ops::ControlFlow), of which `Break` stops the run.
    pub fn progress<V: Verdict>(mut self, progress: impl Fn(Progress) -> V + Sync + 'p) -> Self {
        self.progress = Some(callback(progress));
        self
    }

    /// Shows a progress bar on the terminal (standard error) while the run lasts.
    #[cfg(feature = "progress")]
    pub fn progress_bar(mut self) -> Self {
        self.progress = Some(crate::ais::bar());
        self
    }
}

/// The round after which the standard error is looked at first.
const FIRST_LOOK: usize = 5;

/// Where the ladders of each block go on from; nowhere yet in the first round.
pub(super) type Ends<S, W> = Vec<Mutex<Option<Starts<S, <W as Workspace>::Memory>>>>;

/// The betas of a round, and its guesses of `log Z_{j+1}/Z_j`.
pub(super) type Placed = (Schedule, Vec<f64>);

/// What a round of all ladders leaves.
pub(super) type RoundOutcome<S, W> = Outcome<S, <W as Workspace>::Memory>;

/// Where blocks of ladders at work leave what they have reached, for a later call to go on from.
pub(super) trait Archive<'p, P: AnnealingPath, W: Workspace>: Sync {
    /// Chain-steps that an earlier call has done of a round that is not finished.
    fn chain_steps(&self) -> u64;

    /// The blocks that an earlier call has finished in this round, from left to right.
    fn finished(&self, plan: &Plan<'_>) -> Result<Forest<RoundOutcome<P::State, W>>>;

    /// What an earlier call has left of a block, which is at work from now on.
    fn begin(&self, block: usize, plan: &Plan<'_>) -> Option<Result<Ladders<'p, P, W>>>;

    /// Told of a block after each scan but the last.
    fn passed(&self, block: usize, at: &Ladders<'p, P, W>, canceled: bool);

    /// Told of a block that is not at work any more, and of its outcome if it is finished.
    fn end(&self, block: usize, outcome: Option<&RoundOutcome<P::State, W>>);

    /// Told of a round that is finished, and where each block goes on from.
    fn turn(&mut self, last: &Finished<P::State>, starts: &[Starts<P::State, W::Memory>]);
}

/// What goes on beside a round.
pub(super) struct Beside<'a, 'p, P: AnnealingPath, W: Workspace, T> {
    pub(super) archive: Option<&'a dyn Archive<'p, P, W>>,
    /// Makes of what a block leaves that which is merged.
    pub(super) keep: &'a (dyn Fn(usize, RoundOutcome<P::State, W>) -> T + Sync),
    /// What the thread that calls does while others work.
    pub(super) meanwhile: Option<Meanwhile<'a, T>>,
}

impl<'p, P, K> Tempering<'p, P, K>
where
    P: AnnealingPath + Sync,
    P::State: Clone + Send,
    K: Invariant<P::At<'p>> + Sync,
{
    /// Runs all ladders through all rounds.
    ///
    /// # Errors
    /// Settings out of range; a kernel with parameters for a number of stages; a NaN or `+inf` met on the
    /// way, and a panic in model, kernel or progress callback, with the ladder as chain and the index of
    /// beta as stage; [`Error::AllWeightsZero`] where no state of one beta is possible at the next.
    pub fn run(&self) -> Result<TemperingRun<P::State>> {
        self.check()?;
        self.rounds_after(None, None)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.settings.check()?;
        self.budget.check()?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)?;
        refuse_stages(self.kernel.stages())
    }

    /// Runs the rounds that follow the last one that is finished, if there is one.
    pub(super) fn rounds_after(
        &self,
        mut last: Option<Finished<P::State>>,
        mut archive: Option<&mut dyn Archive<'p, P, K::Workspace>>,
    ) -> Result<TemperingRun<P::State>> {
        let begun = Instant::now();
        let settings = &self.settings;
        let finished = last.as_ref().map_or(0, |last| last.round);
        let before = settings.chain_steps(settings.scans_of_rounds(finished));
        let before = before + archive.as_ref().map_or(0, |archive| archive.chain_steps());
        let total = settings.chain_steps(settings.scans_of_all_rounds());
        let meter = Meter::new(self.progress.as_ref(), before, total);
        let mut starts: Ends<_, K::Workspace> =
            (0..settings.blocks()).map(|_| Mutex::default()).collect();
        let stopped_by = loop {
            if let Some(by) = self.ended_by(last.as_ref()) {
                break by;
            }
            let placed = self.placed_by(last.as_ref());
            let plan = self.plan_after(last.as_ref(), &placed);
            let blocks = 0..starts.len();
            let ledger = match &archive {
                Some(archive) => Ledger::resumed(blocks, archive.finished(&plan)?, false),
                None => Ledger::new(blocks),
            };
            let beside = Beside {
                archive: archive.as_deref(),
                keep: &|_, outcome| outcome,
                meanwhile: None,
            };
            let outcome = match self.round(&plan, ledger, &starts, (&meter, begun), beside)? {
                Ok(outcome) => outcome.expect("there are ladders"),
                Err(by) => break by,
            };
            let (finished, ends) = Finished::of(plan, outcome);
            if let Some(archive) = &mut archive {
                archive.turn(&finished, &ends);
            }
            starts = ends
                .into_iter()
                .map(|ends| Mutex::new(Some(ends)))
                .collect();
            last = Some(finished);
        };
        self.result(last, stopped_by, begun)
    }

    /// The result of the last round that is finished.
    pub(super) fn result<S>(
        &self,
        last: Option<Finished<S>>,
        stopped_by: StoppedBy,
        begun: Instant,
    ) -> Result<TemperingRun<S>> {
        let Some(last) = last else {
            return Err(Error::Stopped {
                by: stopped_by.to_string(),
                chains: self.settings.ladders,
            });
        };
        let settings = Settings {
            rounds: last.round,
            ..self.settings.clone()
        };
        let cost = (self.evaluations(&settings), begun.elapsed().as_secs_f64());
        TemperingRun::new(settings, last, stopped_by, self.path.rounding_error(), cost)
    }

    /// The betas and the guesses of the round after this one.
    pub(super) fn placed_by<S>(&self, last: Option<&Finished<S>>) -> Placed {
        let schedule = &self.settings.schedule;
        let first = || (schedule.clone(), vec![0.0; schedule.steps()]);
        last.map_or_else(first, Finished::tuned)
    }

    /// The plan of the round after this one, which has placed betas and guesses. Each round has a seed of its own.
    pub(super) fn plan_after<'s>(
        &self,
        last: Option<&Finished<P::State>>,
        placed: &'s Placed,
    ) -> Plan<'s> {
        self.plan(last.map_or(0, |last| last.round) + 1, placed)
    }

    /// The plan of a round, from 1.
    pub(super) fn plan<'s>(&self, round: usize, (schedule, guesses): &'s Placed) -> Plan<'s> {
        let mut seeds = stream(self.settings.seed, Purpose::TemperingRounds, 0);
        let seed = (0..round).map(|_| seeds.next_u64()).next_back();
        let seed = seed.expect("rounds are counted from 1");
        Plan::new(&self.settings, round, (schedule, guesses), seed)
    }

    /// What ends the run after this round, if it does: there are no more, or its standard error is as small as is
    /// asked for.
    pub(super) fn ended_by<S>(&self, last: Option<&Finished<S>>) -> Option<StoppedBy> {
        let last = last?;
        if last.round == self.settings.rounds {
            return Some(StoppedBy::Chains);
        }
        let enough = self.budget.standard_error;
        let enough = enough.filter(|_| last.round >= FIRST_LOOK)?;
        (last.standard_error() <= enough).then_some(StoppedBy::StandardError)
    }

    /// One round of the ladders that a ledger hands out, or what stopped it. It leaves nothing where the first ladders
    /// are on another process.
    pub(super) fn round<T: Merge + Send>(
        &self,
        plan: &Plan<'_>,
        ledger: Ledger<T>,
        starts: &Ends<P::State, K::Workspace>,
        (meter, begun): (&Meter<'_>, Instant),
        beside: Beside<'_, 'p, P, K::Workspace, T>,
    ) -> Result<Result<Option<T>, StoppedBy>> {
        let Beside {
            archive,
            keep,
            meanwhile,
        } = beside;
        let count = |ladders: usize, scans: usize| {
            let moves = (ladders * plan.schedule.betas().len() * scans) as u64;
            if meter.add(moves) {
                ledger.stop(StoppedBy::Callback);
            } else if ledger.leads() && self.budget.is_over(begun) {
                ledger.stop(StoppedBy::TimeLimit);
            }
        };
        let work = |block: usize, canceled: &dyn Fn() -> bool| {
            let range = self.settings.ladders_of(block);
            let start = starts[block].lock();
            let start = start.unwrap_or_else(PoisonError::into_inner).take();
            let mut ladders = None;
            let scanned = caught(|| {
                let kept = archive.and_then(|archive| archive.begin(block, plan));
                let start = || Ladders::start(self.path, range.clone(), plan, start);
                let ladders = ladders.insert(kept.unwrap_or_else(start)?);
                while ladders.scans < plan.scans {
                    ladders.scan(&self.kernel, plan)?;
                    count(range.len(), 1);
                    let ended = ladders.scans == plan.scans;
                    let canceled = canceled() && !ended;
                    if let Some(archive) = archive.filter(|_| !ended) {
                        archive.passed(block, ladders, canceled);
                    }
                    if canceled {
                        return Err(None);
                    }
                }
                Ok(())
            });
            // A panic on the way is an error that names its place.
            let scanned = scanned
                .unwrap_or_else(|message| Err(Some(panicked(message, &ladders, range.clone()))));
            let outcome = scanned.map(|()| ladders.expect("a block that has begun").finish());
            if let Some(archive) = archive {
                archive.end(block, outcome.as_ref().ok());
            }
            outcome.map(|outcome| keep(block, outcome))
        };
        let watch = |arrived: Range<usize>| {
            let ladders = arrived.map(|block| self.settings.ladders_of(block).len());
            let counted = caught(|| count(ladders.sum(), plan.scans));
            counted.map_err(|message| Error::Panicked {
                message,
                chains: 0..self.settings.ladders,
                stage: 0,
                beta: 0.0,
            })
        };
        let mut meanwhile = meanwhile.map(|meanwhile| |site: &Site<'_, _>| meanwhile(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        work_through(&ledger, ledger.most(), self.threads, None, &work, meanwhile)?;
        let closed = ledger.close()?;
        Ok(match closed.stopped_by {
            Some(by) => Err(by),
            None => Ok(fold(closed.prefix)),
        })
    }

    /// The number of evaluations of so many rounds.
    fn evaluations(&self, settings: &Settings) -> u64 {
        let pairs = (settings.schedule.steps() * settings.ladders) as u64;
        // A move at the upper beta, and in every second scan the log ratios of both states.
        let each = self.kernel.evaluations().saturating_add(1) as u64;
        let scans = settings.scans_of_all_rounds() as u64;
        each.saturating_mul(pairs).saturating_mul(scans)
    }
}

/// The error of a panic, with the ladders and the beta that were at hand.
fn panicked<P: AnnealingPath<State: Clone>, W: Workspace>(
    message: String,
    ladders: &Option<Ladders<'_, P, W>>,
    range: Range<usize>,
) -> Error {
    let place = ladders.as_ref().map(Ladders::at_hand);
    let (chains, stage, beta) = place.unwrap_or((range, 0, 0.0));
    Error::Panicked {
        message,
        chains,
        stage,
        beta,
    }
}

impl<P: AnnealingPath, K: std::fmt::Debug> std::fmt::Debug for Tempering<'_, P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tempering")
            .field("kernel", &self.kernel)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
