//! Cost of a standard error of log Z in ten dimensions: compares learned transitions, with their training, to annealed
//! importance sampling with tuned HMC.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin learned_or_hmc               # one setting of each
//! cargo run --release -p annealed-measurements --bin learned_or_hmc -- --full     # the table of docs/notes/variational.md
//! ```
//!
//! The target has four Gaussian modes of different shape, far apart in two coordinates; log Z is 0. The squared
//! standard error of N chains is v / N, where v is the relative variance of the weights. A standard error s costs a
//! fixed part (training, tuning) plus v / s^2 times the cost of a chain.

use std::time::Instant;

use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run};
use annealed::estimate::LogZ;
use annealed::kernel::{Hmc, Mala, Repeat};
use annealed::learned::{LearnedTransitions, Mean, Noise, Objective, Training};
use annealed::model::{Gaussian, GaussianMixture};
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;
use clap::Parser;
use nalgebra::{DMatrix, DVector};

const DIMENSION: usize = 10;
const BATCH: usize = 256;
/// Number of chains whose moves the untrained transitions imitate.
const IMITATED: usize = 2_000;
const ERRORS: [f64; 4] = [0.1, 0.03, 0.01, 0.003];

#[derive(Parser)]
struct Options {
    /// All settings, long runs.
    #[arg(long)]
    full: bool,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

type Path = GeometricPath<Gaussian, GaussianMixture>;

/// Cost of a method: evaluations of a density or its gradient, and seconds.
struct Cost {
    name: String,
    /// Cost before the first chain.
    fixed: (f64, f64),
    /// Cost of each chain.
    chain: (f64, f64),
    /// Relative variance of the weights.
    variance: f64,
    log_z: f64,
    standard_error: f64,
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let path = path()?;
    println!(
        "{:34} {:>7} {:>16}   evaluations (seconds) for a standard error of {ERRORS:?}",
        "", "v", "log Z"
    );
    for (stages, leapfrogs) in options.annealed_runs() {
        hmc(&path, stages, leapfrogs, &options)?.print();
    }
    for (transitions, iterations) in options.flows() {
        flow(&path, transitions, iterations, &options)?.print();
    }
    Ok(())
}

impl Options {
    /// Returns stages and leapfrog steps of each run.
    fn annealed_runs(&self) -> Vec<(usize, usize)> {
        if !self.full {
            return vec![(50, 3)];
        }
        let stages = [10, 20, 50, 100, 200, 400];
        stages
            .iter()
            .flat_map(|&k| [1, 3, 6].map(|l| (k, l)))
            .collect()
    }

    /// Returns transitions and training iterations of each run.
    fn flows(&self) -> Vec<(usize, usize)> {
        if !self.full {
            return vec![(6, 300)];
        }
        let transitions = [4, 6, 8];
        let iterations = [300, 1_000, 3_000];
        transitions
            .iter()
            .flat_map(|&t| iterations.map(|i| (t, i)))
            .collect()
    }

    fn chains(&self, full: usize) -> usize {
        if self.full { full } else { full / 10 }
    }
}

/// Returns the path from N(0, I) to four correlated modes of equal mass at (+-3, +-3, 0, ..).
fn path() -> annealed::Result<Path> {
    let component = |index: usize| {
        let mut mean = DVector::zeros(DIMENSION);
        mean[0] = [3.0, -3.0][index % 2];
        mean[1] = [3.0, -3.0][index / 2];
        let correlation = [0.6, -0.6, 0.3, -0.3][index];
        let covariance = DMatrix::from_fn(DIMENSION, DIMENSION, |i, j| {
            let scale = if i < 2 { 0.6 } else { 0.8 };
            match i.abs_diff(j) {
                0 => scale * scale,
                1 if i.min(j) % 2 == 0 => correlation * scale * scale,
                _ => 0.0,
            }
        });
        Ok((0.25, Gaussian::new(mean, covariance)?))
    };
    let components = (0..4)
        .map(component)
        .collect::<annealed::Result<Vec<_>>>()?;
    Ok(GeometricPath::new(
        Gaussian::standard(DIMENSION)?,
        GaussianMixture::new(components)?,
    ))
}

/// Runs HMC. A stage costs two gradients for the first leapfrog step, one for each further step, and the log ratio.
fn hmc(path: &Path, stages: usize, leapfrogs: usize, options: &Options) -> annealed::Result<Cost> {
    let schedule = Schedule::linear(stages)?;
    let pass = FirstPass::new(path, Hmc::new(0.5, leapfrogs)?);
    let tuned = pass.seed(options.seed).run()?;
    let ais = Ais::new(path, tuned.kernel).schedule(schedule).threads(1);
    let run = ais
        .chains(options.chains(10_000))
        .seed(options.seed)
        .run()?;
    let chain = stages * (leapfrogs + 2);
    let name = format!("HMC, K = {stages}, {leapfrogs} leapfrogs");
    let pilot = (tuned.evaluations as f64, tuned.seconds);
    Ok(Cost::new(name, pilot, chain as f64, &run))
}

/// Trains and runs a flow. Each transition of a chain costs the density at both of its ends.
fn flow(
    path: &Path,
    transitions: usize,
    iterations: usize,
    options: &Options,
) -> annealed::Result<Cost> {
    let begun = Instant::now();
    let schedule = Schedule::linear(transitions)?;
    let mean = Mean::Gated { hidden: 64 };
    let pass = FirstPass::new(path, Mala::new(0.3)?);
    let found = pass.seed(options.seed).run()?;
    let ten = Repeat::new(found.kernel, 10)?;
    let start = LearnedTransitions::imitating(&ten, mean, path, &schedule, IMITATED, options.seed)?;
    let trained = Training::new(Objective::Annealed)
        .iterations(iterations)
        .batch_size(BATCH)
        .learning_rate(3e-3)
        .seed(options.seed)
        .train(start, path, &schedule)?;
    let training = begun.elapsed().as_secs_f64();
    let flow = trained.flow.with_noise(Noise::Student {
        degrees_of_freedom: 10,
    })?;
    let ais = Ais::new(path, flow).schedule(schedule).threads(1);
    let run = ais
        .chains(options.chains(100_000))
        .seed(options.seed)
        .run()?;
    let name = format!("AVO, T = {transitions}, {iterations} iterations");
    // Imitated chains make ten MALA steps a stage, with two gradients each.
    let start = (IMITATED * transitions * 20) as u64 + found.evaluations;
    let fixed = (trained.target_gradients as f64 + start as f64, training);
    Ok(Cost::new(name, fixed, (2 * transitions) as f64, &run))
}

impl Cost {
    fn new(name: String, fixed: (f64, f64), chain: f64, run: &Run<DVector<f64>>) -> Self {
        let chains = run.chains() as f64;
        Self {
            name,
            fixed,
            chain: (chain, run.seconds() / chains),
            variance: chains / run.effective_sample_size() - 1.0,
            log_z: run.log_z(),
            standard_error: run.standard_error(),
        }
    }

    fn print(&self) {
        let cost = |error: &f64| {
            let chains = self.variance / (error * error);
            let evaluations = self.fixed.0 + chains * self.chain.0;
            let seconds = self.fixed.1 + chains * self.chain.1;
            format!("{evaluations:9.2e} ({seconds:6.1})")
        };
        let costs: Vec<String> = ERRORS.iter().map(cost).collect();
        println!(
            "{:34} {:7.3} {:7.3} +- {:.3}   {}",
            self.name,
            self.variance,
            self.log_z,
            self.standard_error,
            costs.join("  ")
        );
    }
}
