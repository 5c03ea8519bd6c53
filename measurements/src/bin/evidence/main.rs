//! Evaluations of the likelihood that the evidence takes from a prior, for a given standard error.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin evidence -- --error 0.02 --seeds 20
//! cargo run --release -p annealed-measurements --bin evidence -- --road path --only shells
//! ```

mod problems;

use std::time::{Duration, Instant};

use annealed::Result;
use annealed::adaptive::Rounds;
use annealed::estimate::Warning;
use annealed::prelude::*;
use annealed_measurements::problems::meter::{Counted, Meter};
use annealed_measurements::problems::seeds::over_seeds;
use clap::{Parser, ValueEnum};

use problems::Posterior;

/// Evaluations of the likelihood that the evidence takes from a prior
#[derive(Debug, Parser)]
struct Options {
    /// Standard error to reach
    #[arg(long, default_value_t = 0.1)]
    error: f64,
    /// Evaluations to spend, in the place of a standard error to reach
    #[arg(long)]
    budget: Option<u64>,
    /// Number of seeds
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Number of chains
    #[arg(long, default_value_t = 256)]
    chains: usize,
    /// Only the problems whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Milliseconds that each evaluation sleeps
    #[arg(long, default_value_t = 0)]
    milliseconds: u64,
    /// Threads of a run; all seeds run at the same time if it is 1
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of chains that move together
    #[arg(long)]
    block_size: Option<usize>,
    /// The base of the rounds
    #[arg(long, value_enum, default_value_t = Road::Fitted)]
    road: Road,
    /// The kernel; HMC runs on the problems that have a gradient
    #[arg(long, value_enum, default_value_t = Moves::Walk)]
    kernel: Moves,
    /// Number of leapfrog steps
    #[arg(long, default_value_t = 2)]
    leapfrog: usize,
    /// Number of moves at each stage of the first pass
    #[arg(long)]
    moves: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Moves {
    Walk,
    Hmc,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Road {
    /// A base fitted to the states of first passes
    Fitted,
    /// The prior
    Path,
}

struct Outcome {
    rows: u64,
    counted: u64,
    log_z: f64,
    error: f64,
    interval: [f64; 2],
    is_warned: bool,
    is_fitted: bool,
    is_below_fits: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    println!(
        "| posterior | rows, median | counted less rows | largest | rms error | stated | wrong and silent | warned | fitted | silent intervals that hold | mean of Z^/Z | `BelowFits` of unfitted right runs | of wrong ones |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let chosen = problems::all()?.into_iter();
    let runs_on = |problem: &Posterior| {
        let is_able = options.kernel == Moves::Walk || problem.gradient.is_some();
        is_able && problem.name.contains(&options.only)
    };
    for posterior in chosen.filter(runs_on) {
        let runs = over_seeds(options.seeds, |seed| outcome(&posterior, &options, seed))?;
        println!("{}", line(&posterior, &runs));
    }
    Ok(())
}

macro_rules! ran {
    ($rounds:expr, $options:ident, $seed:ident, $meter:ident) => {{
        let rounds = $rounds.chains($options.chains);
        let rounds = rounds.seed($seed).threads($options.threads);
        let rounds = match $options.moves {
            Some(moves) => rounds.moves(moves),
            None => rounds,
        };
        let rounds = match $options.block_size {
            Some(size) => rounds.block_size(size),
            None => rounds,
        };
        let start = Instant::now();
        let rounds = match $options.budget {
            Some(budget) => rounds.budget(budget),
            None => rounds.until_error($options.error),
        };
        let run = match $options.road {
            Road::Fitted => rounds.fitted().run()?,
            Road::Path => rounds.run()?,
        };
        let (lower, upper) = run.interval();
        if $options.milliseconds > 0 {
            let (rows, time) = ($meter.spent(), start.elapsed().as_secs_f64());
            eprintln!("{rows} rows, {time:.1} s\n{run}");
        }
        Ok(Outcome {
            rows: $meter.spent(),
            counted: run.evaluations(),
            log_z: run.log_z(),
            error: run.standard_error(),
            interval: [lower, upper],
            is_warned: !run.warnings().is_empty(),
            is_fitted: run.fitted().is_some(),
            is_below_fits: run
                .warnings()
                .iter()
                .any(|warning| matches!(warning, Warning::BelowFits { .. })),
        })
    }};
}

fn outcome(posterior: &Posterior, options: &Options, seed: u64) -> Result<Outcome> {
    let meter = Meter::default();
    let priors = &posterior.priors;
    match (options.kernel, &posterior.gradient) {
        (Moves::Hmc, Some(gradient)) => {
            let likelihood = GradientModel::new(priors.dimension(), gradient)?;
            let likelihood = Counted::new(priors.likelihood(likelihood), 1, &meter);
            let path = TemperedPath::new(priors, likelihood);
            let kernel = Hmc::new(0.3, options.leapfrog)?;
            ran!(Rounds::new(&path, kernel), options, seed, meter)
        }
        _ => {
            let pause = Duration::from_millis(options.milliseconds);
            let likelihood = FunctionModel::of_slices(|x: &[f64]| {
                std::thread::sleep(pause);
                (posterior.log_likelihood)(x)
            });
            let likelihood = Counted::new(priors.likelihood(likelihood), 1, &meter);
            let path = TemperedPath::new(priors, likelihood);
            let kernel = RandomWalkMetropolis::new(0.5)?;
            ran!(Rounds::new(&path, kernel), options, seed, meter)
        }
    }
}

/// Returns a row of the table. A wrong run is off by more than .1 and four standard errors.
fn line(posterior: &Posterior, runs: &[Outcome]) -> String {
    let n = runs.len() as f64;
    let exact = posterior.log_z;
    let mut rows = Vec::from_iter(runs.iter().map(|run| run.rows));
    rows.sort_unstable();
    let mean = |f: &dyn Fn(&Outcome) -> f64| runs.iter().map(f).sum::<f64>() / n;
    let count = |f: &dyn Fn(&Outcome) -> bool| runs.iter().filter(|run| f(run)).count();
    let is_wrong = |run: &Outcome| (run.log_z - exact).abs() > (4.0 * run.error).max(0.1);
    let holds = |run: &Outcome| run.interval[0] <= exact && exact <= run.interval[1];
    let ratio = |run: &Outcome| (run.log_z - exact).exp();
    let of_ratio = mean(&ratio);
    let told = |wrong: bool| {
        let unfitted = |run: &Outcome| !run.is_fitted && is_wrong(run) == wrong;
        let below = count(&|run| unfitted(run) && run.is_below_fits);
        format!("{below} of {}", count(&unfitted))
    };
    let spread = mean(&|run| (ratio(run) - of_ratio).powi(2)) / (n - 1.0).max(1.0);
    format!(
        "| {} | {:.1e} | {:.1e} | {:.1e} | {:.3} | {:.3} | {} | {} | {} of {n} | {} of {} | {of_ratio:.3} +- {:.3} | {} | {} |",
        posterior.name,
        rows[rows.len() / 2] as f64,
        mean(&|run| run.counted as f64 - run.rows as f64),
        rows[rows.len() - 1] as f64,
        mean(&|run| (run.log_z - exact).powi(2)).sqrt(),
        mean(&|run| run.error.powi(2)).sqrt(),
        count(&|run| is_wrong(run) && !run.is_warned),
        count(&|run| run.is_warned),
        count(&|run| run.is_fitted),
        count(&|run| holds(run) && !run.is_warned),
        count(&|run| !run.is_warned),
        spread.sqrt(),
        told(false),
        told(true),
    )
}
