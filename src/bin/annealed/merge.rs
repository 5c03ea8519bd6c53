//! `annealed merge`: parts of a run, or runs of several seeds, taken together.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use annealed::ais::RunPart;
use annealed::estimate::{Estimate, Warning};
use annealed::prelude::Run;
use annealed::{Error, Result};
use clap::Args;
use serde_json::json;

use crate::saved::{self, State};

/// Files in any order. Parts of one seed become one run, and the runs of several seeds one estimate.
#[derive(Debug, Args)]
pub struct Options {
    /// Saved runs, or parts of runs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the merged run, of one seed, to a file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Merges the files; returns what to print.
pub fn merge(options: &Options) -> Result<String> {
    let mut seeds = BTreeMap::<u64, Vec<RunPart<State>>>::new();
    for file in &options.files {
        let part = saved::read(file)?;
        seeds.entry(part.seed()).or_default().push(part);
    }
    let runs = seeds.into_values().map(RunPart::merge);
    let runs: Vec<Run<State>> = runs.collect::<Result<_>>()?;
    let estimate = Run::pooled(&runs)?;
    let start = options.files.iter().find_map(|file| saved::start_of(file));
    let proofs = |run: &Run<State>| {
        start
            .as_ref()
            .map(|start| start.warnings_of(run))
            .unwrap_or_default()
    };
    let proofs: Vec<Warning> = runs.iter().flat_map(proofs).collect();
    if let Some(file) = &options.save {
        let [run] = runs.as_slice() else {
            let expected = "parts of one seed; runs of several are saved one by one";
            let found = format!("runs of {} seeds", runs.len());
            return Err(Error::invalid("--save", found, expected));
        };
        saved::write(file, &run.clone().into(), start.as_ref())?;
    }
    match (options.json, runs.as_slice()) {
        (true, _) => Ok(json(&runs, &estimate, &proofs)),
        (false, [run]) => Ok(line(run) + &lines(&proofs)),
        (false, runs) => Ok(table(runs, &estimate) + &lines(&proofs)),
    }
}

/// Writes a line for each warning that the search for the start proves.
fn lines(proofs: &[Warning]) -> String {
    proofs
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect()
}

fn json(runs: &[Run<State>], estimate: &Estimate, proofs: &[Warning]) -> String {
    let (lower, upper) = estimate.interval();
    let json = json!({
        "log_z": estimate.value(),
        "standard_error": estimate.standard_error(),
        "interval": [lower, upper],
        "ess": estimate.effective_sample_size(),
        "chains": estimate.chains(),
        "warnings": proofs.iter().map(Warning::name).collect::<Vec<_>>(),
        "runs": runs.iter().map(Run::report).collect::<Vec<_>>(),
    });
    json.to_string() + "\n"
}

/// The run, and the chains that it lacks.
fn line(run: &Run<State>) -> String {
    let missing = run.missing().iter();
    let missing = missing.map(|chains| format!("missing: chains {chains:?}\n"));
    format!("{run}\n") + &missing.collect::<String>()
}

fn table(runs: &[Run<State>], estimate: &Estimate) -> String {
    let mut text = String::new();
    for run in runs {
        // Writing to a string cannot fail.
        let _ = write!(text, "seed {}: {}", run.seed(), line(run));
    }
    text + &format!("{} seeds: log Z = {estimate}\n", runs.len())
}
