//! Every method on problems with a known log Z, at a given number of density evaluations.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin populations -- --problem many-well --method rounds
//! cargo run --release -p annealed-measurements --bin populations -- --problem latin-squares --order 6 \
//!     --method waste-free --budget 500000 --seed 3 --json
//! cargo run --release -p annealed-measurements --bin populations -- --compare   # docs/which-method.md
//! ```

mod compare;
mod counted;
mod methods;
mod named;
mod options;
mod problem;

use std::fmt::Write;
use std::process::ExitCode;

use annealed::Result;
use annealed::estimate::Warning;
use clap::{Parser, ValueEnum};
use serde_json::json;

use methods::{Method, Outcome, Terms};
use named::Name;
use options::Options;
use problem::Found;

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.problem {
        Some(name) => solve(name, &options).map(|report| println!("{report}")),
        None => compare::print(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one method on one problem, and returns the report.
fn solve(name: Name, options: &Options) -> Result<String> {
    let problem = name.problem(options.order, &options.data)?;
    let terms = Terms {
        budget: options.budget.unwrap_or(name.budget()),
        seed: options.seed,
        threads: options.threads,
    };
    let method = options.method.unwrap_or(Method::Rounds);
    let found = problem.run(method, terms)?;
    Ok(match options.json {
        true => object([named(name), named(method)], terms, problem.exact, &found),
        false => lines(problem.exact, &found),
    })
}

fn object([problem, method]: [String; 2], terms: Terms, exact: f64, found: &Found) -> String {
    let warning = |w: &Warning| json!({ "name": w.name(), "text": w.to_string() });
    let outcome = &found.outcome;
    json!({
        "problem": problem,
        "method": method,
        "seed": terms.seed,
        "log_z": outcome.log_z,
        "standard_error": outcome.standard_error,
        "exact": exact,
        "evaluations": found.evaluations,
        "seconds": found.seconds,
        "warnings": outcome.warnings.iter().map(warning).collect::<Vec<_>>(),
        "lambda": outcome.barrier,
    })
    .to_string()
}

fn named(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is skipped");
    value.get_name().to_owned()
}

fn lines(exact: f64, found: &Found) -> String {
    let Outcome {
        log_z,
        standard_error,
        warnings,
        barrier,
    } = &found.outcome;
    let (evaluations, seconds) = (found.evaluations as f64, found.seconds);
    let mut text = format!("log Z = {log_z:.4} +- {standard_error:.4}, known: {exact:.4}\n");
    let _ = write!(text, "{evaluations:.3e} evaluations in {seconds:.2} s");
    if let Some(barrier) = barrier {
        let _ = write!(text, ", Lambda = {barrier:.2}");
    }
    for warning in warnings {
        let _ = write!(text, "\nwarning: {warning}");
    }
    text
}
