//! The results of blocks that have passed all stages, and the figures of a run computed from them.

use std::ops::Range;

use super::settings::Settings;
use super::stages::{self, KeptWeights, StageSummary, WindowSums};
use crate::Result;
use crate::estimate::{Estimate, Warning, heavy_families};
use crate::kernel::Block;
use crate::num::{WeightSums, exceeds};
use crate::population::{CopyState, Genealogy};
use crate::work::{Forest, Merge, Node, SoFar};

#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct BlockResult<S, R> {
    pub(crate) chains: FinalStates<S>,
    pub(crate) sums: StageSums<R>,
}

#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct FinalStates<S> {
    pub(crate) states: Vec<S>,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    pub(crate) log_weights: Vec<f64>,
    /// First ancestor of each chain, as the index of a chain; empty if nothing was resampled.
    pub(crate) roots: Vec<usize>,
}

#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct StageSums<R> {
    pub(crate) windows: Vec<WindowSums>,
    /// Sums over the chains, recorded at the change of their weights between the target and its surrogate, a cheaper
    /// model; `None` for a path without surrogates.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(crate) target: Option<WindowSums>,
    pub(crate) recorder: R,
    /// Number of chains of nonzero weight whose final state has density zero under the base.
    pub(crate) uncovered: usize,
}

impl<S> FinalStates<S> {
    /// Returns whether there are `chains` chains, no weight is NaN or infinite, and first ancestors are recorded if
    /// `with_roots`.
    pub(crate) fn are(&self, chains: usize, with_roots: bool) -> bool {
        let roots = if with_roots { chains } else { 0 };
        let is_weight = |weight: &f64| *weight < f64::INFINITY;
        self.states.len() == chains
            && self.log_weights.len() == chains
            && self.log_weights.iter().all(is_weight)
            && self.roots.len() == roots
    }

    pub(crate) fn extend(&mut self, right: Self) {
        self.states.extend(right.states);
        self.log_weights.extend(right.log_weights);
        self.roots.extend(right.roots);
    }

    /// Appends the chains of `right`, whose first chain has the index `first` in the run. Their first ancestors, given
    /// as indices in the run, become indices in the joined list.
    pub(crate) fn append(&mut self, mut right: Self, first: usize) {
        let place = self.log_weights.len();
        for root in &mut right.roots {
            *root = *root - first + place;
        }
        self.extend(right);
    }

    /// Divides the list of chains among the groups of blocks in `sums`, which must have as many chains in all. First
    /// ancestors, given as indices in this list, become indices in the run.
    pub(crate) fn divided<R>(
        self,
        settings: &Settings,
        sums: Forest<StageSums<R>>,
    ) -> Forest<BlockResult<S, R>> {
        let mut place = 0;
        let mut states = self.states.into_iter();
        let mut log_weights = self.log_weights.into_iter();
        let mut roots = self.roots.into_iter();
        let with_chains = |node: Node<StageSums<R>>| {
            let indices = settings.chains_of(node.blocks());
            let chains = Self {
                states: states.by_ref().take(indices.len()).collect(),
                log_weights: log_weights.by_ref().take(indices.len()).collect(),
                roots: roots
                    .by_ref()
                    .take(indices.len())
                    // Saturating, because a damaged file may have any numbers. `RunPart::check` refuses them later.
                    .map(|root| root.saturating_add(indices.start).saturating_sub(place))
                    .collect(),
            };
            place += indices.len();
            node.map(|sums| BlockResult { chains, sums })
        };
        sums.into_iter().map(with_chains).collect()
    }
}

impl<S, R> BlockResult<S, R> {
    /// Returns whether this can be the result of `chains`; false for a damaged file.
    pub(crate) fn fits(&self, settings: &Settings, chains: &Range<usize>) -> bool {
        self.chains.are(chains.len(), settings.selection.is_some())
            && self.chains.roots.iter().all(|root| chains.contains(root))
            && self.sums.fit(settings, chains)
    }
}

impl Settings {
    /// Returns whether the standard error of the finished blocks is at most `error`.
    pub(crate) fn is_within<S, R>(&self, error: f64, outputs: &Forest<BlockResult<S, R>>) -> bool {
        let (mut log_weights, mut roots) = (Vec::new(), Vec::new());
        for node in outputs {
            log_weights.extend_from_slice(&node.value.chains.log_weights);
            roots.extend_from_slice(&node.value.chains.roots);
        }
        let estimate = self.estimate(&log_weights, &roots);
        estimate.is_ok_and(|estimate| estimate.standard_error() <= error)
    }

    pub(crate) fn so_far<S, R>(&self, outputs: &Forest<BlockResult<S, R>>) -> SoFar {
        let mut weights = WeightSums::default();
        let ends = outputs.iter().map(|node| node.value.sums.windows.last());
        for window in ends.flatten() {
            weights.merge(&window.weights);
        }
        SoFar {
            chains: weights.count() as usize,
            log_z: weights.log_mean() + self.log_base_normalizer,
            effective_sample_size: weights.effective_sample_size(),
        }
    }

    /// Returns the genealogy of a block; `None` if its chains do not interact.
    pub(crate) fn genealogy<S>(
        &self,
        copy: Option<CopyState<S>>,
        block: &Block<S>,
    ) -> Option<Genealogy<S>> {
        let selection = self.selection.clone()?;
        Some(Genealogy::new(
            selection,
            self.largest_block(),
            copy?,
            block,
        ))
    }
}

impl<R> StageSums<R> {
    /// Returns whether these can be the sums of `chains`; false for a damaged file.
    pub(crate) fn fit(&self, settings: &Settings, chains: &Range<usize>) -> bool {
        let (windows, stages) = (settings.windows(), settings.schedule.stages());
        self.windows.len() == windows.count()
            && windows.fit(&self.windows, stages, chains)
            && self.target.iter().all(|target| target.fits(chains))
            && self.uncovered <= chains.len()
    }
}

impl<R: Merge> Merge for StageSums<R> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.windows.iter_mut().zip(&right.windows) {
            mine.merge(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.target, &right.target) {
            mine.merge(theirs);
        }
        self.recorder.merge(right.recorder);
        self.uncovered += right.uncovered;
    }
}

impl<S, R: Merge> Merge for BlockResult<S, R> {
    fn merge(&mut self, right: Self) {
        self.chains.extend(right.chains);
        self.sums.merge(right.sums);
    }
}

/// Estimates and warnings, computed from the chains and their sums along the schedule.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Estimate of `log(Z_K / Z_0)`.
    pub(crate) estimate: Estimate,
    pub(crate) thermodynamic_log_z: Option<f64>,
    /// Rounding error of log Z: the value that the path states, or an estimate from the sizes of log densities and
    /// weights, whichever is larger.
    pub(crate) rounding_error: f64,
    pub(crate) certain_bound: Option<f64>,
    pub(crate) stages: Vec<StageSummary>,
    pub(crate) warnings: Vec<Warning>,
}

impl Figures {
    /// Computes the figures of a run without the `missing` chains. `size_of_base` is the median absolute log density of
    /// the base at its own samples.
    ///
    /// # Errors
    /// Weights that are all zero.
    pub(crate) fn of<S, R>(
        settings: &Settings,
        chains: &FinalStates<S>,
        sums: &StageSums<R>,
        missing: &[Range<usize>],
        size_of_base: f64,
    ) -> Result<Self> {
        let (windows, schedule) = (&settings.windows(), &settings.schedule);
        // Kept weights name first ancestors by their index in the run. The list of chains lacks the missing ones.
        let place = |&root: &usize| {
            let before = missing.iter().filter(|range| range.end <= root);
            root - before.map(Range::len).sum::<usize>()
        };
        let estimate = |kept: &KeptWeights| {
            let roots: Vec<usize> = kept.roots.iter().map(place).collect();
            settings.estimate(&kept.log_weights, &roots)
        };
        let recorded = (&sums.windows[..], sums.target.as_ref());
        let thermodynamic = stages::thermodynamic_integral(windows, recorded, schedule);
        let sizes = (size_of_base, settings.epsilon);
        let rounding_error = stages::rounding_error(windows, &sums.windows, schedule, sizes);
        let mut figures = Self {
            estimate: settings.estimate(&chains.log_weights, &chains.roots)?,
            thermodynamic_log_z: thermodynamic.map(|ratio| ratio + settings.log_base_normalizer),
            rounding_error: settings.rounding_error.max(rounding_error),
            certain_bound: None,
            stages: stages::summarize(windows, &sums.windows, schedule, estimate)?,
            warnings: Vec::new(),
        };
        let missed = stages::missed_share(windows, &sums.windows);
        figures.warnings = figures.find_warnings(settings, sums.uncovered, missed);
        if figures.estimate.is_of_interacting() {
            let families = heavy_families(&chains.log_weights, &chains.roots, schedule.stages());
            figures.warnings.extend(families);
        }
        Ok(figures)
    }

    fn find_warnings(&self, settings: &Settings, uncovered: usize, missed: f64) -> Vec<Warning> {
        let standard_error = self.estimate.standard_error();
        let mut warnings = self.estimate.warnings();
        warnings.extend((uncovered > 0).then_some(Warning::BaseMissesTarget { chains: uncovered }));
        warnings.extend(stages::zero_acceptance(&self.stages));
        warnings.extend(Warning::rounding(self.rounding_error, standard_error));
        // Moves that miss more of the mean weight than a tenth of its standard error are worth a warning.
        let missing = exceeds(missed, 0.1 * standard_error).then_some(Warning::MissingMass {
            share: missed,
            standard_error,
        });
        // Moves that miss mass also concentrate the variance: one warning is enough.
        let resampled = settings.selection.is_some();
        let concentrated = stages::concentrated_variance(&self.stages, resampled);
        warnings.extend(missing.or(concentrated));
        warnings
    }

    pub(crate) fn warn_of_missing_chains(&mut self, missing: &[Range<usize>], finished: usize) {
        let chains: usize = missing.iter().map(Range::len).sum();
        let warning = Warning::MissingChains {
            missing: chains,
            of: chains + finished,
        };
        self.warnings.extend((chains > 0).then_some(warning));
    }
}
