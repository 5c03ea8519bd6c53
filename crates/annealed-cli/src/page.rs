//! The results of a run as a page of text.

use std::fmt::{self, Display, Formatter};

use annealed::ais::{Run, StageSummary};
use annealed::estimate::LogZ;

use crate::figures::{finite, spaced};

/// The page of a run, without its chains and without its warnings, because these have been printed before it.
pub struct Page<'r, S>(pub &'r Run<S>);

impl<S> Display for Page<'_, S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let run = self.0;
        let ((lower, upper), error) = (run.interval(), run.standard_error());
        write!(f, "log Z = {:.4}", run.log_z())?;
        match run.is_skewed() {
            true => write!(f, ", weights are skewed"),
            false => write!(f, " +- {error:.4}"),
        }?;
        writeln!(f, "\n95% interval {lower:.4} to {upper:.4}")?;
        let (ess, chains) = (run.effective_sample_size(), run.chains());
        writeln!(f, "effective sample size {ess:.1}, {chains} chains")?;
        match run.estimate().dead_chains() {
            0 => {}
            dead => writeln!(f, "{dead} chains of weight zero")?,
        }
        let log_z_base = run.log_base_normalizer();
        writeln!(f, "\nlog Z of the base {log_z_base:.4}")?;
        let lower = finite(run.lower_bound());
        write_if(f, "lower bound in expectation", lower)?;
        let certified = run.certified_lower_bound(0.95).ok().flatten();
        write_if(f, "lower bound with 95% confidence", certified)?;
        let thermodynamic = run.thermodynamic_log_z();
        write_if(f, "thermodynamic integration", thermodynamic)?;
        let variance = finite(run.estimate().var_log_weight());
        write_if(f, "variance of the log weights", variance)?;
        let (stages, seed, block) = (run.schedule().stages(), run.seed(), run.block_size());
        writeln!(f, "{stages} stages, seed {seed}, blocks of {block} chains")?;
        if let Some(engine) = run.simd_level() {
            writeln!(f, "engine {engine}")?;
        }
        for chains in run.missing() {
            writeln!(f, "missing: chains {chains:?}")?;
        }
        let (seconds, rate) = (run.seconds(), run.chain_steps_per_second());
        writeln!(f, "ended: {}", run.stopped_by())?;
        // A run saved by an older version has 0.
        if run.evaluations() > 0 {
            writeln!(f, "{:.1e} evaluations", run.evaluations())?;
        }
        writeln!(f, "{seconds:.1} s, {rate:.3e} chain-steps a second\n")?;
        writeln!(f, "  stage       beta  log Z_k/Z_0       ESS  accepted")?;
        for stage in spaced(run.stages()) {
            write_stage(f, stage)?;
        }
        Ok(())
    }
}

fn write_if(f: &mut Formatter<'_>, what: &str, value: Option<f64>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{what} {value:.4}"))
}

fn write_stage(f: &mut Formatter<'_>, stage: &StageSummary) -> fmt::Result {
    let (k, beta) = (stage.stage, stage.beta);
    let (log_z, ess) = (stage.log_z_ratio, stage.effective_sample_size);
    write!(f, "{k:7} {beta:10.6} {log_z:12.4} {ess:9.1}")?;
    match stage.acceptance {
        Some(acceptance) => writeln!(f, "  {acceptance:8.3}"),
        None => writeln!(f, "         -"),
    }
}
