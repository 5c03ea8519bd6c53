//! The runner, which takes blocks of chains through a schedule.

use std::ops::Range;
use std::time::Instant;

use super::blocks::{caught, run_blocks};
use super::lineage::{CopyState, Interaction, Lineage};
use super::partial::{Outcome, PartialRun};
use super::population::Population;
use super::progress::{Meter, Progress};
use super::recorder::Recorder;
use super::resampling::Resampling;
use super::run::Run;
use super::settings::Settings;
use super::stages::StageRecorder;
use super::tree::Forest;
use super::waste_free::WasteFree;
use crate::chain::Block;
use crate::kernel::{Invariant, TransitionKernel, Workspace, check_stages};
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::setters;
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
/// use annealed::model::{Gaussian, NormalizedModel};
/// use annealed::path::GeometricPath;
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
    pub(super) path: &'p P,
    pub(super) kernel: K,
    recorder: R,
    pub(super) settings: Settings,
    threads: Option<usize>,
    progress: Option<Box<dyn Fn(Progress) + Sync + 'p>>,
    /// How states are copied, known where the run resamples.
    copy: Option<CopyState<P::State>>,
}

impl<'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> Ais<'p, P, K> {
    /// A run along `path` from its base, whose normaliser is known, with `kernel` at each stage.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self::with_base_log_z(path, kernel, path.base().log_normalizer())
    }

    /// A run from a base that can be sampled and whose `log Z_0` the caller states: from an
    /// earlier run, say, or 0 to count log Z from the base (a free-energy difference between two
    /// unnormalised models, also given by [`Run::log_z_ratio`]).
    pub fn with_base_log_z(path: &'p P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            recorder: (),
            settings: Settings::new(path, log_base_normalizer),
            threads: None,
            progress: None,
            copy: None,
        }
    }
}

impl<'p, P: AnnealingPath, K, R> Ais<'p, P, K, R> {
    setters! {
        /// The schedule; linear with 1,000 stages unless set.
        schedule of settings: Schedule,
        /// Number of chains N; 4,096 unless set: 32 blocks, so that up to 32 threads are busy. The standard error
        /// falls with the square root of N, and time grows with N: 1,024 chains have a quarter of the price, twice
        /// the error, and work for 8 threads.
        chains of settings: usize,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed of settings: u64,
        /// Number of chains that pass the schedule together; 128 unless set. It is part of what fixes
        /// a result's bits, and the unit of work that threads share.
        block_size of settings: usize,
        /// Bound on the number of stages recorded; 1,000 unless set. Of a longer schedule, evenly spaced
        /// stages are recorded. The thermodynamic integral sees only these: where it matters, let there
        /// be hundreds of them.
        recorded_stages of settings: usize,
    }

    /// Marks the run as a pilot: its streams differ from those of a run with the same seed.
    ///
    /// What is learned from a pilot (a schedule, a step size) depends on its chains; a run that
    /// used the same chains again would no longer have `E[w] = Z_K / Z_0`.
    pub fn pilot(mut self) -> Self {
        self.settings.purpose = Purpose::Pilot;
        self
    }

    /// Number of threads; rayon's global pool unless set, or for `None`. Without the feature `rayon` a run has
    /// one thread whatever is set.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Calls `progress` at most about a thousand times a run, from whichever thread is at work.
    pub fn progress(mut self, progress: impl Fn(Progress) + Sync + 'p) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Shows a progress bar on the terminal (standard error) while the run lasts.
    #[cfg(feature = "progress")]
    pub fn progress_bar(self) -> Self {
        self.progress(super::progress::bar())
    }

    /// Watches the run with a recorder, which [`Run::recorder`] returns afterwards.
    pub fn recorder<Q>(self, recorder: Q) -> Ais<'p, P, K, Q> {
        Ais {
            path: self.path,
            kernel: self.kernel,
            recorder,
            settings: self.settings,
            threads: self.threads,
            progress: self.progress,
            copy: self.copy,
        }
    }

    /// Resamples the chains of each block between stages: sequential Monte Carlo. No chain is resampled
    /// after the last stage.
    ///
    /// From 10 blocks on, standard error and interval come from the differences between these islands, which
    /// are independent. With fewer they come from families, the chains that descend from one first chain:
    /// their sums of weights are to the estimate what single weights are without resampling (Lee and
    /// Whiteley 2018). [`Run::effective_sample_size`] counts islands or families. Where too few carry weight
    /// ([`Run::surviving_ancestors`]), the run [warns](crate::estimate::Warning::FewFamilies).
    pub fn resampling(self, resampling: Resampling) -> Self
    where
        P::State: Clone,
    {
        self.interacting(Interaction::Resampling(resampling))
    }

    /// Draws a few ancestors in each block after each stage, and keeps all states of the trajectories that
    /// start there: waste-free sequential Monte Carlo. The kernel must leave each model
    /// [`Invariant`]. Errors are those of a [resampled](Self::resampling) run; of the two settings the last
    /// one holds.
    pub fn waste_free(self, waste_free: WasteFree) -> Self
    where
        P::State: Clone,
        K: Invariant<P::At<'p>>,
    {
        self.interacting(Interaction::WasteFree(waste_free))
    }

    fn interacting(mut self, interaction: Interaction) -> Self
    where
        P::State: Clone,
    {
        self.settings.interaction = Some(interaction);
        self.copy = Some(P::State::clone);
        self
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
    /// Settings out of range; a NaN or `+inf` met on the way, with chain, stage and beta; a panic in
    /// model, kernel, recorder or progress callback, likewise; [`Error::AllWeightsZero`].
    pub fn run(&self) -> Result<Run<P::State, R>> {
        PartialRun::merge([self.run_range(0..self.settings.chains)?])
    }

    /// Runs the chains of an index range only, as given by [`ranges`](Self::ranges). Merged by
    /// [`PartialRun::merge`] with the ranges that other processes ran, the result has the same bits
    /// as that of a single run.
    ///
    /// # Errors
    /// As [`run`](Self::run); a range that does not consist of whole blocks
    /// ([`block_size`](Self::block_size)), but for the last.
    pub fn run_range(&self, chains: Range<usize>) -> Result<PartialRun<P::State, R>> {
        let betas = self.settings.schedule.betas();
        self.run_part(
            &self.settings,
            &chains,
            self.kernel.stages(),
            |chains, stream| Population::start(self.path, chains.start, chains.len(), stream),
            |population, k| match self.settings.weighs_alone(k) {
                true => population.weigh_to(betas[k]),
                false => population.advance_to(&self.kernel, betas[k]),
            },
            |population, mask| population.stay_masked(&self.kernel, mask),
        )
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, about equally long, one for
    /// each process that calls [`run_range`](Self::run_range).
    ///
    /// # Errors
    /// Where `parts` is 0, or as [`run`](Self::run) for settings out of range.
    pub fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        self.check(&self.settings)?;
        self.settings.ranges(parts)
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Sync,
    P::State: Send,
    K: Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    fn check(&self, settings: &Settings) -> Result<()> {
        settings.check()?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)
    }

    /// Takes the chains of a range through all stages. `demanded` is the number of stages that the kernel
    /// demands. `start` places a block's chains, given their indices and the stream of the first; `pass`
    /// takes them through one stage; `stay` moves those of a mask once more where they stand.
    pub(super) fn run_part<W: Workspace>(
        &self,
        settings: &Settings,
        chains: &Range<usize>,
        demanded: Option<usize>,
        start: impl Fn(Range<usize>, StreamRng) -> Result<Population<'p, P, W>> + Sync,
        pass: impl Fn(&mut Population<'p, P, W>, usize) -> Result<()> + Sync,
        stay: impl Fn(&mut Population<'p, P, W>, &mut Vec<bool>) -> Result<()> + Sync,
    ) -> Result<PartialRun<P::State, R>> {
        let begun = Instant::now();
        self.check(settings)?;
        let blocks = settings.blocks_of(chains)?;
        check_stages("steps of the schedule", demanded, &settings.schedule)?;
        Ok(PartialRun {
            nodes: self.run_blocks(settings, &blocks, start, pass, stay)?,
            settings: settings.clone(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn run_blocks<W: Workspace>(
        &self,
        settings: &Settings,
        blocks: &Range<usize>,
        start: impl Fn(Range<usize>, StreamRng) -> Result<Population<'p, P, W>> + Sync,
        pass: impl Fn(&mut Population<'p, P, W>, usize) -> Result<()> + Sync,
        stay: impl Fn(&mut Population<'p, P, W>, &mut Vec<bool>) -> Result<()> + Sync,
    ) -> Result<Forest<Outcome<P::State, R>>> {
        let chains = settings.chains_of(blocks.clone()).len() as u64;
        let chain_steps = chains.saturating_mul(settings.schedule.steps() as u64);
        let meter = Meter::new(self.progress.as_deref(), chain_steps);
        let streams = settings.block_streams(blocks);
        run_blocks(blocks.clone(), self.threads, &|block, canceled| {
            let chains = settings.chains_of(block..block + 1);
            let stream = streams[block - blocks.start].clone();
            let mut population = None;
            let passed = caught(|| {
                let population = population.insert(start(chains.clone(), stream)?);
                self.run_block(settings, population, &pass, &stay, |chains| {
                    meter.add(chains);
                    canceled()
                })
            });
            // A panic on the way is an error that names its place.
            passed.unwrap_or_else(|message| Err(Some(panicked(message, population, chains))))
        })
    }

    /// Takes one block through all stages. The error is `None` where `canceled`, which is told of every
    /// stage done, says so.
    fn run_block<W: Workspace>(
        &self,
        settings: &Settings,
        population: &mut Population<'p, P, W>,
        pass: &impl Fn(&mut Population<'p, P, W>, usize) -> Result<()>,
        stay: &impl Fn(&mut Population<'p, P, W>, &mut Vec<bool>) -> Result<()>,
        canceled: impl Fn(usize) -> bool,
    ) -> Result<Outcome<P::State, R>, Option<Error>> {
        let windows = settings.windows();
        let mut stages = StageRecorder::new(windows, population.block().len());
        let mut recorder = self.recorder.clone();
        let mut lineage = self.lineage(settings, population.block());
        let steps = settings.schedule.steps();
        for k in 1..=steps {
            pass(population, k)?;
            stages.after(k, population.block());
            if windows.ends_at(k) {
                recorder.record(population.stage(), population.block());
            }
            if let Some(lineage) = lineage.as_mut().filter(|_| k < steps) {
                lineage.resample(k, population, &mut stages, stay)?;
            }
            stages.moved(k, population.block());
            if canceled(population.block().len()) {
                return Err(None);
            }
        }
        let uncovered = self.uncovered(population.block());
        let (states, log_weights) = population.block_mut().take_states_and_log_weights();
        Ok(Outcome {
            uncovered,
            roots: lineage.map_or(Vec::new(), Lineage::into_roots),
            windows: stages.finish(),
            recorder,
            log_weights,
            states,
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

impl<P: AnnealingPath, K: std::fmt::Debug, R> std::fmt::Debug for Ais<'_, P, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ais")
            .field("kernel", &self.kernel)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
