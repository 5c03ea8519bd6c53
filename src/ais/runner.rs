//! The annealed run and its settings.

use std::ops::Range;
use std::time::Instant;

use super::block_result::BlockResult;
use super::partial::RunPart;
use super::recorder::Recorder;
use super::run::Run;
use super::settings::Settings;
use super::task::AisTask;
use crate::kernel::{Invariant, TransitionKernel, check_stages};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::population::{CopyState, Resampling, Selection, WasteFree};
use crate::random::Purpose;
use crate::schedule::Schedule;
use crate::work::{Execution, Forest, Job, Probe, Task, controls};
use crate::{Error, Result};

/// Annealed importance sampling (Neal 2001). Each chain starts at an exact sample of the base, passes the K stages of a
/// schedule, and adds up the log weight
///
/// `log w = sum_k [log f_k(x_{k-1}) - log f_{k-1}(x_{k-1}) + correction_k]`,
///
/// so that `E[w] = Z_K / Z_0` exactly, however badly the kernel mixes.
///
/// ```
/// use annealed::ais::Ais;
/// use annealed::estimate::LogZ;
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
#[doc(alias(
    "annealed importance sampling",
    "partition function",
    "normalizing constant"
))]
pub struct Ais<'e, P: AnnealingPath, K, R = ()> {
    pub(crate) path: P,
    pub(crate) kernel: K,
    pub(crate) recorder: R,
    pub(crate) settings: Settings,
    pub(crate) execution: Execution<'e>,
    pub(crate) copy: Option<CopyState<P::State>>,
}

impl<P: AnnealingPath, K: TransitionKernel<P::At>> Ais<'_, P, K> {
    /// Creates a run along `path` with `kernel` at each stage. The base's normaliser must be known.
    pub fn new(path: P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        let log_z = path.base().log_normalizer();
        Self::with_base_log_z(path, kernel, log_z)
    }

    /// Creates a run from a base with the given `log Z_0`. With 0, the result is log Z relative to the base.
    pub fn with_base_log_z(path: P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            settings: Settings::new(&path, log_base_normalizer),
            path,
            kernel,
            recorder: (),
            execution: Execution::default(),
            copy: None,
        }
    }
}

impl<'e, P: AnnealingPath, K, R> Ais<'e, P, K, R> {
    setters! {
        /// Sets the schedule; linear with 1,000 stages by default.
        schedule of settings: Schedule,
        /// Sets the number of chains; 4,096 by default, which keep up to 32 threads busy. With
        /// [`until_error`](Self::until_error) it is the maximum. The standard error falls as `1 / sqrt(chains)`.
        chains of settings: usize,
        /// Sets the seed; 0 by default. One seed gives the same bits for any number of threads.
        seed of settings: u64,
        /// Sets the number of chains in a block, the unit of work; 128 by default. It affects the result's bits.
        block_size of settings: usize,
        /// Sets the maximum number of recorded stages; 1,000 by default. In a longer schedule they are evenly spaced.
        /// The thermodynamic integral uses only the recorded stages, so record hundreds if you need it.
        recorded_stages of settings: usize,
        /// Ends the run once its standard error is at most `standard_error`, in nats. [`chains`](Self::chains) is the
        /// maximum; a run that ends with a larger error [warns](crate::estimate::Warning::ErrorNotReached).
        ///
        /// The error is checked after 500 chains (at least 10 blocks if chains interact), then after every 10% more, in
        /// whole blocks. The result does not depend on threads. Early stopping favours runs that lack their largest
        /// weights; `docs/long-runs.md` measures bias and coverage.
        until_error of execution in Some: f64,
    }

    /// Records the stages at these betas of the schedule, in addition to the [usual ones](Self::recorded_stages), and
    /// keeps their weights (8 bytes for each chain and beta). [`Run::log_z_along`] then has errors and intervals.
    ///
    /// ```
    /// # use annealed::prelude::*;
    /// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
    /// let betas = [0.25, 0.5, 1.0];
    /// let schedule = Schedule::power(50, 2.0)?.with_betas(betas)?;
    /// let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7)?).schedule(schedule);
    /// for at in ais.record_at(betas).run()?.log_z_along() {
    ///     println!("{at}");
    /// #   let exact = 0.5 * std::f64::consts::TAU.ln() - 0.5 * (1.0 + 3.0 * at.beta).ln();
    /// #   assert!((at.log_z - exact).abs() < 4.0 * at.standard_error);
    /// }
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn record_at(mut self, betas: impl IntoIterator<Item = f64>) -> Self {
        self.settings.record_at = betas.into_iter().collect();
        self
    }

    /// Marks the run as a pilot, whose streams differ from the streams of a run with the same seed. If a run learned
    /// its schedule or step size from its own chains, `E[w] = Z_K / Z_0` would not hold.
    pub fn pilot(mut self) -> Self {
        self.settings.purpose = Purpose::PILOT;
        self
    }

    controls! { 'e, "The result is that of a run of the finished blocks, as far as no block before them is missing." }

    /// Sets a recorder that watches the run; [`Run::recorder`] returns it afterwards.
    pub fn recorder<Q>(self, recorder: Q) -> Ais<'e, P, K, Q> {
        Ais {
            path: self.path,
            kernel: self.kernel,
            recorder,
            settings: self.settings,
            execution: self.execution,
            copy: self.copy,
        }
    }

    /// Resamples the chains of each block between stages, but not after the last (sequential Monte Carlo).
    ///
    /// With 10 or more blocks, standard errors come from the differences between the blocks, which are independent
    /// islands. With fewer, they come from families; a family is all descendants of one initial chain (Lee and Whiteley
    /// 2018). [`Run::effective_sample_size`] counts islands or families. If too few carry weight, the run
    /// [warns](crate::estimate::Warning::FewFamilies); see [`Run::surviving_ancestors`].
    pub fn resampling(self, resampling: Resampling) -> Self
    where
        P::State: Clone,
    {
        self.interacting(Selection::Resampling(resampling))
    }

    /// Draws a few ancestors in each block after each stage but the last, and keeps all states of their trajectories:
    /// waste-free sequential Monte Carlo. The kernel must leave each model [`Invariant`]. Standard errors are computed
    /// as in a [resampled](Self::resampling) run. If you call both methods, the last call counts.
    pub fn waste_free(self, waste_free: WasteFree) -> Self
    where
        P::State: Clone,
        K: Invariant<P::At>,
    {
        self.interacting(Selection::WasteFree(waste_free))
    }

    /// Makes the chains use the path's own models instead of surrogates, for pilots that measure these models.
    pub(crate) fn without_surrogates(mut self) -> Self {
        self.settings.has_surrogates = false;
        self
    }

    fn interacting(mut self, selection: Selection) -> Self
    where
        P::State: Clone,
    {
        self.settings.selection = Some(selection);
        self.copy = Some(P::State::clone);
        self
    }
}

impl<P, K, R> Ais<'_, P, K, R>
where
    P: AnnealingPath + Send + Sync,
    P::State: Send,
    K: TransitionKernel<P::At> + Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Runs all chains, or as many as [`until_error`](Self::until_error), [`time_limit`](Self::time_limit) and the
    /// progress callback allow. The result equals the result of a run with that number of chains.
    ///
    /// Eight further chains probe path and kernel, without effect on results. With their values
    /// [`extend`](Self::extend), [`RunPart::merge`], [`Run::pooled`] and [`Bridge`](crate::bidirectional::Bridge) can
    /// refuse another path or kernel.
    ///
    /// # Errors
    /// Settings out of range; a NaN, `+inf` or panic in model, kernel, recorder or progress callback, with chain, stage
    /// and beta; [`Error::AllWeightsZero`](crate::Error::AllWeightsZero); [`Error::Stopped`](crate::Error::Stopped) if
    /// the run was stopped before its first block was done.
    pub fn run(&self) -> Result<Run<P::State, R>> {
        self.task()?
            .run_all(&mut Job::new(&self.execution)?, self.execution.until_error)
    }

    /// Returns the task that runs all chains.
    pub(crate) fn task(&self) -> Result<AisTask<'_, P, R>> {
        let settings = self.settings.clone();
        self.task_by(&self.kernel, settings, &(0..self.settings.chains))
    }

    /// Returns the task that runs `chains` with the given kernel and settings.
    ///
    /// # Errors
    /// Settings out of range; chains that are not whole blocks; a kernel that requires another number of stages.
    pub(crate) fn task_by<'t>(
        &self,
        kernel: impl TransitionKernel<P::At> + Send + Sync + 't,
        settings: Settings,
        chains: &Range<usize>,
    ) -> Result<AisTask<'t, P, R>> {
        settings.check()?;
        let blocks = settings.blocks_of(chains)?;
        check_stages("steps of the schedule", kernel.stages(), &settings.schedule)?;
        Ok(AisTask {
            path: self.path.clone(),
            kernel: Box::new(kernel),
            streams: settings.streams(blocks.start),
            settings,
            blocks,
            recorder: self.recorder.clone(),
            copy: self.copy,
            samples: None,
            codec: None,
        })
    }

    /// Runs the chains that are missing from a part or finished run of the same seed. The result has the bits of one
    /// run of [`chains`](Self::chains), which may exceed the part's own number. A partial last block is then run again.
    ///
    /// ```
    /// # use annealed::prelude::*;
    /// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
    /// # let kernel = RandomWalkMetropolis::new(0.7)?;
    /// let ais = |chains| Ais::new(&path, &kernel).chains(chains);
    /// let run = ais(300).run()?;
    /// let longer = ais(1_000).extend(run)?;
    /// assert_eq!(longer.log_z(), ais(1_000).run()?.log_z());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); a part with more chains, other settings, or another path or kernel, as far as [a few
    /// chains](Self::run) detect it.
    pub fn extend(&self, done: impl Into<RunPart<P::State, R>>) -> Result<Run<P::State, R>> {
        self.settings.check()?;
        let mut done = done.into();
        done.check()?;
        done.check_order()?;
        let (seconds, found) = (done.seconds, done.probe.take());
        let done = done.continued(&self.settings)?;
        let task = self.task()?;
        Probe::check_found(task.probe().as_ref(), found.as_ref())?;
        let part = self.extended(&task, done)?;
        let mut run = task.concluded(part, self.execution.until_error)?;
        run.add_seconds(seconds);
        Ok(run)
    }

    /// Runs a range of chains, as returned by [`ranges`](Self::ranges). [`RunPart::merge`] joins it with the ranges of
    /// other processes; the result has the bits of a single run. If [`time_limit`](Self::time_limit) or the progress
    /// callback stops it, the part lists what is [missing](RunPart::missing).
    ///
    /// # Errors
    /// As [`run`](Self::run); a range that is not made of whole blocks ([`block_size`](Self::block_size));
    /// [`until_error`](Self::until_error), because one part cannot compute the error of all.
    pub fn run_range(&self, chains: Range<usize>) -> Result<RunPart<P::State, R>> {
        if let Some(found) = self.execution.until_error {
            let expected = "none for a part of a run, which does not know the error of all";
            return Err(Error::invalid("until_error", found, expected));
        }
        let task = self.task_by(&self.kernel, self.settings.clone(), &chains)?;
        let part = self.extended(&task, Forest::new())?;
        Ok(RunPart {
            probe: task.probe(),
            ..part
        })
    }

    /// Runs the blocks that are not `done`.
    fn extended(
        &self,
        task: &AisTask<'_, P, R>,
        done: Forest<BlockResult<P::State, R>>,
    ) -> Result<RunPart<P::State, R>> {
        let job = Job::new(&self.execution)?;
        job.foresee(task.cost(task.blocks()));
        let begun = Instant::now();
        Ok(task.result(job.extend(task, done)?, begun))
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, of about equal size, for
    /// [`run_range`](Self::run_range).
    ///
    /// # Errors
    /// `parts` of 0; settings out of range.
    pub fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        self.settings.check()?;
        self.settings.ranges(parts)
    }
}

crate::num::debug_by_fields! {
    Ais for [P: AnnealingPath, K: std::fmt::Debug, R] Ais<'_, P, K, R> { kernel, settings }
}
