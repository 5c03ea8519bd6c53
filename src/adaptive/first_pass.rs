//! A first pass of a population along a path, which finds stages and kernel.

use std::fmt;

use nalgebra::DVector;

use super::barrier::Barrier;
use super::covariance::Shapes;
use super::tuner::Tuner;
use crate::kernel::{TransitionKernel, Tunable};
use crate::model::{Latent, NormalizedModel};
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Execution, Job, controls};
use crate::{Error, Result};

/// A first pass of a population along a path, which finds the stages and tunes the kernel of later runs.
///
/// Each stage goes as far as its effective sample size allows; the chains are then resampled and moved. A kernel over
/// `R^d` is tuned: its step size by the acceptance, and its shape (a mass matrix for [`Hmc`](crate::kernel::Hmc)) by the
/// chains' covariance, or by their deviations if there are fewer than four chains per dimension.
///
/// ```
/// use annealed::prelude::*;
/// use nalgebra::dmatrix;
///
/// let covariance = dmatrix![1.0, 0.099; 0.099, 0.01]; // long and narrow
/// let target = Gaussian::new(DVector::from_element(2, 1.0), covariance)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let found = FirstPass::new(&path, Hmc::new(0.5, 3)?).chains(500).seed(1).run()?;
/// println!("{found}");
/// let run = Ais::new(&path, &found.kernel).schedule(found.barrier.schedule(100)?).seed(1).run()?;
/// println!("{run}");
/// # assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # assert!(run.effective_sample_size() > 1_200.0, "{run}");
///
/// // Sequential Monte Carlo along the stages found.
/// let smc = Ais::new(&path, Repeat::new(found.kernel, 5)?)
///     .schedule(found.schedule)
///     .resampling(Resampling::every(1)?)
///     .run()?;
/// println!("{smc}");
/// # assert!((smc.log_z() - target.log_normalizer()).abs() < 4.0 * smc.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Stages and kernel depend on the chains, so the pass's own log Z is biased by `O(1/N)`. A later run has other random
/// streams, even with the same seed, so its weights are unbiased. [`Rounds`](super::Rounds) begins with this pass,
/// improves stages and kernel further, and estimates log Z.
///
/// Sources: Del Moral, Doucet and Jasra (2012); Beskos, Jasra, Kantas and Thiery (2016) on the bias.
#[must_use]
#[doc(alias(
    "AdaptiveSmc",
    "StepSizes",
    "step size",
    "adaptive SMC",
    "SMC",
    "sequential Monte Carlo",
    "adaptive tempering",
    "step sizes",
    "step size adaptation"
))]
pub struct FirstPass<'p, P: AnnealingPath, K> {
    pub(super) path: P,
    pub(super) kernel: K,
    pub(super) tuner: Option<Tuner<K, P::State>>,
    pub(super) base_log_z: f64,
    pub(super) chains: usize,
    pub(super) ess_share: f64,
    pub(super) moves: usize,
    pub(super) block_size: usize,
    pub(super) seed: u64,
    pub(super) execution: Execution<'p>,
}

/// The result of a [`FirstPass`].
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct FirstPassRun<K> {
    /// The stages.
    pub schedule: Schedule,
    /// The kernel, tuned at each stage.
    pub kernel: K,
    /// The barrier along the path, by the intensities of the stages.
    pub barrier: Barrier,
    /// Estimate of log Z by this pass, biased by `O(1/N)`.
    pub log_z: f64,
    /// Evaluations of the target; a value with its gradient counts as one.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    pub(super) shapes: Shapes,
}

impl<K> fmt::Display for FirstPassRun<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stages, lambda) = (self.schedule.stages(), self.barrier.global());
        let (evaluations, seconds) = (self.evaluations, self.seconds);
        writeln!(
            f,
            "{stages} stages, Lambda = {lambda:.2}, log Z about {:.2}",
            self.log_z
        )?;
        write!(f, "{evaluations:.3e} evaluations in {seconds:.1} s")
    }
}

/// Largest number of chains in a block of a first pass, unless `block_size` is set. Decisions use all blocks, so it only
/// divides the work: 256 chains keep four threads busy.
pub(super) const FIRST_BLOCK: usize = 64;

impl<'p, P: AnnealingPath, K> FirstPass<'p, P, K> {
    /// Creates the pass along `path`, with a tuned kernel over `R^d`. Tuning starts from its step size.
    pub fn new(path: P, kernel: K) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable + TransitionKernel<P::At>,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, Some(Tuner::new()), log_z)
    }

    /// Creates the pass along `path`, for states of any type. Its kernel is not tuned.
    pub fn fixed(path: P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, None, log_z)
    }

    /// Creates the pass of many data. It keeps them apart: only chains of one datum are resampled together, each datum has
    /// its own step size, and a stage is as long as its worse data allow. Its log Z means nothing.
    pub(crate) fn of_data(path: P, kernel: K, data: usize) -> Self
    where
        P: AnnealingPath<State = Latent>,
        K: Tunable,
    {
        Self::with(path, kernel, Some(Tuner::of_data(data)), 0.0)
    }

    pub(super) fn with(
        path: P,
        kernel: K,
        tuner: Option<Tuner<K, P::State>>,
        base_log_z: f64,
    ) -> Self {
        Self {
            path,
            kernel,
            tuner,
            base_log_z,
            chains: 500,
            ess_share: 0.5,
            moves: 5,
            block_size: FIRST_BLOCK,
            seed: 0,
            execution: Execution::default(),
        }
    }

    setters! {
        /// Sets the log normaliser of the base, in place of the base's own. With 0 the result is `log(Z_K / Z_0)`.
        base_log_z: f64,
        /// Sets the number of chains; 500 by default.
        chains: usize,
        /// Sets the effective sample size that each stage leaves, as a share of the chains; 0.5 by default.
        ess_share: f64,
        /// Sets the number of moves at each stage; 5 by default.
        moves: usize,
        /// Sets the seed; 0 by default.
        seed: u64,
        /// Sets the number of chains that move together; 64 by default. A model that [evaluates
        /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call a step if a block holds all
        /// chains.
        block_size: usize,
    }

    controls! { 'p, "A stopped pass returns an [`Error::Stopped`]." }

    pub(super) fn check(&self) -> Result<()> {
        // The weights of a single chain do not vary, so they cannot determine the length of a stage.
        Error::check_count("chains", self.chains, 2)?;
        Error::check_count("moves", self.moves, 1)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        Error::check_inner_fraction("ess_share", self.ess_share)?;
        Error::check_number("log normalizer of the base", self.base_log_z)
    }
}

impl<'p, P, K> FirstPass<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Runs the pass.
    ///
    /// # Errors
    /// Settings out of range; errors of chains and path; [`Error::WrongGradient`] if finite differences contradict the
    /// gradient of a tuned kernel; [`Error::NotConverged`] if no stage is short enough, since the path jumps, its support
    /// shrinks or the target has no finite integral; [`Error::AllWeightsZero`]; [`Error::Stopped`].
    pub fn run(&self) -> Result<FirstPassRun<K>> {
        self.run_with(&mut Job::new(&self.execution)?, &|_| 0)
    }
}

crate::num::debug_by_fields! {
    FirstPass for [P: AnnealingPath, K: fmt::Debug] FirstPass<'_, P, K> { kernel, chains, ess_share, moves, seed }
}
