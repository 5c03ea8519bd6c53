//! The result of a run over levels.

use std::borrow::Cow;
use std::fmt;

use super::first_pass::FoundShells;
use super::island::Shell;
use crate::Result;
use crate::bidirectional::TargetSamples;
use crate::estimate::{
    Estimate, LogZ, Warning, WeightedSample, WeightedStates, certified_lower_bound, write_headline,
};
use crate::kernel::Decisions;
use crate::num::{WeightedMean, log_mean_exp};
use crate::work::{Merge, StoppedBy};

#[derive(Debug)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct IslandRun<S> {
    log_likelihood: WeightedMean,
    sample: Vec<(S, f64)>,
    /// For each level, the log of the prior mass above it, and all accept and reject decisions up to this level.
    reached: Vec<(f64, Decisions)>,
    pub(super) evaluations: u64,
}

impl<S> Default for IslandRun<S> {
    fn default() -> Self {
        Self {
            log_likelihood: WeightedMean::default(),
            sample: Vec::new(),
            reached: Vec::new(),
            evaluations: 0,
        }
    }
}

impl<S> IslandRun<S> {
    pub(super) fn add(&mut self, shell: Shell<S>) {
        self.log_likelihood.merge(&shell.log_likelihood);
        self.sample.extend(shell.sample);
    }

    pub(super) fn reach(&mut self, log_mass: f64, decisions: Decisions) {
        self.reached.push((log_mass, decisions));
    }

    /// Returns the log of the island's estimate of Z.
    pub(super) fn estimate(&self) -> f64 {
        self.log_likelihood.log_weight()
    }
}

impl<S> Merge for Vec<IslandRun<S>> {
    fn merge(&mut self, right: Self) {
        self.extend(right);
    }
}

/// One level of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LevelSummary {
    /// Level of the log likelihood; `-inf` excludes the states of likelihood 0.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    pub level: f64,
    /// Estimate of `log X_t`, the log prior mass above the level; `-inf` if no island has a state there.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    pub log_mass: f64,
    /// Mean acceptance probability of the moves above the level; `None` if the kernel does not accept or reject.
    pub acceptance: Option<f64>,
    /// Step size above the level, if tuned.
    pub step_size: Option<f64>,
}

/// The result of [`NestedSmc`](super::NestedSmc): log evidence and its error, warnings, levels, and weighted posterior
/// samples. Estimate and warnings treat islands as a [`Run`](crate::ais::Run) treats chains.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct NestedSmcRun<S> {
    /// Log of each island's estimate of Z.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    estimates: Vec<f64>,
    estimate: Estimate,
    information: f64,
    levels: Vec<LevelSummary>,
    warnings: Vec<Warning>,
    states: Vec<S>,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    log_weights: Vec<f64>,
    /// Index of the island that each state comes from.
    islands: Vec<usize>,
    evaluations: u64,
    search_evaluations: u64,
    seed: u64,
    stopped_by: StoppedBy,
    seconds: f64,
}

impl<S> NestedSmcRun<S> {
    pub(super) fn warn(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        self.warnings.extend(warnings);
    }

    #[cfg(feature = "checkpoint")]
    pub(super) fn add_seconds(&mut self, seconds: f64) {
        self.seconds += seconds;
    }

    /// Returns the reason for the end of the run; [`StoppedBy::Chains`] after all islands asked for.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stopped_by
    }

    pub(super) fn new(
        found: FoundShells,
        islands: Vec<IslandRun<S>>,
        seed: u64,
        stopped_by: StoppedBy,
        (search_evaluations, seconds): (u64, f64),
    ) -> Result<Self> {
        let estimates: Vec<f64> = islands.iter().map(IslandRun::estimate).collect();
        let estimate = Estimate::of_islands(&estimates)?;
        let mut log_likelihood = WeightedMean::default();
        for run in &islands {
            log_likelihood.merge(&run.log_likelihood);
        }
        let levels = summarize(&found, &islands);
        let evaluations = islands.iter().map(|run| run.evaluations).sum::<u64>();
        let log_islands = (islands.len() as f64).ln();
        let mut run = Self {
            information: log_likelihood.get() - estimate.value(),
            warnings: find_warnings(&estimate, &found, &levels),
            estimates,
            estimate,
            levels,
            states: Vec::new(),
            log_weights: Vec::new(),
            islands: Vec::new(),
            evaluations: search_evaluations + evaluations,
            search_evaluations,
            seed,
            stopped_by,
            seconds,
        };
        for (index, island) in islands.into_iter().enumerate() {
            for (state, log_weight) in island.sample {
                run.states.push(state);
                run.log_weights.push(log_weight - log_islands);
                run.islands.push(index);
            }
        }
        Ok(run)
    }

    /// Returns the estimate, whose weights are the islands' estimates of Z.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Returns an estimate of the information H, the posterior's divergence from the prior in nats: `E log L - log Z`
    /// under the posterior. The number of levels is proportional to H.
    pub fn information(&self) -> f64 {
        self.information
    }

    /// Returns the levels, ascending.
    pub fn levels(&self) -> &[LevelSummary] {
        &self.levels
    }

    /// Returns some of the visited states, about [`NestedSmc::kept`](super::NestedSmc::kept) in number. With
    /// [`log_weights`](Self::log_weights) they are weighted samples of the posterior.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// Returns the log weights of the states; `-inf` at likelihood 0. The weights sum to about Z.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Returns `count` approximate posterior samples: the [states](Self::states), resampled by weight, with repeats.
    ///
    /// # Errors
    /// No state of positive weight, for example if [`NestedSmc::kept`](super::NestedSmc::kept) is 0; a `count` of 0 or
    /// above 2^30.
    pub fn resampled(&self, count: usize) -> Result<TargetSamples<S>>
    where
        S: Clone,
    {
        let draws = self.draws(count, self.seed)?;
        Ok(TargetSamples::approximate(draws.states().to_vec()))
    }

    /// Returns the number of evaluations of the first pass, which finds the levels.
    pub fn search_evaluations(&self) -> u64 {
        self.search_evaluations
    }

    /// Returns the number of islands.
    pub fn islands(&self) -> usize {
        self.estimate.chains()
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

fn summarize<S>(found: &FoundShells, islands: &[IslandRun<S>]) -> Vec<LevelSummary> {
    let mut before = Decisions::default();
    let summary = |(t, &level): (usize, &f64)| {
        let log_masses: Vec<f64> = islands.iter().map(|run| run.reached[t].0).collect();
        let mut decisions = Decisions::default();
        for run in islands {
            decisions += run.reached[t].1;
        }
        let acceptance = decisions.since(before).acceptance();
        before = decisions;
        LevelSummary {
            level,
            log_mass: log_mean_exp(&log_masses),
            acceptance,
            step_size: found.sizes.get(t).copied(),
        }
    };
    found.levels.iter().enumerate().map(summary).collect()
}

fn find_warnings(
    estimate: &Estimate,
    found: &FoundShells,
    levels: &[LevelSummary],
) -> Vec<Warning> {
    let mut warnings = estimate.warnings();
    let stands = |level: &LevelSummary| level.acceptance.is_some_and(|rate| rate < 1e-3);
    let standing = levels.iter().position(stands);
    warnings.extend(standing.map(|t| Warning::ZeroAcceptance {
        stage: t + 1,
        beta: (t + 1) as f64 / levels.len() as f64,
    }));
    let levels = levels.len();
    warnings.extend(
        found
            .unfinished
            .map(|share| Warning::LevelsEnded { levels, share }),
    );
    warnings
}

/// Writes one line, such as `log Z = -0.936 +- 0.081 (95% interval -1.110 to -0.741, 32 levels, 4.9e6 evaluations)`,
/// and a line for each warning.
impl<S> fmt::Display for NestedSmcRun<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_headline(f, self, "", format_args!("{} levels", self.levels.len()))
    }
}

/// Weighted posterior samples. Errors treat the islands as independent units.
impl<S> WeightedSample for NestedSmcRun<S> {
    type State = S;

    fn weighted_states(&self) -> WeightedStates<'_, S> {
        WeightedStates {
            states: &self.states,
            log_weights: Cow::Borrowed(&self.log_weights),
            units: Cow::Borrowed(&self.islands),
        }
    }
}

impl<S> LogZ for NestedSmcRun<S> {
    /// Returns the estimate of the log evidence: the log of the islands' mean.
    fn log_z(&self) -> f64 {
        self.estimate.value()
    }

    /// Returns the standard error of [`log_z`](Self::log_z), from the spread of the islands.
    fn standard_error(&self) -> f64 {
        self.estimate.standard_error()
    }

    /// Returns the confidence interval of log Z, from the islands as in [`Estimate::interval_at`].
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.estimate.interval_at(level)
    }

    /// Returns the [`certified_lower_bound`] on log Z at `confidence`, from the islands' unbiased estimates.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        certified_lower_bound(&self.estimates, confidence).map(Some)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of evaluations of the likelihood, including the first pass: one for each prior sample and
    /// each move. Proposals outside the prior's support count too, although their likelihood is not evaluated.
    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}
