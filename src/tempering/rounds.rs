//! The rounds of a run, one after another.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use rand::Rng;

use super::ladders::Ladders;
use super::round::{Finished, Outcome, Plan, Starts};
use super::run::TemperingRun;
use super::runner::Tempering;
use super::settings::Settings;
use super::worker::Worker;
use crate::ais::{
    AtSite, Forest, Ledger, Meanwhile, Merge, Meter, Site, StoppedBy, fold, work_through,
};
use crate::kernel::{Invariant, Workspace, refuse_stages};
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

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
        self.conduct.check()?;
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
        let meter = Meter::new(self.conduct.progress.as_deref(), before, total);
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
        let enough = self.conduct.budget.standard_error;
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
        let worker = Worker {
            run: self,
            plan,
            ledger: &ledger,
            starts,
            meter,
            begun,
            archive: beside.archive,
            keep: beside.keep,
        };
        let work = |block: usize, canceled: &dyn Fn() -> bool| worker.block(block, canceled);
        let watch = |arrived: Range<usize>| worker.arrived(arrived);
        let meanwhile = beside.meanwhile;
        let mut meanwhile = meanwhile.map(|meanwhile| |site: &Site<'_, _>| meanwhile(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        work_through(
            &ledger,
            ledger.most(),
            self.conduct.threads,
            None,
            &work,
            &|block| self.settings.ladders_of(block),
            meanwhile,
        )?;
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
