//! `annealed merge` joins parts of a run, and compares runs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use annealed::estimate::{Estimate, LogZ, Warning};
use annealed::{Error, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::comparison::{Comparison, Read};
use crate::figures;
use crate::output::{self, write_report};
use crate::page::Page;
use crate::saved;

/// Merge files, given in any order. Parts of one run become one run. Several runs are compared, and pooled if they differ
/// only in their seeds.
#[derive(Debug, Args)]
pub struct Options {
    /// Saved runs, or parts of runs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the merged run to a file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    save: Option<PathBuf>,
    /// Draw the runs as SVG
    #[arg(long, value_name = "FILE", value_parser = output::picture)]
    plot: Option<PathBuf>,
    /// Write a report: JSON if the name ends in .json, otherwise text
    #[arg(long, value_name = "FILE", value_parser = output::report)]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Merges the files, and returns the text to print.
pub fn merge(options: &Options) -> Result<String> {
    let runs = Read::all(&options.files)?;
    let comparison = Comparison::of(&runs)?;
    let merged = Merged { runs, comparison };
    if let Some(file) = &options.save {
        merged.save(file)?;
    }
    if let Some(file) = &options.plot {
        merged.plot(file)?;
    }
    let (json, text) = (merged.json(), merged.text(false));
    if let Some(file) = &options.report {
        let pages = merged.runs.iter();
        let page = |read: &Read| format!("\n{}\n{}", read.name(), Page(&read.run));
        let pages = pages.map(page).collect::<String>();
        write_report(file, &json, &(text + &pages))?;
    }
    match options.json {
        true => Ok(format!("{json}\n")),
        false => Ok(merged.text(output::has_colour())),
    }
}

/// The runs and their comparison.
struct Merged {
    runs: Vec<Read>,
    comparison: Comparison,
}

impl Merged {
    fn save(&self, file: &Path) -> Result<()> {
        let [read] = self.runs.as_slice() else {
            let expected = "parts of one run: a pooled result cannot be saved, and scores no data. Keep the files, and merge \
                            them again. To get one file that scores data, run more chains of one seed (annealed rbm with \
                            --extend FILE and a larger --chains)";
            let found = format!("{} runs", self.runs.len());
            return Err(Error::invalid("--save", found, expected));
        };
        saved::write(file, &read.run.clone().into(), &read.known)
    }

    fn plot(&self, file: &Path) -> Result<()> {
        let names = self.runs.iter().map(|read| match self.runs.len() {
            1 => String::new(),
            _ => read.short_name(),
        });
        self.comparison
            .draw(&self.runs, &Vec::from_iter(names), file)
    }

    fn json(&self) -> Value {
        let of = |figure: &dyn Fn(&Estimate) -> Value| self.comparison.pooled.as_ref().map(figure);
        let mut json = json!({
            "log_z": of(&|pooled| pooled.value().into()),
            "standard_error": of(&|pooled| pooled.standard_error().into()),
            "interval": of(&|pooled| json!([pooled.interval().0, pooled.interval().1])),
            "skewed": of(&|pooled| pooled.is_skewed().into()),
            "ess": of(&|pooled| pooled.effective_sample_size().into()),
            "chains": of(&|pooled| pooled.chains().into()),
            "warnings": figures::of_warnings(&self.warnings()),
            "runs": self.runs.iter().map(|read| figures::of_run(&read.run)).collect::<Vec<_>>(),
        });
        self.comparison.add_to(&mut json);
        json
    }

    /// Returns the warnings that the runs contain and further warnings about them, without repetitions.
    fn warnings(&self) -> Vec<Warning> {
        let of_runs = self.runs.iter().flat_map(|read| read.run.warnings());
        let doubts = self.runs.iter().flat_map(|read| &read.doubts);
        figures::distinct(of_runs.chain(doubts))
    }

    fn text(&self, colour: bool) -> String {
        let mut text: String = self.runs.iter().map(|read| self.lines(read)).collect();
        text += &self.comparison.text(colour);
        if let (Some(pooled), 2..) = (&self.comparison.pooled, self.runs.len()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} seeds: log Z = {pooled}", self.runs.len());
        }
        text
    }

    /// Returns the lines of a run: its log Z, the chains that it lacks, and the warnings that the run does not contain.
    fn lines(&self, read: &Read) -> String {
        let run = &read.run;
        let name = match self.runs.len() {
            1 => String::new(),
            _ => format!("{} (seed {}): ", read.name(), run.seed()),
        };
        let asked = read.known.asked.filter(|chains| run.chains() < *chains);
        let stopped = asked.map(|chains| {
            let (by, done, file) = (run.stopped_by(), run.chains(), read.name());
            format!("{by}: {done} of {chains} chains are done; annealed rbm with --chains {chains} --extend {file} runs the rest\n")
        });
        let missing = run.missing().iter();
        let missing = missing.map(|chains| format!("missing: chains {chains:?}\n"));
        let doubts = read.doubts.iter();
        let doubts = doubts.map(|warning| format!("warning: {warning}\n"));
        let lines = stopped.into_iter().chain(missing).chain(doubts);
        format!("{name}{run}\n") + &lines.collect::<String>()
    }
}
