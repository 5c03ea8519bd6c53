//! `annealed merge`: parts of a run, or runs of several seeds, taken together.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use annealed::ais::RunPart;
use annealed::estimate::{Estimate, Warning};
use annealed::prelude::Run;
use annealed::{Error, Result, plot};
use clap::Args;
use serde_json::{Value, json};

use crate::figures;
use crate::output::{self, write_report};
use crate::saved::{self, Known, State};

/// Files in any order. Parts of one seed become one run, and the runs of several seeds one estimate.
#[derive(Debug, Args)]
pub struct Options {
    /// Saved runs, or parts of runs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the merged run, of one seed, to a file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    save: Option<PathBuf>,
    /// Draw the runs as SVG, of each seed one
    #[arg(long, value_name = "FILE", value_parser = output::picture)]
    plot: Option<PathBuf>,
    /// Write a report: JSON where the name ends in .json, else text
    #[arg(long, value_name = "FILE", value_parser = output::report)]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Merges the files; returns what to print.
pub fn merge(options: &Options) -> Result<String> {
    let merged = Merged::read(options)?;
    if let Some(file) = &options.save {
        merged.save(file)?;
    }
    if let Some(file) = &options.plot {
        merged.plot(file)?;
    }
    let (json, text) = (merged.json(), merged.text());
    if let Some(file) = &options.report {
        let pages = merged.runs.iter();
        let pages = pages.map(|run| format!("\nseed {}\n{}", run.seed(), figures::page(run)));
        write_report(file, &json, &(text.clone() + &pages.collect::<String>()))?;
    }
    match options.json {
        true => Ok(format!("{json}\n")),
        false => Ok(text),
    }
}

/// One run of each seed, and all taken together.
struct Merged {
    runs: Vec<Run<State>>,
    estimate: Estimate,
    known: Known,
    /// Reasons to doubt the runs that they do not know by themselves.
    doubts: Vec<Warning>,
}

impl Merged {
    fn read(options: &Options) -> Result<Self> {
        let mut seeds = BTreeMap::<u64, Vec<RunPart<State>>>::new();
        for file in &options.files {
            let part = saved::read(file)?;
            seeds.entry(part.seed()).or_default().push(part);
        }
        let runs = seeds.into_values().map(RunPart::merge);
        let runs: Vec<Run<State>> = runs.collect::<Result<_>>()?;
        let known = Known::of_files(&options.files);
        Ok(Self {
            estimate: Run::pooled(&runs)?,
            doubts: runs.iter().flat_map(|run| known.doubts(run)).collect(),
            runs,
            known,
        })
    }

    fn save(&self, file: &Path) -> Result<()> {
        let [run] = self.runs.as_slice() else {
            let expected = "parts of one seed; runs of several are saved one by one";
            let found = format!("runs of {} seeds", self.runs.len());
            return Err(Error::invalid("--save", found, expected));
        };
        saved::write(file, &run.clone().into(), &self.known)
    }

    fn plot(&self, file: &Path) -> Result<()> {
        let name = |run: &Run<State>| match self.runs.len() {
            1 => String::new(),
            _ => format!("seed {}", run.seed()),
        };
        let names: Vec<String> = self.runs.iter().map(name).collect();
        let named = names.iter().map(String::as_str).zip(&self.runs);
        plot::runs(named).warnings(&self.doubts).save(file)
    }

    fn json(&self) -> Value {
        let (lower, upper) = self.estimate.interval();
        json!({
            "log_z": self.estimate.value(),
            "standard_error": self.estimate.standard_error(),
            "interval": [lower, upper],
            "skewed": self.estimate.is_skewed(),
            "ess": self.estimate.effective_sample_size(),
            "chains": self.estimate.chains(),
            "warnings": figures::of_warnings(&self.warnings()),
            "runs": self.runs.iter().map(figures::of_run).collect::<Vec<_>>(),
        })
    }

    /// All reasons to doubt the runs, each once.
    fn warnings(&self) -> Vec<Warning> {
        let of_runs = self.runs.iter().flat_map(Run::warnings);
        figures::distinct(of_runs.chain(&self.doubts))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            // Writing to a string cannot fail.
            let _ = match self.runs.len() {
                1 => write!(text, "{}", line(run)),
                _ => write!(text, "seed {}: {}", run.seed(), line(run)),
            };
        }
        if self.runs.len() > 1 {
            let (count, estimate) = (self.runs.len(), &self.estimate);
            let _ = writeln!(text, "{count} seeds: log Z = {estimate}");
        }
        for warning in &self.doubts {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}

/// The run, and the chains that it lacks.
fn line(run: &Run<State>) -> String {
    let missing = run.missing().iter();
    let missing = missing.map(|chains| format!("missing: chains {chains:?}\n"));
    format!("{run}\n") + &missing.collect::<String>()
}
