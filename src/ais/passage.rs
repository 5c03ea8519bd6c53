//! The passage of blocks of chains through all stages.

use std::ops::Range;
use std::time::Instant;

use super::block_streams::BlockStreams;
use super::blocks::caught;
use super::in_progress::InProgress;
use super::ledger::{Closed, Ledger};
use super::lineage::Lineage;
use super::meter::Meter;
use super::outcome::Outcome;
use super::oversight::{self, Meanwhile, Oversight};
use super::partial::PartialRun;
use super::population::Population;
use super::recorder::Recorder;
use super::route::Route;
use super::runner::Ais;
use super::settings::Settings;
use super::stop::StoppedBy;
use super::tree::{Forest, Merge};
use crate::chain::Block;
use crate::kernel::{Workspace, check_stages};
use crate::model::UnnormalizedModel;
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::{Error, Result};

/// What is kept of the last states of a block.
pub(super) type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

/// What goes on beside the work.
pub(super) struct Beside<'a, 'p, P: AnnealingPath, W, R, S> {
    pub(super) archive: Option<&'a dyn Archive<'p, P, W, R>>,
    pub(super) keep: Keep<P::State, S>,
    pub(super) meanwhile: Option<Meanwhile<'a, Outcome<S, R>>>,
    /// Counts the work, where it is a part of something longer.
    pub(super) meter: Option<&'a Meter<'a>>,
}

/// Where blocks at work leave what they have reached, for a later call to go on from.
pub(super) trait Archive<'p, P: AnnealingPath, W, R>: Sync {
    /// Chain-steps of blocks that an earlier call has begun and not finished.
    fn chain_steps(&self) -> u64;

    /// Seconds since a checkpoint was written, where this process writes them.
    fn age(&self) -> Option<f64>;

    /// What an earlier call has left of a block, which is at work from now on.
    fn begin(&self, block: usize) -> Option<Result<InProgress<'p, P, W, R>>>;

    /// Told of a block after each stage but the last.
    fn passed(&self, block: usize, at: &InProgress<'p, P, W, R>, canceled: bool);

    /// Told of a block that is not at work any more, and of its outcome if it is finished.
    fn end(&self, block: usize, outcome: Option<&Outcome<P::State, R>>);
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Sync,
    P::State: Send,
    K: Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    pub(super) fn check(&self, settings: &Settings) -> Result<()> {
        settings.check()?;
        self.conduct.check()
    }

    /// Takes the chains of a range through all stages, as far as they are not done.
    pub(super) fn run_part(
        &self,
        settings: &Settings,
        chains: &Range<usize>,
        route: &impl Route<'p, P>,
        done: Forest<Outcome<P::State, R>>,
        meter: Option<&Meter<'_>>,
    ) -> Result<PartialRun<P::State, R>> {
        let begun = Instant::now();
        self.check(settings)?;
        let blocks = settings.blocks_of(chains)?;
        let ledger = Ledger::resumed(blocks, done, settings.is_unfilled());
        let beside = Beside {
            archive: None,
            keep: |states| states,
            meanwhile: None,
            meter,
        };
        self.work((settings, route), &ledger, beside, begun)?;
        closed(settings, ledger, begun)
    }

    /// Does the blocks that the ledger hands out.
    pub(super) fn work<S: Send, Way: Route<'p, P>>(
        &self,
        (settings, route): (&Settings, &Way),
        ledger: &Ledger<Outcome<S, R>>,
        beside: Beside<'_, 'p, P, Way::Workspace, R, S>,
        begun: Instant,
    ) -> Result<()> {
        check_stages("steps of the schedule", route.stages(), &settings.schedule)?;
        let Beside {
            archive,
            keep,
            meanwhile,
            meter,
        } = beside;
        let under_way = archive.map_or(0, Archive::chain_steps);
        let age = || archive.and_then(Archive::age);
        let own = oversight::meter(settings, &self.conduct, ledger, under_way).saved(&age);
        let meter = meter.unwrap_or(&own);
        let oversight = Oversight::new(settings, &self.conduct, ledger, meter, begun);
        let streams = BlockStreams::new(settings, ledger.blocks().start);
        let work = |block: usize, canceled: &dyn Fn() -> bool| {
            let chains = settings.chains_of(block..block + 1);
            let start = || self.start(settings, route, chains.clone(), streams.take(block));
            let passed = |at_work: &InProgress<'p, P, Way::Workspace, R>| {
                oversight.count(chains.len() as u64);
                let canceled = canceled() && !at_work.is_done();
                if let Some(archive) = archive.filter(|_| !at_work.is_done()) {
                    archive.passed(block, at_work, canceled);
                }
                canceled
            };
            let kept = || archive.and_then(|archive| archive.begin(block));
            let begin = || kept().unwrap_or_else(start);
            let outcome = self.pass(&chains, route, &begin, &passed);
            if let Some(archive) = archive {
                archive.end(block, outcome.as_ref().ok());
            }
            outcome.map(|outcome| outcome.with_states(keep))
        };
        oversight.work_through(&work, meanwhile)
    }

    /// Takes a block of these chains through the stages that are left to it. The error is `None` where `canceled`,
    /// which is told of every stage done, says so.
    fn pass<W: Workspace>(
        &self,
        chains: &Range<usize>,
        route: &impl Route<'p, P, Workspace = W>,
        begin: &dyn Fn() -> Result<InProgress<'p, P, W, R>>,
        canceled: &dyn Fn(&InProgress<'p, P, W, R>) -> bool,
    ) -> Result<Outcome<P::State, R>, Option<Error>> {
        let mut at_work = None;
        let passed = caught(|| {
            let at_work = at_work.insert(begin()?);
            while !at_work.is_done() {
                at_work.pass(route)?;
                if canceled(at_work) {
                    return Err(None);
                }
            }
            Ok(self.uncovered(at_work.population.block()))
        });
        match passed {
            Ok(Ok(uncovered)) => Ok(at_work.expect("it has begun").finish(uncovered)),
            Ok(Err(error)) => Err(error),
            // A panic on the way is an error that names its place.
            Err(message) => {
                let population = at_work.map(|at_work| at_work.population);
                Err(Some(panicked(message, population, chains.clone())))
            }
        }
    }

    /// A block before its first stage.
    fn start<Way: Route<'p, P>>(
        &self,
        settings: &Settings,
        route: &Way,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<InProgress<'p, P, Way::Workspace, R>> {
        let population = route.start(chains, first)?;
        let lineage = Lineage::of(settings, self.copy, population.block());
        let (windows, recorder) = (settings.windows(), self.recorder.clone());
        Ok(InProgress::new(population, windows, recorder, lineage))
    }

    /// Number of living chains where the base has no density.
    fn uncovered(&self, block: &Block<P::State>) -> usize {
        let base = self.path.base();
        let log_density = |chain| base.log_density(&block.states()[chain]);
        let excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
        block.alive().filter(excluded).count()
    }
}

/// What is left of the work when it is over.
pub(super) fn closed<S, R: Merge>(
    settings: &Settings,
    ledger: Ledger<Outcome<S, R>>,
    begun: Instant,
) -> Result<PartialRun<S, R>> {
    let Closed {
        mut prefix,
        beyond,
        stopped_by,
    } = ledger.close()?;
    prefix.extend(beyond);
    Ok(PartialRun {
        settings: settings.clone(),
        nodes: prefix,
        stopped_by: stopped_by.unwrap_or(StoppedBy::Chains),
        seconds: begun.elapsed().as_secs_f64(),
        probe: None,
    })
}

/// The error of a panic, with the chains and the stage that were at hand.
pub(crate) fn panicked<P: AnnealingPath, W: Workspace>(
    message: String,
    population: Option<Population<'_, P, W>>,
    chains: Range<usize>,
) -> Error {
    let place = population.map(|population| {
        let (chains, stage) = population.at_hand();
        (chains, stage, population.stage().beta)
    });
    let (chains, stage, beta) = place.unwrap_or((chains, 0, 0.0));
    Error::Panicked {
        message,
        chains,
        stage,
        beta,
    }
}
