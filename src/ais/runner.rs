//! The runner: blocks of chains through a schedule.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::options::Options;
use super::partial::{Outcome, PartialRun, Settings};
use super::population::Population;
use super::progress::{Meter, Progress};
use super::recorder::Recorder;
use super::run::Run;
use super::stages::StageRecorder;
use super::threads::on_threads;
use super::tree::{self, Forest};
use crate::chain::Block;
use crate::kernel::{TransitionKernel, check_stages};
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Annealed importance sampling (Neal 2001): each chain starts at an exact sample of the base,
/// passes the K stages of a schedule, and gathers the log weight
///
/// `log w = sum_k [log f_k(x_{k-1}) - log f_{k-1}(x_{k-1}) + correction_k]`,
///
/// so that `E[w] = Z_K / Z_0` exactly, however badly the kernel mixes.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::Gaussian;
/// use annealed::path::GeometricPath;
/// use annealed::model::NormalizedModel;
/// use annealed::schedule::Schedule;
/// use nalgebra::{dmatrix, dvector};
///
/// # fn main() -> annealed::Result<()> {
/// let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0])?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let run = Ais::new(&path, RandomWalkMetropolis::new(0.8)?)
///     .schedule(Schedule::linear(100)?)
///     .chains(1_000)
///     .seed(7)
///     .run()?;
/// let error = run.log_z() - target.log_normalizer();
/// assert!(error.abs() < 4.0 * run.standard_error());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Ais<'p, P: AnnealingPath, K, R = ()> {
    path: &'p P,
    kernel: K,
    recorder: R,
    options: Options,
    progress: Option<Box<dyn Fn(Progress) + Sync + 'p>>,
}

impl<'p, P, K> Ais<'p, P, K>
where
    P: AnnealingPath,
    P::Base: NormalizedModel,
    K: TransitionKernel<P::At<'p>>,
{
    /// A run along `path` from its base, whose normaliser is known, with `kernel` at each stage.
    pub fn new(path: &'p P, kernel: K) -> Self {
        let log_base_normalizer = path.base().log_normalizer();
        Self::with_base_log_z(path, kernel, log_base_normalizer)
    }
}

impl<'p, P, K> Ais<'p, P, K>
where
    P: AnnealingPath,
    K: TransitionKernel<P::At<'p>>,
{
    /// A run from a base that can be sampled and whose `log Z_0` the caller states: from an
    /// earlier run, say, or 0 to count log Z from the base (a free-energy difference between two
    /// unnormalised models, also given by [`Run::log_z_ratio`]).
    pub fn with_base_log_z(path: &'p P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            recorder: (),
            options: Options::new(log_base_normalizer),
            progress: None,
        }
    }
}

impl<'p, P: AnnealingPath, K, R> Ais<'p, P, K, R> {
    /// The schedule; linear with 1,000 stages unless set.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.options.schedule = Some(schedule);
        self
    }

    /// Number of chains N; 1,000 unless set.
    pub fn chains(mut self, chains: usize) -> Self {
        self.options.chains = chains;
        self
    }

    /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Marks the run as a pilot: its streams differ from those of a run with the same seed.
    ///
    /// What is learned from a pilot (a schedule, a step size) depends on its chains; a run that
    /// used the same chains again would no longer have `E[w] = Z_K / Z_0`.
    pub fn pilot(mut self) -> Self {
        self.options.purpose = Purpose::Pilot;
        self
    }

    /// Number of threads; rayon's global pool unless set. Without the feature `rayon` a run has
    /// one thread whatever is set.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = Some(threads);
        self
    }

    /// Number of chains that pass the schedule together; 128 unless set. Part of what fixes a
    /// result's bits, and the unit of work that threads share.
    pub fn block_size(mut self, chains: usize) -> Self {
        self.options.block_size = chains;
        self
    }

    /// Bound on the number of stages recorded; 1,000 unless set. Longer schedules are recorded
    /// at evenly spaced stages, of which the thermodynamic integral sees no more: keep it in the
    /// hundreds where that matters.
    pub fn recorded_stages(mut self, stages: usize) -> Self {
        self.options.recorded_stages = stages;
        self
    }

    /// Calls `progress` now and then, from whichever thread is at work.
    pub fn progress(mut self, progress: impl Fn(Progress) + Sync + 'p) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Shows a progress bar on the terminal (standard error) while the run lasts.
    #[cfg(feature = "progress")]
    pub fn progress_bar(self) -> Self {
        self.progress(super::progress::bar())
    }

    /// Watches the run with a recorder, found again in [`Run::recorder`].
    pub fn recorder<Q>(self, recorder: Q) -> Ais<'p, P, K, Q> {
        Ais {
            path: self.path,
            kernel: self.kernel,
            recorder,
            options: self.options,
            progress: self.progress,
        }
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Sync,
    P::State: Send,
    K: TransitionKernel<P::At<'p>> + Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    /// Runs all chains.
    ///
    /// # Errors
    /// Settings out of range; a NaN or `+inf` met on the way, with chain, stage and beta;
    /// [`Error::AllWeightsZero`].
    pub fn run(&self) -> Result<Run<P::State, R>> {
        PartialRun::merge([self.run_range(0..self.options.chains)?])
    }

    /// Runs the chains of an index range only, as given by [`ranges`](Self::ranges), to be merged
    /// by [`PartialRun::merge`] with those that other processes ran: the result has the same bits
    /// as a single run's.
    ///
    /// # Errors
    /// As [`run`](Self::run); a range that does not consist of whole blocks
    /// ([`block_size`](Self::block_size)), but for the last.
    pub fn run_range(&self, chains: Range<usize>) -> Result<PartialRun<P::State, R>> {
        let begun = Instant::now();
        let settings = self.settings()?;
        let blocks = settings.blocks_of(&chains)?;
        check_stages(self.kernel.stages(), &settings.schedule)?;
        // More threads than blocks would have nothing to do.
        let threads = self
            .options
            .threads
            .map(|threads| threads.min(blocks.len()));
        let mut nodes = None;
        on_threads(threads, &mut || {
            nodes = Some(self.run_blocks(blocks.clone(), &settings));
        })?;
        Ok(PartialRun {
            nodes: nodes.expect("the work has been done")?,
            settings,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, about equally long, one for
    /// each process that calls [`run_range`](Self::run_range).
    ///
    /// # Errors
    /// Where `parts` is 0, or as [`run`](Self::run) for settings out of range.
    pub fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        self.settings()?.ranges(parts)
    }

    fn settings(&self) -> Result<Settings> {
        self.options.settings(self.path.engine())
    }

    fn run_blocks(
        &self,
        blocks: Range<usize>,
        settings: &Settings,
    ) -> Result<Forest<Outcome<P::State, R>>> {
        let meter = Meter::new(self.progress.as_deref(), settings.chain_steps(&blocks));
        let streams = settings.block_streams(&blocks);
        let failed = AtomicUsize::new(usize::MAX);
        let leaf = |block: usize| {
            let stream = streams[block - blocks.start].clone();
            let canceled = || failed.load(Ordering::Relaxed) < block;
            let outcome = self.run_block(settings, block, stream, &meter, canceled);
            if outcome.is_err() {
                failed.fetch_min(block, Ordering::Relaxed);
            }
            outcome
        };
        // Of several errors the leftmost block's is reported, and that one was not canceled.
        tree::map_reduce(blocks.clone(), &leaf).map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Canceled => unreachable!("a block is canceled only by one to its left"),
        })
    }

    fn run_block(
        &self,
        settings: &Settings,
        index: usize,
        stream: StreamRng,
        meter: &Meter<'_>,
        canceled: impl Fn() -> bool,
    ) -> Result<Outcome<P::State, R>, Stop> {
        let chains = settings.chains_of(index);
        let mut population = Population::start(self.path, chains.start, chains.len(), stream)?;
        let mut stages = StageRecorder::new(settings.windows, chains.len());
        let mut recorder = self.recorder.clone();
        for (k, &beta) in settings.schedule.betas().iter().enumerate().skip(1) {
            stages.before(k, population.block());
            population.advance_to(&self.kernel, beta)?;
            stages.after(k, population.block());
            if settings.windows.ends_at(k) {
                recorder.record(population.stage(), population.block());
            }
            meter.add(chains.len());
            if canceled() {
                return Err(Stop::Canceled);
            }
        }
        Ok(self.finish_block(population.into_block(), stages, recorder))
    }

    fn finish_block(
        &self,
        block: Block<P::State>,
        stages: StageRecorder,
        recorder: R,
    ) -> Outcome<P::State, R> {
        let base = self.path.base();
        let uncovered =
            |&chain: &usize| base.log_density(&block.states()[chain]) == f64::NEG_INFINITY;
        let uncovered = block.alive().filter(uncovered).count();
        let (states, log_weights) = block.into_states_and_log_weights();
        Outcome {
            uncovered,
            windows: stages.finish(),
            recorder,
            log_weights,
            states,
        }
    }
}

/// Why a block ended early.
enum Stop {
    Failed(Error),
    Canceled,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<P: AnnealingPath, K: std::fmt::Debug, R> std::fmt::Debug for Ais<'_, P, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ais")
            .field("kernel", &self.kernel)
            .field("schedule", &self.options.schedule)
            .field("chains", &self.options.chains)
            .field("seed", &self.options.seed)
            .field("block_size", &self.options.block_size)
            .finish_non_exhaustive()
    }
}
