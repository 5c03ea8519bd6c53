//! Binned schedules: whole numbers of stages for the segments between knots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::estimate::Warning;
use crate::kernel::TransitionKernel;
use crate::num::setters;
use crate::path::{AnnealingPath, dimension};
use crate::pilot::knot_chains::KnotChains;
use crate::pilot::metric::nothing_changes;
use crate::pilot::survey::{Survey, few_chains};
use crate::pilot::{OptimizedSchedule, ScheduleOptimizer};
use crate::schedule::Schedule;
use crate::work::Execution;
use crate::{Error, Result};

/// The schedule of Grosse, Maddison and Salakhutdinov (2013), Theorem 3.
///
/// Knots cut the path into segments. Segment j has the cost `F_j` and gets `K_j` equal stages, so that the expected
/// bias `sum_j F_j / K_j` is least if transitions are perfect.
/// `F_j = 1/2 (E_{j+1} - E_j)[log f_{j+1} - log f_j]` is half the symmetrised divergence between its knots. For an
/// exponential family it is `1/2 (eta_{j+1} - eta_j) . (s_{j+1} - s_j)`, with natural parameters eta and moments s. As
/// an optimizer the type estimates `F_j` by [`KnotChains`].
///
/// ```
/// use annealed::pilot::BinnedSchedule;
/// use annealed::schedule::Schedule;
///
/// // The first of two segments costs nine times as much as the second, and gets three quarters of the stages.
/// let binned = BinnedSchedule::new(Schedule::linear(2)?);
/// let schedule = binned.with_costs(&[9.0, 1.0], 8)?;
/// assert_eq!(schedule.betas()[6], 0.5);
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias = "GMS13")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct BinnedSchedule {
    knots: Schedule,
    chains: KnotChains,
}

/// Ten segments of equal length.
impl Default for BinnedSchedule {
    fn default() -> Self {
        Self::new(Schedule::linear(10).expect("10 stages are a schedule"))
    }
}

impl BinnedSchedule {
    /// Creates the schedule with these knots, betas from 0 to 1. [`Schedule::linear`] of 10 gives ten equal segments.
    pub fn new(knots: Schedule) -> Self {
        Self {
            knots,
            chains: KnotChains::default(),
        }
    }

    setters! {
        /// Sets the chains that estimate the costs.
        chains: KnotChains,
    }

    /// Returns the schedule of `stages` stages for known `costs`, one per segment. The knots are among its betas. Costs
    /// below 1e-3 of their mean are noise, and are raised to that bound.
    ///
    /// # Errors
    /// A number of costs that is not the number of segments; costs that are not finite or have no positive mean; fewer
    /// stages than segments.
    pub fn with_costs(&self, costs: &[f64], stages: usize) -> Result<Schedule> {
        Error::check_dimension("costs", costs.len(), self.knots.stages())?;
        let allocation = allocate_stages(&floored(costs)?, stages)?;
        let ends = self.knots.betas()[1..].iter().copied();
        let pieces: Vec<(usize, f64)> = allocation.into_iter().zip(ends).collect();
        Schedule::piecewise_linear(&pieces)
    }

    /// Returns the schedule of `stages` stages for a survey. On a path linear in beta
    /// `F_j = 1/2 (beta_{j+1} - beta_j) int g dbeta`, integrated over the segment, with the survey's metric g.
    ///
    /// # Errors
    /// As [`with_costs`](Self::with_costs); [`Error::PilotCollapsed`].
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        let g = survey.metric()?;
        let cost = |ends: &[f64]| 0.5 * (ends[1] - ends[0]) * g.between(ends[0], ends[1]);
        let costs: Vec<f64> = self.knots.betas().windows(2).map(cost).collect();
        self.with_costs(&costs, stages)
    }

    /// Estimates the costs by chains at the knots.
    ///
    /// # Errors
    /// Settings out of range; any error of the chains.
    pub fn estimate_costs<P, K>(&self, path: P, kernel: &K, seed: u64) -> Result<Vec<f64>>
    where
        P: AnnealingPath + Send + Sync,
        K: TransitionKernel<P::At> + Sync,
    {
        let betas = self.knots.betas();
        self.chains
            .costs(&path, kernel, betas, seed, &Execution::new())
    }
}

fn floor(costs: &[f64]) -> f64 {
    1e-3 * costs.iter().sum::<f64>() / costs.len() as f64
}

fn floored(costs: &[f64]) -> Result<Vec<f64>> {
    Error::check_finite("costs", costs.iter().copied())?;
    if costs.iter().all(|&cost| cost == 0.0) {
        return Err(nothing_changes());
    }
    let floor = floor(costs);
    Error::check_positive("mean of the costs", floor)?;
    Ok(costs.iter().map(|cost| cost.max(floor)).collect())
}

fn negligible(costs: &[f64]) -> impl Iterator<Item = Warning> {
    let floor = floor(costs);
    let costs = costs.iter().copied().enumerate();
    let low = costs.filter(move |(_, cost)| *cost < floor);
    low.map(|(segment, cost)| Warning::PilotNegligibleCost { segment, cost })
}

/// Returns numbers of stages `K_j >= 1` that add up to `stages` and minimise `sum_j F_j / K_j`. Each further stage goes
/// to the segment where it saves most. The time does not grow with `stages`.
///
/// ```
/// # fn main() -> annealed::Result<()> {
/// assert_eq!(annealed::pilot::allocate_stages(&[9.0, 4.0, 1.0], 12)?, [6, 4, 2]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fewer stages than segments; a cost that is not finite and positive.
pub fn allocate_stages(costs: &[f64], stages: usize) -> Result<Vec<usize>> {
    for &cost in costs {
        Error::check_positive("cost of a segment", cost)?;
    }
    Error::check_not_empty("costs", costs.len())?;
    check_stages_of_segments(stages, costs.len())?;
    let mut allocation = at_least(costs, stages - costs.len());
    // Bits of positive numbers sort like the numbers. Among equal savings the first is taken.
    let saving = |j: usize, k: usize| (costs[j] / (k as f64 * (k as f64 + 1.0))).to_bits();
    let entries = allocation.iter().enumerate();
    let mut savings: BinaryHeap<_> = entries.map(|(j, &k)| (saving(j, k), Reverse(j))).collect();
    for _ in allocation.iter().sum()..stages {
        let mut best = savings.peek_mut().expect("there is a segment");
        let Reverse(j) = best.1;
        allocation[j] += 1;
        best.0 = saving(j, allocation[j]);
    }
    Ok(allocation)
}

/// Returns a lower bound on the best `K_j` of each segment; `spare` is the number of stages beyond one per segment. If
/// the last stage added saves l, then `K_j >= sqrt(F_j / l) - 1/2`, and `sum_j sqrt(F_j / l) > spare`.
fn at_least(costs: &[f64], spare: usize) -> Vec<usize> {
    let total: f64 = costs.iter().map(|cost| cost.sqrt()).sum();
    // Minus what rounding may add.
    let rounding = (costs.len() + 8) as f64 * f64::EPSILON;
    let spare = spare as f64 * (1.0 - rounding);
    let share = |cost: &f64| (spare * (cost.sqrt() / total) - 1.0) as usize;
    costs.iter().map(|cost| share(cost).max(1)).collect()
}

fn check_stages_of_segments(stages: usize, segments: usize) -> Result<()> {
    let expected = format!("at least one for each of {segments} segments");
    Error::check(stages >= segments, "stages", stages, expected)
}

impl<P: AnnealingPath + Send + Sync, K: Sync> ScheduleOptimizer<P, K> for BinnedSchedule {
    fn optimize_by(
        &self,
        path: P,
        kernel: &K,
        stages: usize,
        seed: u64,
        by: &Execution<'_>,
    ) -> Result<OptimizedSchedule>
    where
        P::At: Send + Sync,
        K: TransitionKernel<P::At>,
    {
        let begun = Instant::now();
        Error::check_count("stages", stages, 1)?;
        check_stages_of_segments(stages, self.knots.stages())?;
        let of_step = kernel.evaluations(dimension(&path));
        let costs = (self.chains).costs(&path, kernel, self.knots.betas(), seed, by)?;
        let few = few_chains(self.chains.chains);
        Ok(OptimizedSchedule {
            schedule: self.with_costs(&costs, stages)?,
            warnings: few.into_iter().chain(negligible(&costs)).collect(),
            evaluations: self.chains.evaluations(costs.len() + 1, of_step),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }
}
