//! The passage of blocks of chains through all stages.

use std::ops::Range;
use std::time::Instant;

use super::block_streams::BlockStreams;
use super::blocks::{AtSite, Site, caught, work_through};
use super::in_progress::InProgress;
use super::ledger::{Closed, Ledger, Watch};
use super::lineage::Lineage;
use super::outcome::Outcome;
use super::partial::PartialRun;
use super::population::Population;
use super::progress::{Meter, SoFar};
use super::recorder::Recorder;
use super::route::Route;
use super::runner::Ais;
use super::settings::Settings;
use super::stages::weights_so_far;
use super::stop::{StoppedBy, is_look};
use super::tree::{Forest, Merge};
use crate::chain::Block;
use crate::estimate::Estimate;
use crate::kernel::{Workspace, check_stages};
use crate::model::UnnormalizedModel;
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::{Error, Result};

/// What the chains of a range have left when the work ended.
type Work<S, R> = Forest<Outcome<S, R>>;

/// What the thread that calls does while others work.
pub(crate) type Meanwhile<'a, T> = &'a mut dyn FnMut(&Site<'_, T>, Watch<'_>) -> Result<()>;

/// What is kept of the last states of a block.
pub(super) type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

/// What goes on beside the work.
pub(super) struct Beside<'a, 'p, P: AnnealingPath, W, R, S> {
    pub(super) archive: Option<&'a dyn Archive<'p, P, W, R>>,
    pub(super) keep: Keep<P::State, S>,
    pub(super) meanwhile: Option<Meanwhile<'a, Outcome<S, R>>>,
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
    ) -> Result<PartialRun<P::State, R>> {
        let begun = Instant::now();
        self.check(settings)?;
        let blocks = settings.blocks_of(chains)?;
        let ledger = Ledger::resumed(blocks, done, settings.is_unfilled());
        let beside = Beside {
            archive: None,
            keep: |states| states,
            meanwhile: None,
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
        } = beside;
        let blocks = ledger.blocks();
        let steps = settings.schedule.steps() as u64;
        let chain_steps = |blocks: Range<usize>| settings.chains_of(blocks).len() as u64 * steps;
        let finished = ledger.look_at_all(|node| chain_steps(node.blocks()));
        let under_way = archive.map_or(0, Archive::chain_steps);
        let before = finished.into_iter().sum::<u64>() + under_way;
        let callback = self.progress.as_ref().filter(|_| ledger.leads());
        let meter = Meter::new(callback, before, chain_steps(blocks.clone()));
        let rule = |done: usize, prefix: &Work<S, R>| {
            if meter.is_watched() {
                meter.set(so_far(settings, prefix));
            }
            self.is_enough(settings, done, prefix)
        };
        if ledger.look(|done, prefix| !prefix.is_empty() && rule(done, prefix)) {
            ledger.stop(StoppedBy::StandardError);
        }
        let count = |chain_steps: u64| {
            let asked = || self.stop_when.as_ref().is_some_and(|asked| asked());
            if meter.add(chain_steps) || ledger.leads() && asked() {
                ledger.stop(StoppedBy::Callback);
            } else if ledger.leads() && self.budget.is_over(begun) {
                ledger.stop(StoppedBy::TimeLimit);
            }
        };
        let streams = BlockStreams::new(settings, blocks.start);
        let pass_block = |block: usize, canceled: &dyn Fn() -> bool| {
            let chains = settings.chains_of(block..block + 1);
            let mut at_work = None;
            let passed = caught(|| {
                let kept = archive.and_then(|archive| archive.begin(block));
                let start = || self.start(settings, route, chains.clone(), streams.take(block));
                let at_work = at_work.insert(kept.unwrap_or_else(start)?);
                self.pass(at_work, route, |at_work| {
                    count(chains.len() as u64);
                    let canceled = canceled() && !at_work.is_done();
                    if let Some(archive) = archive.filter(|_| !at_work.is_done()) {
                        archive.passed(block, at_work, canceled);
                    }
                    canceled
                })
            });
            let outcome = match passed {
                Ok(Ok(uncovered)) => {
                    let at_work = at_work.expect("a block that has begun");
                    Ok(at_work.finish(uncovered))
                }
                Ok(Err(error)) => Err(error),
                // A panic on the way is an error that names its place.
                Err(message) => {
                    let population = at_work.map(|at_work| at_work.population);
                    Err(Some(panicked(message, population, chains)))
                }
            };
            if let Some(archive) = archive {
                archive.end(block, outcome.as_ref().ok());
            }
            outcome.map(|outcome| outcome.with_states(keep))
        };
        let watch = |arrived: Range<usize>| {
            let counted = caught(|| count(chain_steps(arrived.clone())));
            counted.map_err(|message| Error::Panicked {
                message,
                chains: settings.chains_of(arrived),
                stage: 0,
                beta: 0.0,
            })
        };
        let mut meanwhile = meanwhile.map(|meanwhile| |site: &Site<'_, _>| meanwhile(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        let (most, threads) = (ledger.most(), self.threads);
        work_through(ledger, most, threads, Some(&rule), &pass_block, meanwhile)
    }

    /// Whether the finished blocks make the standard error that is asked for.
    fn is_enough<S>(&self, settings: &Settings, blocks: usize, prefix: &Work<S, R>) -> bool {
        let Some(enough) = self.budget.standard_error else {
            return false;
        };
        let interacting = settings.interaction.is_some();
        if !is_look(blocks, settings.block_size, interacting) {
            return false;
        }
        let chains = || prefix.iter().map(|node| &node.value.chains);
        let log_weights: Vec<f64> = chains().flat_map(|c| &c.log_weights).copied().collect();
        let roots: Vec<usize> = chains().flat_map(|c| &c.roots).copied().collect();
        let estimate = Estimate::of_interacting(&log_weights, &roots, settings.block_size);
        estimate.is_ok_and(|estimate| estimate.standard_error() <= enough)
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
        let lineage = self.lineage(settings, population.block());
        let (windows, recorder) = (settings.windows(), self.recorder.clone());
        Ok(InProgress::new(population, windows, recorder, lineage))
    }

    /// Takes a block through the stages that are left. Returns the number of living chains where the base has no
    /// density. The error is `None` where `canceled`, which is told of every stage done, says so.
    fn pass<W: Workspace>(
        &self,
        block: &mut InProgress<'p, P, W, R>,
        route: &impl Route<'p, P, Workspace = W>,
        canceled: impl Fn(&InProgress<'p, P, W, R>) -> bool,
    ) -> Result<usize, Option<Error>> {
        while !block.is_done() {
            block.pass(route)?;
            if canceled(block) {
                return Err(None);
            }
        }
        Ok(self.uncovered(block.population.block()))
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
    })
}

/// What finished chains say.
fn so_far<S, R>(settings: &Settings, prefix: &Work<S, R>) -> SoFar {
    let tallies = prefix
        .iter()
        .map(|node| node.value.tally.windows.as_slice());
    let weights = weights_so_far(tallies);
    SoFar {
        chains: weights.count() as usize,
        log_z: weights.log_mean() + settings.log_base_normalizer,
        effective_sample_size: weights.effective_sample_size(),
    }
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
