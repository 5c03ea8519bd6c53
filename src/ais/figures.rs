//! Estimates and warnings of a run.

use std::ops::Range;

use super::block_result::{FinalStates, StageSums};
use super::settings::Settings;
use super::stages::{self, StageSummary};
use crate::Result;
use crate::estimate::{Estimate, Warning};

/// Estimates and warnings, computed from the chains and their sums along the schedule.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Estimate of `log(Z_K / Z_0)`.
    pub(crate) estimate: Estimate,
    pub(crate) thermodynamic_log_z: Option<f64>,
    /// Rounding error of log Z: the path's own figure, or a larger one from the sizes of log densities and weights.
    pub(crate) rounding_error: f64,
    pub(crate) stages: Vec<StageSummary>,
    pub(crate) warnings: Vec<Warning>,
}

impl Figures {
    /// Computes the figures. `size_of_base` is the size of the base's log densities.
    ///
    /// # Errors
    /// Weights that are all zero.
    pub(crate) fn of<S, R>(
        settings: &Settings,
        chains: &FinalStates<S>,
        sums: &StageSums<R>,
        size_of_base: f64,
    ) -> Result<Self> {
        let (windows, schedule) = (settings.windows(), &settings.schedule);
        let thermodynamic = stages::thermodynamic_integral(windows, &sums.windows, schedule);
        let rounding_error = stages::rounding_error(windows, &sums.windows, schedule, size_of_base);
        let mut figures = Self {
            estimate: settings.estimate(&chains.log_weights, &chains.roots)?,
            thermodynamic_log_z: thermodynamic.map(|ratio| ratio + settings.log_base_normalizer),
            rounding_error: settings.rounding_error.max(rounding_error),
            stages: stages::summarize(windows, &sums.windows, schedule),
            warnings: Vec::new(),
        };
        let missed = stages::missed_share(windows, &sums.windows);
        figures.warnings = figures.find_warnings(settings, sums.uncovered, missed);
        Ok(figures)
    }

    fn find_warnings(&self, settings: &Settings, uncovered: usize, missed: f64) -> Vec<Warning> {
        let standard_error = self.estimate.standard_error();
        let mut warnings = self.estimate.warnings();
        warnings.extend((uncovered > 0).then_some(Warning::BaseMissesTarget { chains: uncovered }));
        warnings.extend(stages::zero_acceptance(&self.stages));
        warnings.extend(Warning::rounding(self.rounding_error, standard_error));
        // Moves that miss more of the mean weight than a tenth of its standard error.
        let missing = (missed > 0.1 * standard_error).then_some(Warning::MissingMass {
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
