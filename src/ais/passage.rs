//! The passage of blocks of chains through all stages: what is done, by whom, and what is left of it.

use std::ops::Range;
use std::time::Instant;

use super::block_streams::BlockStreams;
use super::blocks::{AtSite, Site, work_through};
use super::in_progress::InProgress;
use super::ledger::{Closed, Ledger, Watch};
use super::lineage::Lineage;
use super::meter::Meter;
use super::outcome::Outcome;
use super::partial::PartialRun;
use super::population::Population;
use super::recorder::Recorder;
use super::route::Route;
use super::runner::Ais;
use super::settings::Settings;
use super::stop::{Limits, StoppedBy};
use super::tree::{Forest, Merge};
use super::worker::Worker;
use crate::chain::Block;
use crate::kernel::{Workspace, check_stages};
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// What the chains of a range have left when the work ended.
pub(super) type Work<S, R> = Forest<Outcome<S, R>>;

/// What the thread that calls does while others work.
pub(crate) type Meanwhile<'a, T> = &'a mut dyn FnMut(&Site<'_, T>, Watch<'_>) -> Result<()>;

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
        self.budget.check()?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)
    }

    /// Takes the chains of a range through all stages, as far as they are not done.
    pub(super) fn run_part(
        &self,
        settings: &Settings,
        chains: &Range<usize>,
        route: &impl Route<'p, P>,
        done: Work<P::State, R>,
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
        let finished = ledger.look_at_all(|node| settings.chain_steps(node.blocks()));
        let under_way = beside.archive.map_or(0, Archive::chain_steps);
        let before = finished.into_iter().sum::<u64>() + under_way;
        let listener = self.progress.as_deref().filter(|_| ledger.leads());
        let own_meter = Meter::new(listener, before, settings.chain_steps(ledger.blocks()));
        let worker = Worker {
            ais: self,
            settings,
            route,
            ledger,
            archive: beside.archive,
            keep: beside.keep,
            streams: BlockStreams::new(settings, ledger.blocks().start),
            limits: Limits {
                meter: beside.meter.unwrap_or(&own_meter),
                asked: self.stop_when.as_deref(),
                time: self.budget.time,
                begun,
            },
        };
        let rule = |done: usize, prefix: &Work<S, R>| worker.is_enough(done, prefix);
        if ledger.look(|done, prefix| !prefix.is_empty() && rule(done, prefix)) {
            ledger.stop(StoppedBy::StandardError);
        }
        let work = |block: usize, canceled: &dyn Fn() -> bool| worker.block(block, canceled);
        let watch = |arrived: Range<usize>| worker.arrived(arrived);
        let meanwhile = beside.meanwhile;
        let mut meanwhile = meanwhile.map(|meanwhile| |site: &Site<'_, _>| meanwhile(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        let (most, threads) = (ledger.most(), self.threads);
        work_through(ledger, most, threads, Some(&rule), &work, meanwhile)
    }

    /// What lets the chains of a block interact, where they do.
    pub(super) fn lineage(
        &self,
        settings: &Settings,
        block: &Block<P::State>,
    ) -> Option<Lineage<P::State>> {
        let (interaction, copy) = settings.interaction.clone().zip(self.copy)?;
        let block_size = settings.largest_block();
        Some(Lineage::new(interaction, block_size, copy, block))
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
