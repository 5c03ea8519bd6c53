//! What follows from the chains of a run and their sums along the schedule.

use std::ops::Range;

use super::block_result::{FinalStates, StageSums};
use super::settings::Settings;
use super::stages::{self, StageSummary};
use crate::Result;
use crate::estimate::{Estimate, Warning};

/// What follows from the chains of a run and their sums along the schedule.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Of `log(Z_K / Z_0)`.
    pub(crate) estimate: Estimate,
    pub(crate) thermodynamic_log_z: Option<f64>,
    /// How far rounding may move log Z, as the path says or as the size of log densities and log weights does.
    pub(crate) rounding_error: f64,
    pub(crate) stages: Vec<StageSummary>,
    pub(crate) warnings: Vec<Warning>,
}

impl Figures {
    /// Given the size of the base's log densities.
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
        // Where moves miss more of the mean weight than a tenth of its standard error.
        let missing = (missed > 0.1 * standard_error).then_some(Warning::MissingMass {
            share: missed,
            standard_error,
        });
        // Where moves overshoot, they are what the variance comes from.
        let resampled = settings.selection.is_some();
        let concentrated = stages::concentrated_variance(&self.stages, resampled);
        warnings.extend(missing.or(concentrated));
        warnings
    }

    /// Warns of chains that are not there.
    pub(crate) fn warn_of_missing(&mut self, missing: &[Range<usize>], finished: usize) {
        let chains: usize = missing.iter().map(Range::len).sum();
        let warning = Warning::MissingChains {
            missing: chains,
            of: chains + finished,
        };
        self.warnings.extend((chains > 0).then_some(warning));
    }
}
