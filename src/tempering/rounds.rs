//! The rounds of a run, one after another.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rand::Rng;

use super::ladders::{Ladder, Ladders};
use super::round::{Ended, Finished, Outcome, Placed, Plan, Starts};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::settings::Settings;
use super::worker::Worker;
use crate::ais::{
    AtSite, Forest, Ledger, Meter, Node, Share, Site, StoppedBy, Watch, fold, work_through,
};
use crate::estimate::Warning;
use crate::kernel::{Invariant, Workspace, refuse_stages};
use crate::path::{AnnealingPath, dimension, missed_mass};
use crate::random::{Purpose, stream};
use crate::{Error, Result};

/// The round after which the standard error is looked at first.
const FIRST_LOOK: usize = 5;

/// Where the ladders of each block of this process go on from; nowhere yet in the first round.
pub(super) type Ends<S, W> = Vec<Mutex<Option<Starts<S, <W as Workspace>::Memory>>>>;

/// A block at the end of a round.
pub(super) type EndedBlock<S, W> = Ended<S, <W as Workspace>::Memory>;

/// Blocks at the end of a round, from left to right.
pub(super) type EndedBlocks<S, W> = Vec<(usize, EndedBlock<S, W>)>;

/// What is kept of the samples of a ladder.
pub(super) type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

/// Where blocks of ladders at work leave what they have reached, for a later call to go on from. `T` is what is kept of
/// states.
pub(super) trait Archive<'p, P: AnnealingPath, W: Workspace, T>: Sync {
    /// Chain-steps that an earlier call has done of a round that is not finished.
    fn chain_steps(&self) -> u64;

    /// Seconds since a checkpoint was written, where this process writes them.
    fn age(&self) -> Option<f64>;

    /// The blocks that an earlier call has finished in this round.
    fn finished(&self, plan: &Plan<'_>) -> Result<EndedBlocks<P::State, W>>;

    /// What an earlier call has left of a block, which is at work from now on.
    fn begin(&self, block: usize, plan: &Plan<'_>) -> Option<Result<Ladders<'p, P, W>>>;

    /// Told of a block after each scan but the last.
    fn passed(&self, block: usize, at: &Ladders<'p, P, W>, canceled: bool);

    /// Told of a block that is not at work any more, and where it stands if it is finished.
    fn end(&self, block: usize, ended: Option<&EndedBlock<P::State, W>>);

    /// Told of a round that is finished; of what it left, where that is in this process.
    fn turn(&self, last: Option<&Finished<T>>, plan: &Plan<'_>);
}

/// The processes that share the rounds of a run.
pub(super) trait Company<T> {
    /// That of this process.
    fn share(&self) -> Share;

    /// What the first process has placed, if there is a further round; it alone is given that.
    fn tell(&mut self, placed: Option<Placed>) -> Result<Option<Placed>>;

    /// Brings the blocks of a round to the first process, while threads do those of this one.
    fn exchange(&mut self, site: &Site<'_, Outcome<T>>, watch: Watch<'_>) -> Result<()>;
}

/// The rounds of a run at work. `T` is what is kept of states.
pub(super) struct Rounds<'a, 'p, P: AnnealingPath, K: Invariant<P::At<'p>>, T> {
    pub(super) run: &'a Tempering<'p, P, K>,
    pub(super) keep: Keep<P::State, T>,
    pub(super) archive: Option<&'a dyn Archive<'p, P, K::Workspace, T>>,
    pub(super) share: Share,
    pub(super) starts: Ends<P::State, K::Workspace>,
    pub(super) meter: Meter<'a>,
    pub(super) begun: Instant,
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
        let run = self.rounds_after(None, |samples| samples, None, None)?;
        Ok(self.concluded(run.expect("there is no other process")))
    }

    /// The result, which warns where the path knows a lower bound above the interval.
    pub(super) fn concluded(&self, mut run: TemperingRun<P::State>) -> TemperingRun<P::State> {
        let (moves, upper) = (run.evaluations(), run.interval().1);
        run.warn(missed_mass(self.path, run.states().iter(), moves, upper));
        run
    }

    pub(super) fn check(&self) -> Result<()> {
        self.settings.check()?;
        self.conduct.check()?;
        refuse_stages(self.kernel.stages())
    }

    /// Runs the rounds that follow the last one that is finished, if there is one. The first of several processes has
    /// the result.
    pub(super) fn rounds_after<T: Send>(
        &self,
        mut last: Option<Finished<T>>,
        keep: Keep<P::State, T>,
        archive: Option<&dyn Archive<'p, P, K::Workspace, T>>,
        mut company: Option<&mut dyn Company<T>>,
    ) -> Result<Option<TemperingRun<T>>> {
        let begun = Instant::now();
        let settings = &self.settings;
        let share = company.as_ref().map_or(Share::WHOLE, |all| all.share());
        let finished = last.as_ref().map_or(0, |last| last.round);
        let before = settings.chain_steps(settings.scans_of_rounds(finished));
        let before = before + archive.map_or(0, |archive| archive.chain_steps());
        let total = settings.chain_steps(settings.scans_of_all_rounds());
        let callback = self.conduct.progress.as_deref().filter(|_| share.rank == 0);
        let age = || archive.and_then(Archive::age);
        let rounds = Rounds {
            run: self,
            keep,
            archive,
            share,
            starts: (0..settings.blocks()).map(|_| Mutex::default()).collect(),
            meter: Meter::new(callback, before, total).saved(&age),
            begun,
        };
        let mut stopped_by = None;
        loop {
            stopped_by = stopped_by.or_else(|| self.ended_by(last.as_ref()));
            let goes_on = stopped_by.is_none();
            let placed = goes_on.then(|| self.placed_by(last.as_ref()));
            let placed = match &mut company {
                Some(company) => company.tell(placed)?,
                None => placed,
            };
            let Some(placed) = placed else { break };
            let plan = self.plan(&placed);
            match rounds.round(&plan, &mut company)? {
                Ok(outcome) => {
                    last = outcome.map(|outcome| Finished::of(&plan, outcome));
                    if let Some(archive) = archive {
                        archive.turn(last.as_ref(), &plan);
                    }
                }
                Err(by) => stopped_by = Some(by),
            }
        }
        // It is there in the first process, which has ended the rounds.
        stopped_by
            .map(|by| self.result(last, by, begun))
            .transpose()
    }

    /// The result of the last round that is finished.
    fn result<T>(
        &self,
        last: Option<Finished<T>>,
        stopped_by: StoppedBy,
        begun: Instant,
    ) -> Result<TemperingRun<T>> {
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
        let rounding_error = self.path.rounding_error();
        let mut run = TemperingRun::new(settings, last, stopped_by, rounding_error, cost)?;
        let asked = self.conduct.budget.standard_error;
        run.warn(Warning::error_not_reached(
            asked,
            run.standard_error(),
            None,
            None,
        ));
        Ok(run)
    }

    /// The round after this one.
    pub(super) fn placed_by<T>(&self, last: Option<&Finished<T>>) -> Placed {
        let schedule = &self.settings.schedule;
        let first = || Placed {
            round: 1,
            schedule: schedule.clone(),
            guesses: vec![0.0; schedule.steps()],
        };
        last.map_or_else(first, Finished::tuned)
    }

    /// The plan of a round, which has a seed of its own.
    pub(super) fn plan<'s>(&self, placed: &'s Placed) -> Plan<'s> {
        let mut seeds = stream(self.settings.seed, Purpose::TemperingRounds, 0);
        let seed = (0..placed.round).map(|_| seeds.next_u64()).next_back();
        let seed = seed.expect("rounds are counted from 1");
        let betas = (&placed.schedule, placed.guesses.as_slice());
        Plan::new(&self.settings, placed.round, betas, seed)
    }

    /// What ends the run after this round, if it does: there are no more, or its standard error is as small as is
    /// asked for.
    fn ended_by<T>(&self, last: Option<&Finished<T>>) -> Option<StoppedBy> {
        let last = last?;
        if last.round == self.settings.rounds {
            return Some(StoppedBy::Chains);
        }
        let enough = self.conduct.budget.standard_error;
        let enough = enough.filter(|_| last.round >= FIRST_LOOK)?;
        (last.standard_error() <= enough).then_some(StoppedBy::StandardError)
    }

    /// The number of evaluations of so many rounds.
    fn evaluations(&self, settings: &Settings) -> u64 {
        let pairs = (settings.schedule.steps() * settings.ladders) as u64;
        // A move at the upper beta, and in every second scan the log ratios of both states.
        let each = self
            .kernel
            .evaluations(dimension(self.path))
            .saturating_add(1) as u64;
        let scans = settings.scans_of_all_rounds() as u64;
        each.saturating_mul(pairs).saturating_mul(scans)
    }
}

impl<'p, P, K, T> Rounds<'_, 'p, P, K, T>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    T: Send,
{
    /// One round of the ladders of this process, or what stopped it. It leaves nothing where the first ladders are on
    /// another process.
    fn round(
        &self,
        plan: &Plan<'_>,
        company: &mut Option<&mut dyn Company<T>>,
    ) -> Result<Result<Option<Outcome<T>>, StoppedBy>> {
        let ledger = self.ledger(plan)?;
        let worker = Worker {
            rounds: self,
            plan,
            ledger: &ledger,
        };
        let work = |block: usize, canceled: &dyn Fn() -> bool| worker.block(block, canceled);
        let watch = |arrived: Range<usize>| worker.arrived(arrived);
        let mut meanwhile = company
            .as_mut()
            .map(|company| |site: &Site<'_, _>| company.exchange(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        let (most, threads) = (ledger.most(), self.run.conduct.threads);
        let ladders = |block| self.run.settings.ladders_of(block);
        work_through(&ledger, most, threads, None, &work, &ladders, meanwhile)?;
        let closed = ledger.close()?;
        Ok(match closed.stopped_by {
            Some(by) => Err(by),
            None => Ok(fold(closed.prefix)),
        })
    }

    /// The blocks that this process is to do in a round.
    fn ledger(&self, plan: &Plan<'_>) -> Result<Ledger<Outcome<T>>> {
        let finished = self.archive.map(|archive| archive.finished(plan));
        let finished = finished.transpose()?.unwrap_or_default();
        let blocks = 0..self.starts.len();
        let done = finished
            .iter()
            .map(|&(block, _)| block..block + 1)
            .collect();
        let take = |(block, ended)| Node::leaf(block, self.take(block, ended));
        let nodes: Forest<_> = finished.into_iter().map(take).collect();
        let ledger = match self.share.rank {
            0 => Ledger::resumed(blocks, nodes, false),
            // What they left is on the first process.
            _ => Ledger::new(blocks).without(done),
        };
        Ok(ledger.shared(self.share))
    }

    /// Takes a finished block apart: its next round starts where it stands.
    pub(super) fn take(
        &self,
        block: usize,
        ended: EndedBlock<P::State, K::Workspace>,
    ) -> Outcome<T> {
        let start = &self.starts[block];
        *start.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended.ends);
        let Outcome { ladders, decisions } = ended.outcome;
        let keep = |ladder: Ladder<P::State>| ladder.with_samples(self.keep);
        Outcome {
            ladders: ladders.into_iter().map(keep).collect(),
            decisions,
        }
    }
}
