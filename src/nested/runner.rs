//! The runner: a first pass that finds the levels, and a second one over islands.

use std::cell::OnceCell;
use std::time::Instant;

use super::island_task::IslandsTask;
use super::path::{LevelAt, LevelPath};
use super::run::NestedSmcRun;
use super::search::{Found, Search, Tuning};
use super::settings::Settings;
use crate::estimate::Warning;
use crate::kernel::{Invariant, StepSize, Tunable, refuse_stages};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::setters;
use crate::path::TemperedPath;
use crate::work::{Carries, Execution, Job, Runs, Single, StoppedBy, Task, controls, fold};
use crate::{Error, Result};

/// The evidence by rising levels of the likelihood.
///
/// With levels `l_1 < .. < l_T` of the log likelihood, `X_t = P(log L > l_t)` the prior mass above one and
/// `X_0 = 1`,
///
/// `Z = E L = sum_t X_t E[L 1(log L <= l_{t+1}) | log L > l_t]`,
///
/// where nothing bounds the last shell, above `l_T`. An island begins with exact samples of the prior. At
/// each level those that are not above it are the sample of a shell; of the others some are chosen, moved
/// many times by a kernel that keeps them above the level, and all that they visit is the next sample
/// (waste-free: Dau and Chopin 2022). At fixed levels the sum over the shells is unbiased for Z, however
/// badly the kernel mixes (Salomone et al. 2018).
///
/// [`run`](Self::run) makes two passes. The first finds the levels, each above all but a given share of the
/// states at hand, and tunes the step size at each. It ends where what can lie above is small. The second,
/// on fresh streams and with all of this fixed, runs the islands; only they enter the estimate. Both count
/// as cost.
///
/// Its problem is a [`TemperedPath`], a prior and a likelihood. Its kernel is any [`Invariant`] one over
/// [`LevelState`](super::LevelState)s: [`RandomWalkMetropolis`](crate::kernel::RandomWalkMetropolis), or
/// [`Metropolis`](crate::kernel::Metropolis) with a proposal of yours.
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
/// // The evidence is that of two Gaussian convolutions, at 0.
/// let at_zero = |variance: f64| 1.0 / (std::f64::consts::TAU * (4.0 + variance));
/// let exact = (0.1 * at_zero(0.25) + 0.9 * at_zero(0.000_025)).ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct NestedSmc<'m, P, L, K> {
    pub(super) problem: &'m TemperedPath<P, L>,
    pub(super) kernel: K,
    pub(super) tuning: Option<Tuning<K>>,
    pub(super) settings: Settings,
    pub(super) execution: Execution<'m>,
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
    K: Invariant<LevelAt<'m, P, L>>,
{
    /// A run whose first pass tunes the kernel's step size at each level. The kernel's own step size is the
    /// first one tried.
    pub fn new(problem: &'m TemperedPath<P, L>, kernel: K) -> Self
    where
        K: Tunable,
    {
        let tuning = Tuning {
            resized: K::with_step_size,
            first: kernel.step_size().at(0.0),
            acceptance: kernel.optimal_acceptance(),
        };
        Self {
            tuning: Some(tuning),
            ..Self::untuned(problem, kernel)
        }
    }

    /// A run with the kernel as it is.
    pub fn untuned(problem: &'m TemperedPath<P, L>, kernel: K) -> Self {
        Self {
            problem,
            kernel,
            tuning: None,
            settings: Settings::default(),
            execution: Execution::default(),
        }
    }
}

impl<'m, P, L, K> NestedSmc<'m, P, L, K> {
    setters! {
        /// Number of islands, whose independent estimates give the standard error; 32 unless set.
        islands of settings: usize,
        /// Number of chains of an island: of the states above a level, how many are moved on; 64 unless set.
        chains of settings: usize,
        /// Number of moves of each chain at a level; 50 unless set. All states on the way are kept.
        moves of settings: usize,
        /// The share of the states that is to lie above the next level; 0.3 unless set.
        share of settings: f64,
        /// Where the levels end: where what lies above the last one is at most about this share of Z, taking
        /// the likelihood there to be at most the largest one met; 0.001 unless set. This is no truncation:
        /// what lies above is estimated too.
        precision of settings: f64,
        /// The largest number of levels; 1,000 unless set.
        max_levels of settings: usize,
        /// About how many weighted states the result holds; 10,000 unless set. Each island gives the same
        /// number on average: half of them by the weights that the shells had in the first pass, half evenly.
        kept of settings: usize,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed of settings: u64,
    }

    /// The acceptance to which step sizes are tuned; the kernel's own optimum unless set.
    pub fn acceptance(mut self, acceptance: f64) -> Self {
        if let Some(tuning) = &mut self.tuning {
            tuning.acceptance = acceptance;
        }
        self
    }

    /// Ends the run when the standard error of log Z is at most this, in nats; [`islands`](Self::islands) is the most that
    /// it may have.
    ///
    /// The error is looked at after 10 islands, and then after each tenth more. A run that ends before it is that small
    /// [warns](crate::estimate::Warning::ErrorNotReached).
    pub fn until_error(mut self, standard_error: f64) -> Self {
        self.execution.until_error = Some(standard_error);
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
    /// Settings out of range; a kernel that demands a number of stages; a NaN or `+inf` met on the way, with
    /// chain, level and beta; a panic in model or kernel, likewise; [`Error::AllWeightsZero`] where no
    /// state had a likelihood above 0; [`Error::Stopped`] where the callback says so.
    pub fn run(&self) -> Result<NestedSmcRun<P::State>> {
        let ways = self.ways()?;
        let run = self.go_with(&ways, &mut Job::new(&self.execution)?)?;
        Ok(run.expect("the only process leads"))
    }

    /// Checks the settings.
    pub(super) fn ways(&self) -> Result<Ways<'m, P, L, K>> {
        self.check()?;
        Ok(Ways {
            search: LevelPath::new(self.problem, [])?,
            islands: OnceCell::new(),
        })
    }

    /// Finds the levels and runs the islands. Returns `None` in a process that does not lead.
    pub(super) fn go_with<'s, J>(
        &'s self,
        ways: &'s Ways<'m, P, L, K>,
        job: &mut J,
    ) -> Result<Option<NestedSmcRun<P::State>>>
    where
        J: Runs<Search<'s, 'm, P, L, K>>
            + Runs<IslandsTask<'s, 'm, P, L, K>>
            + Carries<(Found, u64)>,
    {
        let begun = Instant::now();
        let settings = &self.settings;
        let (found, first_evaluations) = match job.carried()? {
            Some(found) => found,
            None => {
                let found = job.run(&self.search(ways))?;
                let found = found.map(|closed| closed.whole(settings.chains));
                job.carry(found.transpose()?.map(|Single(found)| found))?
            }
        };
        let path = LevelPath::new(self.problem, found.levels.iter().copied())?;
        let tuned = self.tuned(&path, &found)?;
        let (path, tuned) = ways.islands.get_or_init(|| (path, tuned));
        let kernel = tuned.as_ref().unwrap_or(&self.kernel);
        let islands = IslandsTask::new(self.problem, path, kernel, &found.shells, settings);
        job.foresee(islands.cost(islands.blocks()));
        let Some(closed) = job.run(&islands)? else {
            return Ok(None);
        };
        let stopped_by = closed.stopped_by.unwrap_or(StoppedBy::Chains);
        let Some(islands) = fold(closed.prefix) else {
            let (by, chains) = (stopped_by.to_string(), settings.chains);
            return Err(Error::Stopped { by, chains });
        };
        let cost = (first_evaluations, begun.elapsed().as_secs_f64());
        let mut run = NestedSmcRun::new(found, islands, settings.seed, stopped_by, cost)?;
        let (asked, reached) = (self.execution.until_error, run.standard_error());
        run.warn(Warning::error_not_reached(asked, reached, None, None));
        Ok(Some(run))
    }

    fn search<'s>(&'s self, ways: &'s Ways<'m, P, L, K>) -> Search<'s, 'm, P, L, K> {
        Search {
            problem: self.problem,
            path: &ways.search,
            kernel: &self.kernel,
            tuning: self.tuning.as_ref(),
            settings: &self.settings,
        }
    }

    /// The kernel with the step sizes found, where there are any.
    fn tuned(&self, path: &LevelPath<'m, P, L>, found: &Found) -> Result<Option<K>> {
        let Some(tuning) = self.tuning.as_ref().filter(|_| !found.sizes.is_empty()) else {
            return Ok(None);
        };
        let betas = (1..).map(|t| path.beta(t));
        let sizes = StepSize::knots(betas.zip(found.sizes.iter().copied()))?;
        Ok(Some((tuning.resized)(&self.kernel, sizes)))
    }

    fn check(&self) -> Result<()> {
        self.settings.check()?;
        refuse_stages(self.kernel.stages())?;
        if let Some(tuning) = &self.tuning {
            Error::check_inner_fraction("acceptance", tuning.acceptance)?;
        }
        Ok(())
    }
}

/// The paths of both passes, and the kernel tuned by the first: what their tasks borrow.
pub(super) struct Ways<'m, P, L, K> {
    search: LevelPath<'m, P, L>,
    islands: OnceCell<(LevelPath<'m, P, L>, Option<K>)>,
}

impl<P, L, K: std::fmt::Debug> std::fmt::Debug for NestedSmc<'_, P, L, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NestedSmc")
            .field("kernel", &self.kernel)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
