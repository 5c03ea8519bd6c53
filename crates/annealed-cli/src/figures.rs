//! The results of a run as JSON, in the same form in all outputs of the program.

use annealed::ais::StageSummary;
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::prelude::Run;
use serde_json::{Value, json};

/// Largest number of stages in an output.
const STAGES: usize = 21;

/// Returns the results of a run as JSON, without its chains.
pub fn of_run<S>(run: &Run<S>) -> Value {
    let (lower, upper) = run.interval();
    json!({
        "log_z": run.log_z(),
        "standard_error": run.standard_error(),
        "interval": [lower, upper],
        "skewed": run.is_skewed(),
        "ess": run.effective_sample_size(),
        "log_z_base": run.log_base_normalizer(),
        "mean_log_weight": run.estimate().mean_log_weight(),
        "var_log_weight": finite(run.estimate().var_log_weight()),
        "lower_bound": finite(run.lower_bound()),
        "certified_lower_bound": run.certified_lower_bound(0.95).ok().flatten(),
        "thermodynamic_log_z": run.thermodynamic_log_z(),
        "chains": run.chains(),
        "dead_chains": run.estimate().dead_chains(),
        "missing": run.missing(),
        "stages": run.schedule().stages(),
        "seed": run.seed(),
        "block_size": run.block_size(),
        "engine": run.simd_level().map(|engine| engine.to_string()),
        "stopped_by": format!("{:?}", run.stopped_by()),
        "evaluations": run.evaluations(),
        "seconds": run.seconds(),
        "chain_steps_per_second": run.chain_steps_per_second(),
        "warnings": of_warnings(run.warnings()),
        "recorded_stages": Vec::from_iter(spaced(run.stages())),
    })
}

/// Returns a finite number, or `None`.
pub fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Returns at most 21 of the stages, evenly spaced, including the last.
pub fn spaced(stages: &[StageSummary]) -> impl Iterator<Item = &StageSummary> {
    let (all, some) = (stages.len(), stages.len().min(STAGES));
    (1..=some).map(move |i| &stages[all * i / some - 1])
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
