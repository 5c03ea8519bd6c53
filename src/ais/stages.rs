//! Statistics recorded along the schedule, at a bounded number of stages.

use std::ops::Range;

use crate::Result;
use crate::estimate::{Estimate, Warning};
use crate::kernel::{Block, Decisions};
use crate::num::{Moments, WeightSums, WeightedMean, next_run};
use crate::schedule::Schedule;

/// A division of the stages, in the order in which they are passed, into windows of neighbouring stages. Forward and
/// reverse runs have the same windows.
#[derive(Debug, Clone)]
pub(crate) struct Windows {
    /// Whether the stages lead from the target to the base.
    is_backward: bool,
    /// Number of stages passed at the end of each window.
    ends: Vec<usize>,
    /// Schedule indices at which a window ends and weights are kept.
    kept: Vec<usize>,
}

impl Windows {
    /// Creates at most `limit` windows (not 0) of equal width, as narrow as possible, and divides them at the schedule
    /// indices `kept`. Before this division, only the window next to the target may be shorter.
    pub(crate) fn new(is_backward: bool, steps: usize, limit: usize, kept: Vec<usize>) -> Self {
        let width = steps.div_ceil(limit);
        let mut ends: Vec<usize> = (0..=steps).step_by(width).chain([steps]).collect();
        ends.extend(&kept);
        if is_backward {
            ends.iter_mut().for_each(|end| *end = steps - *end);
        }
        ends.sort_unstable();
        ends.dedup();
        // No window ends before the first stage.
        ends.remove(0);
        Self {
            is_backward,
            ends,
            kept,
        }
    }

    pub(crate) fn stages(&self) -> usize {
        self.end(self.count() - 1)
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of stages passed before `window`.
    fn start(&self, window: usize) -> usize {
        window.checked_sub(1).map_or(0, |before| self.end(before))
    }

    fn end(&self, window: usize) -> usize {
        self.ends[window]
    }

    /// Returns the schedule index of the model reached after `passed` stages.
    pub(crate) fn model(&self, passed: usize) -> usize {
        match self.is_backward {
            true => self.stages() - passed,
            false => passed,
        }
    }

    /// Returns the window's middle stage, at which the thermodynamic integrand is evaluated (midpoint rule).
    fn middle(&self, window: usize) -> usize {
        // Rounded up, because stages are counted from 1: a window of one stage, k - 1 to k, has the middle k.
        (self.start(window) + self.end(window)).div_ceil(2)
    }

    /// Returns the width of a window in beta, divided by the width of its middle stage.
    fn middles(&self, window: usize, schedule: &Schedule) -> f64 {
        let beta = |passed| schedule.betas()[self.model(passed)];
        let middle = self.middle(window);
        let width = beta(self.end(window)) - beta(self.start(window));
        width / (beta(middle) - beta(middle - 1))
    }

    pub(crate) fn of_stage(&self, stage: usize) -> usize {
        self.ends.partition_point(|&end| end < stage)
    }

    pub(crate) fn ends_at(&self, stage: usize) -> bool {
        self.ends.binary_search(&stage).is_ok()
    }

    /// Returns whether weights are kept after `stage`.
    pub(crate) fn keeps_at(&self, stage: usize) -> bool {
        self.ends_at(stage) && self.keeps(self.of_stage(stage))
    }

    /// Returns whether weights are kept at the end of `window`.
    fn keeps(&self, window: usize) -> bool {
        self.kept.contains(&self.model(self.end(window)))
    }

    /// Returns whether these can be the records of `chains` after `passed` stages; false for a damaged file.
    pub(crate) fn fit(&self, records: &[WindowSums], passed: usize, chains: &Range<usize>) -> bool {
        records.iter().enumerate().all(|(window, record)| {
            let kept = self.end(window) <= passed && self.keeps(window);
            record.fits(chains) && record.kept.is_some() == kept
        })
    }
}

/// Sums over chains, recorded in one window of stages.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WindowSums {
    /// Mean of `log f_k - log f_{k-1}` at the window's middle stage k, weighted by `w_{k-1}`: a mean under `p_{k-1}`.
    before: WeightedMean,
    /// Mean of the same log ratios, weighted by `w_{k-1} f_k / f_{k-1}`: a mean under `p_k`.
    after: WeightedMean,
    /// The weights used in `after`, each multiplied by the share that the moves [missed](crate::kernel::Step::missed).
    missed: WeightSums,
    /// Weights after the window's last stage.
    pub(crate) weights: WeightSums,
    /// Log weights of the living chains after the window's last stage.
    log_weights: Moments,
    /// Increments of the living chains' log weights over the window.
    increments: Moments,
    decisions: Decisions,
    /// All weights after the window's last stage, if they are asked for.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) kept: Option<KeptWeights>,
}

/// The weights of chains at one stage.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct KeptWeights {
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    pub(crate) log_weights: Vec<f64>,
    /// First ancestor of each chain, as an index in the run; empty if chains do not interact.
    pub(crate) roots: Vec<usize>,
}

impl KeptWeights {
    /// Returns whether these can be the weights of `chains`; false for a damaged file.
    fn are(&self, chains: &Range<usize>) -> bool {
        let is_weight = |weight: &f64| *weight < f64::INFINITY;
        self.log_weights.len() == chains.len()
            && self.log_weights.iter().all(is_weight)
            && [0, chains.len()].contains(&self.roots.len())
            && self.roots.iter().all(|root| chains.contains(root))
    }
}

impl WindowSums {
    /// Returns whether no sum has more terms than there are `chains`; false for a damaged file.
    pub(crate) fn fits(&self, chains: &Range<usize>) -> bool {
        let counts = [
            self.before.count(),
            self.after.count(),
            self.missed.count(),
            self.weights.count(),
            self.log_weights.count(),
            self.increments.count(),
        ];
        let counted = counts.iter().all(|count| *count <= chains.len() as u64);
        counted && self.kept.as_ref().is_none_or(|kept| kept.are(chains))
    }

    /// Records the log ratios of a stage. `weighed` is a buffer.
    fn weigh<S>(&mut self, block: &Block<S>, weighed: &mut Vec<f64>) {
        let (log_weights, ratios) = (block.previous_log_weights(), block.log_ratios());
        weighed.clear();
        weighed.extend(log_weights.iter().zip(ratios).map(|(w, ratio)| w + ratio));
        self.before.add_all(log_weights, ratios);
        self.after.add_all(weighed, ratios);
        for (log_weight, &missed) in weighed.iter().zip(block.missed()) {
            if missed > 0.0 {
                self.missed.add(log_weight + missed.ln());
            }
        }
    }

    /// Records the weights after the window's last stage. `zeros` is a buffer.
    fn end<S>(&mut self, block: &Block<S>, zeros: &mut Vec<f64>) {
        let log_weights = block.log_weights();
        self.weights.add_all(log_weights);
        // Differences from 0, because `Moments` has its fast sums over vectors for differences only.
        zeros.clear();
        zeros.resize(log_weights.len(), 0.0);
        for run in alive_runs(block) {
            self.log_weights
                .add_differences(&log_weights[run.clone()], &zeros[run]);
        }
    }

    /// Returns the mean of the log ratios recorded, by the trapezoid rule.
    fn mean_log_ratio(&self) -> f64 {
        0.5 * (self.before.get() + self.after.get())
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.before.merge(&other.before);
        self.after.merge(&other.after);
        self.missed.merge(&other.missed);
        self.weights.merge(&other.weights);
        self.log_weights.merge(&other.log_weights);
        self.increments.merge(&other.increments);
        self.decisions += other.decisions;
        if let Some(theirs) = &other.kept {
            let mine = self.kept.get_or_insert_default();
            mine.log_weights.extend_from_slice(&theirs.log_weights);
            mine.roots.extend_from_slice(&theirs.roots);
        }
    }
}

/// Returns the living chains, as ranges of consecutive indices.
fn alive_runs<S>(block: &Block<S>) -> impl Iterator<Item = Range<usize>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let run = next_run(done..block.len(), |chain| block.is_alive(chain))?;
        done = run.end;
        Some(run)
    })
}

#[derive(Debug)]
pub(crate) struct StageRecorder {
    pub(crate) windows: Windows,
    pub(crate) records: Vec<WindowSums>,
    /// Sums over the chains, recorded at the change of their weights between the target and its surrogate, a cheaper
    /// model. This change is not part of any window.
    pub(crate) target: Option<WindowSums>,
    /// Log weights at the start of the current window.
    pub(crate) start: Vec<f64>,
    pub(crate) decisions: Decisions,
    /// Buffer for log weights.
    pub(crate) weighed: Vec<f64>,
}

impl StageRecorder {
    pub(crate) fn new(windows: Windows, chains: usize) -> Self {
        Self {
            records: vec![WindowSums::default(); windows.count()],
            windows,
            target: None,
            start: vec![0.0; chains],
            decisions: Decisions::default(),
            weighed: Vec::new(),
        }
    }

    /// Records a stage, before chains are resampled.
    pub(crate) fn after<S>(&mut self, stage: usize, block: &Block<S>) {
        let index = self.windows.of_stage(stage);
        let window = &mut self.records[index];
        if self.windows.middle(index) == stage {
            window.weigh(block, &mut self.weighed);
        }
        if self.windows.end(index) != stage {
            return;
        }
        window.end(block, &mut self.weighed);
        let log_weights = block.log_weights();
        for run in alive_runs(block) {
            let (after, before) = (&log_weights[run.clone()], &self.start[run]);
            window.increments.add_differences(after, before);
        }
        self.start.copy_from_slice(log_weights);
    }

    /// Keeps the weights after a stage. `roots` holds the first ancestors of interacting chains.
    pub(crate) fn keep(&mut self, stage: usize, log_weights: Vec<f64>, roots: &[usize]) {
        let roots = roots.to_vec();
        self.records[self.windows.of_stage(stage)].kept = Some(KeptWeights { log_weights, roots });
    }

    /// Records the change of weights from the target's surrogate to the target, at the end of a run.
    pub(crate) fn entered_target<S>(&mut self, block: &Block<S>) {
        self.left_target(block);
        // The last window was recorded at the surrogate, but the final weights that a run reports are at the target.
        if let Some(last) = self.records.last_mut() {
            (last.weights, last.log_weights) = Default::default();
            last.end(block, &mut self.weighed);
        }
    }

    /// Records the change of weights from the target to its surrogate, at the start of a reverse run.
    pub(crate) fn left_target<S>(&mut self, block: &Block<S>) {
        let mut target = WindowSums::default();
        target.weigh(block, &mut self.weighed);
        self.target = Some(target);
        self.start.copy_from_slice(block.log_weights());
    }

    /// Records the accept-reject decisions of the window that ends at `stage`, if any, after all moves of the stage.
    pub(crate) fn moved<S>(&mut self, stage: usize, block: &Block<S>) {
        if self.windows.ends_at(stage) {
            let window = &mut self.records[self.windows.of_stage(stage)];
            window.decisions = block.decisions().since(self.decisions);
            self.decisions = block.decisions();
        }
    }

    /// Updates the log weights at the start of the window after resampling. `before` and `after` are the log weights
    /// before and after it.
    pub(crate) fn resampled(&mut self, before: &[f64], ancestors: &[usize], after: &[f64]) {
        // Each chain inherits its ancestor's increment within the window.
        let added = ancestors.iter().map(|&a| before[a] - self.start[a]);
        self.start = after
            .iter()
            .zip(added)
            .map(|(w, added)| w - added)
            .collect();
    }
}

/// Statistics of the chains at one recorded stage. In a reverse run stages run from the target to the base.
///
/// Along a path with [surrogates](crate::path::AnnealingPath::surrogate_at), the stages before the target use the
/// surrogate models. [`estimate`](Self::estimate) uses the path's own model.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StageSummary {
    /// Schedule index k of the model reached.
    pub stage: usize,
    /// `beta_k`.
    pub beta: f64,
    /// Estimate of `log(Z_k / Z_0)`, or of `log(Z_k / Z_K)` in a reverse run; `-inf` if all weights are zero.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    pub log_z_ratio: f64,
    /// `ESS_k = (sum w_k)^2 / sum w_k^2`, a count.
    pub effective_sample_size: f64,
    /// Sample variance of `log w_k` over the living chains.
    pub var_log_weight: f64,
    /// Mean increment of the log weight since the previous recorded stage, over the living chains.
    pub mean_increment: f64,
    /// Sample variance of the log weight's increment since the previous recorded stage.
    pub var_increment: f64,
    /// Number of chains that carry weight.
    pub alive: usize,
    /// Mean acceptance probability since the previous recorded stage; `None` without accept-reject decisions.
    pub acceptance: Option<f64>,
    /// Number of moves without a decision, as in Gibbs sampling, since the previous recorded stage.
    pub undecided: u64,
    /// The estimate of `log(Z_k / Z_0)` for the path's own model, with its error and interval, at the betas of
    /// [`Ais::record_at`](crate::ais::Ais::record_at). At the last stage it is the run's own estimate. Along a path
    /// with surrogates it differs from [`log_z_ratio`](Self::log_z_ratio), which uses the surrogate.
    #[cfg_attr(feature = "serde", serde(default))]
    pub estimate: Option<Estimate>,
}

/// Returns the summaries of all windows. `estimate` makes an estimate from weights that were kept.
pub(crate) fn summarize(
    windows: &Windows,
    records: &[WindowSums],
    schedule: &Schedule,
    estimate: impl Fn(&KeptWeights) -> Result<Estimate>,
) -> Result<Vec<StageSummary>> {
    let summary = |(index, window): (usize, &WindowSums)| {
        let stage = windows.model(windows.end(index));
        Ok(StageSummary {
            stage,
            beta: schedule.betas()[stage],
            log_z_ratio: window.weights.log_mean(),
            effective_sample_size: window.weights.effective_sample_size(),
            var_log_weight: window.log_weights.variance(),
            mean_increment: window.increments.mean(),
            var_increment: window.increments.variance(),
            alive: window.log_weights.count() as usize,
            acceptance: window.decisions.acceptance(),
            undecided: window.decisions.undecided,
            estimate: window.kept.as_ref().map(&estimate).transpose()?,
        })
    };
    records.iter().enumerate().map(summary).collect()
}

/// Returns the thermodynamic-integration estimate of `log(Z_K / Z_0)`,
///
/// sum over k of `(E_{k-1}[d_k] + E_k[d_k]) / 2` with `d_k = log f_k - log f_{k-1}`,
///
/// with means over the weighted states `x_{k-1}`. In a window of several stages, only the middle stage is recorded; its
/// term is scaled by the window's width in beta. The change between the `target` and its surrogate is added separately.
/// Returns `None` if a mean is not finite because the support shrinks.
pub(crate) fn thermodynamic_integral(
    windows: &Windows,
    (records, target): (&[WindowSums], Option<&WindowSums>),
    schedule: &Schedule,
) -> Option<f64> {
    let part = |(index, window): (usize, &WindowSums)| {
        window.mean_log_ratio() * windows.middles(index, schedule)
    };
    let along: f64 = records.iter().enumerate().map(part).sum();
    let total = along + target.map_or(0.0, WindowSums::mean_log_ratio);
    total.is_finite().then_some(total)
}

/// Estimates how far rounding moves log Z. The log densities have the unit roundoff `epsilon / 2`, and double precision
/// has the unit roundoff `u`:
///
/// `epsilon / 2 (2 |l_0| + sum_k |E_k[d_k]|) + 3 u sqrt(sum_k (log Z_k / Z_0)^2)`
///
/// Here `d_k` is a log ratio, and `|l_0|` is the median absolute log density of the base at its samples. The first term
/// allows for one rounding of each log density. The second term bounds three standard deviations of the rounding of log
/// weights.
pub(crate) fn rounding_error(
    windows: &Windows,
    records: &[WindowSums],
    schedule: &Schedule,
    (size_of_base, epsilon): (f64, f64),
) -> f64 {
    let (mut ratios, mut squares) = (0.0, 0.0);
    for (index, window) in records.iter().enumerate() {
        let ratio = window.after.get() * windows.middles(index, schedule);
        ratios += if ratio.is_finite() { ratio.abs() } else { 0.0 };
        let log_weight = window.weights.log_mean();
        let stages = (windows.end(index) - windows.start(index)) as f64;
        squares += if log_weight.is_finite() {
            stages * log_weight.powi(2)
        } else {
            0.0
        };
    }
    let of_densities = epsilon * (2.0 * size_of_base + ratios);
    0.5 * (of_densities + f64::EPSILON * 3.0 * squares.sqrt())
}

/// Returns the share of the mean weight that is missing because forward chains hardly ever make some backward moves. In
/// a window of several stages, the share at the middle stage is multiplied by the number of stages.
pub(crate) fn missed_share(windows: &Windows, records: &[WindowSums]) -> f64 {
    let share = |(index, window): (usize, &WindowSums)| {
        let stages = windows.end(index) - windows.start(index);
        stages as f64 * (window.missed.log_sum() - window.after.log_weight()).exp()
    };
    let records = records.iter().enumerate();
    let missing = records.filter(|(_, window)| window.missed.count() > 0);
    missing.map(share).sum()
}

/// Warns if one of at least ten recorded stages adds more than half of the variance of `log w`. A stage adds the
/// difference between the variances after and before it, or in a resampled run the variance of its increment.
pub(crate) fn concentrated_variance(stages: &[StageSummary], resampled: bool) -> Option<Warning> {
    let before = std::iter::once(0.0).chain(stages.iter().map(|stage| stage.var_log_weight));
    let growth = stages.iter().zip(before);
    let added = growth.map(|(stage, before)| match resampled {
        true => stage.var_increment,
        false => stage.var_log_weight - before,
    });
    let added: Vec<f64> = added.collect();
    let total = added.iter().sum::<f64>();
    let (stage, most) = stages
        .iter()
        .zip(added)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = most / total;
    (stages.len() >= 10 && total > 0.5 && share > 0.5).then_some(Warning::ConcentratedVariance {
        stage: stage.stage,
        beta: stage.beta,
        // The variance may fall at other stages, so that one stage adds more than the total.
        share: share.min(1.0),
    })
}

/// Warns of the first recorded stage that accepted less than 0.1% of proposals and made no undecided moves.
pub(crate) fn zero_acceptance(stages: &[StageSummary]) -> Option<Warning> {
    let refuses = |stage: &StageSummary| stage.acceptance.is_some_and(|rate| rate < 1e-3);
    let stands = |stage: &&StageSummary| refuses(stage) && stage.undecided == 0;
    stages
        .iter()
        .find(|stage| stage.alive >= 25 && stands(stage))
        .map(|stage| Warning::ZeroAcceptance {
            stage: stage.stage,
            beta: stage.beta,
        })
}
