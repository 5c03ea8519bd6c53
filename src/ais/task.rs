//! The task of an annealed run: blocks of chains that pass the schedule.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::along::{Annealing, Watched};
use super::block_result::{BlockResult, FinalStates, StageSums};
use super::partial::RunPart;
use super::settings::Settings;
use super::stages::StageRecorder;
use crate::Result;
use crate::kernel::{Block, check_stages};
use crate::population::{Chains, CopyState, Genealogy, streams};
use crate::random::{StreamRng, stream};
use crate::work::{Closed, Forest, Halt, Merge, Pulse, SoFar, Stepped, Task};

/// Function that returns samples of the target for a range of chains.
pub(crate) type Samples<'t, S> = &'t (dyn Fn(Range<usize>) -> Vec<S> + Sync);

/// Blocks of chains that pass a schedule, forward from the base or backward from samples of the target.
pub(crate) struct AisTask<'t, S, R> {
    pub(crate) along: Arc<dyn Annealing<'t, S, R> + 't>,
    pub(crate) settings: Settings,
    blocks: Range<usize>,
    pub(crate) recorder: R,
    copy: Option<CopyState<S>>,
    /// Start states of chains; `None` for samples of the base.
    samples: Option<Samples<'t, S>>,
    streams: BlockStreams,
}

/// A block that has passed some stages, with all that its further stages depend on.
pub(crate) struct InProgress<'t, S, R> {
    pub(crate) passed: usize,
    pub(crate) chains: Box<dyn Watched<S, R> + 't>,
    pub(crate) stages: StageRecorder,
    pub(crate) recorder: R,
    pub(crate) genealogy: Option<Genealogy<S>>,
}

/// Functions that write and read a block under way.
pub(super) struct Codec<'t, S, R> {
    pub(super) write: fn(&InProgress<'t, S, R>) -> Result<Vec<u8>>,
    pub(super) read: ReadBlock<'t, S, R>,
}

type ReadBlock<'t, S, R> = fn(&AisTask<'t, S, R>, usize, &[u8]) -> Result<InProgress<'t, S, R>>;

impl<'t, S, R> AisTask<'t, S, R> {
    /// Creates the task that runs `chains`.
    ///
    /// # Errors
    /// Settings out of range; chains that are not whole blocks; a kernel that requires another number of stages.
    pub(crate) fn new(
        along: Arc<dyn Annealing<'t, S, R> + 't>,
        settings: Settings,
        chains: &Range<usize>,
        (recorder, copy): (R, Option<CopyState<S>>),
    ) -> Result<Self> {
        settings.check()?;
        let blocks = settings.blocks_of(chains)?;
        let schedule = &settings.schedule;
        check_stages("steps of the schedule", along.stages(), schedule)?;
        Ok(Self {
            along,
            streams: BlockStreams::new(&settings, blocks.start),
            settings,
            blocks,
            recorder,
            copy,
            samples: None,
        })
    }

    pub(crate) fn starting_at(self, samples: Samples<'t, S>) -> Self {
        let samples = Some(samples);
        Self { samples, ..self }
    }

    /// Takes a block through all stages, from where an earlier call left it: the annealed run itself.
    pub(super) fn anneal(
        &self,
        block: usize,
        pulse: &mut dyn Pulse,
        codec: Option<&Codec<'t, S, R>>,
    ) -> Result<BlockResult<S, R>, Halt>
    where
        R: Clone,
    {
        let saved = codec.zip(pulse.resumed());
        let mut at = match saved {
            Some((codec, bytes)) => (codec.read)(self, block, &bytes)?,
            None => self.start(block)?,
        };
        let steps = at.stages.windows.stages();
        while at.passed < steps {
            let (k, is_last) = (at.passed + 1, at.passed + 1 == steps);
            pulse.at(at.chains.place());
            self.pass(at.chains.as_mut(), k)?;
            pulse.at(at.chains.place());
            at.stages.after(k, at.chains.block());
            if at.stages.windows.ends_at(k) {
                at.chains.show(&mut at.recorder);
            }
            if let Some(genealogy) = at.genealogy.as_mut().filter(|_| !is_last)
                && let Some((before, ancestors)) = genealogy.select(k, at.chains.as_mut())?
            {
                let log_weights = at.chains.block().log_weights();
                at.stages.resampled(&before, &ancestors, log_weights);
            }
            at.stages.moved(k, at.chains.block());
            at.passed = k;
            let stepped = Stepped::of(at.chains.block().len(), is_last);
            pulse.step(stepped, &|| {
                codec.map_or(Ok(Vec::new()), |codec| (codec.write)(&at))
            })?;
        }
        Ok(self.finished(at))
    }

    fn start(&self, block: usize) -> Result<InProgress<'t, S, R>>
    where
        R: Clone,
    {
        let chains = self.settings.chains_of(block..block + 1);
        let chains = self.placed(chains, self.streams.take(block))?;
        Ok(InProgress {
            passed: 0,
            stages: StageRecorder::new(self.settings.windows(), chains.block().len()),
            recorder: self.recorder.clone(),
            genealogy: self.genealogy(chains.block()),
            chains,
        })
    }

    fn finished(&self, mut at: InProgress<'t, S, R>) -> BlockResult<S, R> {
        let uncovered = self.uncovered(at.chains.block());
        let (states, log_weights) = at.chains.block_mut().take_states_and_log_weights();
        BlockResult {
            chains: FinalStates {
                states,
                log_weights,
                roots: at.genealogy.map_or(Vec::new(), Genealogy::into_roots),
            },
            sums: StageSums {
                windows: at.stages.take(),
                recorder: at.recorder,
                uncovered,
            },
        }
    }

    pub(crate) fn genealogy(&self, block: &Block<S>) -> Option<Genealogy<S>> {
        self.settings.genealogy(self.copy, block)
    }

    fn placed(
        &self,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Box<dyn Watched<S, R> + 't>> {
        let mut rngs = streams(chains.len(), first)?;
        let (beta, states) = match self.samples {
            None => (0.0, self.along.sample(chains.start, &mut rngs)?),
            Some(samples) => (1.0, samples(chains.clone())),
        };
        let block = Block::new(chains.start, states, rngs);
        Arc::clone(&self.along).place((0, beta), block)
    }

    /// Takes the chains through `stage`, counted from 1 in the order passed.
    fn pass(&self, chains: &mut dyn Chains<S>, stage: usize) -> Result<()> {
        let betas = self.settings.schedule.betas();
        if !self.settings.purpose.reads_backward() {
            return match self.settings.weighs_alone(stage) {
                true => chains.weigh_to(betas[stage]),
                false => chains.advance_to(betas[stage]),
            };
        }
        if stage == 1 {
            chains.stay()?;
        }
        match betas.len() - 1 - stage {
            0 => chains.weigh_to(0.0),
            k => chains.advance_to(betas[k]),
        }
    }

    pub(crate) fn result(&self, closed: Closed<BlockResult<S, R>>, seconds: f64) -> RunPart<S, R> {
        RunPart::of(
            self.settings.clone(),
            closed,
            (self.along.evaluations(), seconds),
        )
    }
}

impl<'t, S, R> Task for AisTask<'t, S, R>
where
    S: Send,
    R: Merge + Clone + Send + Sync,
{
    type Output = BlockResult<S, R>;

    fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.settings.chains_of(block..block + 1)
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        self.settings.chain_steps_of(blocks)
    }

    fn run(&self, block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        self.anneal(block, pulse, None)
    }

    fn last_is_unfilled(&self) -> bool {
        self.settings.is_unfilled()
    }

    /// Decides whether the error suffices. A backward run has a chain for each sample, whatever its error.
    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<Self::Output>) -> bool {
        if self.settings.purpose.reads_backward() || !self.settings.is_look(blocks) {
            return false;
        }
        self.settings.is_within(error, outputs)
    }

    fn so_far(&self, outputs: &Forest<Self::Output>) -> Option<SoFar> {
        // Weights of a backward run are of the base over the target.
        let forward = !self.settings.purpose.reads_backward();
        forward.then(|| self.settings.so_far(outputs))
    }
}

impl<S, R> AisTask<'_, S, R> {
    /// Counts the living chains with density zero under the base.
    fn uncovered(&self, block: &Block<S>) -> usize {
        let log_density = |chain: usize| self.along.base_log_density(&block.states()[chain]);
        let is_excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
        block.alive().filter(is_excluded).count()
    }
}

/// Streams of the first chains of blocks, made on demand: a run may end long before its last block.
pub(crate) struct BlockStreams {
    block_size: usize,
    made: Mutex<Made>,
}

struct Made {
    next: (usize, StreamRng),
    /// Streams of earlier blocks that were not yet taken.
    waiting: BTreeMap<usize, StreamRng>,
}

impl BlockStreams {
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

    /// Takes the stream of a block's first chain, once per block.
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
