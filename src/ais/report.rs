//! The summary of a run without its chains.

use std::fmt;
use std::ops::Range;

use super::run::Run;
use super::stages::StageSummary;
use crate::estimate::{LogZ, Warning};
use crate::num::SimdLevel;
use crate::work::StoppedBy;

/// A summary of a run without its chains, with a few of its stages. `Display` prints one page. With the feature `serde`
/// it can be written, for example as JSON.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// Estimate of `log Z_K`.
    pub log_z: f64,
    /// Standard error of `log_z`.
    pub standard_error: f64,
    /// 95% confidence interval of `log Z_K`.
    pub interval: (f64, f64),
    /// Whether the standard error misleads and only the interval is valid; see [`LogZ::is_skewed`].
    pub skewed: bool,
    /// `log Z_0`, which `log_z` includes.
    pub log_base_normalizer: f64,
    /// Effective sample size, a count.
    pub effective_sample_size: f64,
    /// Lower bound on `log Z_K` in expectation; `None` if a chain has weight zero.
    pub lower_bound: Option<f64>,
    /// Lower bound on `log Z_K` with 95% confidence, for any weights; see [`Run::certified_lower_bound`].
    pub certified_lower_bound: Option<f64>,
    /// Estimate by thermodynamic integration, if it exists.
    pub thermodynamic_log_z: Option<f64>,
    /// Variance of the log weights of living chains; 0 if only one chain is alive.
    pub var_log_weight: Option<f64>,
    /// Reasons to doubt the result, each with name and text.
    pub warnings: Vec<(String, String)>,
    /// Number of chains.
    pub chains: usize,
    /// Number of chains of weight zero.
    pub dead_chains: usize,
    /// Index ranges of missing chains.
    pub missing: Vec<Range<usize>>,
    /// Number K of stages.
    pub stages: usize,
    /// Seed.
    pub seed: u64,
    /// Number of chains in a block.
    pub block_size: usize,
    /// SIMD level of the path, if it had a choice.
    pub engine: Option<SimdLevel>,
    /// Reason why the run ended.
    pub stopped_by: StoppedBy,
    /// Number of density evaluations; 0 for a run saved by an older version.
    pub evaluations: u64,
    /// Wall time in seconds, summed over parts and calls.
    pub seconds: f64,
    /// Chain-steps per second.
    pub chain_steps_per_second: f64,
    /// At most 21 of the recorded stages, evenly spaced, including the last.
    pub recorded_stages: Vec<StageSummary>,
}

const STAGES: usize = 21;

impl<S, R> Run<S, R> {
    /// Returns a summary without the chains.
    pub fn report(&self) -> Report {
        // JSON has no infinities.
        let number = |x: f64| x.is_finite().then_some(x);
        let text = |warning: &Warning| (warning.name(), warning.to_string());
        Report {
            log_z: self.log_z(),
            standard_error: self.standard_error(),
            interval: self.interval(),
            skewed: self.is_skewed(),
            log_base_normalizer: self.log_base_normalizer(),
            effective_sample_size: self.effective_sample_size(),
            lower_bound: number(self.lower_bound()),
            certified_lower_bound: self.certified_lower_bound(0.95).ok().flatten(),
            thermodynamic_log_z: self.thermodynamic_log_z(),
            var_log_weight: number(self.estimate().var_log_weight()),
            warnings: self.warnings().iter().map(text).collect(),
            chains: self.chains(),
            dead_chains: self.estimate().dead_chains(),
            missing: self.missing().to_vec(),
            stages: self.schedule().stages(),
            seed: self.seed(),
            block_size: self.block_size(),
            engine: self.simd_level(),
            stopped_by: self.stopped_by(),
            evaluations: self.evaluations(),
            seconds: self.seconds(),
            chain_steps_per_second: self.chain_steps_per_second(),
            recorded_stages: spaced(self.stages()),
        }
    }
}

/// Returns at most `STAGES` of the stages, evenly spaced, including the last.
fn spaced(stages: &[StageSummary]) -> Vec<StageSummary> {
    let (all, some) = (stages.len(), stages.len().min(STAGES));
    (1..=some).map(|i| stages[all * i / some - 1]).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((lower, upper), error) = (self.interval, self.standard_error);
        write!(f, "log Z = {:.4}", self.log_z)?;
        match self.skewed {
            true => write!(f, ", weights are skewed"),
            false => write!(f, " +- {error:.4}"),
        }?;
        writeln!(f, "\n95% interval {lower:.4} to {upper:.4}")?;
        let (ess, chains) = (self.effective_sample_size, self.chains);
        writeln!(f, "effective sample size {ess:.1}, {chains} chains")?;
        match self.dead_chains {
            0 => {}
            dead => writeln!(f, "{dead} chains of weight zero")?,
        }
        for (_, warning) in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        writeln!(f, "\nlog Z of the base {:.4}", self.log_base_normalizer)?;
        write_if(f, "lower bound in expectation", self.lower_bound)?;
        let certified = self.certified_lower_bound;
        write_if(f, "lower bound with 95% confidence", certified)?;
        write_if(f, "thermodynamic integration", self.thermodynamic_log_z)?;
        write_if(f, "variance of the log weights", self.var_log_weight)?;
        let (stages, seed, block) = (self.stages, self.seed, self.block_size);
        writeln!(f, "{stages} stages, seed {seed}, blocks of {block} chains")?;
        if let Some(engine) = self.engine {
            writeln!(f, "engine {engine}")?;
        }
        for chains in &self.missing {
            writeln!(f, "missing: chains {chains:?}")?;
        }
        let (seconds, rate) = (self.seconds, self.chain_steps_per_second);
        writeln!(f, "ended: {}", self.stopped_by)?;
        if self.evaluations > 0 {
            writeln!(f, "{:.1e} evaluations", self.evaluations)?;
        }
        writeln!(f, "{seconds:.1} s, {rate:.3e} chain-steps a second\n")?;
        writeln!(f, "  stage       beta  log Z_k/Z_0       ESS  accepted")?;
        for stage in &self.recorded_stages {
            write_stage(f, stage)?;
        }
        Ok(())
    }
}

fn write_if(f: &mut fmt::Formatter<'_>, what: &str, value: Option<f64>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{what} {value:.4}"))
}

fn write_stage(f: &mut fmt::Formatter<'_>, stage: &StageSummary) -> fmt::Result {
    let (k, beta) = (stage.stage, stage.beta);
    let (log_z, ess) = (stage.log_z_ratio, stage.effective_sample_size);
    write!(f, "{k:7} {beta:10.6} {log_z:12.4} {ess:9.1}")?;
    match stage.acceptance {
        Some(acceptance) => writeln!(f, "  {acceptance:8.3}"),
        None => writeln!(f, "         -"),
    }
}
