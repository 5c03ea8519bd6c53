//! Gain of a base that is fitted to the target over a plain one, at equal cost.
//!
//! The targets are RBMs of 0/1 units and RBMs with Gaussian visible units. `docs/notes/bases.md` has the results.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin bases -- --weights a.npz --weights b.npz --seeds 20
//! RAYON_NUM_THREADS=1 cargo run --release -p annealed-measurements --bin bases -- --bounds --weights a.npz --chains 256
//! ```

mod binary;
mod bounds;
mod gaussian;
mod gaussian_rbm;

use std::path::PathBuf;

use annealed::Result;
use annealed::ais::{Ais, Run};
use annealed::estimate::LogZ;
use annealed::kernel::TransitionKernel;
use annealed::path::AnnealingPath;
use annealed::schedule::Schedule;
use clap::Parser;

#[derive(Debug, Parser)]
struct Options {
    /// NumPy .npz files of RBMs with W (M, D), a (M), b (D), and optionally b_base (D) and log_z_exact; an RBM of the
    /// embedded digits unless set
    #[arg(long)]
    weights: Vec<PathBuf>,
    /// Only RBMs of 0/1 units
    #[arg(long)]
    binary_only: bool,
    /// Only the certain bounds of runs from base rates: how many runs they warn of, their mean and cost
    #[arg(long, requires = "weights")]
    bounds: bool,
    /// Runs for each row
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Number of chains
    #[arg(long, default_value_t = 64)]
    chains: usize,
    /// Numbers of stages
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    stages: Vec<usize>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.bounds {
        let mut files = options.weights.iter();
        return files.try_for_each(|file| bounds::compare_on_file(file, &options));
    }
    if options.weights.is_empty() {
        binary::compare_on_digits(&options)?;
    }
    for file in &options.weights {
        binary::compare_on_file(file, &options)?;
    }
    if !options.binary_only {
        for norm in [3.0, 4.0, 5.0] {
            gaussian::compare(norm, &options)?;
        }
    }
    Ok(())
}

fn print_header() {
    println!("base               K     log Z^       bias    RMSE      SE   ESS / N");
}

/// Prints the runs from one base, a row for each number of stages.
fn print_rows<P, K>(
    name: &str,
    path: P,
    kernel: K,
    base_log_z: f64,
    exact: Option<f64>,
    options: &Options,
) -> Result<()>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Copy + Sync,
{
    for &steps in &options.stages {
        let run = |seed| {
            Ais::with_base_log_z(&path, kernel, base_log_z)
                .schedule(Schedule::linear(steps)?)
                .chains(options.chains)
                .block_size(options.chains.div_ceil(2))
                .seed(seed)
                .run()
        };
        let runs: Vec<Run<P::State>> = (0..options.seeds).map(run).collect::<Result<_>>()?;
        println!("{name:16}{steps:>5} {}", figures(&runs, exact));
    }
    Ok(())
}

/// Formats the means of log Z^, standard error and ESS, and bias and root mean square error where log Z is known.
fn figures<S>(runs: &[Run<S>], exact: Option<f64>) -> String {
    let mean = |f: &dyn Fn(&Run<S>) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
    let log_z = mean(&Run::log_z);
    let errors = exact.map_or("         -       -".into(), |exact| {
        let square = mean(&|run| (run.log_z() - exact).powi(2));
        format!("{:>+10.3} {:>7.3}", log_z - exact, square.sqrt())
    });
    format!(
        "{log_z:>10.3} {errors} {:>7.3} {:>9.2}",
        mean(&Run::standard_error),
        mean(&|run| run.effective_sample_size() / run.chains() as f64)
    )
}
