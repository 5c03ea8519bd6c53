//! The program `annealed`: the library's methods for restricted Boltzmann machines, without a line of Rust.
//!
//! ```text
//! annealed rbm rbm.npz --base-data train.npy --data test.npy --save run.json --plot run.svg
//! annealed merge part-1.json part-2.json --save run.json
//! annealed plot run.json other.json --out runs.svg
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
mod seconds;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use interrupt::Interrupt;

const MANUAL: &str = include_str!("../program.md");

/// Partition functions by annealed importance sampling.
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
            // Names the program's option instead of the library's argument.
            let text = error.to_string().replace(" block_size", " --block-size");
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
        Task::Manual => Ok(MANUAL.to_owned()),
    }
}
