//! Adaptive sequential Monte Carlo: stages and kernels found by the chains as they go.

use std::time::Instant;

use nalgebra::DVector;

use super::conditional_ess::{lost, next_stage};
use super::covariance::Shapes;
use super::intensity::Barrier;
use super::tuner::{Tuner, Tuning};
use crate::ais::{Ais, Populations, Resampling, Run, in_pool};
use crate::kernel::{Repeat, TransitionKernel, Tunable, refuse_stages};
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Sequential Monte Carlo whose chains choose each next beta and tune their kernel as they go, followed by a
/// second pass over the stages and the kernel found.
///
/// In the first pass each stage goes as far as the effective sample size of its weights allows. The chains are
/// then resampled and moved. A kernel over `R^d` is tuned by them: the shape of its proposals by their
/// covariance, its step size by their acceptance. Since all chains are resampled at each stage, the effective
/// sample size and the conditional one are the same.
///
/// The first pass is consistent, but its estimate is biased by `O(1/N)`, because stages and kernel depend on the
/// chains that they move. The second pass has streams of its own, so that `E[w] = Z_K/Z_0` holds for it.
///
/// ```
/// use annealed::pilot::Adaptation;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
/// let passes = Adaptation::new(&path, RandomWalkMetropolis::new(0.5)?).chains(500).seed(3).run()?;
/// println!("{} stages, log Z = {}", passes.first.schedule.steps(), passes.second);
/// # assert!((passes.second.log_z() - target.log_normalizer()).abs() < 4.0 * passes.second.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// Sources: Del Moral, Doucet and Jasra (2012); Beskos, Jasra, Kantas and Thiery (2016) on the bias.
#[must_use]
pub struct Adaptation<'p, P: AnnealingPath, K> {
    path: &'p P,
    kernel: K,
    tuner: Option<Tuner<K, P::State>>,
    log_base_normalizer: f64,
    chains: usize,
    ess_share: f64,
    moves: usize,
    block_size: usize,
    seed: u64,
    threads: Option<usize>,
}

/// What the first pass of an [`Adaptation`] found.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct Adapted<K> {
    /// The stages.
    pub schedule: Schedule,
    /// The kernel, tuned at each of them.
    pub kernel: K,
    /// The barrier along the path, by the intensities of the stages.
    pub barrier: Barrier,
    /// log Z by this pass, biased by `O(1/N)`.
    pub log_z: f64,
    /// Evaluations of the density; a gradient is one more.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    pub(super) shapes: Shapes,
}

/// Both passes of an [`Adaptation`].
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct AdaptiveRun<S, K> {
    /// What the first pass found, and its estimate, which is biased.
    pub first: Adapted<K>,
    /// The run over the stages found, whose weights are unbiased.
    pub second: Run<S>,
    evaluations: u64,
}

impl<S, K> AdaptiveRun<S, K> {
    /// Evaluations of the density in both passes; a gradient is one more.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }
}

/// Relative error of a stage's distance that is small enough.
const PRECISION: f64 = 0.1;
/// Chains of a block of the first pass, at most.
const BLOCK: usize = 64;
/// Stages after which the first pass gives up.
const LIMIT: usize = 100_000;

impl<'p, P: AnnealingPath, K> Adaptation<'p, P, K> {
    /// Along `path`, with a kernel over `R^d` that is tuned on the way; its step size is where the tuning
    /// starts.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
        K: Tunable,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, Some(Tuner::new()), log_z)
    }

    /// Along `path`, with a kernel as it is, over any state.
    pub fn fixed(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        let log_z = path.base().log_normalizer();
        Self::with(path, kernel, None, log_z)
    }

    pub(super) fn with(
        path: &'p P,
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
            block_size: 128,
            seed: 0,
            threads: None,
        }
    }

    setters! {
        /// Number of chains; 500 unless set.
        chains: usize,
        /// The effective sample size that each stage leaves, a share of the chains; 0.5 unless set.
        ess_share: f64,
        /// Moves at each stage; 5 unless set.
        moves: usize,
        /// Number of chains of the second pass that resample among themselves; 128 unless set.
        block_size: usize,
        /// The seed; 0 unless set.
        seed: u64,
    }

    /// Number of threads; rayon's global pool unless set, or for `None`. One seed gives the same bits for any
    /// number of them. In the first pass up to one for each 64 chains helps.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    fn check(&self) -> Result<()> {
        Error::check_count("chains", self.chains, 2)?;
        Error::check_count("moves", self.moves, 1)?;
        Error::check_inner_fraction("ess_share", self.ess_share)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)
    }
}

impl<'p, P, K> Adaptation<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Clone + Send + Sync,
{
    /// The first pass alone.
    ///
    /// # Errors
    /// Settings out of range; what chains and path meet; [`Error::NotConverged`] where no step is short enough,
    /// since the path jumps or its support shrinks; [`Error::AllWeightsZero`].
    pub fn first_pass(&self) -> Result<Adapted<K>> {
        self.check()?;
        refuse_stages(self.kernel.stages())?;
        let begun = Instant::now();
        let blocks = self.chains.div_ceil(BLOCK);
        let found = in_pool(self.threads, blocks, || Pass::run(self))?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Adapted { seconds, ..found })
    }

    /// Both passes. The second one resamples its chains after every stage within blocks, and moves them as often
    /// as the first.
    ///
    /// # Errors
    /// As [`first_pass`](Self::first_pass) and [`Ais::run`].
    pub fn run(&self) -> Result<AdaptiveRun<P::State, K>> {
        let first = self.first_pass()?;
        let kernel = Repeat::new(&first.kernel, self.moves)?;
        let evaluations = kernel.evaluations().saturating_mul(first.schedule.steps());
        let second = Ais::with_base_log_z(self.path, kernel, self.log_base_normalizer)
            .schedule(first.schedule.clone())
            .chains(self.chains)
            .block_size(self.block_size)
            .seed(self.seed)
            .resampling(Resampling::every(1)?)
            .threads(self.threads)
            .run()?;
        let evaluations = (evaluations as u64).saturating_mul(self.chains as u64);
        Ok(AdaptiveRun {
            evaluations: first.evaluations.saturating_add(evaluations),
            first,
            second,
        })
    }
}

/// A first pass on its way.
struct Pass<'s, 'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> {
    settings: &'s Adaptation<'p, P, K>,
    populations: Populations<'p, P, K::Workspace>,
    tuning: Option<Tuning<K, P::State>>,
    resampling: Resampling,
    betas: Vec<f64>,
    intensities: Vec<f64>,
    /// Length in beta of the last stage.
    length: f64,
    /// Evaluations of each chain.
    evaluations: usize,
}

impl<'s, 'p, P, K> Pass<'s, 'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    P::At<'p>: Send + Sync,
    K: TransitionKernel<P::At<'p>> + Clone + Send + Sync,
{
    fn run(settings: &'s Adaptation<'p, P, K>) -> Result<Adapted<K>> {
        let mut pass = Self::start(settings)?;
        while pass.populations.beta() < 1.0 {
            pass.stage()?;
        }
        pass.finish()
    }

    /// At the base. A kernel is tuned there with twice the moves, since its step size may be far off.
    fn start(settings: &'s Adaptation<'p, P, K>) -> Result<Self> {
        let first = stream(settings.seed, Purpose::Adaptation, 0);
        let populations = Populations::start(settings.path, settings.chains, BLOCK, first)?;
        let kernel = &settings.kernel;
        let mut pass = Self {
            settings,
            populations,
            tuning: settings.tuner.map(|tuner| Tuning::new(tuner, kernel)),
            resampling: Resampling::every(1)?,
            betas: vec![0.0],
            intensities: Vec::new(),
            length: 1e-3,
            evaluations: 0,
        };
        if pass.tuning.is_some() {
            pass.shape()?;
            pass.move_chains(2 * settings.moves)?;
        }
        Ok(pass)
    }

    /// Finds the next beta, weighs, resamples and moves.
    fn stage(&mut self) -> Result<()> {
        let beta = self.populations.beta();
        let share = (1.0 - self.lost()?) * self.settings.ess_share;
        let distance = (1.0 / share - 1.0).sqrt();
        let (next, covered, trials) =
            next_stage(&mut self.populations, self.length, distance, PRECISION)?;
        self.populations
            .map(|population| population.weigh_to(next))?;
        self.check_progress()?;
        self.evaluations = self.evaluations.saturating_add(trials + 1);
        self.betas.push(next);
        self.intensities.push(covered.powi(2).ln_1p().sqrt());
        self.length = next - beta;
        self.shape()?;
        self.populations.resample(&self.resampling, P::State::clone);
        self.move_chains(self.settings.moves)
    }

    /// The share of the chains at the base that are off the support of any further model, however near: a
    /// likelihood of 0 excludes them at once.
    fn lost(&mut self) -> Result<f64> {
        if self.betas.len() > 1 {
            return Ok(0.0);
        }
        let path = self.settings.path;
        let (here, next) = (path.at(0.0), path.at(f64::MIN_POSITIVE));
        let populations = &mut self.populations;
        let lost = populations.map(|population| Ok(lost(population.block(), &here, &next)))?;
        Ok(lost.into_iter().sum::<usize>() as f64 / self.settings.chains as f64)
    }

    /// Refuses chains that are all dead, and stages without end.
    fn check_progress(&self) -> Result<()> {
        if self.populations.alive() == 0 {
            return Err(Error::AllWeightsZero {
                chains: self.settings.chains,
            });
        }
        if self.betas.len() > LIMIT {
            return Err(Error::NotConverged {
                what: "adaptive annealing",
                detail: format!("the target was not reached in {LIMIT} stages"),
            });
        }
        Ok(())
    }

    fn shape(&mut self) -> Result<()> {
        let populations = &mut self.populations;
        let tuning = self.tuning.as_mut();
        tuning.map_or(Ok(()), |tuning| tuning.shape(populations))
    }

    fn move_chains(&mut self, moves: usize) -> Result<()> {
        let (populations, kernel) = (&mut self.populations, &self.settings.kernel);
        let evaluations = moves.saturating_mul(kernel.evaluations());
        self.evaluations = self.evaluations.saturating_add(evaluations);
        match &mut self.tuning {
            Some(tuning) => tuning.moves(populations, moves),
            None => (0..moves).try_for_each(|_| populations.stay(kernel).map(drop)),
        }
    }

    fn finish(self) -> Result<Adapted<K>> {
        let log_ratio = self.populations.weights().log_mean();
        let (settings, chains) = (self.settings, self.settings.chains as u64);
        let (kernel, shapes) = match self.tuning {
            Some(tuning) => tuning.finish()?,
            None => (settings.kernel.clone(), Shapes::default()),
        };
        Ok(Adapted {
            schedule: Schedule::new(self.betas.clone())?,
            kernel,
            shapes,
            barrier: Barrier::new(self.betas, self.intensities),
            log_z: settings.log_base_normalizer + log_ratio,
            evaluations: (self.evaluations as u64).saturating_mul(chains),
            seconds: 0.0,
        })
    }
}

impl<P: AnnealingPath, K: std::fmt::Debug> std::fmt::Debug for Adaptation<'_, P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adaptation")
            .field("kernel", &self.kernel)
            .field("chains", &self.chains)
            .field("ess_share", &self.ess_share)
            .field("moves", &self.moves)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
