//! The task of an annealed run: blocks of chains that pass the schedule, and the probe chains of the run.

use std::ops::Range;
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
use crate::estimate::{LogZ, Remedy, Warning};
use crate::kernel::Block;
use crate::model::{UnnormalizedModel, log_densities_of, single_states};
use crate::path::{AnnealingPath, dimension};
use crate::population::{CopyState, Genealogy, Moves, Population, sample_base, streams};
use crate::random::{BlockStreams, Purpose, stream};
use crate::work::{
    Closed, Forest, Format, Halt, Job, Probe, Pulse, SoFar, Stepped, StoppedBy, Task, caught,
};

/// Function that returns samples of the target for a range of chains.
pub(crate) type Samples<'t, S> = &'t (dyn Fn(Range<usize>) -> Vec<S> + Sync);

/// Blocks of chains that pass a schedule, forward from the base or backward from samples of the target.
pub(crate) struct AisTask<'t, P: AnnealingPath, R> {
    pub(super) path: P,
    pub(super) kernel: Box<dyn Moves<P::At> + Send + Sync + 't>,
    pub(super) settings: Settings,
    pub(super) blocks: Range<usize>,
    pub(super) recorder: R,
    pub(super) copy: Option<CopyState<P::State>>,
    /// Start states of chains; `None` to start at samples of the base.
    pub(super) samples: Option<Samples<'t, P::State>>,
    pub(super) streams: BlockStreams,
    pub(super) codec: Option<BlockCodec<P, R>>,
}

/// A block on its way along the schedule.
pub(crate) struct Underway<P: AnnealingPath, R> {
    pub(super) population: Population<P>,
    pub(super) recorder: R,
    /// Number of stages passed.
    pub(super) passed: usize,
    pub(super) stages: StageRecorder,
    pub(super) genealogy: Option<Genealogy<P::State>>,
}

/// Functions that write and read a block in progress, and its output.
pub(crate) struct BlockCodec<P: AnnealingPath, R> {
    pub(super) write: fn(&Underway<P, R>) -> Result<Vec<u8>>,
    pub(super) read: ReadBlock<P, R>,
    pub(super) output: Format<BlockResult<P::State, R>>,
}

type ReadBlock<P, R> = fn(&AisTask<'_, P, R>, usize, &[u8]) -> Result<Underway<P, R>>;

crate::num::copy! { for [P: AnnealingPath, R] BlockCodec<P, R> }

impl<'t, P: AnnealingPath, R> AisTask<'t, P, R> {
    pub(crate) fn starting_at(self, samples: Samples<'t, P::State>) -> Self {
        let samples = Some(samples);
        Self { samples, ..self }
    }

    /// Sets the functions that save blocks in progress, if there are any.
    pub(crate) fn saved_by(self, codec: Option<BlockCodec<P, R>>) -> Self {
        Self { codec, ..self }
    }

    /// Starts a block, at samples of the base or at the samples given.
    fn start(&self, block: usize) -> Result<Underway<P, R>>
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
        let population = population.by_surrogates(self.settings.has_surrogates);
        Ok(Underway {
            recorder: self.recorder.clone(),
            passed: 0,
            stages: StageRecorder::new(self.settings.windows(), chains.len()),
            genealogy: self.settings.genealogy(self.copy, population.block()),
            population,
        })
    }

    /// Counts the living chains with density zero under the base.
    fn uncovered(&self, block: &Block<P::State>) -> usize {
        let log_density = |chain: usize| self.path.base().log_density(&block.states()[chain]);
        let is_excluded = |chain: &usize| log_density(*chain) == f64::NEG_INFINITY;
        block.alive().filter(is_excluded).count()
    }

    pub(super) fn result(
        &self,
        closed: Closed<BlockResult<P::State, R>>,
        begun: Instant,
    ) -> RunPart<P::State, R> {
        let mut nodes = closed.prefix;
        nodes.extend(closed.beyond);
        RunPart {
            settings: self.settings.clone(),
            nodes,
            stopped_by: closed.stopped_by.unwrap_or(StoppedBy::Chains),
            seconds: begun.elapsed().as_secs_f64(),
            evaluations: self.kernel.cost(dimension(&self.path)),
            probe: None,
        }
    }
}

impl<P, R> AisTask<'_, P, R>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Runs all chains and concludes the run.
    pub(crate) fn run_all(
        &self,
        job: &mut Job<'_>,
        until_error: Option<f64>,
    ) -> Result<Run<P::State, R>> {
        job.foresee(self.cost(self.blocks()));
        self.concluded(self.run_by(job)?, until_error)
    }

    /// Runs all blocks.
    pub(crate) fn run_by(&self, job: &mut Job<'_>) -> Result<RunPart<P::State, R>> {
        let begun = Instant::now();
        let format = self.codec.map(|codec| codec.output);
        Ok(self.result(job.run(self, format)?, begun))
    }

    /// Returns the run's result, with the path's warnings and a warning if the error asked for was not reached.
    pub(crate) fn concluded(
        &self,
        part: RunPart<P::State, R>,
        until_error: Option<f64>,
    ) -> Result<Run<P::State, R>> {
        let probe = self.probe();
        let mut run = RunPart { probe, ..part }.result()?;
        let (reached, chains) = (run.standard_error(), run.chains());
        let remedy = Remedy::Chains(chains);
        let missed = Warning::error_not_reached(until_error, reached, Some(chains), remedy);
        run.warn(missed);
        run.doubt(&self.path);
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
        let chains = self.settings.chains_of(blocks).len();
        (chains * self.settings.schedule.stages()) as u64
    }

    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let mut at = match (self.codec, pulse.resumed()) {
            (Some(codec), Some(bytes)) => (codec.read)(self, block, &bytes)?,
            _ => self.start(block)?,
        };
        match self.settings.purpose.reads_backward() {
            true => self.backward(&mut at, pulse)?,
            false => self.forward(&mut at, pulse)?,
        }
        let uncovered = self.uncovered(at.population.block());
        Ok(at.finished(uncovered))
    }

    fn last_is_unfilled(&self) -> bool {
        let settings = &self.settings;
        !settings.chains.is_multiple_of(settings.block_size)
    }

    /// Decides whether the standard error is at most `error`. A backward run never ends early, because it has one chain
    /// for each sample.
    fn suffices(&self, error: f64, blocks: usize, outputs: &Forest<Self::Output>) -> bool {
        if self.settings.purpose.reads_backward() || !self.settings.is_look(blocks) {
            return false;
        }
        self.settings.is_within(error, outputs)
    }

    fn so_far(&self, outputs: &Forest<Self::Output>) -> Option<SoFar> {
        // Weights of a backward run estimate `Z_0/Z_K`.
        let forward = !self.settings.purpose.reads_backward();
        forward.then(|| self.settings.so_far(outputs))
    }

    #[cfg(feature = "checkpoint")]
    fn check_saved(&self, block: usize, bytes: &[u8]) -> Result<u64> {
        let Some(codec) = self.codec else {
            return Ok(0);
        };
        let at = (codec.read)(self, block, bytes)?;
        Ok((at.passed * self.chains(block).len()) as u64)
    }

    #[cfg(feature = "checkpoint")]
    fn check(&self, blocks: Range<usize>, output: &Self::Output) -> Result<()> {
        let fits = output.fits(&self.settings, &self.settings.chains_of(blocks));
        let (found, expected) = ("chains that do not fit", "those of the settings");
        Error::check(fits, "finished blocks", found, expected)
    }
}

/// The loops over the stages that remain.
impl<P, R> AisTask<'_, P, R>
where
    P: AnnealingPath,
    R: Recorder<P::At>,
{
    /// Takes the chains of a block to the target: each stage weighs, then moves.
    fn forward(&self, at: &mut Underway<P, R>, pulse: &mut Pulse<'_>) -> Result<(), Halt> {
        let (kernel, schedule) = (self.kernel.as_ref(), &self.settings.schedule);
        let stages = schedule.stages();
        for stage in at.passed + 1..=stages {
            let beta = schedule.betas()[stage];
            // At the target the exact model moves the chains, after the stage.
            let is_moved_later = stage == stages && at.population.is_on_surrogates();
            pulse.at(at.population.place_at_hand());
            match self.settings.weighs_alone(stage) || is_moved_later {
                true => at.population.weigh_to(beta)?,
                false => at.population.advance_by(kernel, beta)?,
            }
            at.record(stage, pulse);
            if is_moved_later {
                // The recorder has not seen this weighing. Its size does not shrink with the number of stages, so that
                // it would look like a stage that is too long.
                at.population.enter_target(kernel)?;
                at.stages.entered_target(at.population.block());
            }
            at.keep_weights(stage);
            if stage < stages {
                at.select(stage, kernel)?;
            }
            self.pass(stage, at, pulse)?;
        }
        Ok(())
    }

    /// Takes the chains of a block to the base: each stage moves, then weighs. The move of a stage is made with the
    /// weighing of the stage before, because [`Population::advance_by`] weighs first. The move of the first stage is
    /// made alone. A forward run makes no move at the base, so the last stage only weighs.
    fn backward(&self, at: &mut Underway<P, R>, pulse: &mut Pulse<'_>) -> Result<(), Halt> {
        let (kernel, schedule) = (self.kernel.as_ref(), &self.settings.schedule);
        let stages = schedule.stages();
        pulse.at(at.population.place_at_hand());
        if at.passed == 0 {
            at.population.stay_by(kernel)?;
            if at.population.is_on_surrogates() {
                at.population.leave_target()?;
                at.stages.left_target(at.population.block());
            }
        }
        for stage in at.passed + 1..=stages {
            pulse.at(at.population.place_at_hand());
            match stages - stage {
                0 => at.population.weigh_to(0.0)?,
                k => at.population.advance_by(kernel, schedule.betas()[k])?,
            }
            at.record(stage, pulse);
            at.keep_weights(stage);
            self.pass(stage, at, pulse)?;
        }
        Ok(())
    }

    /// Ends a stage: counts it, and saves or cancels the block.
    fn pass(
        &self,
        stage: usize,
        at: &mut Underway<P, R>,
        pulse: &mut Pulse<'_>,
    ) -> Result<(), Halt> {
        let block = at.population.block();
        at.stages.moved(stage, block);
        at.passed = stage;
        let stepped = Stepped::of(block.len(), stage == self.settings.schedule.stages());
        pulse.step(stepped, &|| match self.codec {
            Some(codec) => (codec.write)(at),
            None => Ok(Vec::new()),
        })
    }
}

impl<P: AnnealingPath, R: Recorder<P::At>> Underway<P, R> {
    /// Records a stage, before chains are selected.
    fn record(&mut self, stage: usize, pulse: &mut Pulse<'_>) {
        // From here on a panic, for example in the recorder, belongs to the stage just passed.
        pulse.at(self.population.place_at_hand());
        self.stages.after(stage, self.population.block());
        if self.stages.windows.ends_at(stage) {
            let (of_recorder, block) = (self.population.stage(), self.population.block());
            self.recorder.record(of_recorder, block);
        }
    }

    /// Keeps the weights after a stage, if they are asked for.
    fn keep_weights(&mut self, stage: usize) {
        if self.stages.windows.keeps_at(stage) {
            let roots = self.genealogy.as_ref().map_or(&[][..], |at| &at.roots);
            let log_weights = self.population.exact_log_weights();
            self.stages.keep(stage, log_weights, roots);
        }
    }

    /// Selects the chains after a stage, if chains interact and it is due.
    fn select(&mut self, stage: usize, kernel: &dyn Moves<P::At>) -> Result<()> {
        if let Some(genealogy) = &mut self.genealogy
            && let Some((before, ancestors)) =
                genealogy.select(stage, &mut self.population, kernel)?
        {
            let log_weights = self.population.block().log_weights();
            self.stages.resampled(&before, &ancestors, log_weights);
        }
        Ok(())
    }

    /// Returns the result of a block that has passed all stages.
    fn finished(mut self, uncovered: usize) -> BlockResult<P::State, R> {
        let (states, log_weights) = self.population.block_mut().take_states_and_log_weights();
        let roots = self
            .genealogy
            .map_or(Vec::new(), |genealogy| genealogy.roots);
        BlockResult {
            chains: FinalStates {
                states,
                log_weights,
                roots,
            },
            sums: StageSums {
                target: self.stages.target,
                windows: self.stages.records,
                recorder: self.recorder,
                uncovered,
            },
        }
    }
}

/// Number of probe chains, unless blocks are smaller.
const PROBE_CHAINS: usize = 8;

impl<P: AnnealingPath, R> AisTask<'_, P, R> {
    /// Returns the probe chains of the run; `None` if they meet an error or panic, which the run itself will report.
    pub(crate) fn probe(&self) -> Option<Probe> {
        caught(&mut || self.try_probe()).ok().and_then(Result::ok)
    }

    fn try_probe(&self) -> Result<Probe> {
        let (path, schedule) = (&self.path, &self.settings.schedule);
        let chains = PROBE_CHAINS.min(self.settings.largest_block());
        // The seed is 0 in every run, because pooled runs of different seeds compare their probes.
        let first = stream(0, Purpose::PROBE, 0);
        let population: Population<P> = Population::start(path.clone(), 0, chains, first)?;
        let mut population = population.by_surrogates(self.settings.has_surrogates);
        let states = population.block().states();
        let mut starts = vec![log_densities_of(path.base(), states)];
        let (betas, stages) = (schedule.betas(), schedule.stages());
        for stage in [1, stages.div_ceil(2), stages] {
            starts.push(log_densities_of(&path.at(betas[stage]), states));
        }
        // Does the move ask a model of batches for one state at a time?
        let before = single_states();
        population.advance_by(self.kernel.as_ref(), betas[1])?;
        let single = single_states() - before;
        let block = population.block();
        let log_densities = log_densities_of(&path.at(betas[1]), block.states());
        let moved = [block.log_weights().to_vec(), log_densities];
        let is_single = chains > 1 && single >= chains as u64;
        Ok(Probe::of(&starts, &moved, is_single))
    }
}
