//! What sees to it that a run ends when it has enough, and that it is spoken of on its way.

use std::ops::Range;
use std::time::Instant;

use super::blocks::{AtSite, BlockWork, Site, caught, work_through};
use super::conduct::Conduct;
use super::ledger::{Ledger, Watch};
use super::meter::Meter;
use super::outcome::Outcome;
use super::progress::SoFar;
use super::settings::Settings;
use super::stages::weights_so_far;
use super::stop::{StoppedBy, is_look};
use super::tree::{Forest, Merge};
use crate::{Error, Result};

/// What the thread that calls does while others work.
pub(crate) type Meanwhile<'a, T> = &'a mut dyn FnMut(&Site<'_, T>, Watch<'_>) -> Result<()>;

/// A meter of blocks of which so many chain-steps are done, besides those of finished blocks.
pub(super) fn meter<'a, S, R: Merge>(
    settings: &Settings,
    conduct: &'a Conduct<'_>,
    ledger: &Ledger<Outcome<S, R>>,
    under_way: u64,
) -> Meter<'a> {
    let steps = |blocks| settings.chain_steps_of(blocks);
    let finished = ledger.look_at_all(|node| steps(node.blocks()));
    let before = finished.into_iter().sum::<u64>() + under_way;
    let listener = conduct.progress.as_deref().filter(|_| ledger.leads());
    Meter::new(listener, before, steps(ledger.blocks()))
}

/// Watches over the blocks of a run, of whatever path and kernel.
pub(super) struct Oversight<'a, S, R> {
    settings: &'a Settings,
    conduct: &'a Conduct<'a>,
    ledger: &'a Ledger<Outcome<S, R>>,
    meter: &'a Meter<'a>,
    begun: Instant,
}

impl<'a, S: Send, R: Merge + Send> Oversight<'a, S, R> {
    /// Of the blocks of a ledger, which a meter counts.
    pub(super) fn new(
        settings: &'a Settings,
        conduct: &'a Conduct<'a>,
        ledger: &'a Ledger<Outcome<S, R>>,
        meter: &'a Meter<'a>,
        begun: Instant,
    ) -> Self {
        Self {
            settings,
            conduct,
            ledger,
            meter,
            begun,
        }
    }

    /// Counts chain-steps done, and stops the run where it is to stop.
    pub(super) fn count(&self, chain_steps: u64) {
        let Self { meter, begun, .. } = self;
        self.conduct.count(chain_steps, meter, *begun, self.ledger);
    }

    /// Does the blocks that the ledger hands out.
    ///
    /// # Errors
    /// Threads that cannot be had, or the error of `meanwhile`.
    pub(super) fn work_through(
        &self,
        work: BlockWork<'_, Outcome<S, R>>,
        meanwhile: Option<Meanwhile<'_, Outcome<S, R>>>,
    ) -> Result<()> {
        let rule = |done: usize, prefix: &Forest<Outcome<S, R>>| self.finished(done, prefix);
        let ledger = self.ledger;
        if ledger.look(|done, prefix| !prefix.is_empty() && rule(done, prefix)) {
            ledger.stop(StoppedBy::StandardError);
        }
        let watch = |arrived: Range<usize>| self.arrived(arrived);
        let mut meanwhile = meanwhile.map(|meanwhile| |site: &Site<'_, _>| meanwhile(site, &watch));
        let meanwhile = meanwhile
            .as_mut()
            .map(|meanwhile| meanwhile as AtSite<'_, _>);
        let (most, threads) = (ledger.most(), self.conduct.threads);
        let chains = |block: usize| self.settings.chains_of(block..block + 1);
        work_through(ledger, most, threads, Some(&rule), work, &chains, meanwhile)
    }

    /// Counts blocks that another process has finished.
    fn arrived(&self, blocks: Range<usize>) -> Result<()> {
        let chain_steps = self.settings.chain_steps_of(blocks.clone());
        caught(|| self.count(chain_steps))
            .map_err(|message| Error::panicked(message, self.settings.chains_of(blocks)))
    }

    /// Told of the finished blocks each time that one is added. Whether they are enough.
    fn finished(&self, blocks: usize, prefix: &Forest<Outcome<S, R>>) -> bool {
        if self.meter.is_watched() {
            self.meter.set(self.so_far(prefix));
        }
        // A run that reads its path backward has a chain for each sample, whatever its error.
        let enough = self.conduct.budget.standard_error;
        let enough = enough.filter(|_| !self.settings.purpose.reads_backward());
        enough.is_some_and(|enough| self.is_within(enough, blocks, prefix))
    }

    /// Whether it is time for a look at the standard error, and it is so small.
    fn is_within(&self, enough: f64, blocks: usize, prefix: &Forest<Outcome<S, R>>) -> bool {
        let Settings {
            block_size,
            interaction,
            ..
        } = self.settings;
        if !is_look(blocks, *block_size, interaction.is_some()) {
            return false;
        }
        let (mut log_weights, mut roots) = (Vec::new(), Vec::new());
        for node in prefix {
            log_weights.extend_from_slice(&node.value.chains.log_weights);
            roots.extend_from_slice(&node.value.chains.roots);
        }
        let estimate = self.settings.estimate(&log_weights, &roots);
        estimate.is_ok_and(|estimate| estimate.standard_error() <= enough)
    }

    /// What finished chains say.
    fn so_far(&self, prefix: &Forest<Outcome<S, R>>) -> SoFar {
        let tallies = prefix
            .iter()
            .map(|node| node.value.tally.windows.as_slice());
        let weights = weights_so_far(tallies);
        SoFar {
            chains: weights.count() as usize,
            log_z: weights.log_mean() + self.settings.log_base_normalizer,
            effective_sample_size: weights.effective_sample_size(),
        }
    }
}
