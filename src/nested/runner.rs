//! The runner: a first pass that finds the levels, and a second one over islands.

use std::time::Instant;

use super::first_pass::{FoundShells, KernelTuning, ShellSearch};
use super::island_task::IslandsTask;
use super::path::{LevelAt, LevelPath};
use super::run::{IslandRun, NestedSmcRun};
use super::settings::NestedSettings;
use crate::estimate::{LogZ, Remedy, Warning};
use crate::kernel::{Invariant, StepSize, Tunable, refuse_stages};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::setters;
use crate::path::TemperedPath;
use crate::work::{Execution, Format, Job, Single, StoppedBy, Task, controls, fold};
use crate::{Error, Result};

/// The evidence by rising levels of the likelihood (Salomone et al. 2018).
///
/// [`run`](Self::run) makes two passes. The first finds the levels and tunes step sizes. The second runs islands
/// (independent groups of chains) on fresh streams with these levels and step sizes, and gives the estimate.
/// Evaluations of both passes are counted.
///
/// ```
/// use annealed::prelude::*;
///
/// // Nine tenths of the evidence in a spike a hundred times narrower than the rest.
/// let part = |deviation| Gaussian::isotropic(DVector::zeros(2), deviation);
/// let likelihood = GaussianMixture::new([(0.1, part(0.5)?), (0.9, part(0.005)?)])?;
/// let problem = TemperedPath::new(part(2.0)?, likelihood);
/// let run = NestedSmc::new(&problem, RandomWalkMetropolis::new(1.0)?).seed(1).run()?;
/// println!("{run}");
/// // The evidence is a mixture of two Gaussian convolutions, evaluated at 0.
/// let at_zero = |variance: f64| 1.0 / (std::f64::consts::TAU * (4.0 + variance));
/// let exact = (0.1 * at_zero(0.25) + 0.9 * at_zero(0.000_025)).ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The problem is a [`TemperedPath`], a prior and a likelihood. The kernel is any [`Invariant`] kernel over
/// [`LevelState`](super::LevelState)s, such as [`RandomWalkMetropolis`](crate::kernel::RandomWalkMetropolis) or
/// [`Metropolis`](crate::kernel::Metropolis) with your own proposal.
///
/// Let `l_1 < .. < l_T` be levels of the log likelihood, `X_t = P(log L > l_t)` the prior mass above, and `X_0 = 1`:
///
/// `Z = E L = sum_t X_t E[L 1(log L <= l_{t+1}) | log L > l_t]`, with `l_{T+1} = inf`.
///
/// An island starts with prior samples. At each level the states below the level give one term. A kernel moves some of
/// the states above the level many times, and all states visited are the next sample (waste-free: Dau and Chopin
/// 2022). At fixed levels the sum is unbiased for Z, however badly the kernel mixes.
#[must_use]
#[doc(alias("nested sampling", "evidence"))]
pub struct NestedSmc<'m, P, L, K> {
    pub(super) problem: &'m TemperedPath<P, L>,
    pub(super) kernel: K,
    pub(super) tuning: Option<KernelTuning<K>>,
    pub(super) settings: NestedSettings,
    pub(super) execution: Execution<'m>,
}

/// The formats of the outputs of both passes, and of what the first has found.
pub(super) struct Formats<S> {
    pub(super) search: Format<Single<(FoundShells, u64)>>,
    pub(super) found: Format<(FoundShells, u64)>,
    pub(super) islands: Format<Vec<IslandRun<S>>>,
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
    K: Invariant<LevelAt<'m, P, L>>,
{
    /// Creates a run that tunes the kernel's step size at each level in the first pass, starting from the kernel's own.
    pub fn new(problem: &'m TemperedPath<P, L>, kernel: K) -> Self
    where
        K: Tunable,
    {
        let tuning = KernelTuning {
            resized: K::with_step_size,
            first: kernel.step_size().at(0.0),
            acceptance: kernel.optimal_acceptance(),
        };
        Self {
            tuning: Some(tuning),
            ..Self::fixed(problem, kernel)
        }
    }

    /// Creates a run with the kernel as it is.
    pub fn fixed(problem: &'m TemperedPath<P, L>, kernel: K) -> Self {
        Self {
            problem,
            kernel,
            tuning: None,
            settings: NestedSettings::default(),
            execution: Execution::default(),
        }
    }
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K> {
    setters! {
        /// Sets the number of islands, whose independent estimates give the standard error; 32 by default.
        islands of settings: usize,
        /// Sets the number of chains of an island, which restart above each level; 64 by default.
        chains of settings: usize,
        /// Sets the number of moves of each chain at a level; 50 by default. All visited states are kept.
        moves of settings: usize,
        /// Sets the share of the states that lies above the next level; 0.3 by default.
        share of settings: f64,
        /// Sets the share of Z that may lie above the last level; 0.001 by default. The first pass bounds it as if no
        /// likelihood exceeded the largest one met. The part of Z above the last level is still estimated.
        precision of settings: f64,
        /// Sets the largest number of levels; 1,000 by default.
        max_levels of settings: usize,
        /// Sets the approximate number of weighted states in the result; 10,000 by default. Each island gives the same
        /// number on average: half in proportion to the part of Z between two levels, half evenly over the levels.
        kept of settings: usize,
        /// Sets the seed; 0 by default. The result does not depend on the number of threads.
        seed of settings: u64,
        /// Sets the standard error of log Z in nats at which the run ends. It is checked after 10 islands, then each
        /// time their number has grown by a tenth. [`islands`](Self::islands) is then the maximum. A run that ends with
        /// a larger error [warns](crate::estimate::Warning::ErrorNotReached).
        until_error of execution in Some: f64,
    }

    /// Sets the acceptance to which step sizes are tuned; the kernel's own optimum by default.
    pub fn acceptance(mut self, acceptance: f64) -> Self {
        if let Some(tuning) = &mut self.tuning {
            tuning.acceptance = acceptance;
        }
        self
    }

    controls! { 'm, "The result is that of the islands that were finished; without one it is an [`Error::Stopped`]." }
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    /// Finds the levels and runs the islands.
    ///
    /// # Errors
    /// Settings out of range; a kernel that demands a number of stages; a NaN, `+inf` or panic, with chain, level and
    /// beta; [`Error::AllWeightsZero`] if no state had a likelihood above 0; [`Error::Stopped`] without a finished
    /// island.
    pub fn run(&self) -> Result<NestedSmcRun<P::State>> {
        self.go_with(None, &mut Job::new(&self.execution)?)
    }

    /// Finds the levels and runs the islands.
    pub(super) fn go_with(
        &self,
        formats: Option<Formats<P::State>>,
        job: &mut Job<'_>,
    ) -> Result<NestedSmcRun<P::State>> {
        self.check()?;
        let begun = Instant::now();
        let settings = &self.settings;
        let format = formats.as_ref().map(|formats| formats.found);
        let found = job.carried(format, &|(found, _)| found.check())?;
        let (found, first_evaluations) = match found {
            Some(found) => found,
            None => {
                let prior = LevelPath::new(self.problem, [])?;
                let of_search = formats.as_ref().map(|formats| formats.search);
                let search = ShellSearch {
                    path: &prior,
                    kernel: &self.kernel,
                    tuning: self.tuning.as_ref(),
                    settings,
                };
                let searched = job.run(&search, of_search)?;
                let Single(found) = searched.whole(settings.chains)?;
                let figures = found.0.levels.clone();
                job.carry(format, found, &figures)?
            }
        };
        let path = LevelPath::new(self.problem, found.levels.iter().copied())?;
        let tuned = self.tuned(&path, &found)?;
        let kernel = tuned.as_ref().unwrap_or(&self.kernel);
        let islands = IslandsTask::new(&path, kernel, &found.shells, settings);
        job.foresee(islands.cost(islands.blocks()));
        let closed = job.run(&islands, formats.map(|formats| formats.islands))?;
        let stopped_by = closed.stopped_by.unwrap_or(StoppedBy::Chains);
        let Some(islands) = fold(closed.prefix) else {
            return Err(stopped_by.error(settings.chains));
        };
        let cost = (first_evaluations, begun.elapsed().as_secs_f64());
        let mut run = NestedSmcRun::new(found, islands, settings.seed, stopped_by, cost)?;
        let (asked, reached) = (self.execution.until_error, run.standard_error());
        // Likelihoods, and the sums over shells, have rounding errors in proportion to their size.
        let rounding_error = 0.5 * self.problem.likelihood().epsilon() * run.log_z().abs();
        run.warn(Warning::rounding(rounding_error, reached));
        let remedy = Remedy::Islands(run.islands());
        run.warn(Warning::error_not_reached(asked, reached, None, remedy));
        Ok(run)
    }

    /// Returns the kernel with the tuned step sizes, if there are any.
    fn tuned(&self, path: &LevelPath<'m, P, L>, found: &FoundShells) -> Result<Option<K>> {
        let Some(tuning) = self.tuning.as_ref().filter(|_| !found.sizes.is_empty()) else {
            return Ok(None);
        };
        let betas = (1..).map(|t| path.beta(t));
        let sizes = StepSize::knots(betas.zip(found.sizes.iter().copied()))?;
        Ok(Some((tuning.resized)(&self.kernel, sizes)))
    }

    pub(super) fn check(&self) -> Result<()> {
        self.settings.check()?;
        refuse_stages(self.kernel.stages())?;
        if let Some(tuning) = &self.tuning {
            Error::check_inner_fraction("acceptance", tuning.acceptance)?;
        }
        Ok(())
    }
}

crate::num::debug_by_fields! {
    NestedSmc for [P, L, K: std::fmt::Debug] NestedSmc<'_, P, L, K> { kernel, settings }
}
