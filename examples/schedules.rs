//! Schedules compared on an RBM whose log Z is known: root mean square error over seeds, each
//! run at the same total number of chain-steps, the pilot's included.
//!
//! ```text
//! cargo run --release --features full --example schedules -- \
//!     --weights tests/data/rbm20_pcd.npz --chains 1000 --steps 10000 --seeds 5
//! ```

use std::path::PathBuf;
use std::time::Instant;

use annealed::ais::Ais;
use annealed::kernel::BlockGibbs;
use annealed::model::{BaseRate, RbmFile};
use annealed::path::RbmPath;
use annealed::schedule::{
    BinnedSchedule, ConstantConditionalEss, Friction, Pilot, Schedule, ScheduleOptimizer, VarOpt,
};
use annealed::{Error, Result};
use clap::Parser;

/// Compare schedules on an RBM with a known log Z.
#[derive(Debug, Parser)]
struct Options {
    /// A NumPy .npz file with W, a, b and b_base
    #[arg(long)]
    weights: PathBuf,
    /// Start from fair coins instead of the base rates
    #[arg(long)]
    uniform: bool,
    /// Number of chains N
    #[arg(long, default_value_t = 1_000)]
    chains: usize,
    /// Number of stages K of a schedule that needs no pilot; the others get less
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// Number of seeds
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Names of the schedules; all unless set
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// A schedule of that many stages for a seed.
type Choose = fn(&RbmPath, usize, u64) -> Result<Schedule>;

/// Name, chain-steps that the choice costs, and the choice.
const SCHEDULES: [(&str, usize, Choose); 8] = [
    ("linear", 0, |_, steps, _| Schedule::linear(steps)),
    ("sm08", 0, |_, steps, _| {
        Schedule::salakhutdinov_murray(steps)
    }),
    ("varopt", 100_000, |path, steps, seed| {
        VarOpt::default().optimize(path, &BlockGibbs, steps, seed)
    }),
    ("binned", 110_000, |path, steps, seed| {
        BinnedSchedule::new(Schedule::linear(10)?).optimize(path, &BlockGibbs, steps, seed)
    }),
    ("friction", 100_000, |path, steps, seed| {
        Friction::default().optimize(path, &BlockGibbs, steps, seed)
    }),
    ("friction2", 200_000, |path, steps, seed| {
        let twice = Friction::default().rounds(2);
        twice.optimize(path, &BlockGibbs, steps, seed)
    }),
    ("friction-large", 500_000, |path, steps, seed| {
        let large = Friction::default().pilot(Pilot::new(250, 2_000));
        large.optimize(path, &BlockGibbs, steps, seed)
    }),
    // Five evaluations a stage in about three passes.
    ("cess", 300_000, |path, steps, seed| {
        ConstantConditionalEss::default().optimize(path, &BlockGibbs, steps, seed)
    }),
];

fn main() -> Result<()> {
    let options = Options::parse();
    let file = RbmFile::read(&options.weights)?;
    let exact = match file.log_z_exact {
        Some(log_z) => log_z,
        None => file.rbm.exact_log_normalizer()?,
    };
    let base = match file.base {
        Some(base) if !options.uniform => base,
        _ => BaseRate::uniform(file.rbm.hidden_units(), file.rbm.visible_units())?,
    };
    let path = RbmPath::new(base, file.rbm)?;
    println!("schedule        RMSE    bias    ESS/N (sd)     Var log w  seconds");
    for (name, pilot_cost, choose) in SCHEDULES {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            compare(&options, &path, exact, name, pilot_cost, choose)?;
        }
    }
    Ok(())
}

/// One line of the table.
fn compare(
    options: &Options,
    path: &RbmPath,
    exact: f64,
    name: &str,
    pilot_cost: usize,
    choose: Choose,
) -> Result<()> {
    let begun = Instant::now();
    let steps = options.steps.saturating_sub(pilot_cost / options.chains);
    let (mut errors, mut shares, mut variances) = (Vec::new(), Vec::new(), Vec::new());
    for seed in options.first_seed..options.first_seed + options.seeds {
        let schedule = match choose(path, steps, seed) {
            Err(error @ Error::PilotCollapsed { .. }) => {
                println!("{name:<14} seed {seed}: {error}");
                continue;
            }
            other => other?,
        };
        let run = Ais::new(path, BlockGibbs)
            .schedule(schedule)
            .chains(options.chains)
            .threads(options.threads)
            .seed(seed)
            .run()?;
        errors.push(run.log_z() - exact);
        shares.push(run.effective_sample_size() / options.chains as f64);
        variances.push(run.estimate().var_log_weight());
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squares: Vec<f64> = errors.iter().map(|error| error * error).collect();
    let share = mean(&shares);
    let spread: Vec<f64> = shares.iter().map(|x| (x - share).powi(2)).collect();
    println!(
        "{name:<14} {:>6.4} {:>+7.4}  {share:.3} ({:.3})  {:>9.3}  {:>7.1}",
        mean(&squares).sqrt(),
        mean(&errors),
        mean(&spread).sqrt(),
        mean(&variances),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
