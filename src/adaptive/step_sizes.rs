//! Step sizes tuned along a path to a target acceptance.

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use crate::error::short;
use crate::kernel::{StepSize, TransitionKernel, Tunable, refuse_stages};
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::population::Populations;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Counts, Execution, Halt, Job, Pulse, Single, Stepped, Task, controls};
use crate::{Error, Result};

/// Largest number of intervals between the betas at which step sizes are tuned. With 20 tuning costs 92,160
/// chain-steps, 2% of a run of 4,096 chains and 1,000 stages.
const MOST_INTERVALS: usize = 20;
/// Number of chains of the pilot. The 30 averaged moves of 64 chains give the acceptance at a beta to about .01, a
/// tenth of `ACCEPTANCE_TOLERANCE`, if moves are independent.
const PILOT_CHAINS: usize = 64;
/// Number of chains in a block, unless `block_size` is set: 64 chains are then work for eight threads. If chains move
/// one by one, small blocks cost nothing.
const PILOT_BLOCK: usize = 8;
/// Number of moves of each chain at a beta, four times as many at the first. The last half is averaged; in the first
/// half the log size can still rise by 12 for a target of .8, a factor of 1e5.
const MOVES_PER_BETA: usize = 60;
/// Largest accepted distance of the acceptance from its target. It is some nine standard errors of the mean acceptance
/// found, so only a size that does not converge is an error.
const ACCEPTANCE_TOLERANCE: f64 = 0.1;

/// A tuner of step sizes that gives a kernel the same acceptance all along a path.
///
/// A pilot of 64 chains moves through up to 21 betas, evenly spaced in the stages of the run's schedule. At each
/// beta a Robbins-Monro recursion (Kesten 1958) adjusts the log step size. It is interpolated linearly between betas.
/// The pilot has its own streams ([`Purpose::Tune`]), so a later run with the same seed is unbiased.
///
/// ```
/// use annealed::adaptive::StepSizes;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(5, 3.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(5)?, &target);
/// let schedule = Schedule::linear(100)?;
/// let tuned = StepSizes::new(&path, Hmc::new(0.5, 3)?).schedule(schedule.clone()).seed(7).run()?;
/// println!("{tuned}");
/// let run = Ais::new(&path, tuned.kernel).schedule(schedule).seed(7).run()?;
/// # assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// The pilot costs 240 moves per chain at the base and 60 at each further beta. It uses up to 8 threads unless
/// [blocks](Self::block_size) are set.
///
/// The shape of the proposals stays as it is. [`AdaptiveSmc::first_pass`](crate::adaptive::AdaptiveSmc::first_pass)
/// also finds a shape, a mass matrix for [`Hmc`](crate::kernel::Hmc). [`Rounds`](crate::adaptive::Rounds) finds
/// everything.
#[must_use]
pub struct StepSizes<'p, P, K> {
    path: P,
    kernel: K,
    schedule: Schedule,
    acceptance: f64,
    block_size: usize,
    seed: u64,
    execution: Execution<'p>,
}

/// A kernel with the step sizes found by [`StepSizes`], and their cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct Tuned<K> {
    /// The kernel.
    pub kernel: K,
    /// Mean acceptance over the betas at which it was tuned.
    pub acceptance: f64,
    /// Evaluations of the density; a gradient counts as one more.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl<'p, P: AnnealingPath, K: Tunable + TransitionKernel<P::At>> StepSizes<'p, P, K> {
    /// Creates a tuner of `kernel` along `path`. Tuning starts from the kernel's step size.
    pub fn new(path: P, kernel: K) -> Self {
        Self {
            path,
            acceptance: kernel.optimal_acceptance(),
            kernel,
            schedule: Schedule::linear(1_000).expect("1,000 stages are a schedule"),
            block_size: PILOT_BLOCK,
            seed: 0,
            execution: Execution::default(),
        }
    }

    setters! {
        /// Sets the schedule of the run to follow; linear with 1,000 stages by default.
        schedule: Schedule,
        /// Sets the acceptance to reach, in (0, 1); the kernel's [`optimal_acceptance`](Tunable::optimal_acceptance) by
        /// default.
        acceptance: f64,
        /// Sets the number of chains that move together; 8 by default. With 64, a model that [evaluates
        /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call a move.
        block_size: usize,
        /// Sets the seed; 0 by default. The result does not depend on the number of threads.
        seed: u64,
    }

    controls! { 'p, "Nothing is tuned then: an [`Error::Stopped`]." }

    /// Tunes the kernel.
    ///
    /// # Errors
    /// A target acceptance outside (0, 1); [`Error::WrongGradient`] if finite differences contradict a gradient at base
    /// or target; [`Error::NotConverged`] if no step size brings the acceptance within 0.1; a NaN of the model; chains
    /// that all leave the support; a panic in model, kernel or callback; [`Error::Stopped`].
    pub fn run(&self) -> Result<Tuned<K>>
    where
        P: AnnealingPath<State: Clone + Send> + Send + Sync,
        P::At: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        let begun = Instant::now();
        Error::check_inner_fraction("target acceptance", self.acceptance)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        refuse_stages(self.kernel.stages())?;
        let job = Job::new(&self.execution)?;
        job.foresee(self.chain_steps());
        let Single((sizes, acceptance)) = job.complete(self)?.whole(PILOT_CHAINS)?;
        let evaluations = self
            .chain_steps()
            .saturating_mul(self.kernel.evaluations(dimension(&self.path)) as u64);
        Ok(Tuned {
            kernel: self.kernel.with_step_size(sizes),
            acceptance,
            evaluations,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    fn intervals(&self) -> usize {
        self.schedule.stages().min(MOST_INTERVALS)
    }

    fn chain_steps(&self) -> u64 {
        (PILOT_CHAINS * MOVES_PER_BETA * (4 + self.intervals())) as u64
    }

    fn beta(&self, interval: usize) -> f64 {
        self.schedule.betas()[interval * self.schedule.stages() / self.intervals()]
    }
}

impl<'p, P, K> Task for StepSizes<'p, P, K>
where
    P: AnnealingPath<State: Clone + Send> + Send + Sync,
    P::At: Send,
    K: Tunable + TransitionKernel<P::At> + Sync,
{
    /// The step sizes found, and the mean acceptance.
    type Output = Single<(StepSize, f64)>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..PILOT_CHAINS
    }

    fn cost(&self, _blocks: Range<usize>) -> u64 {
        self.chain_steps()
    }

    /// Tunes the step size at one beta after another, from the size found before, by moves of all chains.
    fn run(&self, _block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        let first = stream(self.seed, Purpose::Tune, 0);
        let mut chains =
            Populations::start(self.path.clone(), 0..PILOT_CHAINS, self.block_size, first)?;
        chains.check_model(&self.kernel, &[1.0, 0.0])?;
        let mut log_size = self.kernel.step_size().at(0.0).ln();
        let mut knots = Vec::with_capacity(self.intervals() + 1);
        let mut accepted = 0.0;
        for interval in 0..=self.intervals() {
            let beta = self.beta(interval);
            if interval > 0 {
                chains.place_within(beta, P::State::clone)?;
            }
            let steps = if interval == 0 {
                4 * MOVES_PER_BETA
            } else {
                MOVES_PER_BETA
            };
            let mut search = RobbinsMonro::new(self.acceptance, steps, log_size);
            while !search.is_done() {
                pulse.at((0..PILOT_CHAINS, 0, chains.beta()));
                let size = StepSize::constant(search.log_size().exp())?;
                let decisions = chains.stay(&self.kernel.with_step_size(size))?;
                let nothing_moved = Error::AllWeightsZero {
                    chains: PILOT_CHAINS,
                };
                search.update(decisions.acceptance().ok_or(nothing_moved)?);
                let is_last = search.is_done() && interval == self.intervals();
                pulse.pass(Stepped::of(PILOT_CHAINS, is_last))?;
            }
            let (found, acceptance) = converged(&search, beta)?;
            log_size = found;
            accepted += acceptance / (self.intervals() + 1) as f64;
            knots.push((beta, log_size.exp()));
        }
        // The first check had only states of the base, but a mistake may show only where the target has its mass.
        chains.check_model(&self.kernel, &[1.0])?;
        Ok(Single((StepSize::knots(knots)?, accepted)))
    }

    fn width(&self) -> usize {
        PILOT_CHAINS.div_ceil(self.block_size)
    }
}

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

/// Returns the log step size found at a beta, and its acceptance.
fn converged(search: &RobbinsMonro, beta: f64) -> Result<(f64, f64)> {
    let (log_size, excess) = search.means();
    if excess.abs() <= ACCEPTANCE_TOLERANCE {
        return Ok((log_size, search.target + excess));
    }
    Err(Error::NotConverged {
        what: "the step size",
        detail: format!(
            "acceptance {:.3} at beta = {} with step size {:e}, target {}",
            search.target + excess,
            short(beta),
            log_size.exp(),
            search.target,
        ),
    })
}

/// Change of the log step size for each unit of excess acceptance: about the inverse slope of the acceptance at its
/// target, by theory in many dimensions 2.1 for random walks (.3), 2.6 for `Hmc` (.8), .9 for `Mala` (.574).
pub(super) const STEP_GAIN: f64 = 2.0;

/// The gain of a Robbins-Monro recursion for the log step size; it falls at each crossing of the target (Kesten 1958).
#[derive(Default)]
pub(super) struct Gain {
    crossings: u32,
    last_excess: f64,
}

impl Gain {
    /// Returns the change of the log step size if the acceptance exceeds the target by `excess`.
    pub(super) fn increment(&mut self, excess: f64) -> f64 {
        self.crossings += u32::from(excess * self.last_excess < 0.0);
        self.last_excess = excess;
        STEP_GAIN * excess / f64::from(1 + self.crossings)
    }
}

/// A Robbins-Monro recursion that adjusts the log step size until the acceptance meets the target.
pub(crate) struct RobbinsMonro {
    target: f64,
    steps: usize,
    done: usize,
    log_size: f64,
    gain: Gain,
    mean_log_size: f64,
    mean_excess: f64,
}

impl RobbinsMonro {
    pub(crate) fn new(target: f64, steps: usize, log_size: f64) -> Self {
        Self {
            target,
            steps,
            done: 0,
            log_size,
            gain: Gain::default(),
            mean_log_size: 0.0,
            mean_excess: 0.0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done == self.steps
    }

    pub(crate) fn log_size(&self) -> f64 {
        self.log_size
    }

    pub(crate) fn update(&mut self, acceptance: f64) {
        let excess = acceptance - self.target;
        // Earlier sizes still depend on the start. The mean of the later sizes has less noise than the last size.
        if self.done >= self.steps / 2 {
            let tail = (self.steps - self.steps / 2) as f64;
            self.mean_log_size += self.log_size / tail;
            self.mean_excess += excess / tail;
        }
        self.log_size += self.gain.increment(excess);
        self.done += 1;
    }

    /// Returns the mean log step size over the last half of the steps, and the mean excess of the acceptance there.
    pub(crate) fn means(&self) -> (f64, f64) {
        (self.mean_log_size, self.mean_excess)
    }
}

crate::num::debug_by_fields! {
    StepSizes for [P, K: fmt::Debug] StepSizes<'_, P, K> { kernel, acceptance, seed }
}
