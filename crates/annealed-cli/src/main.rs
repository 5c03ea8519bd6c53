//! The program `annealed`: log Z of restricted Boltzmann machines, free energies from works, and tables of draws, without a
//! line of Rust.
//!
//! ```text
//! annealed rbm rbm.npz --base-data train.npy --data test.npy --save run.json --plot run.svg
//! annealed merge part-1.json part-2.json --save run.json
//! annealed plot run.json other.json --out runs.svg
//! annealed scores one.json other.json
//! annealed works forward.csv reverse.csv --unit kJ/mol --temperature 300
//! annealed states u_nk.csv
//! annealed summary chain-1.csv chain-2.csv
//! ```
//!
//! Errors go to stderr, and the exit code is then 2. After a signal the exit code is 128 plus the signal's number.

mod comparison;
mod figures;
mod interrupt;
mod merge;
mod output;
mod page;
mod plot;
mod rbm;
mod saved;
mod scores;
mod seconds;
mod states;
mod summary;
mod works;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use interrupt::Interrupt;

const MANUAL: &str = include_str!("../program.md");

/// Partition functions by annealed importance sampling: log Z of an RBM, free energies from works, tables of draws.
///
/// Evidence from a prior and a likelihood, log Z from draws and a density, and energies of your own need a function, so they
/// are called from Python (`pip install` of the repository's crates/annealed-python) or Rust (`cargo add annealed`).
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
struct Program {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Estimate the log partition function of an RBM, and score data by it
    Rbm(Box<rbm::Options>),
    /// Merge saved parts of a run, or take runs of several seeds together
    Merge(merge::Options),
    /// Draw saved runs as SVG
    Plot(plot::Options),
    /// Compare two machines by the log likelihoods of the same rows
    Scores(scores::Options),
    /// Estimate a free-energy difference from works in both directions
    Works(works::Options),
    /// Estimate the free energies of many states from the reduced potentials of draws (MBAR)
    States(states::Options),
    /// Print a table of a sampler's draws, and the reasons to doubt them
    Summary(summary::Options),
    /// Print the manual
    Manual,
}

fn main() -> ExitCode {
    let interrupt = Interrupt::default();
    match run(&Program::parse().task, &interrupt) {
        Ok(text) => {
            // A reader that closes the pipe early, such as `head`, is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            interrupt.exit_code_or(ExitCode::SUCCESS)
        }
        Err(error) => {
            // Names the program's options instead of the library's arguments.
            let text = error.to_string().replace(" block_size", " --block-size");
            let text = text.replace("invalid temperature", "invalid --temperature");
            eprintln!("error: {text}");
            interrupt.exit_code_or(ExitCode::from(2))
        }
    }
}

/// Runs a task, and returns the text for stdout.
fn run(task: &Task, interrupt: &Interrupt) -> Result<String, Box<dyn Error>> {
    match task {
        Task::Rbm(options) => rbm::score(options, interrupt),
        Task::Merge(options) => Ok(merge::merge(options)?),
        Task::Plot(options) => Ok(plot::plot(options)?),
        Task::Scores(options) => Ok(scores::scores(options)?),
        Task::Works(options) => Ok(works::works(options)?),
        Task::States(options) => Ok(states::states(options)?),
        Task::Summary(options) => Ok(summary::summary(options)?),
        Task::Manual => Ok(MANUAL.to_owned()),
    }
}
