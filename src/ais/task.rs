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
use crate::kernel::Block;
use crate::model::{UnnormalizedModel, log_densities_of, single_states};
use crate::path::{AnnealingPath, dimension};
use crate::population::{Chains, CopyState, Genealogy, Moves, Population, sample_base, streams};
use crate::random::{BlockStreams, Purpose, stream};
use crate::work::{Closed, Forest, Halt, Place, Probe, Pulse, Runs, SoFar, Stepped, Task, caught};

/// Function that returns samples of the target for a range of chains.
pub(crate) type Samples<'t, S> = &'t (dyn Fn(Range<usize>) -> Vec<S> + Sync);

/// Blocks of chains that pass a schedule, forward from the base or backward from samples of the target.
pub(crate) struct AisTask<'t, P: AnnealingPath, R> {
    pub(super) path: P,
    pub(super) kernel: Box<dyn Moves<P::At> + Send + Sync + 't>,
    pub(super) settings: Settings,
    blocks: Range<usize>,
    pub(super) recorder: R,
    pub(super) copy: Option<CopyState<P::State>>,
    /// Start states of chains; `None` to start at samples of the base.
    samples: Option<Samples<'t, P::State>>,
    streams: BlockStreams,
    pub(super) codec: Option<BlockCodec<P, R>>,
}

/// The chains of a block in progress, with the task whose kernel moves them and the recorder that observes them.
pub(crate) struct AtWork<'t, P: AnnealingPath, R> {
    pub(super) task: &'t AisTask<'t, P, R>,
    pub(super) population: Population<P>,
    pub(super) recorder: R,
}

/// The methods of a block that the loop over stages calls. The loop is compiled once per type of state.
trait OnPath<S>: Chains<S> {
    fn place_at_hand(&self) -> Place;

    /// Reweights the chains to the model at `beta`, then moves them at this model.
    fn advance_to(&mut self, beta: f64) -> Result<()>;

    fn weigh_to(&mut self, beta: f64) -> Result<()>;

    /// Moves the chains at their current model.
    fn stay(&mut self) -> Result<()>;

    /// Returns whether the chains use surrogates of the path's models.
    fn is_on_surrogates(&self) -> bool;

    /// Reweights the chains from the target's surrogate to the target, and moves them at the target.
    fn enter_target(&mut self) -> Result<()>;

    /// Reweights the chains from the target to its surrogate.
    fn leave_target(&mut self) -> Result<()>;

    /// Returns the weights that the chains would have at the path's own model instead of its surrogate.
    fn exact_log_weights(&self) -> Vec<f64>;

    fn record(&mut self);

    fn saved(&self, progress: &Passed<S>) -> Result<Vec<u8>>;
}

/// The progress of a block: the number of stages passed, the records of these stages, and the genealogy of its chains.
pub(crate) struct Passed<S> {
    pub(super) passed: usize,
    pub(super) stages: StageRecorder,
    pub(super) genealogy: Option<Genealogy<S>>,
}

/// Functions that write and read a block in progress.
pub(crate) struct BlockCodec<P: AnnealingPath, R> {
    pub(super) write: WriteBlock<P, R>,
    pub(super) read: ReadBlock<P, R>,
}

type WriteBlock<P, R> =
    fn(&AtWork<'_, P, R>, &Passed<<P as AnnealingPath>::State>) -> Result<Vec<u8>>;

type ReadBlock<P, R> = for<'t> fn(&'t AisTask<'t, P, R>, usize, &[u8]) -> Result<Resumed<'t, P, R>>;

pub(super) type Resumed<'t, P, R> = (AtWork<'t, P, R>, Passed<<P as AnnealingPath>::State>);

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
    pub(super) fn new(
        (path, kernel): (P, Box<dyn Moves<P::At> + Send + Sync + 't>),
        settings: Settings,
        chains: &Range<usize>,
        (recorder, copy): (R, Option<CopyState<P::State>>),
    ) -> Result<Self> {
        let blocks = settings.checked_blocks(chains, kernel.required_stages())?;
        Ok(Self {
            path,
            kernel,
            streams: settings.streams(blocks.start),
            settings,
            blocks,
            recorder,
            copy,
            samples: None,
            codec: None,
        })
    }

    pub(crate) fn starting_at(self, samples: Samples<'t, P::State>) -> Self {
        let samples = Some(samples);
        Self { samples, ..self }
    }

    /// Sets the functions that save blocks in progress, if there are any.
    pub(crate) fn saved_by(self, codec: Option<BlockCodec<P, R>>) -> Self {
        Self { codec, ..self }
    }

    fn start(&self, block: usize) -> Result<Population<P>> {
        let chains = self.settings.chains_of(block..block + 1);
        let mut rngs = streams(chains.len(), self.streams.take(block))?;
        let (beta, states) = match self.samples {
            None => (0.0, sample_base(&self.path, chains.start, &mut rngs)?),
            Some(samples) => (1.0, samples(chains.clone())),
        };
        let path = self.path.clone();
        let population = Population::from_states(path, beta, chains.start, states, rngs)?;
        Ok(self.settings.on_models(population))
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
        let evaluations = self.kernel.cost(dimension(&self.path));
        let cost = (evaluations, begun.elapsed().as_secs_f64());
        RunPart::of(self.settings.clone(), closed, cost)
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

    /// Returns the run's result, with the path's warnings and a warning if the error asked for was not reached.
    pub(crate) fn concluded(
        &self,
        part: RunPart<P::State, R>,
        until_error: Option<f64>,
    ) -> Result<Run<P::State, R>> {
        let mut run = part.probed(self.probe()).reached(until_error)?;
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

    fn run(&self, block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        let saved = pulse.resumed();
        let (mut chains, mut progress) = match (self.codec, saved) {
            (Some(codec), Some(bytes)) => (codec.read)(self, block, &bytes)?,
            _ => {
                let population = self.start(block)?;
                let progress = Passed::new(&self.settings, self.copy, population.block());
                let recorder = self.recorder.clone();
                let task = self;
                let chains = AtWork {
                    task,
                    population,
                    recorder,
                };
                (chains, progress)
            }
        };
        pass(&self.settings, &mut chains, &mut progress, pulse)?;
        let uncovered = self.uncovered(chains.population.block());
        let AtWork {
            mut population,
            recorder,
            ..
        } = chains;
        Ok(progress.finished(population.block_mut(), recorder, uncovered))
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
        let (_, progress) = (codec.read)(self, block, bytes)?;
        Ok((progress.passed * self.chains(block).len()) as u64)
    }

    #[cfg(feature = "checkpoint")]
    fn check(&self, blocks: Range<usize>, output: &Self::Output) -> Result<()> {
        let fits = output.fits(&self.settings, &self.settings.chains_of(blocks));
        let (found, expected) = ("chains that do not fit", "those of the settings");
        Error::check(fits, "finished blocks", found, expected)
    }
}

/// Takes the chains of a block through the stages that remain.
fn pass<S>(
    settings: &Settings,
    chains: &mut dyn OnPath<S>,
    at: &mut Passed<S>,
    pulse: &mut dyn Pulse,
) -> Result<(), Halt> {
    let steps = at.stages.windows.stages();
    while at.passed < steps {
        let (k, is_last) = (at.passed + 1, at.passed + 1 == steps);
        pulse.at(chains.place_at_hand());
        // A reverse stage moves before it weighs, but `advance_to` weighs first. The move of the first stage is
        // therefore made here, at the target.
        if k == 1 && settings.purpose.reads_backward() {
            chains.stay()?;
            if chains.is_on_surrogates() {
                chains.leave_target()?;
                at.stages.left_target(chains.block_mut());
            }
        }
        pass_stage(settings, chains, k)?;
        // From here on a panic, for example in the recorder, belongs to the stage just passed.
        pulse.at(chains.place_at_hand());
        at.stages.after(k, chains.block_mut());
        if at.stages.windows.ends_at(k) {
            chains.record();
        }
        // The recorder must not see this weighing. Its size does not shrink with the number of stages, so that it
        // would look like a stage that is too long.
        if is_last && chains.is_on_surrogates() && !settings.purpose.reads_backward() {
            chains.enter_target()?;
            at.stages.entered_target(chains.block_mut());
        }
        if at.stages.windows.keeps_at(k) {
            let roots = at.genealogy.as_ref().map_or(&[][..], |at| &at.roots);
            at.stages.keep(k, chains.exact_log_weights(), roots);
        }
        if let Some(genealogy) = at.genealogy.as_mut().filter(|_| !is_last)
            && let Some((before, ancestors)) = genealogy.select(k, chains)?
        {
            let log_weights = chains.block_mut().log_weights();
            at.stages.resampled(&before, &ancestors, log_weights);
        }
        at.stages.moved(k, chains.block_mut());
        at.passed = k;
        let stepped = Stepped::of(chains.block_mut().len(), is_last);
        pulse.step(stepped, &|| chains.saved(at))?;
    }
    Ok(())
}

/// Takes the chains through `stage`, counted from 1 in the order in which stages are passed.
fn pass_stage<S>(settings: &Settings, chains: &mut dyn OnPath<S>, stage: usize) -> Result<()> {
    let betas = settings.schedule.betas();
    if settings.purpose.reads_backward() {
        return match betas.len() - 1 - stage {
            // A forward run makes no move at the base, so the reverse run ends with a weighing.
            0 => chains.weigh_to(0.0),
            k => chains.advance_to(betas[k]),
        };
    }
    // At the target the exact model moves the chains.
    let is_moved_later = chains.is_on_surrogates() && stage == settings.schedule.stages();
    match settings.weighs_alone(stage) || is_moved_later {
        true => chains.weigh_to(betas[stage]),
        false => chains.advance_to(betas[stage]),
    }
}

impl<P: AnnealingPath, R> Chains<P::State> for AtWork<'_, P, R> {
    fn block_mut(&mut self) -> &mut Block<P::State> {
        self.population.block_mut()
    }

    fn stay_masked(&mut self, mask: &mut Vec<bool>) -> Result<()> {
        let kernel = self.task.kernel.as_ref();
        self.population.stay_masked(kernel, mask)
    }
}

impl<P: AnnealingPath, R: Recorder<P::At>> OnPath<P::State> for AtWork<'_, P, R> {
    fn place_at_hand(&self) -> Place {
        self.population.place_at_hand()
    }

    fn advance_to(&mut self, beta: f64) -> Result<()> {
        let kernel = self.task.kernel.as_ref();
        self.population.advance_by(kernel, beta)
    }

    fn weigh_to(&mut self, beta: f64) -> Result<()> {
        self.population.weigh_to(beta)
    }

    fn stay(&mut self) -> Result<()> {
        self.population.stay_by(self.task.kernel.as_ref())
    }

    fn is_on_surrogates(&self) -> bool {
        self.population.is_on_surrogates()
    }

    fn enter_target(&mut self) -> Result<()> {
        self.population.enter_target(self.task.kernel.as_ref())
    }

    fn leave_target(&mut self) -> Result<()> {
        self.population.leave_target()
    }

    fn exact_log_weights(&self) -> Vec<f64> {
        self.population.exact_log_weights()
    }

    fn record(&mut self) {
        let (stage, block) = (self.population.stage(), self.population.block());
        self.recorder.record(stage, block);
    }

    fn saved(&self, progress: &Passed<P::State>) -> Result<Vec<u8>> {
        match self.task.codec {
            Some(codec) => (codec.write)(self, progress),
            None => Ok(Vec::new()),
        }
    }
}

impl<S> Passed<S> {
    fn new(settings: &Settings, copy: Option<CopyState<S>>, block: &Block<S>) -> Self {
        Self {
            passed: 0,
            stages: StageRecorder::new(settings.windows(), block.len()),
            genealogy: settings.genealogy(copy, block),
        }
    }

    fn finished<R>(
        mut self,
        block: &mut Block<S>,
        recorder: R,
        uncovered: usize,
    ) -> BlockResult<S, R> {
        let (states, log_weights) = block.take_states_and_log_weights();
        BlockResult {
            chains: FinalStates {
                states,
                log_weights,
                roots: self
                    .genealogy
                    .map_or(Vec::new(), |genealogy| genealogy.roots),
            },
            sums: StageSums {
                target: self.stages.target.take(),
                windows: self.stages.take(),
                recorder,
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
        caught(&mut || self.meet()).ok().and_then(Result::ok)
    }

    fn meet(&self) -> Result<Probe> {
        let (path, schedule) = (&self.path, &self.settings.schedule);
        let chains = PROBE_CHAINS.min(self.settings.largest_block());
        // The seed is 0 in every run, because pooled runs of different seeds compare their probes.
        let first = stream(0, Purpose::PROBE, 0);
        let population: Population<P> = Population::start(path.clone(), 0, chains, first)?;
        let mut population = self.settings.on_models(population);
        let states = population.block().states();
        let mut starts = vec![log_densities_of(path.base(), states)];
        let (betas, stages) = (schedule.betas(), schedule.stages());
        for stage in [1, stages.div_ceil(2), stages] {
            starts.push(log_densities_of(&path.at(betas[stage]), states));
        }
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
