//! Ten targets on which others publish log Z, at a given number of gradients (`docs/notes/targets.md`).
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin targets -- --target brownian --budget 1000000 --seeds 20 --json
//! cargo run -p annealed-measurements --bin targets      # checks gradients and values of log Z; a short run of each
//! ```
//!
//! Three targets read data files that are not in this repository. `--data` names their folder.

mod check;
mod cox;
mod named;
mod quadrature;
mod recipe;
mod seeds;
mod shapes;
mod spins;

use std::path::PathBuf;

use annealed::Result;
use annealed_measurements::shared_data;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use named::{Name, Target};
use recipe::{Found, Terms};

/// Targets on which others publish log Z.
#[derive(Debug, Parser)]
struct Options {
    /// The target; without one all are checked and run for a moment
    #[arg(long, value_enum)]
    target: Option<Name>,
    /// Gradients of a run, pilots and tuning included; a value without its gradient counts as one as well
    #[arg(long, default_value_t = 1_000_000)]
    budget: u64,
    /// Number of seeds
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Number of chains; the target's own unless set
    #[arg(long)]
    chains: Option<usize>,
    /// Start from this prior, N(0, S^2) in all coordinates, with `Rounds::fitted`
    #[arg(long, value_name = "S", requires = "target")]
    prior: Option<f64>,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Folder of data: sonar/sonar.csv, targets/german_credit.csv, targets/pines.csv
    #[arg(long, default_value_os_t = shared_data())]
    data: PathBuf,
    /// Output of one JSON object
    #[arg(long, requires = "target")]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Some(name) = options.target else {
        return check::all(&options.data);
    };
    let mut target = name.target(&options.data)?;
    if let Some(deviation) = options.prior {
        target.fit_from(deviation)?;
    }
    let mut seeds = Vec::new();
    for seed in options.first..options.first + options.seeds {
        let found = target.run(Terms {
            budget: options.budget,
            chains: options.chains,
            seed,
            threads: options.threads,
        })?;
        if !options.json {
            println!("{seed:>2}: {}", found.line(target.reference));
        }
        seeds.push(found);
    }
    match options.json {
        true => println!("{}", object(name, &target, &seeds)),
        false => println!("{}", summary(&target, &seeds)),
    }
    Ok(())
}

/// Returns the root mean square error, the coverage of the interval and the number of runs with a warning.
fn summary(target: &Target, seeds: &[Found]) -> String {
    let count = |holds: &dyn Fn(&&Found) -> bool| seeds.iter().filter(holds).count();
    let reference = target.reference;
    let squares = seeds.iter().map(|found| (found.log_z - reference).powi(2));
    let error = (squares.sum::<f64>() / seeds.len() as f64).sqrt();
    let covered = count(&|found| {
        let (lower, upper) = found.interval;
        (lower..=upper).contains(&reference)
    });
    let warned = count(&|found| !found.warnings.is_empty());
    format!(
        "known: {reference:.4}; root mean square error {error:.4}, interval right in {covered} of {}, {warned} warned",
        seeds.len()
    )
}

fn object(name: Name, target: &Target, seeds: &[Found]) -> Value {
    let of_seed = |found: &Found| {
        let (lower, upper) = found.interval;
        json!({
            "log_z": found.log_z,
            "standard_error": found.standard_error,
            "interval": [lower, upper],
            "gradients": found.gradients,
            "evaluations": found.evaluations,
            "warnings": found.warnings.iter().map(|w| w.name()).collect::<Vec<_>>(),
        })
    };
    json!({
        "target": called(name),
        "reference": target.reference,
        "seeds": seeds.iter().map(of_seed).collect::<Vec<_>>(),
    })
}

fn called(name: Name) -> String {
    let value = name.to_possible_value().expect("no value is skipped");
    value.get_name().to_owned()
}
