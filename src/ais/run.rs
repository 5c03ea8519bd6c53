//! The result of a run: log Z, the reasons to doubt it, and the weighted chains.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::block_result::{BlockResult, Figures, FinalStates, StageSums};
use super::partial::{RunPart, in_place};
use super::settings::Settings;
use super::stages::StageSummary;
use crate::estimate::{
    Estimate, LogZ, LogZAt, Warning, WeightedSample, WeightedStates, certified_lower_bound,
    importance_weighted_bound, jackknife, write_headline,
};
use crate::num::{SimdLevel, log_mean_exp};
use crate::path::{AnnealingPath, STATES_OF_BOUND};
use crate::schedule::Schedule;
use crate::work::{
    Forest, Merge, Node, Probe, StoppedBy, caught_once, coalesce, fold, merging_panicked,
};
use crate::{Error, Result};

/// The result of a run: log Z with its uncertainty, the reasons to doubt it, and the weighted chains.
///
/// With the feature `serde` it can be saved and read. Statistics are then recomputed from the saved chains and sums.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Run<S, R = ()> {
    settings: Settings,
    chains: FinalStates<S>,
    /// Sums over the chains of each group of merged blocks. Neighbouring full blocks are merged as far as possible.
    sums: Forest<StageSums<R>>,
    stopped_by: StoppedBy,
    seconds: f64,
    /// Density evaluations per chain and stage.
    evaluations: u64,
    probe: Option<Probe>,
    #[cfg_attr(feature = "serde", serde(skip))]
    missing: Vec<Range<usize>>,
    #[cfg_attr(feature = "serde", serde(skip))]
    figures: Figures,
    #[cfg_attr(feature = "serde", serde(skip))]
    recorder: R,
}

impl<S, R: Merge + Clone> Run<S, R> {
    pub(crate) fn of(part: RunPart<S, R>) -> Result<Self> {
        let (missing, stopped) = (part.missing(), part.stopped());
        let settings = part.settings;
        let mut chains = FinalStates {
            states: Vec::new(),
            log_weights: Vec::new(),
            roots: Vec::new(),
        };
        let split = |node: Node<BlockResult<S, R>>| {
            let first = settings.chains_of(node.blocks()).start;
            node.map(|result| {
                chains.append(result.chains, first);
                result.sums
            })
        };
        let sums: Forest<StageSums<R>> = part.nodes.into_iter().map(split).collect();
        // Siblings merge first, as in a single run, so that merged parts give the same bits. `sums` itself keeps a
        // partial last block apart, so that `extend` can replace it.
        let all = fold(coalesce(sums.clone()));
        let Some(all) = all else {
            return Err(stopped);
        };
        let size = part.probe.as_ref().map_or(0.0, Probe::size_of_base);
        let mut figures = Figures::of(&settings, &chains, &all, &missing, size)?;
        figures.warn_of_missing_chains(&missing, chains.log_weights.len());
        Ok(Self {
            chains,
            sums,
            stopped_by: part.stopped_by,
            seconds: part.seconds,
            evaluations: part.evaluations,
            probe: part.probe,
            missing,
            figures,
            recorder: all.recorder,
            settings,
        })
    }
}

impl<S, R: Merge + Clone> RunPart<S, R> {
    /// Merges the parts of one run, given in any order, into its result.
    ///
    /// The parts must agree in all settings, and in path and kernel as far as [a few chains](crate::ais::Ais::run)
    /// detect a difference. If blocks are [missing](Self::missing), the result
    /// [warns](crate::estimate::Warning::MissingChains). It stays unbiased if the reasons are unrelated to the weights
    /// of the missing blocks.
    ///
    /// # Errors
    /// No part; no finished block; parts of different runs; a range given twice; [`Error::AllWeightsZero`].
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Run<S, R>> {
        Run::of(Self::join(parts)?)
    }

    /// Returns the result of a run that may have been stopped.
    pub(crate) fn result(self) -> Result<Run<S, R>> {
        let chains = 0..self.settings.chains;
        let run = caught_once(|| self.whole());
        run.unwrap_or_else(|message| Err(merging_panicked(message, chains)))
    }

    fn whole(mut self) -> Result<Run<S, R>> {
        if self.stopped_by != StoppedBy::Chains {
            // Blocks after the first gap do not count, because which of them are done depends on the threads.
            let blocks = self.prefix();
            if blocks == 0 {
                return Err(self.stopped());
            }
            self.nodes.retain(|node| node.blocks().end <= blocks);
            self.settings.chains = self.settings.chains_of(0..blocks).end;
        }
        Run::of(self)
    }
}

impl<S, R> From<Run<S, R>> for RunPart<S, R> {
    /// Converts a finished run into its blocks. [`Ais::extend`](crate::ais::Ais::extend) can then add further blocks.
    fn from(run: Run<S, R>) -> Self {
        let nodes = run.chains.divided(&run.settings, run.sums);
        Self {
            nodes,
            settings: run.settings,
            stopped_by: run.stopped_by,
            seconds: run.seconds,
            evaluations: run.evaluations,
            probe: run.probe,
        }
    }
}

impl<S, R> Run<S, R> {
    pub(crate) fn log_z_estimate(&self) -> Estimate {
        self.figures
            .estimate
            .shifted(self.settings.log_base_normalizer)
    }

    /// Returns `log Z_0`, which [`log_z`](LogZ::log_z) includes.
    pub fn log_base_normalizer(&self) -> f64 {
        self.settings.log_base_normalizer
    }

    /// Returns the estimate of `log(Z_K / Z_0)`: the log of the mean weight.
    pub fn log_z_ratio(&self) -> f64 {
        self.figures.estimate.value()
    }

    /// Returns `ESS = (sum w)^2 / sum w^2`, between 1 and the number of chains. In a
    /// [resampled](crate::ais::Ais::resampling) run, w are the weights of families or islands.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        self.figures.estimate.effective_sample_size()
    }

    /// Returns `log Z_0 + mean log w`. Its expectation is a lower bound on `log Z_K` (Jensen). It is `-inf` if a chain
    /// has weight zero. In a [resampled](crate::ais::Ais::resampling) run it is closer to `log Z_K`.
    pub fn lower_bound(&self) -> f64 {
        self.log_z_estimate().mean_log_weight()
    }

    /// Returns a lower bound on `log Z_K` that is certain to hold, if the path
    /// [has one](crate::path::AnnealingPath::certain_bound).
    pub fn certain_lower_bound(&self) -> Option<f64> {
        self.figures.certain_bound
    }

    /// Returns `log Z_0 + E log((w_1 + .. + w_k) / k)`, the `k`-sample bound (Burda, Grosse and Salakhutdinov 2016).
    /// Its expectation is at most `log Z_K`, and closer for larger `k`. In a [resampled](crate::ais::Ais::resampling)
    /// run it remains a bound, but not the bound of `k` independent chains.
    ///
    /// # Errors
    /// A `k` outside `1..=N`.
    #[doc(alias = "IWAE")]
    pub fn importance_weighted_bound(&self, k: usize) -> Result<f64> {
        let bound = importance_weighted_bound(&self.chains.log_weights, k)?;
        Ok(bound + self.settings.log_base_normalizer)
    }

    /// Returns the `k`-sample bound after the [`jackknife`] has removed its bias in `1/k` up to `order`, plus
    /// `log Z_0`. It is closer to `log Z_K`, but it is no bound.
    ///
    /// # Errors
    /// As [`jackknife`]; a [resampled](crate::ais::Ais::resampling) or waste-free run, because weights must be
    /// independent.
    pub fn jackknife(&self, k: usize, order: usize) -> Result<f64> {
        let expected = "independent chains, by a run without `resampling` and `waste_free`; log_z has a bias of \
                        about half its squared standard error";
        self.settings.check_alone("run", expected)?;
        let corrected = jackknife(&self.chains.log_weights, k, order)?;
        Ok(corrected + self.settings.log_base_normalizer)
    }

    /// Returns statistics of the log weights: mean, variance, largest share, tail index.
    pub fn estimate(&self) -> &Estimate {
        &self.figures.estimate
    }

    /// Returns log Z by thermodynamic integration over the same chains: the trapezoid rule on the weighted mean of
    /// `d/dbeta log f` at the recorded stages. It is `None` if the support shrinks along the path.
    ///
    /// This is no independent check, because both estimates use the same chains. They differ by the discretisation
    /// error, which falls as [`Ais::recorded_stages`](crate::ais::Ais::recorded_stages) grows, and by the corrections
    /// of a kernel that is not invariant. The integral diverges if the log ratio has no mean at the base, as under a
    /// Cauchy prior.
    pub fn thermodynamic_log_z(&self) -> Option<f64> {
        self.figures.thermodynamic_log_z
    }

    /// Returns the recorded stages, at most [`Ais::recorded_stages`](crate::ais::Ais::recorded_stages) of them.
    pub fn stages(&self) -> &[StageSummary] {
        &self.figures.stages
    }

    /// Returns log Z at each beta of [`Ais::record_at`](crate::ais::Ais::record_at), in the given order. Errors and
    /// intervals are computed as for the run's own log Z. Estimates at two betas come from the same chains, so they are
    /// not independent.
    pub fn log_z_along(&self) -> Vec<LogZAt> {
        let at = |stage: &StageSummary| {
            let estimate = stage.estimate?.shifted(self.settings.log_base_normalizer);
            Some(LogZAt {
                beta: stage.beta,
                log_z: estimate.value(),
                standard_error: estimate.standard_error(),
                interval: estimate.interval(),
            })
        };
        self.stages().iter().filter_map(at).collect()
    }

    /// Returns the final states. With [`log_weights`](Self::log_weights) they are weighted samples of the target.
    pub fn states(&self) -> &[S] {
        &self.chains.states
    }

    /// Returns the log weights of the chains, in the order of [`states`](Self::states).
    pub fn log_weights(&self) -> &[f64] {
        &self.chains.log_weights
    }

    /// Returns the number of initial chains that have descendants of nonzero weight; `None` if nothing was resampled.
    pub fn surviving_ancestors(&self) -> Option<usize> {
        let alive = self.chains.roots.iter().zip(&self.chains.log_weights);
        let alive = alive.filter(|(_, log_weight)| **log_weight > f64::NEG_INFINITY);
        let roots: BTreeSet<_> = alive.map(|(root, _)| root).collect();
        (!self.chains.roots.is_empty()).then_some(roots.len())
    }

    /// Returns the recorder set by [`Ais::recorder`](crate::ais::Ais::recorder), merged over all chains.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    pub(crate) fn split_recorder(self) -> (Run<S>, R) {
        let forget = |sums: StageSums<R>| StageSums {
            windows: sums.windows,
            target: sums.target,
            recorder: (),
            uncovered: sums.uncovered,
        };
        let sums = self.sums.into_iter();
        let run = Run {
            settings: self.settings,
            chains: self.chains,
            sums: sums.map(|node| node.map(forget)).collect(),
            stopped_by: self.stopped_by,
            seconds: self.seconds,
            evaluations: self.evaluations,
            probe: self.probe,
            missing: self.missing,
            figures: self.figures,
            recorder: (),
        };
        (run, self.recorder)
    }

    /// Returns what ended the run.
    pub fn stopped_by(&self) -> StoppedBy {
        self.stopped_by
    }

    /// Returns the missing chains as index ranges, if not all parts of the run were merged.
    pub fn missing(&self) -> &[Range<usize>] {
        &self.missing
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// Returns each chain's first ancestor, as an index into the list of chains; empty if nothing was resampled.
    pub(crate) fn roots(&self) -> &[usize] {
        &self.chains.roots
    }

    pub(crate) fn add_seconds(&mut self, seconds: f64) {
        self.seconds += seconds;
    }

    /// Adds warnings that are not computed from the chains.
    pub(crate) fn warn(&mut self, warning: impl IntoIterator<Item = Warning>) {
        self.figures.warnings.extend(warning);
    }

    /// Removes warnings that do not hold for this run.
    pub(crate) fn unwarn(&mut self, is_wrong: impl Fn(&Warning) -> bool) {
        self.figures.warnings.retain(|warning| !is_wrong(warning));
    }

    /// Adds the bound that the path finds from the final states, and the path's warnings.
    pub(crate) fn doubt(&mut self, path: &impl AnnealingPath<State = S>) {
        let mut order = heaviest_first(self.log_weights());
        order.truncate(STATES_OF_BOUND);
        let heaviest = Vec::from_iter(order.iter().map(|&chain| &self.states()[chain]));
        let chain_steps = (self.chains() as u64).saturating_mul(self.schedule().stages() as u64);
        let (lower, upper) = self.interval();
        let interval = (lower, upper + self.rounding_error());
        self.figures.certain_bound = path.certain_bound(&heaviest, chain_steps);
        self.warn(path.doubts(self.figures.certain_bound, interval));
    }

    pub(crate) fn rounding_error(&self) -> f64 {
        self.figures.rounding_error
    }

    /// Returns the schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.settings.schedule
    }

    /// Returns the number of chains, without the [missing](Self::missing) ones.
    pub fn chains(&self) -> usize {
        self.chains.log_weights.len()
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// Returns the number of chains in a block; it affects the result's bits.
    pub fn block_size(&self) -> usize {
        self.settings.block_size
    }

    /// Returns the SIMD level that the path chose, if it had a choice; it affects the result's bits.
    pub fn simd_level(&self) -> Option<SimdLevel> {
        self.settings.engine
    }

    /// Returns the chain-steps (chains times stages) per second.
    pub fn chain_steps_per_second(&self) -> f64 {
        self.chains() as f64 * self.schedule().stages() as f64 / self.seconds
    }
}

impl<S, R> Run<S, R> {
    /// Returns the estimate of `log Z_K` from the pooled chains of runs that differ in seed and perhaps in the number
    /// of chains. To compare runs that differ otherwise, use [`Agreement`](crate::estimate::Agreement).
    ///
    /// ```
    /// # use annealed::prelude::*;
    /// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
    /// let ais = |seed| Ais::new(&path, RandomWalkMetropolis::new(0.7)?).chains(500).seed(seed).run();
    /// let pooled = Run::pooled(&[ais(1)?, ais(2)?, ais(3)?])?;
    /// assert!(pooled.standard_error() < ais(1)?.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// No run; two runs with the same seed, which share chains (for more chains of one seed see
    /// [`Ais::extend`](crate::ais::Ais::extend)); [`Error::OtherRun`] with the first other setting, path or kernel; a
    /// resampled run with a partial last block, unless it is the last run.
    pub fn pooled<'r>(runs: impl IntoIterator<Item = &'r Self>) -> Result<Estimate>
    where
        S: 'r,
        R: 'r,
    {
        let runs: Vec<&Self> = runs.into_iter().collect();
        Error::check_not_empty("runs", runs.len())?;
        let settings = runs[0].settings();
        let mut seeds = BTreeSet::new();
        for (place, run) in runs.iter().enumerate() {
            let of_seed = Settings {
                seed: run.seed(),
                ..settings.clone()
            };
            of_seed
                .check_found(run.settings())
                .and_then(|()| Probe::check_found(runs[0].probe(), run.probe()))
                .map_err(|error| in_place(error, "run", place))?;
            let fresh = seeds.insert(run.seed());
            let expected = "a seed of its own for each run";
            Error::check(
                fresh,
                "runs",
                format!("seed {} twice", run.seed()),
                expected,
            )?;
        }
        let (mut log_weights, mut roots) = (Vec::new(), Vec::new());
        for run in runs {
            // Islands are cut from the joined list at multiples of the block size.
            let full = run.roots().is_empty() || log_weights.len().is_multiple_of(run.block_size());
            let expected = "whole blocks in all resampled runs but the last";
            Error::check(full, "runs", "a block that is not full", expected)?;
            roots.extend(run.roots().iter().map(|root| root + log_weights.len()));
            log_weights.extend_from_slice(run.log_weights());
        }
        let estimate = settings.estimate(&log_weights, &roots)?;
        Ok(estimate.shifted(settings.log_base_normalizer))
    }
}

/// Note that is printed if the model could evaluate many states in one call, but this path or kernel does not.
const SINGLE: &str = "the model can evaluate many states in one call, but this path or this kernel asks for one state at a \
                      time; this only costs time. To avoid it, a path needs `evaluates_batches` and `ends_of_batch`, see \
                      the guide's page on batches";

/// Writes `log Z = 208.631 +- 0.021 (95% interval 208.590 to 208.672, ESS 809 of 1000, 5.0e5 evaluations)` and any
/// warnings.
impl<S, R> fmt::Display for Run<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_headline(f, self, "", self.figures.estimate.sample_size_text())?;
        match &self.probe {
            Some(probe) if probe.is_single => write!(f, "\nnote: {SINGLE}"),
            _ => Ok(()),
        }
    }
}

/// The weighted states are the final states. The units, whose weights are independent, are islands, families or chains.
impl<S, R> WeightedSample for Run<S, R> {
    type State = S;

    fn weighted_states(&self) -> WeightedStates<'_, S> {
        let (chains, size) = (self.chains(), self.settings.block_size);
        let units = match self.figures.estimate.is_of_islands() {
            // A shorter last block joins the island before it.
            true => (0..chains)
                .map(|i| (i / size).min(chains / size - 1))
                .collect(),
            false if self.chains.roots.is_empty() => (0..chains).collect(),
            false => Cow::Borrowed(&self.chains.roots[..]),
        };
        WeightedStates {
            states: &self.chains.states,
            log_weights: Cow::Borrowed(&self.chains.log_weights),
            units,
        }
    }
}

impl<S, R> LogZ for Run<S, R> {
    /// Returns the estimate of `log Z_K`: [`log_z_ratio`](Self::log_z_ratio) plus the base's log normaliser.
    #[doc(alias("partition function", "marginal likelihood", "evidence"))]
    fn log_z(&self) -> f64 {
        self.log_z_estimate().value()
    }

    fn standard_error(&self) -> f64 {
        self.figures.estimate.standard_error()
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.log_z_estimate().interval_at(level)
    }

    /// Returns a lower bound on `log Z_K` that holds with probability `confidence`, for any weights and any stopping
    /// rule. It is the [`certified_lower_bound`] of the chains, or of the islands if chains interact. It is `None` for
    /// a backward run, whose samples may be approximate.
    ///
    /// Chains may be [missing](Self::missing) for any reason except their weights. If a partial last block is run again
    /// with more chains, the bound of the longer run is a separate bound.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        let (settings, chains) = (&self.settings, &self.chains.log_weights);
        let bound = match settings.selection {
            None => certified_lower_bound(chains, confidence),
            Some(_) => {
                // A shorter last island counts like the others, because its mean weight has the same expectation.
                let islands = chains.chunks(settings.block_size).map(log_mean_exp);
                certified_lower_bound(&Vec::from_iter(islands), confidence)
            }
        };
        // Rounding may have raised the weights by as much as the path estimates.
        let of_log_z = |bound: f64| bound + settings.log_base_normalizer - settings.rounding_error;
        let forward = !settings.purpose.reads_backward();
        // A wrong `confidence` is an error in both directions, so the bound is computed before it is dropped.
        Ok(Some(of_log_z(bound?)).filter(|_| forward))
    }

    fn warnings(&self) -> &[Warning] {
        &self.figures.warnings
    }

    /// Returns the number of density evaluations: chains times stages times the kernel's
    /// [count](crate::kernel::TransitionKernel::evaluations). It is 0 for a run saved by an older version.
    fn evaluations(&self) -> u64 {
        let of_chain = self
            .evaluations
            .saturating_mul(self.schedule().stages() as u64);
        of_chain.saturating_mul(self.chains() as u64)
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

crate::num::deserialize_checked! {
    Run<S, R: Merge | Clone> {
        settings: Settings,
        chains: FinalStates<S>,
        sums: Forest<StageSums<R>>,
        stopped_by: StoppedBy,
        seconds: f64,
        #[serde(default)]
        evaluations: u64,
        #[serde(default)]
        probe: Option<Probe>,
    } => RunPart::reassembled(settings, chains, sums).and_then(|part| {
        Run::of(RunPart { stopped_by, seconds, evaluations, probe, ..part })
    })
}

fn heaviest_first(log_weights: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..log_weights.len()).collect();
    order.sort_by(|&one, &other| log_weights[other].total_cmp(&log_weights[one]));
    order
}
