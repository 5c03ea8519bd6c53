//! `annealed plot` draws saved runs, and compares them.

use std::path::PathBuf;

use annealed::Result;
use clap::Args;

use crate::comparison::{Comparison, Read};
use crate::output;

/// Draw one run, or several runs together, each labelled by the name of its file.
#[derive(Debug, Args)]
pub struct Options {
    /// Saved runs; parts of one run are joined
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The SVG file to write
    #[arg(long, value_name = "FILE", value_parser = output::picture)]
    out: PathBuf,
    /// Draw the schedules of the runs instead
    #[arg(long)]
    schedules: bool,
}

/// Draws the runs in the files. Returns the text that compares several runs.
pub fn plot(options: &Options) -> Result<String> {
    let runs = Read::all(&options.files)?;
    let names: Vec<String> = runs.iter().map(Read::short_name).collect();
    if options.schedules {
        let schedules = runs.iter().map(|read| read.run.schedule());
        let named = names.iter().map(String::as_str).zip(schedules);
        annealed_plot::schedules(named, &options.out)?;
        return Ok(String::new());
    }
    let comparison = Comparison::of(&runs)?;
    comparison.draw(&runs, &names, &options.out)?;
    Ok(comparison.text(output::has_colour()))
}
