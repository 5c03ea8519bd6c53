//! Chains at the knots of a path.

use std::ops::Range;

use super::survey_run::BLOCK;
use crate::error::short;
use crate::kernel::{Block, Stage, TransitionKernel, refuse_stages};
use crate::path::{AnnealingPath, Intermediate};
use crate::population::Population;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::work::{Execution, Halt, Job, Merge, Pulse, Stepped, Task};
use crate::{Error, Result};

/// Chains that pass the knots in order and make updates at each, to estimate the costs of a
/// [`BinnedSchedule`](crate::pilot::BinnedSchedule). The estimates use no weights. A kernel that is not invariant, such
/// as unadjusted Langevin, therefore gives the costs of its own stationary distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KnotChains {
    /// Number of chains.
    pub chains: usize,
    /// Updates of each chain at a knot.
    pub updates: usize,
    /// Number of first updates at each knot whose states are not counted in the estimates.
    pub burn_in: usize,
    /// Number of updates from one counted update to the next.
    pub thinning: usize,
    /// Number of chains that move together, at most; 32 by default. A model that [evaluates
    /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call per step if the block has all chains.
    pub block_size: usize,
}

impl Default for KnotChains {
    /// 100 chains and 100 updates per knot, half of them burn-in, every tenth counted.
    fn default() -> Self {
        Self {
            chains: 100,
            updates: 100,
            burn_in: 50,
            thinning: 10,
            block_size: BLOCK,
        }
    }
}

impl KnotChains {
    /// Creates the setting of Kiwaki (2015): 1,000 chains, 6,000 updates per knot including a burn-in of 1,000. It
    /// does not say which updates count; here it is every tenth.
    pub fn paper() -> Self {
        Self {
            chains: 1_000,
            updates: 6_000,
            burn_in: 1_000,
            thinning: 10,
            block_size: BLOCK,
        }
    }

    fn check(&self) -> Result<()> {
        Error::check_count("chains at the knots", self.chains, 2)?;
        Error::check_at_least("thinning", self.thinning, 1)?;
        Error::check_at_least("block_size at the knots", self.block_size, 1)?;
        // The burn-in and one counted step.
        let least = self.burn_in.saturating_add(self.thinning);
        Error::check_count("updates", self.updates, least)
    }

    /// Returns the number of evaluations at `knots` knots, if a chain's update takes `of_step`. A counted update also
    /// evaluates the models at both neighbouring knots.
    pub(super) fn evaluations(&self, knots: usize, of_step: usize) -> u64 {
        let counted = 2 * (self.updates - self.burn_in) / self.thinning;
        let of_chain = self.updates.saturating_mul(of_step).saturating_add(counted);
        let of_knot = (of_chain as u64).saturating_mul(self.chains as u64);
        of_knot.saturating_mul(knots as u64)
    }

    /// Returns the costs of the segments between knots. Each block of chains passes all knots.
    pub(super) fn costs<P, K>(
        &self,
        path: &P,
        kernel: &K,
        knots: &[f64],
        seed: u64,
        execution: &Execution<'_>,
    ) -> Result<Vec<f64>>
    where
        P: AnnealingPath + Send + Sync,
        K: TransitionKernel<P::At> + Sync,
    {
        self.check()?;
        refuse_stages(kernel.stages())?;
        let blocks = self.chains.div_ceil(self.block_size);
        let size = self.chains.div_ceil(blocks);
        let streams = successive(stream(seed, Purpose::KNOTS, 0)).step_by(size);
        let task = KnotTask {
            path,
            kernel,
            knots,
            settings: self,
            size,
            streams: streams.take(self.chains.div_ceil(size)).collect(),
        };
        let job = Job::new(execution)?.named("pilot");
        job.foresee(task.cost(task.blocks()));
        let sums = job.complete(&task)?.whole(self.chains)?;
        self.costs_of_sums(knots, &sums.0)
    }

    fn costs_of_sums(&self, knots: &[f64], sums: &[[f64; 3]]) -> Result<Vec<f64>> {
        let mut costs = vec![0.0; knots.len() - 1];
        // Segment j costs `1/2 (E_{j+1} - E_j)`, so the chains at a knot add to one segment and subtract from the next.
        for (j, &[back, ahead, counted]) in sums.iter().enumerate() {
            if counted == 0.0 {
                let chains = self.chains;
                return Err(Error::AllWeightsZero { chains });
            }
            if j > 0 {
                costs[j - 1] += 0.5 * finite(back / counted, knots[j], knots[j - 1])?;
            }
            if j < costs.len() {
                costs[j] -= 0.5 * finite(ahead / counted, knots[j], knots[j + 1])?;
            }
        }
        Ok(costs)
    }
}

struct KnotTask<'s, P: AnnealingPath, K> {
    path: &'s P,
    kernel: &'s K,
    knots: &'s [f64],
    settings: &'s KnotChains,
    /// Number of chains in a block; the last may have fewer.
    size: usize,
    streams: Vec<StreamRng>,
}

impl<P, K> Task for KnotTask<'_, P, K>
where
    P: AnnealingPath + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    type Output = Sums;

    fn blocks(&self) -> Range<usize> {
        0..self.streams.len()
    }

    fn chains(&self, block: usize) -> Range<usize> {
        self.size * block..self.settings.chains.min(self.size * (block + 1))
    }

    fn cost(&self, blocks: Range<usize>) -> u64 {
        let chains: usize = blocks.map(|block| self.chains(block).len()).sum();
        let factors = [chains, self.settings.updates, self.knots.len()];
        factors
            .into_iter()
            .fold(1, |cost, factor| cost.saturating_mul(factor as u64))
    }

    /// Takes the chains of a block from knot to knot, and sums their log ratios to the neighbouring knots.
    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let settings = self.settings;
        let (chains, stream) = (self.chains(block), self.streams[block].clone());
        let (first, count) = (chains.start, chains.len());
        let mut population = Population::start(self.path.clone(), first, count, stream)?;
        let mut sums = vec![[0.0; 3]; self.knots.len()];
        for (j, (&knot, sums)) in self.knots.iter().zip(&mut sums).enumerate() {
            if j > 0 {
                population.place_at(knot)?;
            }
            let back = (j > 0).then(|| self.path.at(self.knots[j - 1]));
            let ahead = self.knots.get(j + 1).map(|&next| self.path.at(next));
            for update in 1..=settings.updates {
                pulse.at(population.place_at_hand());
                population.stay(self.kernel)?;
                let counts = update > settings.burn_in
                    && (update - settings.burn_in).is_multiple_of(settings.thinning);
                if counts {
                    population.learn()?;
                    let (here, block) = (population.stage().model, population.block());
                    let sum = |to, from| sum_of_log_ratios(block, to, from);
                    sums[0] += sum(Some(here), back.as_ref());
                    sums[1] += sum(ahead.as_ref(), Some(here));
                    sums[2] += block.alive().count() as f64;
                }
                let is_last = update == settings.updates && ahead.is_none();
                pulse.pass(Stepped::of(count, is_last))?;
            }
        }
        Ok(Sums(sums))
    }
}

/// Sums per knot: log ratios from the knot before to it, log ratios from it to the knot after, and the number of
/// states.
struct Sums(Vec<[f64; 3]>);

impl Merge for Sums {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(right.0) {
            (0..3).for_each(|i| mine[i] += theirs[i]);
        }
    }
}

/// Refuses an infinite mean log ratio of the chains at beta `here`: the model at `there` excludes one of the states.
fn finite(mean: f64, here: f64, there: f64) -> Result<f64> {
    let (here, there) = (short(here), short(there));
    let found = format!("chains at beta = {here} off the support of beta = {there}");
    let expected = "one support at all knots, since the divergence between two is infinite otherwise; \
                    the schedules Friction and VarOpt need no common support";
    Error::check(mean.is_finite(), "path", found, expected)?;
    Ok(mean)
}

/// Returns the sum of the log ratios from `from` to `to` over the living chains; 0 beyond the path's ends.
fn sum_of_log_ratios<M: Intermediate>(
    block: &Block<M::State>,
    to: Option<&M>,
    from: Option<&M>,
) -> f64 {
    let (Some(to), Some(from)) = (to, from) else {
        return 0.0;
    };
    let stage = Stage::new(0, from, to);
    block
        .alive()
        .map(|chain| block.log_ratio(stage, chain))
        .sum()
}
