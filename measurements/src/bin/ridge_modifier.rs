//! Superpositions of ridge functions over vectors (w, z). A drift modifier with one table per projection is compared
//! with plain Langevin steps and with annealed Gibbs at equal numbers of stages. The cases are three waves in two
//! dimensions (exact log Z 1.880842) and thirty random waves in eight.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin ridge_modifier
//! cargo run --release -p annealed-measurements --bin ridge_modifier -- --change-factors
//! ```

use std::time::Instant;

use annealed::ais::Ais;
use annealed::drift::{
    DriftModifiedLangevin, RidgeGibbs, RidgeModifier, RidgePath, RidgeVectorPath, Sinusoid,
};
use annealed::estimate::LogZ;
use annealed::kernel::{Repeat, Sequence, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Gaussian, Sampleable};
use annealed::path::AnnealingPath;
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use clap::Parser;
use nalgebra::{DMatrix, DVector, dmatrix};

const STEPS: usize = 100;
const CHAINS: usize = 1_000;
const DEVIATION: f64 = 0.3;
/// Noise of Langevin steps alone, and of Langevin steps before a Gibbs sweep. The sweep moves far enough by itself.
const EPS: [f64; 2] = [0.01, 0.001];

fn path(design: DMatrix<f64>, heights: &[f64], gain: f64) -> annealed::Result<RidgePath<Sinusoid>> {
    let wave = |&amplitude: &f64| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    RidgePath::new(design, heights.iter().map(wave), gain, 1.0, DEVIATION)
}

fn three_waves() -> annealed::Result<RidgePath<Sinusoid>> {
    let design = dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0];
    path(design, &[1.0, -1.0, 0.5], 6.0)
}

/// Returns a path with rows of length 1 on average, and standard normal heights.
fn thirty_waves(gain: f64) -> annealed::Result<RidgePath<Sinusoid>> {
    let (n, d) = (30, 8);
    let normal = Gaussian::standard(n * (d + 1))?;
    let numbers: DVector<f64> = normal.sample(&mut stream(1, Purpose::TRAINING, 0));
    let design = DMatrix::from_column_slice(n, d, &numbers.as_slice()[n..]);
    path(design / (d as f64).sqrt(), &numbers.as_slice()[..n], gain)
}

fn report<K>(name: &str, path: &RidgeVectorPath<Sinusoid>, kernel: K) -> annealed::Result<()>
where
    K: for<'p> TransitionKernel<<&'p RidgeVectorPath<Sinusoid> as AnnealingPath>::At> + Sync,
{
    let begun = Instant::now();
    let ais = Ais::new(path, kernel).schedule(Schedule::linear(STEPS)?);
    let run = ais.chains(CHAINS).seed(1).run()?;
    let (variance, seconds) = (
        run.estimate().var_log_weight(),
        begun.elapsed().as_secs_f64(),
    );
    let (log_z, error) = (run.log_z(), run.standard_error());
    println!("{name:>28} {variance:>8.3} {log_z:>9.4} {error:>7.4} {seconds:>6.1}");
    Ok(())
}

fn compare(name: &str, path: RidgePath<Sinusoid>) -> annealed::Result<()> {
    println!("\n{name}, T = {STEPS}, N = {CHAINS}");
    println!(
        "{:>28} {:>8} {:>9} {:>7} {:>6}",
        "", "Var", "log Z", "error", "s"
    );
    let modifier = RidgeModifier::new(&path, &Schedule::linear(STEPS)?, 401)?;
    let path = path.into_vectors()?;
    let gibbs = RidgeGibbs::augmented();
    let langevin = |eps: f64| UnadjustedLangevin::new(eps);
    let modified = |eps: f64| DriftModifiedLangevin::new(&modifier, eps);
    report("Langevin", &path, langevin(EPS[0])?)?;
    report("modified Langevin", &path, modified(EPS[0])?)?;
    report("Gibbs", &path, gibbs)?;
    report("Gibbs, two sweeps", &path, Repeat::new(gibbs, 2)?)?;
    report(
        "Langevin and Gibbs",
        &path,
        Sequence(langevin(EPS[1])?, gibbs),
    )?;
    report(
        "modified Langevin and Gibbs",
        &path,
        Sequence(modified(EPS[1])?, gibbs),
    )
}

/// Compares annealed Gibbs sampling without a change factor, with one of z, and with one of z and w. The last two take
/// fewer chains, because their stages take quadratures.
fn change_factors(
    name: &str,
    path: &RidgePath<Sinusoid>,
    steps: usize,
    chains: [usize; 2],
) -> annealed::Result<()> {
    println!("\n{name}, T = {steps}");
    let factors = [
        ("augmented", RidgeGibbs::augmented(), chains[0]),
        ("collapsed", RidgeGibbs::collapsed(), chains[1]),
        ("tilted", RidgeGibbs::tilted(), chains[1]),
    ];
    for (factor, kernel, chains) in factors {
        let begun = Instant::now();
        let ais = Ais::new(path, kernel).schedule(Schedule::linear(steps)?);
        let run = ais.chains(chains).seed(1).run()?;
        let variance = run.estimate().var_log_weight();
        // Log w is taken as normal.
        let error = variance * (2.0 / chains as f64).sqrt();
        let milliseconds = 1e3 * begun.elapsed().as_secs_f64() / chains as f64;
        println!("{factor:>28} {variance:.3} +- {error:.3}, {milliseconds:.1} ms a chain");
    }
    Ok(())
}

#[derive(Debug, Parser)]
struct Options {
    /// Compare change factors of Gibbs sampling instead
    #[arg(long)]
    change_factors: bool,
}

fn main() -> annealed::Result<()> {
    if Options::parse().change_factors {
        for steps in [20, STEPS] {
            let chains = [20_000, 4_000];
            change_factors("Three waves, gain 6", &three_waves()?, steps, chains)?;
        }
        for gain in [15.0, 30.0] {
            let name = format!("Thirty waves, gain {gain}");
            change_factors(&name, &thirty_waves(gain)?, STEPS, [1_500, 300])?;
        }
        return Ok(());
    }
    compare("Three waves in 2 dimensions, gain 6", three_waves()?)?;
    for gain in [15.0, 30.0, 60.0] {
        let name = format!("Thirty waves in 8 dimensions, gain {gain}");
        compare(&name, thirty_waves(gain)?)?;
    }
    Ok(())
}
