//! Step sizes tuned along a path to a target acceptance.

use crate::ais::Population;
use crate::kernel::{StepSize, TransitionKernel, Tunable, refuse_stages};
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Intervals between the stages at which a step size is tuned, at most.
const INTERVALS: usize = 20;
/// Chains of the pilot.
const CHAINS: usize = 64;
/// Steps of each chain at a beta; four times as many at the first, whose start may be far off.
const STEPS: usize = 60;
/// The largest acceptable distance of the acceptance from its target.
const TOLERANCE: f64 = 0.1;

/// Returns the kernel with step sizes that give `target_acceptance` all along the path.
///
/// The step size is tuned at up to 21 betas, which are evenly spaced in the stages of the schedule
/// that the run will take. Between them its logarithm is linear.
///
/// A pilot of 64 chains starts from the base and moves through these betas. At each a Robbins-Monro
/// recursion adjusts the logarithm of the step size. It starts from the step size of the beta before,
/// and at the base from the kernel's own. Its gain falls at each crossing of the target (Kesten 1958),
/// and the iterates of the last half are averaged. The pilot's streams are those of
/// [`Purpose::Tune`], so that a run with the same seed is independent of the pilot, and its weights
/// are unbiased given the tuned kernel.
///
/// # Errors
/// Where the target lies outside of (0, 1); where no step size gives an acceptance within 0.1 of
/// it; where the model returns NaN; where all chains leave the support.
pub fn tune<'p, P, K>(
    kernel: &K,
    path: &'p P,
    schedule: &Schedule,
    target_acceptance: f64,
    seed: u64,
) -> Result<K>
where
    P: AnnealingPath,
    K: Tunable + TransitionKernel<P::At<'p>>,
{
    Error::check_inner_fraction("target acceptance", target_acceptance)?;
    refuse_stages(kernel.stages())?;
    let mut chains = Population::start(path, 0, CHAINS, stream(seed, Purpose::Tune, 0))?;
    let mut log_size = kernel.step_size().at(0.0).ln();
    let intervals = schedule.steps().min(INTERVALS);
    let mut knots = Vec::with_capacity(intervals + 1);
    for index in 0..=intervals {
        let beta = schedule.betas()[index * schedule.steps() / intervals];
        let mut steps = 4 * STEPS;
        if index > 0 {
            steps = STEPS;
            chains.place_at(beta)?;
        }
        let mut acceptance = |log_size: f64| acceptance(&mut chains, kernel, log_size);
        log_size = tune_at(beta, target_acceptance, steps, log_size, &mut acceptance)?;
        knots.push((beta, log_size.exp()));
    }
    Ok(kernel.with_step_size(StepSize::knots(knots)?))
}

/// Moves every chain once, with steps of this size, and averages the acceptance probabilities.
fn acceptance<'p, P, K>(
    chains: &mut Population<'p, P, K::Workspace>,
    kernel: &K,
    log_size: f64,
) -> Result<f64>
where
    P: AnnealingPath,
    K: Tunable + TransitionKernel<P::At<'p>>,
{
    let kernel = kernel.with_step_size(StepSize::constant(log_size.exp())?);
    let before = chains.block().decisions();
    chains.stay(&kernel)?;
    let decisions = chains.block().decisions().since(before);
    let nothing_moved = Error::AllWeightsZero { chains: CHAINS };
    decisions.acceptance().ok_or(nothing_moved)
}

/// The logarithm of the step size that gives the target at one beta, found in so many steps of all
/// chains.
fn tune_at(
    beta: f64,
    target: f64,
    steps: usize,
    log_size: f64,
    acceptance: &mut dyn FnMut(f64) -> Result<f64>,
) -> Result<f64> {
    let (log_size, excess) = robbins_monro(target, steps, log_size, acceptance)?;
    if excess.abs() <= TOLERANCE {
        return Ok(log_size);
    }
    Err(Error::NotConverged {
        what: "the step size",
        detail: format!(
            "acceptance {:.3} at beta = {beta} with step size {:e}, target {target}",
            target + excess,
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
