//! Step sizes tuned along a path to a target acceptance.

use std::fmt;
use std::time::Instant;

use crate::ais::{Callback, Meter, Populations, Progress, Verdict, callback, in_pool};
use crate::error::short;
use crate::kernel::{StepSize, TransitionKernel, Tunable, refuse_stages};
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Intervals between the stages at which a step size is tuned, at most.
const INTERVALS: usize = 20;
/// Chains of the pilot, and those of a block: kernels with an acceptance move one chain after another, so that
/// small blocks cost nothing.
const CHAINS: usize = 64;
const BLOCK: usize = 8;
/// Steps of each chain at a beta; four times as many at the first, whose start may be far off.
const STEPS: usize = 60;
/// The largest acceptable distance of the acceptance from its target.
const TOLERANCE: f64 = 0.1;

/// Tunes the step sizes of a kernel to one acceptance all along a path.
///
/// The step size is tuned at up to 21 betas, which are evenly spaced in the stages of the schedule
/// that the run will take. Between them its logarithm is linear.
///
/// A pilot of 64 chains starts from the base and moves through these betas. At each a Robbins-Monro
/// recursion adjusts the logarithm of the step size. It starts from the step size of the beta before,
/// and at the base from the kernel's own. Its gain falls at each crossing of the target (Kesten 1958),
/// and the iterates of the last half are averaged. The pilot's streams are those of
/// [`Purpose::Tune`], so that a run with the same seed is independent of the pilot, and its weights
/// are unbiased given the tuned kernel. Only chains on the support are moved: beyond the base those that are off it are
/// drawn anew, or take the place of others.
///
/// It leaves the shape of the proposals as it is. Step sizes with a shape, a mass matrix for
/// [`Hmc`](crate::kernel::Hmc), are the kernel of [`Adaptation::first_pass`](crate::pilot::Adaptation::first_pass), in one
/// call; [`Rounds`](crate::pilot::Rounds) finds them beside everything else.
///
/// It costs 240 moves of each chain at the base and 60 at each further beta: 92,160 chain-steps with 21 betas,
/// as many as a run of 4,096 chains and 23 stages. Up to 8 threads share them.
///
/// ```
/// use annealed::pilot::StepSizeTuning;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
/// let schedule = Schedule::linear(100)?;
/// let tuned = StepSizeTuning::new(&path, Hmc::new(0.5, 3)?).schedule(schedule.clone()).seed(7).run()?;
/// println!("{tuned}");
/// let run = Ais::new(&path, tuned.kernel).schedule(schedule).seed(7).run()?;
/// # assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[must_use]
pub struct StepSizeTuning<'p, P, K> {
    path: &'p P,
    kernel: K,
    schedule: Schedule,
    acceptance: f64,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Callback<'p>>,
}

/// A kernel with the step sizes that a [`StepSizeTuning`] found, and what it cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct Tuned<K> {
    /// The kernel.
    pub kernel: K,
    /// The acceptance reached, the mean over the betas at which it was tuned.
    pub acceptance: f64,
    /// Evaluations of the density; a gradient is one more.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl<'p, P: AnnealingPath, K: Tunable + TransitionKernel<P::At<'p>>> StepSizeTuning<'p, P, K> {
    /// Of `kernel` along `path`. The kernel's step size is where it starts.
    pub fn new(path: &'p P, kernel: K) -> Self {
        Self {
            path,
            acceptance: kernel.optimal_acceptance(),
            kernel,
            schedule: Schedule::linear(1_000).expect("1,000 stages are a schedule"),
            seed: 0,
            threads: None,
            progress: None,
        }
    }

    setters! {
        /// The schedule that the run will take; linear with 1,000 stages unless set.
        schedule: Schedule,
        /// The acceptance to reach, in (0, 1); the kernel's
        /// [`optimal_acceptance`](Tunable::optimal_acceptance) unless set.
        acceptance: f64,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed: u64,
    }

    /// Number of threads; rayon's global pool unless set, or for `None`.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Calls `progress` as [`Ais::progress`](crate::ais::Ais::progress) does.
    pub fn progress<V: Verdict>(mut self, progress: impl Fn(Progress) -> V + Sync + 'p) -> Self {
        self.progress = Some(callback(progress));
        self
    }

    /// Shows a progress bar meanwhile, as [`Ais::progress_bar`](crate::ais::Ais::progress_bar) does.
    #[cfg(feature = "progress")]
    pub fn progress_bar(self) -> Self {
        self.progress(crate::ais::progress_bar())
    }

    /// Tunes the kernel.
    ///
    /// # Errors
    /// A target outside of (0, 1); [`Error::WrongGradient`] where the kernel takes a gradient and finite differences
    /// contradict it, at the base's samples or at those of the target; [`Error::NotConverged`] where no step size gives an acceptance within 0.1 of
    /// it; a NaN of the model; chains that all leave the support; a panic in model, kernel or callback;
    /// [`Error::Stopped`] where the callback says so.
    pub fn run(&self) -> Result<Tuned<K>>
    where
        P: AnnealingPath<State: Clone + Send> + Sync,
        P::At<'p>: Send,
        K: TransitionKernel<P::At<'p>> + Sync,
    {
        let begun = Instant::now();
        Error::check_inner_fraction("target acceptance", self.acceptance)?;
        refuse_stages(self.kernel.stages())?;
        let found = in_pool(self.threads, CHAINS / BLOCK, || self.sizes())?;
        let (sizes, acceptance) = found;
        let evaluations = self
            .chain_steps()
            .saturating_mul(self.kernel.evaluations(dimension(self.path)) as u64);
        Ok(Tuned {
            kernel: self.kernel.with_step_size(sizes),
            acceptance,
            evaluations,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn intervals(&self) -> usize {
        self.schedule.steps().min(INTERVALS)
    }

    fn chain_steps(&self) -> u64 {
        (CHAINS * STEPS * (4 + self.intervals())) as u64
    }

    /// The step sizes at all knots, and the mean acceptance there.
    fn sizes(&self) -> Result<(StepSize, f64)>
    where
        P: AnnealingPath<State: Clone + Send> + Sync,
        P::At<'p>: Send,
        K: TransitionKernel<P::At<'p>> + Sync,
    {
        let first = stream(self.seed, Purpose::Tune, 0);
        let mut chains = Populations::start(self.path, 0..CHAINS, BLOCK, first)?;
        chains.check_model(&self.kernel, &[1.0, 0.0])?;
        let meter = Meter::new(self.progress.as_deref(), 0, self.chain_steps());
        let mut log_size = self.kernel.step_size().at(0.0).ln();
        let (stages, intervals) = (self.schedule.steps(), self.intervals());
        let mut knots = Vec::with_capacity(intervals + 1);
        let mut accepted = 0.0;
        for index in 0..=intervals {
            let beta = self.schedule.betas()[index * stages / intervals];
            let mut steps = 4 * STEPS;
            if index > 0 {
                steps = STEPS;
                chains.place_within(beta, P::State::clone)?;
            }
            let mut acceptance = |log_size: f64| {
                meter.count(CHAINS as u64, CHAINS)?;
                acceptance(&mut chains, &self.kernel, log_size)
            };
            let at_beta = tune_at(beta, self.acceptance, steps, log_size, &mut acceptance)?;
            log_size = at_beta.0;
            accepted += at_beta.1 / (intervals + 1) as f64;
            knots.push((beta, log_size.exp()));
        }
        chains.check_model(&self.kernel, &[1.0])?;
        Ok((StepSize::knots(knots)?, accepted))
    }
}

/// One line: the step sizes at both ends, the acceptance and what it cost.
impl<K: Tunable> fmt::Display for Tuned<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.kernel.step_size();
        let (first, last) = (sizes.at(0.0), sizes.at(1.0));
        let (evaluations, seconds) = (self.evaluations, self.seconds);
        write!(
            f,
            "step size {first:.3e} at the base, {last:.3e} at the target; acceptance {:.2}; \
             {evaluations:.3e} evaluations in {seconds:.1} s",
            self.acceptance
        )
    }
}

/// Moves every chain once, with steps of this size, and averages the acceptance probabilities.
fn acceptance<'p, P, K>(
    chains: &mut Populations<'p, P, K::Workspace>,
    kernel: &K,
    log_size: f64,
) -> Result<f64>
where
    P: AnnealingPath<State: Send> + Sync,
    P::At<'p>: Send,
    K: Tunable + TransitionKernel<P::At<'p>> + Sync,
{
    let kernel = kernel.with_step_size(StepSize::constant(log_size.exp())?);
    let decisions = chains.stay(&kernel)?;
    let nothing_moved = Error::AllWeightsZero { chains: CHAINS };
    decisions.acceptance().ok_or(nothing_moved)
}

/// The logarithm of the step size that gives the target at one beta, found in so many steps of all
/// chains, and its acceptance.
fn tune_at(
    beta: f64,
    target: f64,
    steps: usize,
    log_size: f64,
    acceptance: &mut dyn FnMut(f64) -> Result<f64>,
) -> Result<(f64, f64)> {
    let (log_size, excess) = robbins_monro(target, steps, log_size, acceptance)?;
    if excess.abs() <= TOLERANCE {
        return Ok((log_size, target + excess));
    }
    Err(Error::NotConverged {
        what: "the step size",
        detail: format!(
            "acceptance {:.3} at beta = {} with step size {:e}, target {target}",
            target + excess,
            short(beta),
            log_size.exp(),
        ),
    })
}

/// The gain of a Robbins-Monro recursion for the logarithm of a step size. It falls at each crossing of the
/// target (Kesten 1958).
#[derive(Default)]
pub(super) struct Gain {
    crossings: u32,
    last_excess: f64,
}

impl Gain {
    /// How far the logarithm is to move, where the acceptance exceeds the target by so much.
    pub(super) fn increment(&mut self, excess: f64) -> f64 {
        self.crossings += u32::from(excess * self.last_excess < 0.0);
        self.last_excess = excess;
        2.0 * excess / f64::from(1 + self.crossings)
    }
}

/// Adjusts the logarithm of a step size in so many steps of all chains. Returns its mean over the last half,
/// and by how much the acceptance exceeded the target there.
pub(crate) fn robbins_monro(
    target: f64,
    steps: usize,
    mut log_size: f64,
    acceptance: &mut dyn FnMut(f64) -> Result<f64>,
) -> Result<(f64, f64)> {
    let tail = steps - steps / 2;
    let (mut mean_log_size, mut mean_excess) = (0.0, 0.0);
    let mut gain = Gain::default();
    for step in 0..steps {
        let excess = acceptance(log_size)? - target;
        if step >= steps / 2 {
            mean_log_size += log_size / tail as f64;
            mean_excess += excess / tail as f64;
        }
        log_size += gain.increment(excess);
    }
    Ok((mean_log_size, mean_excess))
}

impl<P, K: fmt::Debug> fmt::Debug for StepSizeTuning<'_, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepSizeTuning")
            .field("kernel", &self.kernel)
            .field("acceptance", &self.acceptance)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
