//! What a thread does with a block of chains.

use std::ops::Range;

use super::block_streams::BlockStreams;
use super::blocks::caught;
use super::in_progress::InProgress;
use super::ledger::Ledger;
use super::outcome::Outcome;
use super::passage::{Archive, Keep, Work, panicked};
use super::progress::SoFar;
use super::recorder::Recorder;
use super::route::Route;
use super::runner::Ais;
use super::settings::Settings;
use super::stages::weights_so_far;
use super::stop::{Limits, is_look};
use crate::chain::Block;
use crate::estimate::Estimate;
use crate::model::UnnormalizedModel;
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// Takes the blocks of a run through all stages, one after another, and ends the run where something says so.
pub(super) struct Worker<'a, 'p, P, K, R, Way, S>
where
    P: AnnealingPath,
    Way: Route<'p, P>,
{
    pub(super) ais: &'a Ais<'p, P, K, R>,
    pub(super) settings: &'a Settings,
    pub(super) route: &'a Way,
    pub(super) ledger: &'a Ledger<Outcome<S, R>>,
    pub(super) archive: Option<&'a dyn Archive<'p, P, Way::Workspace, R>>,
    pub(super) keep: Keep<P::State, S>,
    pub(super) streams: BlockStreams,
    pub(super) limits: Limits<'a>,
}

impl<'p, P, K, R, Way, S> Worker<'_, 'p, P, K, R, Way, S>
where
    P: AnnealingPath<State: Send> + Sync,
    K: Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
    Way: Route<'p, P>,
{
    /// Takes a block through the stages that are left. The error is `None` where it was canceled.
    pub(super) fn block(
        &self,
        block: usize,
        canceled: &dyn Fn() -> bool,
    ) -> Result<Outcome<S, R>, Option<Error>> {
        let mut at_work = None;
        let passed = caught(|| self.pass(block, &mut at_work, canceled));
        let outcome = match passed {
            Ok(Ok(uncovered)) => {
                let at_work = at_work.expect("a block that has begun");
                Ok(at_work.finish(uncovered))
            }
            Ok(Err(error)) => Err(error),
            // A panic on the way is an error that names its place.
            Err(message) => {
                let population = at_work.map(|at_work| at_work.population);
                Err(Some(panicked(message, population, self.chains(block))))
            }
        };
        if let Some(archive) = self.archive {
            archive.end(block, outcome.as_ref().ok());
        }
        outcome.map(|outcome| outcome.with_states(self.keep))
    }

    /// Takes a block, which is left in `at_work`, to its end. Returns the number of living chains where the base
    /// has no density.
    fn pass(
        &self,
        block: usize,
        at_work: &mut Option<InProgress<'p, P, Way::Workspace, R>>,
        canceled: &dyn Fn() -> bool,
    ) -> Result<usize, Option<Error>> {
        let kept = self.archive.and_then(|archive| archive.begin(block));
        let at_work = at_work.insert(kept.unwrap_or_else(|| self.start(block))?);
        let chains = self.chains(block).len() as u64;
        while !at_work.is_done() {
            at_work.pass(self.route)?;
            self.limits.count(chains, self.ledger);
            let canceled = canceled() && !at_work.is_done();
            if let Some(archive) = self.archive.filter(|_| !at_work.is_done()) {
                archive.passed(block, at_work, canceled);
            }
            if canceled {
                return Err(None);
            }
        }
        Ok(self.uncovered(at_work.population.block()))
    }

    /// A block before its first stage.
    fn start(&self, block: usize) -> Result<InProgress<'p, P, Way::Workspace, R>> {
        let (ais, settings) = (self.ais, self.settings);
        let first = self.streams.take(block);
        let population = self.route.start(self.chains(block), first)?;
        let lineage = ais.lineage(settings, population.block());
        let (windows, recorder) = (settings.windows(), ais.recorder.clone());
        Ok(InProgress::new(population, windows, recorder, lineage))
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.settings.chains_of(block..block + 1)
    }

    /// Number of living chains where the base has no density.
    fn uncovered(&self, block: &Block<P::State>) -> usize {
        let base = self.ais.path.base();
        let log_density = |chain| base.log_density(&block.states()[chain]);
        let excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
        block.alive().filter(excluded).count()
    }

    /// Counts blocks that another process has finished.
    pub(super) fn arrived(&self, blocks: Range<usize>) -> Result<()> {
        let chain_steps = self.settings.chain_steps(blocks.clone());
        let counted = caught(|| self.limits.count(chain_steps, self.ledger));
        counted.map_err(|message| Error::Panicked {
            message,
            chains: self.settings.chains_of(blocks),
            stage: 0,
            beta: 0.0,
        })
    }

    /// Whether the first blocks, so many of them, make the standard error that is asked for.
    pub(super) fn is_enough(&self, blocks: usize, prefix: &Work<S, R>) -> bool {
        let (settings, meter) = (self.settings, self.limits.meter);
        if meter.is_watched() {
            meter.set(so_far(settings, prefix));
        }
        let Some(enough) = self.ais.budget.standard_error else {
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
