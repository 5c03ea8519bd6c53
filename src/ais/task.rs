//! The task of an annealed run: blocks of chains that pass the schedule, and a few that tell runs apart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::block_result::{BlockResult, FinalStates, StageSums};
use super::partial::RunPart;
use super::recorder::Recorder;
use super::run::Run;
use super::settings::Settings;
use super::stages::StageRecorder;
#[cfg(feature = "checkpoint")]
use crate::Error;
use crate::Result;
use crate::kernel::{Block, TransitionKernel};
use crate::model::{UnnormalizedModel, log_densities_of, single_states};
use crate::path::{AnnealingPath, dimension};
use crate::population::{CopyState, Genealogy, Moves, Population, sample_base, streams};
use crate::random::{Purpose, StreamRng, stream};
use crate::schedule::Schedule;
use crate::work::{
    Closed, Forest, Halt, Job, Probe, ProbeChain, Pulse, Runs, SoFar, Stepped, Task, caught,
};

/// Function that returns samples of the target for a range of chains.
pub(crate) type Samples<'t, S> = &'t (dyn Fn(Range<usize>) -> Vec<S> + Sync);

/// Blocks of chains that pass a schedule, forward from the base or backward from samples of the target.
pub(crate) struct AisTask<'t, P: AnnealingPath, R> {
    pub(super) path: P,
    pub(super) kernel: Box<dyn Moves<P::At> + Send + Sync + 't>,
    /// Density evaluations of a move, at least 1.
    evaluations: u64,
    pub(super) settings: Settings,
    blocks: Range<usize>,
    pub(super) recorder: R,
    copy: Option<CopyState<P::State>>,
    /// Start states of chains; `None` for samples of the base.
    samples: Option<Samples<'t, P::State>>,
    streams: BlockStreams,
    pub(super) codec: Option<BlockCodec<P, R>>,
}

/// A block that has passed some stages, with all that its further stages depend on.
pub(crate) struct InProgress<P: AnnealingPath, R> {
    pub(super) passed: usize,
    pub(super) population: Population<P>,
    pub(super) stages: StageRecorder,
    pub(super) recorder: R,
    pub(super) genealogy: Option<Genealogy<P::State>>,
}

/// Functions that write and read a block under way.
pub(crate) struct BlockCodec<P: AnnealingPath, R> {
    pub(super) write: fn(&InProgress<P, R>) -> Result<Vec<u8>>,
    pub(super) read: ReadBlock<P, R>,
}

type ReadBlock<P, R> = fn(&AisTask<'_, P, R>, usize, &[u8]) -> Result<InProgress<P, R>>;

impl<P: AnnealingPath, R> Clone for BlockCodec<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: AnnealingPath, R> Copy for BlockCodec<P, R> {}

impl<'t, P: AnnealingPath, R> AisTask<'t, P, R> {
    /// Creates the task that runs `chains`.
    ///
    /// # Errors
    /// Settings out of range; chains that are not whole blocks; a kernel that requires another number of stages.
    pub(super) fn new<K>(
        (path, kernel): (P, K),
        settings: Settings,
        chains: &Range<usize>,
        (recorder, copy): (R, Option<CopyState<P::State>>),
    ) -> Result<Self>
    where
        K: TransitionKernel<P::At> + Send + Sync + 't,
    {
        let blocks = settings.checked_blocks(chains, kernel.stages())?;
        let evaluations = kernel.evaluations(dimension(&path)).max(1) as u64;
        let kernel = Box::new(kernel);
        Ok(Self::of(
            (path, kernel),
            settings,
            (evaluations, blocks),
            (recorder, copy),
        ))
    }

    /// Not generic in the kernel, so that it is compiled once a path.
    fn of(
        (path, kernel): (P, Box<dyn Moves<P::At> + Send + Sync + 't>),
        settings: Settings,
        (evaluations, blocks): (u64, Range<usize>),
        (recorder, copy): (R, Option<CopyState<P::State>>),
    ) -> Self {
        Self {
            evaluations,
            path,
            kernel,
            streams: BlockStreams::new(&settings, blocks.start),
            settings,
            blocks,
            recorder,
            copy,
            samples: None,
            codec: None,
        }
    }

    pub(crate) fn starting_at(self, samples: Samples<'t, P::State>) -> Self {
        let samples = Some(samples);
        Self { samples, ..self }
    }

    /// Lets blocks under way be saved.
    pub(crate) fn saved_by(self, codec: Option<BlockCodec<P, R>>) -> Self {
        Self { codec, ..self }
    }

    fn start(&self, block: usize) -> Result<InProgress<P, R>>
    where
        R: Clone,
    {
        let chains = self.settings.chains_of(block..block + 1);
        let mut rngs = streams(chains.len(), self.streams.take(block))?;
        let (beta, states) = match self.samples {
            None => (0.0, sample_base(&self.path, chains.start, &mut rngs)?),
            Some(samples) => (1.0, samples(chains.clone())),
        };
        let path = self.path.clone();
        let population = Population::from_states(path, beta, chains.start, states, rngs)?;
        Ok(InProgress {
            passed: 0,
            stages: StageRecorder::new(self.settings.windows(), population.block().len()),
            recorder: self.recorder.clone(),
            genealogy: self.genealogy(population.block()),
            population,
        })
    }

    fn finished(&self, mut at: InProgress<P, R>) -> BlockResult<P::State, R> {
        let uncovered = self.uncovered(at.population.block());
        let (states, log_weights) = at.population.block_mut().take_states_and_log_weights();
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

    /// Counts the living chains with density zero under the base.
    fn uncovered(&self, block: &Block<P::State>) -> usize {
        let log_density = |chain: usize| self.path.base().log_density(&block.states()[chain]);
        let is_excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
        block.alive().filter(is_excluded).count()
    }

    pub(super) fn genealogy(&self, block: &Block<P::State>) -> Option<Genealogy<P::State>> {
        self.settings.genealogy(self.copy, block)
    }

    /// Takes the chains through `stage`, counted from 1 in the order passed.
    fn pass(&self, population: &mut Population<P>, stage: usize) -> Result<()> {
        let (betas, kernel) = (self.settings.schedule.betas(), self.kernel.as_ref());
        if !self.settings.purpose.reads_backward() {
            return match self.settings.weighs_alone(stage) {
                true => population.weigh_to(betas[stage]),
                false => population.advance_by(kernel, betas[stage]),
            };
        }
        if stage == 1 {
            population.stay_by(kernel)?;
        }
        match betas.len() - 1 - stage {
            0 => population.weigh_to(0.0),
            k => population.advance_by(kernel, betas[k]),
        }
    }

    fn result(
        &self,
        closed: Closed<BlockResult<P::State, R>>,
        begun: Instant,
    ) -> RunPart<P::State, R> {
        let cost = (self.evaluations, begun.elapsed().as_secs_f64());
        RunPart::of(self.settings.clone(), closed, cost)
    }
}

impl<P, R> AisTask<'_, P, R>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Runs all chains, and concludes.
    pub(crate) fn run_all(
        &self,
        job: &mut impl Runs<BlockResult<P::State, R>>,
        until_error: Option<f64>,
    ) -> Result<Run<P::State, R>> {
        job.foresee(self.cost(self.blocks()));
        self.concluded(self.run_by(job)?, until_error)
    }

    /// Runs all blocks.
    pub(crate) fn run_by(
        &self,
        job: &mut (impl Runs<BlockResult<P::State, R>> + ?Sized),
    ) -> Result<RunPart<P::State, R>> {
        let begun = Instant::now();
        Ok(self.result(job.run(self)?, begun))
    }

    /// Runs the blocks that are not `done`.
    pub(crate) fn extended_by(
        &self,
        job: &Job<'_>,
        done: Forest<BlockResult<P::State, R>>,
    ) -> Result<RunPart<P::State, R>> {
        let begun = Instant::now();
        Ok(self.result(job.extend(self, done)?, begun))
    }

    /// Returns the result of all blocks, with the path's doubts, and a warning where the error asked for was not reached.
    pub(crate) fn concluded(
        &self,
        part: RunPart<P::State, R>,
        until_error: Option<f64>,
    ) -> Result<Run<P::State, R>> {
        let mut run = part.probed(self.probe()).reached(until_error)?;
        run.doubt(&|states, steps, interval| self.path.doubts(states, steps, interval));
        Ok(run)
    }
}

impl<P, R> Task for AisTask<'_, P, R>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    R: Recorder<P::At> + Send + Sync,
{
    type Output = BlockResult<P::State, R>;

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
        let saved = self.codec.zip(pulse.resumed());
        let mut at = match saved {
            Some((codec, bytes)) => (codec.read)(self, block, &bytes)?,
            None => self.start(block)?,
        };
        let steps = at.stages.windows.stages();
        while at.passed < steps {
            let (k, is_last) = (at.passed + 1, at.passed + 1 == steps);
            let population = &mut at.population;
            pulse.at(population.place_at_hand());
            self.pass(population, k)?;
            pulse.at(population.place_at_hand());
            at.stages.after(k, population.block());
            if at.stages.windows.ends_at(k) {
                at.recorder.record(population.stage(), population.block());
            }
            if let Some(genealogy) = at.genealogy.as_mut().filter(|_| !is_last)
                && let Some((before, ancestors)) =
                    genealogy.select(k, population, self.kernel.as_ref())?
            {
                let log_weights = population.block().log_weights();
                at.stages.resampled(&before, &ancestors, log_weights);
            }
            at.stages.moved(k, population.block());
            at.passed = k;
            let stepped = Stepped::of(population.block().len(), is_last);
            pulse.step(stepped, &|| {
                self.codec
                    .map_or(Ok(Vec::new()), |codec| (codec.write)(&at))
            })?;
        }
        Ok(self.finished(at))
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

    #[cfg(feature = "checkpoint")]
    fn check_saved(&self, block: usize, bytes: &[u8]) -> Result<u64> {
        self.codec.map_or(Ok(0), |codec| {
            let at = (codec.read)(self, block, bytes)?;
            Ok((at.passed * at.population.block().len()) as u64)
        })
    }

    #[cfg(feature = "checkpoint")]
    fn check(&self, blocks: Range<usize>, output: &Self::Output) -> Result<()> {
        let fits = output.fits(&self.settings, &self.settings.chains_of(blocks));
        let (found, expected) = ("chains that do not fit", "those of the settings");
        Error::check(fits, "finished blocks", found, expected)
    }
}

/// Number of probe chains, unless blocks are smaller.
const PROBE_CHAINS: usize = 8;

fn at_start<P: AnnealingPath>(
    path: &P,
    schedule: &Schedule,
    states: &[P::State],
) -> Vec<ProbeChain> {
    let stages = [1, schedule.stages().div_ceil(2), schedule.stages()];
    let log_densities = |stage| log_densities_of(&path.at(schedule.betas()[stage]), states);
    let seen = stages.map(log_densities);
    let chain = |(chain, state): (usize, &P::State)| {
        let base = path.base().log_density(state);
        ProbeChain::new(base, seen.each_ref().map(|seen| seen[chain]))
    };
    states.iter().enumerate().map(chain).collect()
}

impl<P: AnnealingPath, R> AisTask<'_, P, R> {
    /// Returns the probe of the run; `None` where it meets an error or panic, which the run itself will report.
    pub(crate) fn probe(&self) -> Option<Probe> {
        let met = || self.meet();
        caught(met).ok().and_then(Result::ok)
    }

    fn meet(&self) -> Result<Probe> {
        let (path, schedule) = (&self.path, &self.settings.schedule);
        let (beta, chains) = (
            schedule.betas()[1],
            PROBE_CHAINS.min(self.settings.largest_block()),
        );
        let first = stream(0, Purpose::Probe, 0);
        let mut population: Population<P> = Population::start(path.clone(), 0, chains, first)?;
        let mut chains = at_start(path, schedule, population.block().states());
        let before = single_states();
        population.advance_by(self.kernel.as_ref(), beta)?;
        let single = single_states() - before;
        let is_single = chains.len() > 1 && single >= chains.len() as u64;
        let log_weights = population.block().log_weights().iter();
        let log_densities = log_densities_of(&self.path.at(beta), population.block().states());
        for ((chain, &log_weight), log_density) in
            chains.iter_mut().zip(log_weights).zip(log_densities)
        {
            chain.moved([log_weight, log_density]);
        }
        Ok(Probe { chains, is_single })
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
