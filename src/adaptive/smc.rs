//! Adaptive sequential Monte Carlo, whose chains find stages and kernel as they go.

use std::fmt;
use std::time::Instant;

use nalgebra::DVector;

use super::barrier::Barrier;
use super::covariance::Shapes;
use super::first_pass::{FirstPassTask, Later};
use super::tuner::Tuner;
use crate::ais::{Ais, BlockCodec, BlockResult, Run};
use crate::estimate::{
    LogZ, Warning, WeightedSample, WeightedStates, write_estimate, write_warnings,
};
use crate::kernel::{Repeat, TransitionKernel, Tunable, refuse_stages};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::population::Resampling;
use crate::schedule::Schedule;
use crate::work::{Carries, Execution, Job, Runs, Single, controls};
use crate::{Error, Result};

/// Adaptive sequential Monte Carlo: the chains of a first pass choose betas and kernel, which a second pass uses.
///
/// Each stage goes as far as its effective sample size allows; the chains are then resampled and moved. A kernel over
/// `R^d` is tuned: its shape by the chains' covariance, its step size by their acceptance. The first pass is biased by
/// `O(1/N)`, since stages and kernel depend on its chains. The second has its own streams, so `E[w] = Z_K/Z_0`.
///
/// ```
/// use annealed::adaptive::AdaptiveSmc;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
/// let passes = AdaptiveSmc::new(&path, RandomWalkMetropolis::new(0.5)?).chains(500).seed(3).run()?;
/// println!("{} stages, log Z = {}", passes.first.schedule.stages(), passes.second);
/// # assert!((passes.second.log_z() - target.log_normalizer()).abs() < 4.0 * passes.second.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Del Moral, Doucet and Jasra (2012); Beskos, Jasra, Kantas and Thiery (2016) on the bias.
#[must_use]
#[doc(alias("SMC", "sequential Monte Carlo", "adaptive tempering"))]
pub struct AdaptiveSmc<'p, P: AnnealingPath, K> {
    pub(super) path: P,
    pub(super) kernel: K,
    pub(super) tuner: Option<Tuner<K, P::State>>,
    pub(super) log_base_normalizer: f64,
    pub(super) chains: usize,
    pub(super) ess_share: f64,
    pub(super) moves: usize,
    pub(super) block_size: Option<usize>,
    pub(super) seed: u64,
    pub(super) execution: Execution<'p>,
}

/// The result of the first pass of an [`AdaptiveSmc`].
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct FirstPass<K> {
    /// The stages.
    pub schedule: Schedule,
    /// The kernel, tuned at each stage.
    pub kernel: K,
    /// The barrier along the path, by the intensities of the stages.
    pub barrier: Barrier,
    /// Estimate of log Z by this pass, biased by `O(1/N)`.
    pub log_z: f64,
    /// Evaluations of the density; a gradient counts as one more.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    pub(super) shapes: Shapes,
}

impl<K> fmt::Display for FirstPass<K> {
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

/// Both passes of an [`AdaptiveSmc`]. The estimate of log Z comes from the second.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use]
pub struct AdaptiveSmcRun<S, K> {
    /// The result of the first pass, with its biased estimate.
    pub first: FirstPass<K>,
    /// The run over the stages found, whose weights are unbiased.
    pub second: Run<S>,
}

impl<S, K> fmt::Display for AdaptiveSmcRun<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stages, lambda) = (self.first.schedule.stages(), self.first.barrier.global());
        write_estimate(f, self, "", self.second.estimate().sample_size_text())?;
        write!(f, "\nLambda = {lambda:.2}; {stages} stages; ")?;
        write!(f, "log Z of the first pass {:.3}", self.first.log_z)?;
        write_warnings(f, self.warnings())
    }
}

/// The final states of the second pass.
impl<S, K> WeightedSample for AdaptiveSmcRun<S, K> {
    type State = S;

    fn weighted_states(&self) -> WeightedStates<'_, S> {
        self.second.weighted_states()
    }
}

impl<S, K> LogZ for AdaptiveSmcRun<S, K> {
    /// Returns the estimate of log Z, by the second pass.
    fn log_z(&self) -> f64 {
        self.second.log_z()
    }

    fn standard_error(&self) -> f64 {
        self.second.standard_error()
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.second.interval_at(level)
    }

    /// Returns a lower bound on log Z that holds with probability `confidence`, by the second pass
    /// ([`Run::certified_lower_bound`]), whose stages and kernel do not depend on its own chains.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        self.second.certified_lower_bound(confidence)
    }

    fn warnings(&self) -> &[Warning] {
        self.second.warnings()
    }

    /// Returns the number of density evaluations in both passes; a gradient counts as one more.
    fn evaluations(&self) -> u64 {
        self.first
            .evaluations
            .saturating_add(self.second.evaluations())
    }

    /// Returns the wall time of both passes in seconds.
    fn seconds(&self) -> f64 {
        self.first.seconds + self.second.seconds()
    }
}

/// Largest number of chains in a block of the first pass, unless `block_size` is set. Decisions use all blocks, so it
/// only divides the work: 256 chains keep four threads busy.
const FIRST_BLOCK: usize = 64;
/// Number of chains in a block of later passes, unless `block_size` is set: the default of `Ais`. Chains resample
/// within a block, so 256 chains are two islands.
pub(super) const LATER_BLOCK: usize = 128;

impl<'p, P: AnnealingPath, K> AdaptiveSmc<'p, P, K> {
    /// Creates the run along `path`, with a tuned kernel over `R^d`. Tuning starts from its step size.
    pub fn new(path: P, kernel: K) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable + TransitionKernel<P::At>,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, Some(Tuner::new()), log_z)
    }

    /// Creates the run along `path`, for states of any type. Its kernel is not tuned.
    pub fn fixed(path: P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, None, log_z)
    }

    pub(super) fn with(
        path: P,
        kernel: K,
        tuner: Option<Tuner<K, P::State>>,
        log_base_normalizer: f64,
    ) -> Self {
        Self {
            path,
            kernel,
            tuner,
            log_base_normalizer,
            chains: 500,
            ess_share: 0.5,
            moves: 5,
            block_size: None,
            seed: 0,
            execution: Execution::default(),
        }
    }

    /// Sets the log normaliser of the base, in place of the base's own. With 0 the result is `log(Z_K / Z_0)`.
    pub fn base_log_z(mut self, log_base_normalizer: f64) -> Self {
        self.log_base_normalizer = log_base_normalizer;
        self
    }

    setters! {
        /// Sets the number of chains; 500 by default.
        chains: usize,
        /// Sets the effective sample size that each stage leaves, as a share of the chains; 0.5 by default.
        ess_share: f64,
        /// Sets the number of moves at each stage; 5 by default.
        moves: usize,
        /// Sets the seed; 0 by default.
        seed: u64,
        /// Sets the number of chains that move together; by default 64 in the first pass and 128 in the second, where
        /// they also resample together. A model that [evaluates
        /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call a step if a block holds all
        /// chains.
        block_size in Some: usize,
    }

    /// Returns the largest number of chains in a block of the first pass.
    pub(super) fn first_block_size(&self) -> usize {
        self.block_size.unwrap_or(FIRST_BLOCK)
    }

    controls! { 'p, "Stopped in the first pass it is an [`Error::Stopped`]; in the second one the result is that of fewer chains." }

    fn check(&self) -> Result<()> {
        // The weights of a single chain do not vary, so they cannot determine the length of a stage.
        Error::check_count("chains", self.chains, 2)?;
        Error::check_count("moves", self.moves, 1)?;
        Error::check_at_least("block_size", self.first_block_size(), 1)?;
        Error::check_inner_fraction("ess_share", self.ess_share)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)
    }
}

impl<'p, P, K> AdaptiveSmc<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Clone + Send + Sync,
{
    /// Runs only the first pass, which finds stages, step sizes and the shape of the proposals (a mass matrix for
    /// [`Hmc`](crate::kernel::Hmc)). The shape is the chains' covariance, or their deviations if there are fewer than
    /// four chains per dimension.
    ///
    /// ```
    /// use annealed::prelude::*;
    /// use nalgebra::dmatrix;
    ///
    /// let covariance = dmatrix![1.0, 0.099; 0.099, 0.01]; // long and narrow
    /// let target = Gaussian::new(DVector::from_element(2, 1.0), covariance)?;
    /// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
    /// let found = AdaptiveSmc::new(&path, Hmc::new(0.5, 3)?).chains(500).seed(1).first_pass()?;
    /// let run = Ais::new(&path, found.kernel).schedule(Schedule::power(100, 3.0)?).seed(1).run()?;
    /// println!("{run}"); // ESS 1844 of 4096; 719 where `StepSizes` finds the steps alone
    /// # assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
    /// # assert!(run.effective_sample_size() > 1_200.0, "{run}");
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Settings out of range; errors of chains and path; [`Error::WrongGradient`] if finite differences contradict the
    /// gradient of a tuned kernel; [`Error::NotConverged`] if no stage is short enough, since the path jumps or its
    /// support shrinks; [`Error::AllWeightsZero`]; [`Error::Stopped`].
    pub fn first_pass(&self) -> Result<FirstPass<K>> {
        self.first_pass_with(&mut Job::new(&self.execution)?, &|_| 0)
    }

    /// Makes the first pass as a part of longer work. `later` maps its number of stages to the later chain-steps.
    pub(super) fn first_pass_with(
        &self,
        job: &mut dyn Runs<Single<FirstPass<K>>>,
        later: Later<'_>,
    ) -> Result<FirstPass<K>> {
        self.check()?;
        refuse_stages(self.kernel.stages())?;
        let begun = Instant::now();
        let closed = job.run(&FirstPassTask {
            settings: self,
            later,
        })?;
        let Single(found) = closed.whole(self.chains)?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(FirstPass { seconds, ..found })
    }

    /// Runs both passes. The second resamples after every stage within blocks, with as many moves as the first.
    ///
    /// # Errors
    /// The errors of [`first_pass`](Self::first_pass) and [`Ais::run`].
    pub fn run(&self) -> Result<AdaptiveSmcRun<P::State, K>> {
        let later = self.second_pass();
        self.go_with(&mut Job::new(&self.execution)?, &later, None)
    }

    /// Returns a function from the number of stages to the chain-steps of the second pass: chains times stages.
    pub(super) fn second_pass(&self) -> impl Fn(usize) -> u64 + Sync + use<'p, P, K> {
        let chains = self.chains as u64;
        move |stages| chains.saturating_mul(stages as u64)
    }

    /// Runs both passes.
    pub(super) fn go_with<J>(
        &self,
        job: &mut J,
        later: Later<'_>,
        codec: Option<BlockCodec<P, ()>>,
    ) -> Result<AdaptiveSmcRun<P::State, K>>
    where
        J: Runs<Single<FirstPass<K>>> + Runs<BlockResult<P::State, ()>> + Carries<FirstPass<K>>,
    {
        let (counted, first) = match job.carried(&|_| Ok(()))? {
            // Its time is part of the time of earlier calls, which is added at the end.
            Some(first) => (first.seconds, first),
            None => {
                let found = self.first_pass_with(job, later)?;
                let figures = found.schedule.betas().to_vec();
                (0.0, job.carry(found, &figures)?)
            }
        };
        let kernel = Repeat::new(first.kernel.clone(), self.moves)?;
        let second = Ais::with_base_log_z(self.path.clone(), kernel, self.log_base_normalizer)
            .schedule(first.schedule.clone())
            .chains(self.chains)
            .block_size(self.block_size.unwrap_or(LATER_BLOCK))
            .seed(self.seed)
            .resampling(Resampling::every(1)?)
            .into_task(&(0..self.chains))?
            .saved_by(codec)
            .run_by(job)?;
        let mut second = second.result()?;
        second.add_seconds(-counted);
        Ok(AdaptiveSmcRun { first, second })
    }
}

crate::num::debug_by_fields! {
    AdaptiveSmc for [P: AnnealingPath, K: fmt::Debug] AdaptiveSmc<'_, P, K> { kernel, chains, ess_share, moves, seed }
}
