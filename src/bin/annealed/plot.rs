//! `annealed plot`: pictures of saved runs.

use std::path::{Path, PathBuf};

use annealed::ais::RunPart;
use annealed::estimate::Warning;
use annealed::prelude::Run;
use annealed::{Result, plot};
use clap::Args;

use crate::output;
use crate::saved::{self, Known, State};

/// One run alone, or several beside each other, each by the name of its file.
#[derive(Debug, Args)]
pub struct Options {
    /// Saved runs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The SVG file to write
    #[arg(long, value_name = "FILE", value_parser = output::picture)]
    out: PathBuf,
    /// Draw the schedules of the runs instead
    #[arg(long)]
    schedules: bool,
}

/// Draws the files; there is nothing to print.
pub fn plot(options: &Options) -> Result<String> {
    let read = |file: &PathBuf| RunPart::merge([saved::read(file)?]);
    let runs: Vec<Run<State>> = options.files.iter().map(read).collect::<Result<_>>()?;
    let names = options.files.iter().map(|file| name(file));
    let names: Vec<String> = names.collect();
    let named = names.iter().map(String::as_str).zip(&runs);
    if options.schedules {
        let schedules = named.map(|(name, run)| (name, run.schedule()));
        plot::schedules(schedules, &options.out)?;
        return Ok(String::new());
    }
    let doubts = options.files.iter().zip(&runs).flat_map(|(file, run)| {
        let known = Known::of_files(std::slice::from_ref(file));
        known.doubts(run)
    });
    let doubts: Vec<Warning> = doubts.collect();
    plot::runs(named).warnings(&doubts).save(&options.out)?;
    Ok(String::new())
}

/// The name of a file without its folder and ending.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or(file.as_os_str());
    stem.to_string_lossy().into_owned()
}
