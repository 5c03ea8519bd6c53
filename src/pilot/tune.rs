//! Step sizes tuned along a path to a target acceptance.

use crate::chain::Block;
use crate::chain::Stage;
use crate::kernel::StepSize;
use crate::kernel::TransitionKernel;
use crate::kernel::Tunable;
use crate::model::Sampleable;
use crate::path::{AnnealingPath, Intermediate};
use crate::random::{Purpose, StreamRng, stream, successive};
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

/// The kernel with step sizes that give `target_acceptance` all along the path (log-linear
/// between up to 21 betas, evenly spaced in the stages of the schedule that the run will take).
///
/// A pilot of 64 chains starts from the base and moves through these betas, at each of which a
/// Robbins-Monro recursion adjusts the logarithm of the step size, starting from that of the beta
/// before (at the base, from the kernel's own); its gain falls at each crossing of the target
/// (Kesten 1958), and the iterates of the last half are averaged. The pilot's streams are those
/// of [`Purpose::Tune`], so that a run with the same seed is independent of it, and its weights
/// unbiased given the tuned kernel.
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
    let mut pilot = Pilot::new(kernel, path, target_acceptance, seed);
    let mut log_size = kernel.step_size().at(0.0).ln();
    let intervals = schedule.steps().min(INTERVALS);
    let mut knots = Vec::with_capacity(intervals + 1);
    for index in 0..=intervals {
        let beta = schedule.betas()[index * schedule.steps() / intervals];
        let stage = Stage::new(index, path.at(beta), path.at(beta));
        log_size = pilot.tune_at(&stage, log_size)?;
        knots.push((beta, log_size.exp()));
    }
    Ok(kernel.with_step_size(StepSize::knots(knots)?))
}

struct Pilot<'k, S, K, W> {
    kernel: &'k K,
    target: f64,
    block: Block<S>,
    workspace: W,
}

impl<'k, S, K: Tunable, W: Default> Pilot<'k, S, K, W> {
    fn new<P>(kernel: &'k K, path: &P, target: f64, seed: u64) -> Self
    where
        P: AnnealingPath<State = S>,
    {
        let first = stream(seed, Purpose::Tune, 0);
        let mut rngs: Vec<StreamRng> = successive(first).take(CHAINS).collect();
        let states = rngs.iter_mut().map(|rng| path.base().sample(rng)).collect();
        Self {
            kernel,
            target,
            block: Block::new(0, states, rngs),
            workspace: W::default(),
        }
    }

    /// The logarithm of the step size that gives the target at this model.
    fn tune_at<M>(&mut self, stage: &Stage<M>, mut log_size: f64) -> Result<f64>
    where
        M: Intermediate<State = S>,
        K: TransitionKernel<M, Workspace = W>,
    {
        let steps = if stage.index == 0 { 4 * STEPS } else { STEPS };
        let tail = steps - steps / 2;
        let (mut mean_log_size, mut mean_excess) = (0.0, 0.0);
        let (mut crossings, mut last_excess) = (0, 0.0);
        for step in 0..steps {
            let excess = self.acceptance(stage, log_size.exp())? - self.target;
            if step >= steps / 2 {
                mean_log_size += log_size / tail as f64;
                mean_excess += excess / tail as f64;
            }
            crossings += usize::from(excess * last_excess < 0.0);
            last_excess = excess;
            log_size += 2.0 * excess / (1 + crossings) as f64;
        }
        if mean_excess.abs() <= TOLERANCE {
            Ok(mean_log_size)
        } else {
            Err(Error::NotConverged {
                what: "the step size",
                detail: format!(
                    "acceptance {:.3} at beta = {} with step size {:e}, target {}",
                    self.target + mean_excess,
                    stage.beta,
                    mean_log_size.exp(),
                    self.target
                ),
            })
        }
    }

    /// Moves every chain once and averages the acceptance probabilities.
    fn acceptance<M>(&mut self, stage: &Stage<M>, size: f64) -> Result<f64>
    where
        M: Intermediate<State = S>,
        K: TransitionKernel<M, Workspace = W>,
    {
        let kernel = self.kernel.with_step_size(StepSize::constant(size)?);
        let (sum_before, count_before) = self.block.acceptance();
        kernel.advance(stage, &mut self.block, &mut self.workspace)?;
        let (sum, count) = self.block.acceptance();
        if count == count_before {
            return Err(Error::AllWeightsZero { chains: CHAINS });
        }
        Ok((sum - sum_before) / (count - count_before) as f64)
    }
}
