//! The runner, which takes blocks of chains through a schedule.

use std::ops::Range;
use std::sync::Arc;

use super::along::Along;
use super::partial::RunPart;
use super::plan::Plan;
use super::recorder::Recorder;
use super::run::Run;
use super::settings::Settings;
use super::task::{AisTask, Keep};
use crate::Result;
use crate::kernel::{Invariant, TransitionKernel};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::population::Resampling;
use crate::population::WasteFree;
use crate::population::{CopyState, Selection};
use crate::random::Purpose;
use crate::schedule::Schedule;
use crate::work::{Execution, controls};

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
    pub(crate) path: &'p P,
    pub(crate) kernel: K,
    pub(crate) recorder: R,
    pub(crate) settings: Settings,
    pub(crate) execution: Execution<'p>,
    /// How states are copied, known where the run resamples.
    pub(crate) copy: Option<CopyState<P::State>>,
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
            execution: Execution::default(),
            copy: None,
        }
    }
}

impl<'p, P: AnnealingPath, K, R> Ais<'p, P, K, R> {
    setters! {
        /// The schedule; linear with 1,000 stages unless set.
        schedule of settings: Schedule,
        /// Number of chains N, or the most where the run may end before; 4,096 unless set: 32 blocks, so that up to 32 threads are busy. The standard error
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

    controls! { 'p, "The result is that of a run of the finished blocks, as far as no block before them is missing." }

    /// Ends the run when its standard error is so small, in nats; [`chains`](Self::chains) is the most that it
    /// may have.
    ///
    /// The error is looked at after 500 chains (10 blocks where chains interact), and then after each tenth
    /// more, always after the same blocks, so that the result does not depend on threads. It is that of a run
    /// with so many chains. A run that ends before it is that small
    /// [warns](crate::estimate::Warning::ErrorNotReached). To stop when an error looks small favours runs that lack their largest weights;
    /// what this does to bias and coverage is measured in `docs/long-runs.md`.
    pub fn until_error(mut self, standard_error: f64) -> Self {
        self.execution.until_error = Some(standard_error);
        self
    }

    /// Watches the run with a recorder, which [`Run::recorder`] returns afterwards.
    pub fn recorder<Q>(self, recorder: Q) -> Ais<'p, P, K, Q> {
        Ais {
            path: self.path,
            kernel: self.kernel,
            recorder,
            settings: self.settings,
            execution: self.execution,
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
        self.interacting(Selection::Resampling(resampling))
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
        self.interacting(Selection::WasteFree(waste_free))
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

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Sync,
    P::State: Send,
    K: TransitionKernel<P::At<'p>> + Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    /// Runs all chains, or as many as [`until_error`](Self::until_error), [`time_limit`](Self::time_limit) and
    /// the progress callback allow. The result is that of a run with so many chains.
    ///
    /// Eight more chains, with streams of their own, are weighed at three stages and moved at the first: some fifty
    /// evaluations of the density, in which no result shows. By them [`extend`](Self::extend),
    /// [`RunPart::merge`], [`Run::pooled`] and [`Bridge`](crate::bidirectional::Bridge) tell runs of another path or kernel.
    ///
    /// # Errors
    /// Settings out of range; a NaN or `+inf` met on the way, with chain, stage and beta; a panic in
    /// model, kernel, recorder or progress callback, likewise; [`Error::AllWeightsZero`];
    /// [`Error::Stopped`] where the run was stopped before its first block was done.
    pub fn run(&self) -> Result<Run<P::State, R>> {
        self.plan().run()
    }

    /// Returns the run, the types of its path and kernel forgotten.
    pub(crate) fn plan(&self) -> Plan<'_, P::State, R> {
        self.plan_along(Along::new(self.path, &self.kernel))
    }

    /// Returns the run along its path by its kernel.
    pub(crate) fn plan_along<'t>(&'t self, along: Along<'t, 'p, P>) -> Plan<'t, P::State, R> {
        Plan {
            along: Arc::new(along),
            settings: &self.settings,
            execution: &self.execution,
            recorder: &self.recorder,
            copy: self.copy,
        }
    }

    /// Runs the chains that a part or a finished run of the same seed lacks. The result has the bits of a run
    /// of [`chains`](Self::chains) in one go. These may be more than it was meant to have; then a last block
    /// that was not full is run again.
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
    /// As [`run`](Self::run); a part with other settings, or with more chains; one of another path or kernel, as far
    /// as [a few chains](Self::run) show it.
    pub fn extend(&self, done: impl Into<RunPart<P::State, R>>) -> Result<Run<P::State, R>> {
        self.plan().extend(done.into())
    }

    /// Runs the chains of an index range only, as given by [`ranges`](Self::ranges). Merged by
    /// [`RunPart::merge`] with the ranges that other processes ran, the result has the same bits
    /// as that of a single run. [`time_limit`](Self::time_limit) and progress callback may stop it before its
    /// end; then the part says what is [missing](RunPart::missing).
    ///
    /// # Errors
    /// As [`run`](Self::run); a range that does not consist of whole blocks
    /// ([`block_size`](Self::block_size)), but for the last; [`until_error`](Self::until_error), since one
    /// part does not know the error of all.
    pub fn run_range(&self, chains: Range<usize>) -> Result<RunPart<P::State, R>> {
        self.plan().run_range(&chains)
    }

    /// Cuts the chains into at most `parts` ranges of whole blocks, about equally long, one for
    /// each process that calls [`run_range`](Self::run_range).
    ///
    /// # Errors
    /// Where `parts` is 0, or as [`run`](Self::run) for settings out of range.
    pub fn ranges(&self, parts: usize) -> Result<Vec<Range<usize>>> {
        self.settings.check()?;
        self.settings.ranges(parts)
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath<State: Send> + Sync,
    K: TransitionKernel<P::At<'p>> + Send + Sync,
    R: Recorder<P::At<'p>> + Send + Sync,
{
    /// Returns the work of this run, as a part of longer work.
    pub(crate) fn into_task<'t>(
        self,
        along: fn(&'p P, K) -> Along<'t, 'p, P>,
    ) -> Result<AisTask<'t, P::State, R, P::State>>
    where
        'p: 't,
        K: 't,
    {
        let along = Arc::new(along(self.path, self.kernel));
        let chains = 0..self.settings.chains;
        let kept: (_, _, Keep<_, _>) = (self.recorder, self.copy, |states| states);
        AisTask::new(along, self.settings, &chains, kept)
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
