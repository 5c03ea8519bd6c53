//! The log partition function of a restricted Boltzmann machine, with an interval.
//!
//! With no arguments: trains an RBM with 20 hidden units on embedded handwritten digits,
//! enumerates its exact log Z, estimates it by annealed importance sampling, and scores held-out
//! digits.
//!
//! ```text
//! cargo run --release --features full --example rbm
//! cargo run --release --features full --example rbm -- \
//!     --weights rbm.npz --base-data train.npy --data test.npy --chains 1000 --steps 10000 --json
//! cargo run --release --features full --example rbm -- \
//!     --weights rbm.npz --schedule friction --save-schedule betas.txt
//! cargo run --release --features full --example rbm -- --reverse exact --raise 10
//! cargo run --release --features full --example rbm -- \
//!     --chains 1000000 --until-error 0.01 --checkpoint rbm.ckpt --report rbm.json
//! cargo run --release --features full --example rbm -- \
//!     --chains 1000000 --until-error 0.01 --resume rbm.ckpt
//! ```

mod annealing;
#[path = "../common/interrupt.rs"]
mod interrupt;
mod options;
mod problem;
mod report;
mod reverse;
mod rows;
#[path = "../common/seconds.rs"]
mod seconds;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use annealed::{Error, Result};
use clap::Parser;

use interrupt::Interrupt;
use options::Options;
use problem::{anneal_along, read, train};
use report::Report;
use reverse::Backward;

fn main() -> ExitCode {
    let interrupt = Interrupt::default();
    match score(&Options::parse(), &interrupt) {
        Ok(report) => {
            // A reader that has seen enough, as `head`, is no failure.
            let _ = std::io::stdout().write_all(report.as_bytes());
            interrupt.exit_code_or(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("error: {error}");
            interrupt.exit_code_or(ExitCode::FAILURE)
        }
    }
}

/// Runs what the options ask for, and says what came of it.
fn score(options: &Options, interrupt: &Interrupt) -> Result<String> {
    let mut problem = match &options.weights {
        Some(path) => read(path, options)?,
        None => train(options)?,
    };
    if let Some(source) = &options.data {
        let (held_out, note) = source.read(options.data_layout(), &problem.rbm)?;
        problem.held_out = held_out;
        problem.note += &note;
    }
    let begun = Instant::now();
    let mut path = anneal_along(options, &problem)?;
    if let Some(engine) = options.engine {
        path = path.with_engine(engine)?;
    }
    let schedule = options.schedule(&path)?;
    let pilot_seconds = begun.elapsed().as_secs_f64();
    let ais = annealing::describe(options, &path, schedule, interrupt)?;
    let Some(run) = annealing::run(options, &ais)? else {
        return Ok(String::new());
    };
    annealing::write_report(options, &run)?;
    let backward = match &options.reverse {
        Some(source) => Some(Backward::run(&ais, &run, &problem, source)?),
        None => None,
    };
    let raise = match options.raise {
        Some(_) if problem.held_out.is_empty() => {
            let expected = "data by --data, or no --weights";
            return Err(Error::invalid("--raise", "no held-out images", expected));
        }
        Some(chains) => Some(ais.raise(&problem.held_out, chains)?),
        None => None,
    };
    let likelihood = match problem.held_out.as_slice() {
        [] => None,
        held_out => Some(
            problem
                .rbm
                .log_likelihood(held_out, run.log_z(), &problem.base)?,
        ),
    };
    let report = Report {
        problem: &problem,
        likelihood,
        run: &run,
        backward,
        raise,
        pilot_seconds,
        resumed: options.resume.is_some(),
    };
    match options.json {
        true => Ok(report.json().to_string() + "\n"),
        false => Ok(report.to_string()),
    }
}
