//! The work of an annealed run: blocks of chains on their way through the schedule.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::block_result::{BlockResult, FinalStates, StageSums};
use super::partial::PartialRun;
use super::recorder::Recorder;
use super::run::Run;
use super::settings::Settings;
use super::stages::StageRecorder;
use crate::Result;
use crate::kernel::{Block, TransitionKernel, check_stages};
use crate::model::UnnormalizedModel;
use crate::path::{AnnealingPath, dimension};
use crate::population::{CopyState, Genealogy, Population};
use crate::random::{StreamRng, stream, successive};
use crate::work::{Closed, Forest, Merge, Place, SoFar, Stepped, Task};

/// What is kept of the last states of a block.
pub(crate) type Keep<S, T> = fn(Vec<S>) -> Vec<T>;

/// Gives samples of the target to some chains.
pub(crate) type Samples<'t, S> = &'t (dyn Fn(Range<usize>) -> Vec<S> + Sync);

/// Blocks of chains that pass the stages of a schedule, forward from the base or backward from samples of the target.
pub(crate) struct AisTask<'t, 'p, P: AnnealingPath, K, R, T> {
    pub(crate) path: &'p P,
    /// The kernel, or its reversal where the path is read backward.
    pub(crate) kernel: K,
    pub(crate) settings: Settings,
    pub(crate) blocks: Range<usize>,
    pub(crate) recorder: R,
    /// How states are copied, known where chains interact.
    pub(crate) copy: Option<CopyState<P::State>>,
    /// Gives the states at which some chains start; samples of the base where there is none.
    pub(crate) samples: Option<Samples<'t, P::State>>,
    pub(crate) keep: Keep<P::State, T>,
    pub(crate) streams: BlockStreams,
}

/// A block that has passed some stages of its schedule, with all that its further way depends on.
pub(crate) struct InProgress<'p, P: AnnealingPath, W, R> {
    /// Number of stages passed.
    pub(crate) passed: usize,
    pub(crate) population: Population<'p, P, W>,
    pub(crate) stages: StageRecorder,
    pub(crate) recorder: R,
    /// Where the chains interact.
    pub(crate) genealogy: Option<Genealogy<P::State>>,
}

impl<'p, P, K, R, T> AisTask<'_, 'p, P, K, R, T>
where
    P: AnnealingPath,
    K: TransitionKernel<P::At<'p>>,
{
    /// Refuses a kernel that demands another number of stages.
    pub(crate) fn checked(self) -> Result<Self> {
        let schedule = &self.settings.schedule;
        check_stages("steps of the schedule", self.kernel.stages(), schedule)?;
        Ok(self)
    }

    /// Returns the descent of the chains of a block, where they interact.
    pub(crate) fn genealogy(&self, block: &Block<P::State>) -> Option<Genealogy<P::State>> {
        self.settings.genealogy(self.copy, block)
    }

    /// Places the chains of a block at the start.
    fn placed(
        &self,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Population<'p, P, K::Workspace>> {
        let Some(samples) = self.samples else {
            return Population::start(self.path, chains.start, chains.len(), first);
        };
        let rngs = successive(first).take(chains.len()).collect();
        Population::from_states(self.path, 1.0, chains.start, samples(chains.clone()), rngs)
    }

    /// Takes the chains through a stage. These are counted from 1 as they are passed.
    fn pass(&self, population: &mut Population<'p, P, K::Workspace>, stage: usize) -> Result<()> {
        let betas = self.settings.schedule.betas();
        if !self.settings.purpose.reads_backward() {
            return match self.settings.weighs_alone(stage) {
                true => population.weigh_to(betas[stage]),
                false => population.advance_to(&self.kernel, betas[stage]),
            };
        }
        if stage == 1 {
            population.stay(&self.kernel)?;
        }
        match betas.len() - 1 - stage {
            0 => population.weigh_to(0.0),
            k => population.advance_to(&self.kernel, betas[k]),
        }
    }
}

impl<'p, P, K, R: Merge + Clone, T> AisTask<'_, 'p, P, K, R, T>
where
    P: AnnealingPath,
    K: TransitionKernel<P::At<'p>>,
{
    /// Returns the result of all work that was done.
    pub(crate) fn result(
        &self,
        closed: Closed<BlockResult<T, R>>,
        seconds: f64,
    ) -> Result<Run<T, R>> {
        let cost = (evaluations(self.path, &self.kernel), seconds);
        PartialRun::of(self.settings.clone(), closed, cost).result()
    }
}

/// Returns the evaluations of the density by a chain at a stage, as a kernel counts them.
pub(crate) fn evaluations<'p, P: AnnealingPath>(
    path: &'p P,
    kernel: &impl TransitionKernel<P::At<'p>>,
) -> u64 {
    kernel.evaluations(dimension(path)).max(1) as u64
}

impl<'p, P, K, R, T> Task for AisTask<'_, 'p, P, K, R, T>
where
    P: AnnealingPath<State: Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
    T: Send,
{
    type Block = InProgress<'p, P, K::Workspace, R>;
    type Output = BlockResult<T, R>;

    fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.settings.chains_of(block..block + 1)
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        self.settings.chain_steps_of(blocks)
    }

    fn start(&self, block: usize) -> Result<Self::Block> {
        let population = self.placed(self.chains(block), self.streams.take(block))?;
        Ok(InProgress {
            passed: 0,
            stages: StageRecorder::new(self.settings.windows(), population.block().len()),
            recorder: self.recorder.clone(),
            genealogy: self.genealogy(population.block()),
            population,
        })
    }

    /// Takes the chains through the next stage. They do not interact after the last one.
    fn step(&self, at: &mut Self::Block) -> Result<Stepped> {
        let InProgress {
            passed,
            population,
            stages,
            recorder,
            genealogy,
        } = at;
        let (k, windows) = (*passed + 1, stages.windows);
        let is_last = k == windows.steps();
        self.pass(population, k)?;
        stages.after(k, population.block());
        if windows.ends_at(k) {
            recorder.record(population.stage(), population.block());
        }
        if let Some(genealogy) = genealogy.as_mut().filter(|_| !is_last)
            && let Some((before, ancestors)) = genealogy.select(k, population, &self.kernel)?
        {
            stages.resampled(&before, &ancestors, population.block().log_weights());
        }
        stages.moved(k, population.block());
        *passed = k;
        Ok(Stepped::of(population.block().len(), is_last))
    }

    fn finish(&self, at: &mut Self::Block) -> Result<Self::Output> {
        let uncovered = uncovered(self.path, at.population.block());
        let (states, log_weights) = at.population.block_mut().take_states_and_log_weights();
        Ok(BlockResult {
            chains: FinalStates {
                states: (self.keep)(states),
                log_weights,
                roots: at
                    .genealogy
                    .take()
                    .map_or(Vec::new(), Genealogy::into_roots),
            },
            sums: StageSums {
                windows: at.stages.take(),
                recorder: at.recorder.clone(),
                uncovered,
            },
        })
    }

    fn place(&self, at: &Self::Block) -> Place {
        at.population.place_at_hand()
    }

    fn last_is_unfilled(&self) -> bool {
        self.settings.is_unfilled()
    }

    /// A run that reads its path backward has a chain for each sample, whatever its error.
    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<Self::Output>) -> bool {
        if self.settings.purpose.reads_backward() || !self.settings.is_look(blocks) {
            return false;
        }
        self.settings.is_within(error, outputs)
    }

    fn so_far(&self, outputs: &Forest<Self::Output>) -> Option<SoFar> {
        Some(self.settings.so_far(outputs))
    }
}

/// Returns the number of living chains where the base has no density.
fn uncovered<P: AnnealingPath>(path: &P, block: &Block<P::State>) -> usize {
    let log_density = |chain: usize| path.base().log_density(&block.states()[chain]);
    let is_excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
    block.alive().filter(is_excluded).count()
}

/// The stream of the first chain of each block, made when it is asked for: a run with a budget may be allowed
/// far more chains than it needs.
pub(crate) struct BlockStreams {
    block_size: usize,
    made: Mutex<Made>,
}

struct Made {
    /// The next block, and its stream.
    next: (usize, StreamRng),
    /// Streams of earlier blocks that nobody has asked for yet.
    waiting: BTreeMap<usize, StreamRng>,
}

impl BlockStreams {
    /// Returns those of a run's blocks from this one on.
    pub(crate) fn new(settings: &Settings, first: usize) -> Self {
        let chain = settings.block_size * first;
        let next = (first, stream(settings.seed, settings.purpose, chain));
        Self {
            block_size: settings.largest_block(),
            made: Mutex::new(Made {
                next,
                waiting: BTreeMap::new(),
            }),
        }
    }

    /// Takes the stream of a block's first chain. Each block is asked for once.
    fn take(&self, block: usize) -> StreamRng {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        while made.next.0 < block {
            let (earlier, stream) = made.next.clone();
            made.waiting.insert(earlier, stream);
            self.step(&mut made);
        }
        if made.next.0 == block {
            let stream = made.next.1.clone();
            self.step(&mut made);
            return stream;
        }
        let waiting = made.waiting.remove(&block);
        waiting.expect("each block is asked for once")
    }

    fn step(&self, made: &mut Made) {
        made.next.0 += 1;
        (0..self.block_size).for_each(|_| made.next.1.jump());
    }
}
