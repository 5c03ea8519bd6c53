//! The result of a run: log Z, reasons to doubt it, and the weighted chains.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[cfg(feature = "serde")]
use crate::Error;
use crate::Result;
use crate::ais::partial::Outcome;
use crate::ais::settings::Settings;
use crate::ais::stages::{self, StageSummary};
use crate::estimate::{Estimate, Warning, importance_weighted_bound};
use crate::num::{Engine, WeightSums};
use crate::schedule::Schedule;

/// The result of a run: log Z with its uncertainty, reasons to doubt it, and the weighted chains.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use]
pub struct Run<S, R = ()> {
    settings: Settings,
    /// Of `log(Z_K / Z_0)`.
    estimate: Estimate,
    thermodynamic_log_z: Option<f64>,
    stages: Vec<StageSummary>,
    warnings: Vec<Warning>,
    seconds: f64,
    states: Vec<S>,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_values"))]
    log_weights: Vec<f64>,
    /// For each chain the index of the one that it descends from; empty where nothing was resampled.
    roots: Vec<usize>,
    recorder: R,
}

impl<S, R> Run<S, R> {
    pub(super) fn new(settings: Settings, outcome: Outcome<S, R>, seconds: f64) -> Result<Self> {
        let (windows, schedule) = (settings.windows(), &settings.schedule);
        let thermodynamic = stages::thermodynamic_integral(windows, &outcome.windows, schedule);
        let mut run = Self {
            estimate: Estimate::of_interacting(
                &outcome.log_weights,
                &outcome.roots,
                settings.block_size,
            )?,
            thermodynamic_log_z: thermodynamic.map(|ratio| ratio + settings.log_base_normalizer),
            stages: stages::summarize(windows, &outcome.windows, schedule),
            warnings: Vec::new(),
            seconds,
            states: outcome.states,
            log_weights: outcome.log_weights,
            roots: outcome.roots,
            recorder: outcome.recorder,
            settings,
        };
        let missed = stages::missed_share(run.settings.windows(), &outcome.windows);
        run.warnings = run.find_warnings(outcome.uncovered, missed);
        Ok(run)
    }

    fn find_warnings(&self, uncovered: usize, missed: f64) -> Vec<Warning> {
        let mut warnings = self.estimate.warnings();
        warnings.extend((uncovered > 0).then_some(Warning::BaseMissesTarget { chains: uncovered }));
        warnings.extend(stages::zero_acceptance(&self.stages));
        let rounding_error = self.settings.rounding_error;
        warnings.extend(Warning::rounding(rounding_error, self.standard_error()));
        // Where moves overshoot, they are what the variance comes from.
        let missing = self.missing_mass(missed);
        let resampled = self.settings.interaction.is_some();
        let concentrated = stages::concentrated_variance(&self.stages, resampled);
        warnings.extend(missing.or(concentrated));
        warnings
    }

    /// The warning where moves miss more of the mean weight than a tenth of its standard error.
    fn missing_mass(&self, share: f64) -> Option<Warning> {
        let standard_error = self.standard_error();
        (share > 0.1 * standard_error).then_some(Warning::MissingMass {
            share,
            standard_error,
        })
    }

    /// The estimate of `log Z_K`, with its bounds.
    fn log_z_estimate(&self) -> Estimate {
        self.estimate.shifted(self.settings.log_base_normalizer)
    }

    pub(super) fn log_base_normalizer(&self) -> f64 {
        self.settings.log_base_normalizer
    }

    /// The estimate of `log Z_K`: that of `log(Z_K / Z_0)` plus the base's log normaliser.
    pub fn log_z(&self) -> f64 {
        self.log_z_estimate().value()
    }

    /// The estimate of `log(Z_K / Z_0)`: the log of the mean weight.
    pub fn log_z_ratio(&self) -> f64 {
        self.estimate.value()
    }

    /// Standard error of [`log_z`](Self::log_z).
    pub fn standard_error(&self) -> f64 {
        self.estimate.standard_error()
    }

    /// The 95% confidence interval of `log Z_K`, lower and upper bound; see
    /// [`Estimate::interval_at`] for its construction and measured coverage.
    pub fn interval(&self) -> (f64, f64) {
        self.log_z_estimate().interval()
    }

    /// The confidence interval of `log Z_K` at another level in (0, 1).
    ///
    /// # Errors
    /// A level outside (0, 1).
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.log_z_estimate().interval_at(level)
    }

    /// `ESS = (sum w)^2 / sum w^2`, a count between 1 and the number of chains. In a
    /// [resampled](crate::ais::Ais::resampling) run w are the weights of families or of islands.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        self.estimate.effective_sample_size()
    }

    /// `log Z_0 + mean log w`, in expectation a lower bound on `log Z_K` (Jensen); `-inf` where a
    /// chain has weight zero.
    pub fn lower_bound(&self) -> f64 {
        self.log_z_estimate().mean_log_weight()
    }

    /// `log Z_0` plus the `k`-sample bound `E log((w_1 + .. + w_k) / k)` (Burda, Grosse and
    /// Salakhutdinov 2016): in expectation at most `log Z_K`, and closer the larger `k`.
    ///
    /// # Errors
    /// `k` outside `1..=N`.
    pub fn importance_weighted_bound(&self, k: usize) -> Result<f64> {
        let bound = importance_weighted_bound(&self.log_weights, k)?;
        Ok(bound + self.settings.log_base_normalizer)
    }

    /// Statistics of the log weights: mean, variance, largest share, tail index.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Log Z by thermodynamic integration from the same chains: the trapezoid rule over the
    /// recorded stages on the weighted mean of `d/dbeta log f`, taken from the log ratios. `None`
    /// where it does not exist because the support shrinks along the path.
    ///
    /// This is no second opinion. Both estimates use the same weighted chains, so that they err together.
    /// What sets them apart is the integral's discretisation, to first order a twelfth of the third
    /// cumulant of the log ratio at each stage, and for a kernel that is not invariant its corrections too.
    /// The discretisation falls with the number of recorded stages
    /// ([`Ais::recorded_stages`](crate::ais::Ais::recorded_stages)). Where the log ratio has no mean at the
    /// base, as under a Cauchy prior, the integral does not converge, whatever the number of stages.
    pub fn thermodynamic_log_z(&self) -> Option<f64> {
        self.thermodynamic_log_z
    }

    /// Reasons to doubt the result; empty where there are none.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The recorded stages, at most as many as
    /// [`Ais::recorded_stages`](crate::ais::Ais::recorded_stages) allows.
    pub fn stages(&self) -> &[StageSummary] {
        &self.stages
    }

    /// The final states; with [`log_weights`](Self::log_weights) they are weighted samples of
    /// the target.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// The log weights of the chains, by chain index.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Self-normalised estimate of `E f(x)` under the target, with the standard error
    /// `sqrt(sum W_i^2 (f(x_i) - mean)^2)`, `W` the normalised weights; infinite for a single
    /// chain of positive weight. Where chains were resampled, a family or an island is what a chain is
    /// here. The error is far too small where few chains carry the weight.
    pub fn expectation(&self, f: impl Fn(&S) -> f64) -> (f64, f64) {
        let weights = WeightSums::of(&self.log_weights);
        let chains = self.states.iter().zip(&self.log_weights).enumerate();
        let alive = chains.filter(|(_, (_, log_weight))| **log_weight > f64::NEG_INFINITY);
        let weighted: Vec<(usize, f64, f64)> = alive
            .map(|(i, (state, &log_weight))| (self.unit(i), weights.share(log_weight), f(state)))
            .collect();
        let mean: f64 = weighted
            .iter()
            .map(|(_, weight, value)| weight * value)
            .sum();
        let mut units = BTreeMap::new();
        for (unit, weight, value) in weighted {
            *units.entry(unit).or_insert(0.0) += weight * (value - mean);
        }
        let variance: f64 = units.values().map(|sum: &f64| sum.powi(2)).sum();
        match units.len() {
            1 => (mean, f64::INFINITY),
            _ => (mean, variance.sqrt()),
        }
    }

    /// The index of what a chain belongs to and is independent of the others: its island, its family, or
    /// itself.
    fn unit(&self, chain: usize) -> usize {
        match self.estimate.is_of_islands() {
            true => chain / self.settings.block_size,
            false => self.roots.get(chain).copied().unwrap_or(chain),
        }
    }

    /// The number of first chains whose descendants carry weight in the end; `None` where nothing was
    /// resampled.
    pub fn surviving_ancestors(&self) -> Option<usize> {
        let alive = self.roots.iter().zip(&self.log_weights);
        let alive = alive.filter(|(_, log_weight)| **log_weight > f64::NEG_INFINITY);
        let roots: BTreeSet<_> = alive.map(|(root, _)| root).collect();
        (!self.roots.is_empty()).then_some(roots.len())
    }

    /// The recorder set by [`Ais::recorder`](crate::ais::Ais::recorder), merged over all chains.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// The run without its recorder, and the recorder.
    pub(crate) fn split_recorder(self) -> (Run<S>, R) {
        let run = Run {
            settings: self.settings,
            estimate: self.estimate,
            thermodynamic_log_z: self.thermodynamic_log_z,
            stages: self.stages,
            warnings: self.warnings,
            seconds: self.seconds,
            states: self.states,
            log_weights: self.log_weights,
            roots: self.roots,
            recorder: (),
        };
        (run, self.recorder)
    }

    /// The schedule that was run.
    pub fn schedule(&self) -> &Schedule {
        &self.settings.schedule
    }

    /// Number of chains N.
    pub fn chains(&self) -> usize {
        self.settings.chains
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// Number of chains in a block; with the seed it fixes the result's bits.
    pub fn block_size(&self) -> usize {
        self.settings.block_size
    }

    /// The instruction set that the path chose for inner loops, where there was a choice: part of what
    /// fixes the result's bits.
    pub fn engine(&self) -> Option<Engine> {
        self.settings.engine
    }

    /// Wall time in seconds, summed over the parts of a merged run.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Chain-steps (chains times stages) per second.
    pub fn chain_steps_per_second(&self) -> f64 {
        self.chains() as f64 * self.schedule().steps() as f64 / self.seconds
    }
}

/// One line, as `log Z = 208.631 +- 0.021 (95% interval 208.590 to 208.672, ESS 809 of 1000)`,
/// and a line for each warning.
impl<S, R> fmt::Display for Run<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (log_z, error) = (self.log_z(), self.standard_error());
        let (lower, upper) = self.interval();
        write!(f, "log Z = {log_z:.3} +- {error:.3} (95% interval ")?;
        write!(f, "{lower:.3} to {upper:.3}, ")?;
        write!(f, "{})", self.estimate.sample_size_text())?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}

crate::num::deserialize_checked! {
    Run<S, R> {
        settings: Settings,
        estimate: Estimate,
        thermodynamic_log_z: Option<f64>,
        stages: Vec<StageSummary>,
        warnings: Vec<Warning>,
        seconds: f64,
        states: Vec<S>,
        #[serde(with = "crate::num::serial::log_values")]
        log_weights: Vec<f64>,
        roots: Vec<usize>,
        recorder: R,
    } => Run {
        settings,
        estimate,
        thermodynamic_log_z,
        stages,
        warnings,
        seconds,
        states,
        log_weights,
        roots,
        recorder,
    }
    .checked()
}

#[cfg(feature = "serde")]
impl<S, R> Run<S, R> {
    /// Refuses a run whose parts contradict each other.
    fn checked(self) -> Result<Self> {
        let settings = &self.settings;
        settings.check()?;
        let (chains, stages) = (settings.chains, settings.windows().count());
        Error::check_dimension("states", self.states.len(), chains)?;
        Error::check_dimension("log weights", self.log_weights.len(), chains)?;
        Error::check_dimension("stages", self.stages.len(), stages)?;
        if settings.interaction.is_some() || !self.roots.is_empty() {
            Error::check_dimension("roots", self.roots.len(), chains)?;
            let within = self.roots.iter().all(|&root| root < chains);
            Error::check(
                within,
                "roots",
                "a chain beyond the last",
                format!("0 to {}", chains - 1),
            )?;
        }
        // A format may round, and each version sums in its own order.
        let (found, expected) = (self.log_z_ratio(), {
            Estimate::from_log_weights(&self.log_weights)?.value()
        });
        let agrees = (found - expected).abs() <= 1e-6 * (1.0 + expected.abs());
        let expected = format!("{expected}, that of the log weights");
        Error::check(agrees, "estimate", found, expected)?;
        Ok(self)
    }
}
