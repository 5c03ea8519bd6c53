//! The table of `docs/which-method.md`: every method on eight kinds of target, at equal cost.

use annealed::prelude::*;
use annealed::{Error, Result};
use annealed_measurements::problems::meter::Meter;
use annealed_measurements::problems::targets::digits_rbm;
use clap::ValueEnum;

use crate::counted::CountedMoves;
use crate::methods::{Method, Task, Terms};
use crate::named::{drawn_from, first_order, latin_squares, leap, modes};
use crate::options::Options;
use crate::problem::{Found, Problem};

type Make = fn() -> Result<Problem>;

const TARGETS: [(&str, Make); 8] = [
    ("unimodal, 10-d", unimodal),
    ("sharp posterior, 6-d", sharp),
    ("separated modes, 2-d", modes),
    ("first-order transition, 10-d", first_order),
    ("RBM 64 x 20, from base rates", || rbm(true)),
    ("RBM 64 x 20, from uniform", || rbm(false)),
    ("Latin squares of order 6", || latin_squares(6)),
    ("unequal scales, 200-d", unequal),
];

const BUDGET: u64 = 2_000_000;

pub fn print(options: &Options) -> Result<()> {
    let methods = match &options.method {
        Some(method) => std::slice::from_ref(method),
        None => Method::value_variants(),
    };
    let names: Vec<String> = methods.iter().map(|&m| crate::named(m)).collect();
    println!("| target | {} |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(methods.len()));
    let chosen = TARGETS
        .into_iter()
        .filter(|(name, _)| name.contains(&options.only));
    for (name, make) in chosen {
        let problem = make()?;
        let cells = methods.iter().map(|&method| {
            let cell = Cell::run(&problem, method, options);
            cell.report(name, method);
            cell.text()
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

/// Runs of one method on one target, one for each seed.
#[derive(Default)]
struct Cell {
    exact: f64,
    found: Vec<Found>,
    failures: Vec<Error>,
}

impl Cell {
    fn run(problem: &Problem, method: Method, options: &Options) -> Self {
        let mut cell = Self {
            exact: problem.exact,
            ..Self::default()
        };
        for seed in 1..=options.seeds {
            let terms = Terms {
                budget: options.budget.unwrap_or(BUDGET),
                seed,
                threads: options.threads,
            };
            match problem.run(method, terms) {
                Ok(found) => cell.found.push(found),
                Err(Error::InvalidArgument {
                    argument: "--method",
                    ..
                }) => break,
                Err(error) => cell.failures.push(error),
            }
        }
        cell
    }

    fn error(&self, found: &Found) -> f64 {
        found.outcome.log_z - self.exact
    }

    fn median(&self, value: impl Fn(&Found) -> f64) -> f64 {
        let mut values: Vec<f64> = self.found.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// Formats root mean square error, median standard error, number of warned runs, and number of runs off by more
    /// than four standard errors without a warning.
    fn text(&self) -> String {
        let failed = match self.failures.len() {
            0 => String::new(),
            failed => format!("failed {failed}"),
        };
        if self.found.is_empty() {
            return if failed.is_empty() {
                "-".into()
            } else {
                failed
            };
        }
        let squares = self.found.iter().map(|found| self.error(found).powi(2));
        let rms = (squares.sum::<f64>() / self.found.len() as f64).sqrt();
        let error = self.median(|found| found.outcome.standard_error);
        let warned = |found: &&Found| !found.outcome.warnings.is_empty();
        let silent = |found: &&Found| {
            !warned(found) && self.error(found).abs() > 4.0 * found.outcome.standard_error
        };
        let [warned, silent] = [
            self.found.iter().filter(warned).count(),
            self.found.iter().filter(silent).count(),
        ];
        format!("{rms:.3} ({error:.3}) {warned}, {silent} {failed}")
            .trim_end()
            .to_owned()
    }

    /// Prints cost, warnings and failures to standard error.
    fn report(&self, target: &str, method: Method) {
        let method = crate::named(method);
        if let Some(error) = self.failures.first() {
            eprintln!("{target}, {method}: {error}");
        }
        if self.found.is_empty() {
            return;
        }
        let evaluations = self.median(|found| found.evaluations as f64);
        let seconds = self.median(|found| found.seconds);
        let warnings = self.found.iter().flat_map(|found| &found.outcome.warnings);
        let mut names: Vec<String> = warnings.map(Warning::name).collect();
        names.sort_unstable();
        names.dedup();
        eprintln!(
            "{target}, {method}: {evaluations:.2e} evaluations, {seconds:.2} s a run; {}",
            names.join(", ")
        );
    }
}

/// Sets up N(1, S) in 10 dimensions with `S_ij = .9^|i - j|`, from N(0, I).
fn unimodal() -> Result<Problem> {
    let covariance = DMatrix::from_fn(10, 10, |i, j| 0.9f64.powi(i.abs_diff(j) as i32));
    gaussian(Gaussian::new(DVector::from_element(10, 1.0), covariance)?)
}

/// Sets up variances from .05 to 1 in 200 dimensions, from N(0, I).
fn unequal() -> Result<Problem> {
    let variances = DVector::from_fn(200, |i, _| 0.05f64.powf(i as f64 / 199.0));
    gaussian(Gaussian::diagonal(DVector::zeros(200), variances)?)
}

fn gaussian(target: Gaussian) -> Result<Problem> {
    let base = Gaussian::standard(target.mean().len())?;
    let (exact, samples) = (target.log_normalizer(), drawn_from(target.clone()));
    Ok(Problem::geometric(exact, (base, target), leap()?, samples))
}

/// Sets up the prior N(0, I) in 6 dimensions and a likelihood of deviations from 10^-3 to 10^-1 around 1.
fn sharp() -> Result<Problem> {
    let variances = DVector::from_fn(6, |j, _| 1e-6 * 10f64.powf(0.8 * j as f64));
    let centre = DVector::from_element(6, 1.0);
    // Evidence and posterior of a product of normal densities.
    let term = |v: &f64| 0.5 * (v / (1.0 + v)).ln() - 0.5 / (1.0 + v);
    let exact = variances.iter().map(term).sum();
    let mean = variances.map(|v| 1.0 / (1.0 + v));
    let samples = drawn_from(Gaussian::diagonal(mean, variances.map(|v| v / (1.0 + v)))?);
    let likelihood = Gaussian::diagonal(centre, variances)?;
    let posterior = (Gaussian::standard(6)?, likelihood);
    Ok(Problem::tempered(exact, posterior, leap()?, samples))
}

/// Sets up an RBM trained on the digits; a sweep of block Gibbs counts as an evaluation.
fn rbm(from_base_rates: bool) -> Result<Problem> {
    let (base, rbm) = digits_rbm(&ContrastiveDivergence::new(1).epochs(50))?;
    let base = match from_base_rates {
        true => base,
        false => BaseRate::uniform(20, 64)?,
    };
    let exact = rbm.exact_log_normalizer()?;
    let path = RbmPath::new(base, rbm.clone())?;
    let meter = Meter::default();
    let kernel = CountedMoves {
        kernel: BlockGibbs,
        meter: meter.clone(),
    };
    let draw = Some(Box::new(move |count, seed| rbm.exact_samples(count, seed)) as _);
    Ok(Problem::new(exact, meter, move |method, terms, meter| {
        Task::fixed(&path, kernel.clone(), terms, meter).solve_with(method, &draw)
    }))
}
