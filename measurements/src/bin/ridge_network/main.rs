//! Networks of ridge functions, fitted one unit at a time.
//!
//! A unit maximises `L(w) = 1/n sum_i r_i psi(x_i . w)` over the residuals r; least squares then refits all outer
//! coefficients. Annealed Gibbs sampling on the augmented ridge model, simulated annealing (Metropolis) and gradient ascent
//! with restarts seek the maximum at equal evaluations of L.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin ridge_network -- --gain 300     # `tanh` on 31 trees
//! cargo run --release -p annealed-measurements --bin ridge_network -- waves          # `sin` in growing dimension
//! cargo run --release -p annealed-measurements --bin ridge_network -- waves --full   # the tables of the note
//! ```
//!
//! `waves --full` keeps a line for each fit in `measurements/reproduction/ridges.jsonl`, and makes no fit that has one.

mod table;
mod trees;
mod unit;
mod waves;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use annealed::{Error, Result};
use clap::{Parser, Subcommand};

use waves::{Line, Method, Settings};

const FILE: &str = "measurements/reproduction/ridges.jsonl";

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Gain at the end of both kinds of annealing of the trees
    #[arg(long, default_value_t = 300.0)]
    gain: f64,
}

#[derive(Subcommand)]
enum Command {
    /// Fit waves in growing dimension
    Waves(Waves),
}

#[derive(clap::Args)]
struct Waves {
    /// 20 seeds in four dimensions, with lines in the repository
    #[arg(long)]
    full: bool,
    /// Root mean squares of the norm of the true directions
    #[arg(long, value_delimiter = ',', default_value = "2,3")]
    norms: Vec<f64>,
    /// Dimensions
    #[arg(long, value_delimiter = ',', default_value = "5,10,20,50")]
    dimensions: Vec<usize>,
    /// Number of seeds; 1, with --full 20
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Methods; all unless set
    #[arg(long, value_enum, value_delimiter = ',')]
    methods: Option<Vec<Method>>,
    #[command(flatten)]
    settings: Settings,
    /// File of lines; without --full none unless set
    #[arg(long)]
    lines: Option<PathBuf>,
    /// Tables of the lines that are there, without fits
    #[arg(long)]
    table: bool,
    /// Folder in which the figure is drawn
    #[arg(long)]
    figures: Option<PathBuf>,
}

impl Waves {
    fn run(&self) -> Result<()> {
        let file = self.lines.clone();
        let file = file.or_else(|| (self.full || self.table).then(|| PathBuf::from(FILE)));
        let mut lines = read(file.as_deref())?;
        if !self.table {
            let seeds = self.seeds.unwrap_or(if self.full { 20 } else { 1 });
            let methods = self.methods.clone();
            let methods = methods.unwrap_or(Method::ALL.to_vec());
            for &method in &methods {
                for (seed, norm, d) in self.cases(seeds) {
                    let key = (norm, d, seed, method);
                    if lines.iter().all(|line| line.key() != key) {
                        let line = self.settings.run(norm, d, seed, method)?;
                        append(file.as_deref(), &line)?;
                        lines.push(line);
                    }
                }
            }
        }
        print!("{}", table::markdown(&lines));
        match &self.figures {
            Some(folder) => table::draw(&lines, folder),
            None => Ok(()),
        }
    }
}

impl Waves {
    /// Returns seeds, norms and dimensions, seed by seed.
    fn cases(&self, seeds: u64) -> Vec<(u64, f64, usize)> {
        let mut cases = Vec::new();
        for seed in self.first_seed..self.first_seed + seeds {
            for &norm in &self.norms {
                cases.extend(self.dimensions.iter().map(|&d| (seed, norm, d)));
            }
        }
        cases
    }
}

fn read(file: Option<&Path>) -> Result<Vec<Line>> {
    let Some(file) = file.filter(|file| file.exists()) else {
        return Ok(Vec::new());
    };
    let failed = |error| Error::io(file, error);
    let reader = BufReader::new(File::open(file).map_err(failed)?);
    let lines = reader.lines().map(|line| {
        let line = line.map_err(failed)?;
        serde_json::from_str(&line).map_err(|error| failed(error.into()))
    });
    lines.collect()
}

fn append(file: Option<&Path>, line: &Line) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let failed = |error| Error::io(file, error);
    let text = serde_json::to_string(line).map_err(|error| failed(error.into()))?;
    let opened = OpenOptions::new().create(true).append(true).open(file);
    writeln!(opened.map_err(failed)?, "{text}").map_err(failed)
}

fn main() -> Result<()> {
    let options = Options::parse();
    match &options.command {
        Some(Command::Waves(waves)) => waves.run(),
        None => trees::run(options.gain),
    }
}
