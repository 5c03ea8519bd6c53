//! The results of a run as JSON, in the same form in all outputs of the program, and as a page.

use annealed::ais::Report;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::prelude::Run;
use serde_json::{Value, json};

/// Returns the results of a run as JSON, without its chains.
pub fn of_run<S>(run: &Run<S>) -> Value {
    let report = run.report();
    let (lower, upper) = report.interval;
    json!({
        "log_z": report.log_z,
        "standard_error": report.standard_error,
        "interval": [lower, upper],
        "skewed": report.skewed,
        "ess": report.effective_sample_size,
        "log_z_base": report.log_base_normalizer,
        "mean_log_weight": run.estimate().mean_log_weight(),
        "var_log_weight": report.var_log_weight,
        "lower_bound": report.lower_bound,
        "certified_lower_bound": report.certified_lower_bound,
        "thermodynamic_log_z": report.thermodynamic_log_z,
        "chains": report.chains,
        "dead_chains": report.dead_chains,
        "missing": report.missing,
        "stages": report.stages,
        "seed": report.seed,
        "block_size": report.block_size,
        "engine": report.engine.map(|engine| engine.to_string()),
        "stopped_by": format!("{:?}", report.stopped_by),
        "evaluations": report.evaluations,
        "seconds": report.seconds,
        "chain_steps_per_second": report.chain_steps_per_second,
        "warnings": of_warnings(run.warnings()),
        "recorded_stages": report.recorded_stages,
    })
}

/// Returns the warnings without repetitions.
pub fn distinct<'w>(warnings: impl IntoIterator<Item = &'w Warning>) -> Vec<Warning> {
    let mut distinct: Vec<Warning> = Vec::new();
    for warning in warnings {
        if !distinct.contains(warning) {
            distinct.push(warning.clone());
        }
    }
    distinct
}

/// Returns name and text of each warning.
pub fn of_warnings(warnings: &[Warning]) -> Value {
    let text = |warning: &Warning| json!({"name": warning.name(), "text": warning.to_string()});
    warnings.iter().map(text).collect()
}

/// Returns the report of a run, without the warnings, because these have been printed before it.
pub fn page<S>(run: &Run<S>) -> Report {
    let mut report = run.report();
    report.warnings.clear();
    report
}
