//! Bias of a decoder's noise and scale that a unimodal posterior causes, and what annealed variational objectives (AVO)
//! remove of it. The models are `x = s h(z) + sigma e` with h(z) = z^2 or |z|. Their likelihood is exact.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin unimodal_posterior               # two seeds, short trainings
//! cargo run --release -p annealed-measurements --bin unimodal_posterior -- --full     # the tables of docs/notes/variational.md
//! ```
//!
//! `--full` keeps a line for each fit in `measurements/reproduction/unimodal.jsonl`, and makes no fit that has one. A
//! bias is the difference from the fit by maximum likelihood to the same data.

mod exact;
mod learned;
mod model;
mod tables;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Instant;

use annealed::learned::Objective;
use annealed::{Error, Result};
use clap::Parser;
use serde::{Deserialize, Serialize};

use exact::{Family, Fit, Fitter, STEP};
use model::{Fold, Folded, Theta};

const DATA: usize = 300;
/// Noise of the model that draws the data; its scale s is 1.
const NOISES: [f64; 3] = [0.25, 0.5, 1.0];
/// Noise of the data on which transitions are trained.
const NOISE: f64 = 0.5;
const FILE: &str = "measurements/reproduction/unimodal.jsonl";

#[derive(Parser)]
struct Options {
    /// 20 seeds and long trainings, with lines in the repository.
    #[arg(long)]
    full: bool,
    /// Models; both unless set.
    #[arg(long, value_delimiter = ',')]
    folds: Option<Vec<Fold>>,
    /// Number of seeds; 2, with --full 20.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Updates of the short trainings without --full; 300 unless set.
    #[arg(long)]
    iterations: Option<usize>,
    /// Learning rate before its decay.
    #[arg(long, default_value_t = 1e-2)]
    rate: f64,
    /// File of lines; without --full none unless set.
    #[arg(long)]
    lines: Option<PathBuf>,
    /// Tables of the lines that are there, without fits.
    #[arg(long)]
    table: bool,
}

/// A way to fit the parameters to data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    Exact {
        family: Family,
    },
    Learned {
        annealed: bool,
        transitions: usize,
        iterations: usize,
        rate: f64,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    fold: Fold,
    noise: f64,
    seed: u64,
    method: Method,
    /// `None` before the fit.
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Outcome {
    /// `[log sigma, log s]`, fitted.
    theta: Theta,
    /// Mean bound on `log p(x)` over the data, with the laws of z that belong to the method.
    bound: f64,
    /// Mean `log p(x)` over the data at `theta`.
    log_likelihood: f64,
    /// How often the training diverged and was repeated at half the rate.
    halvings: u32,
    seconds: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let file = options.lines.clone();
    let file = file.or_else(|| options.full.then(|| PathBuf::from(FILE)));
    let mut lines = read(file.as_ref())?;
    if !options.table {
        let done: BTreeSet<String> = lines.iter().map(Line::key).collect();
        for wanted in options.wanted() {
            if !done.contains(&wanted.key()) {
                let line = wanted.run()?;
                append(file.as_ref(), &line)?;
                lines.push(line);
            }
        }
    }
    print!("{}", tables::markdown(&lines));
    Ok(())
}

impl Options {
    /// Returns lines whose results are still empty.
    fn wanted(&self) -> Vec<Line> {
        let folds = self.folds.clone();
        let folds = folds.unwrap_or_else(|| vec![Fold::Square, Fold::Absolute]);
        let seeds = self.seeds.unwrap_or(if self.full { 20 } else { 2 });
        let mut wanted = Vec::new();
        for seed in self.first_seed..self.first_seed + seeds {
            for &fold in &folds {
                let mut want = |noise, method| {
                    wanted.push(Line {
                        fold,
                        noise,
                        seed,
                        method,
                        outcome: None,
                    })
                };
                for noise in NOISES {
                    for family in [Family::Posterior, Family::Gaussian, Family::Mixture] {
                        want(noise, Method::Exact { family });
                    }
                }
                self.learned()
                    .into_iter()
                    .for_each(|method| want(NOISE, method));
            }
        }
        // All seeds of the cheap fits come first.
        wanted.sort_by_key(|line| line.method.order());
        wanted
    }

    fn learned(&self) -> Vec<Method> {
        let method = |annealed, transitions, iterations| Method::Learned {
            annealed,
            transitions,
            iterations,
            rate: self.rate,
        };
        if !self.full {
            let iterations = self.iterations.unwrap_or(300);
            return [1, 5].map(|t| method(true, t, iterations)).into();
        }
        let mut methods = [1, 2, 5, 10].map(|t| method(true, t, 3_000)).to_vec();
        methods.push(method(false, 5, 3_000));
        methods.push(method(true, 5, 12_000));
        methods
    }
}

impl Method {
    /// Returns a key that sorts exact fits before AVO, and long trainings last.
    fn order(self) -> (usize, bool) {
        match self {
            Self::Exact { .. } => (0, false),
            Self::Learned {
                annealed,
                iterations,
                ..
            } => (iterations, !annealed),
        }
    }
}

impl Line {
    fn key(&self) -> String {
        let Self {
            fold,
            noise,
            seed,
            method,
            ..
        } = self;
        format!("{fold:?} {noise} {seed} {method:?}")
    }

    fn run(self) -> Result<Self> {
        let begun = Instant::now();
        let mut halvings = 0;
        let fold = self.fold;
        let truth = [self.noise.ln(), 0.0];
        let data = Folded { fold, theta: truth }.draw(DATA, self.seed);
        let fit = match self.method {
            Method::Exact { family } => best_fit(&Fitter::new(fold, family, STEP), truth, &data),
            Method::Learned {
                annealed,
                transitions,
                iterations,
                rate,
            } => {
                let objective = if annealed {
                    Objective::Annealed
                } else {
                    Objective::Hierarchical
                };
                let mut settings = learned::Settings {
                    objective,
                    transitions,
                    iterations,
                    rate,
                };
                let start = Folded { fold, theta: START };
                loop {
                    match learned::fit(&settings, &start, &data, self.seed) {
                        Err(Error::NotConverged { .. }) => settings.rate /= 2.0,
                        fit => break fit?,
                    }
                    halvings += 1;
                }
            }
        };
        let exact = Fitter::new(fold, Family::Posterior, STEP);
        let log_likelihoods = data.iter().map(|&x| exact.moments(fit.theta, x).bound);
        let outcome = Outcome {
            theta: fit.theta,
            bound: fit.bound,
            log_likelihood: log_likelihoods.sum::<f64>() / DATA as f64,
            halvings,
            seconds: begun.elapsed().as_secs_f64(),
        };
        let outcome = Some(outcome);
        Ok(Self { outcome, ..self })
    }
}

/// Where trainings start: sigma = 1 and s = 1.
const START: Theta = [0.0; 2];

/// Fits from the truth and from `START`, and returns the fit with the better bound.
fn best_fit(fitter: &Fitter, truth: Theta, data: &[f64]) -> Fit {
    let [a, b] = [truth, START].map(|start| fitter.fit(start, data));
    if a.bound >= b.bound { a } else { b }
}

fn read(file: Option<&PathBuf>) -> Result<Vec<Line>> {
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

fn append(file: Option<&PathBuf>, line: &Line) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let failed = |error| Error::io(file, error);
    let text = serde_json::to_string(line).map_err(|error| failed(error.into()))?;
    let opened = OpenOptions::new().create(true).append(true).open(file);
    writeln!(opened.map_err(failed)?, "{text}").map_err(failed)
}
