//! The passage of blocks of chains through all stages.

use std::ops::Range;
use std::time::Instant;

use super::block_streams::BlockStreams;
use super::blocks::{Site, caught, work_through};
use super::ledger::{Closed, Ledger, Watch};
use super::lineage::Lineage;
use super::outcome::{Chains, Outcome, Tally};
use super::partial::PartialRun;
use super::population::Population;
use super::progress::{Meter, SoFar};
use super::recorder::Recorder;
use super::route::Route;
use super::runner::Ais;
use super::settings::Settings;
use super::stages::{StageRecorder, weights_so_far};
use super::stop::{StoppedBy, is_look};
use super::tree::Forest;
use crate::chain::Block;
use crate::estimate::Estimate;
use crate::kernel::{Workspace, check_stages};
use crate::model::UnnormalizedModel;
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// What the chains of a range have left when the work ended.
type Work<S, R> = Forest<Outcome<S, R>>;

/// What the thread that calls does while others work.
pub(super) type Meanwhile<'a, T> = &'a mut dyn FnMut(&Site<'_, T>, Watch<'_>) -> Result<()>;

/// What is kept of the last states of a block.
pub(super) type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

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
        self.check(settings)?;
        let ledger = Ledger::resumed(settings.blocks_of(chains)?, done);
        self.pass_all(settings, route, ledger, |states| states, &mut |_, _| Ok(()))
    }

    /// Takes the chains of a ledger's blocks through all stages, and of their states those that are to be kept.
    pub(super) fn pass_all<S: Send>(
        &self,
        settings: &Settings,
        route: &impl Route<'p, P>,
        ledger: Ledger<Outcome<S, R>>,
        keep: Keep<P::State, S>,
        meanwhile: Meanwhile<'_, Outcome<S, R>>,
    ) -> Result<PartialRun<S, R>> {
        let begun = Instant::now();
        check_stages("steps of the schedule", route.stages(), &settings.schedule)?;
        let ledger = ledger.last_unfilled(settings.is_unfilled());
        self.work((settings, route), &ledger, keep, meanwhile, begun)?;
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

    /// Does the blocks that the ledger hands out.
    fn work<S: Send>(
        &self,
        (settings, route): (&Settings, &impl Route<'p, P>),
        ledger: &Ledger<Outcome<S, R>>,
        keep: Keep<P::State, S>,
        meanwhile: Meanwhile<'_, Outcome<S, R>>,
        begun: Instant,
    ) -> Result<()> {
        let blocks = ledger.blocks();
        let steps = settings.schedule.steps() as u64;
        let chain_steps = |blocks: Range<usize>| settings.chains_of(blocks).len() as u64 * steps;
        let before = ledger.look(|done, _| chain_steps(blocks.start..done));
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
            let stream = streams.take(block);
            let mut population = None;
            let passed = caught(|| {
                let population = population.insert(route.start(chains.clone(), stream)?);
                self.pass(settings, population, route, |chains| {
                    count(chains as u64);
                    canceled()
                })
            });
            // A panic on the way is an error that names its place.
            let passed =
                passed.unwrap_or_else(|message| Err(Some(panicked(message, population, chains))));
            passed.map(|outcome| outcome.with_states(keep))
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
        let mut outcome = Ok(());
        work_through(
            ledger,
            ledger.most(),
            self.threads,
            Some(&rule),
            &pass_block,
            &mut |site| outcome = meanwhile(site, &watch),
        )?;
        outcome
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

    /// Takes one block through all stages. The error is `None` where `canceled`, which is told of every
    /// stage done, says so.
    fn pass<W: Workspace>(
        &self,
        settings: &Settings,
        population: &mut Population<'p, P, W>,
        route: &impl Route<'p, P, Workspace = W>,
        canceled: impl Fn(usize) -> bool,
    ) -> Result<Outcome<P::State, R>, Option<Error>> {
        let windows = settings.windows();
        let mut stages = StageRecorder::new(windows, population.block().len());
        let mut recorder = self.recorder.clone();
        let mut lineage = self.lineage(settings, population.block());
        let steps = settings.schedule.steps();
        for k in 1..=steps {
            route.pass(population, k)?;
            stages.after(k, population.block());
            if windows.ends_at(k) {
                recorder.record(population.stage(), population.block());
            }
            if let Some(lineage) = lineage.as_mut().filter(|_| k < steps) {
                lineage.resample(k, population, &mut stages, route)?;
            }
            stages.moved(k, population.block());
            if canceled(population.block().len()) && k < steps {
                return Err(None);
            }
        }
        let uncovered = self.uncovered(population.block());
        let (states, log_weights) = population.block_mut().take_states_and_log_weights();
        Ok(Outcome {
            chains: Chains {
                states,
                log_weights,
                roots: lineage.map_or(Vec::new(), Lineage::into_roots),
            },
            tally: Tally {
                windows: stages.finish(),
                recorder,
                uncovered,
            },
        })
    }

    /// What lets the chains of a block interact, where they do.
    fn lineage<'s>(
        &self,
        settings: &'s Settings,
        block: &Block<P::State>,
    ) -> Option<Lineage<'s, P::State>> {
        let (interaction, copy) = settings.interaction.as_ref().zip(self.copy)?;
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
