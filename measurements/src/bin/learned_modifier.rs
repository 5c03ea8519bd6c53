//! A drift modifier learned from a pilot's particles, on a target that is not separable. Two narrow bumps of an
//! objective under a standard Gaussian in five dimensions lie on an oblique line. Quadrature gives the exact values.
//!
//! The modifier knows the bumps' places, but not their heights. The other methods use as many gradients of the target
//! as the modifier's pilot and run together. The tuning of MALA is not counted.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin learned_modifier -- --seeds 20
//! ```

use annealed::ais::{Ais, Run};
use annealed::drift::{BumpFeatures, DriftModifiedLangevin, EnsembleModifier};
use annealed::estimate::{LogZ, WeightedSample};
use annealed::kernel::{Mala, StepSize, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Differentiable, FunctionModel, Gaussian, NormalizedModel};
use annealed::path::{AnnealingPath, TemperedPath};
use annealed::schedule::Schedule;
use clap::Parser;
use nalgebra::{DVector, dvector};

#[derive(Parser)]
struct Options {
    /// Number of repetitions.
    #[arg(long, default_value_t = 2)]
    seeds: u64,
}

const DIMENSION: usize = 5;
const GAIN: f64 = 12.0;
const WIDTH: f64 = 0.5;
/// Positions along the line and heights.
const BUMPS: [(f64, f64); 2] = [(-1.5, 1.0), (2.0, 1.1)];
const MIDDLE: f64 = 0.25;
const CHAINS: usize = 1_000;
/// Particles of the modifier's pilot.
const PARTICLES: usize = 500;
/// Stages of the pilot and of the modified run.
const STEPS: usize = 400;
/// Stages of the other methods, for an equal number of gradients.
const OTHERS: usize = STEPS + STEPS * PARTICLES / CHAINS;

fn line() -> DVector<f64> {
    dvector![1.0, -1.0, 0.5, 2.0, 1.0].normalize()
}

fn bump(height: f64, squared_distance: f64) -> f64 {
    height * (-0.5 * squared_distance / (WIDTH * WIDTH)).exp()
}

fn path()
-> annealed::Result<TemperedPath<Gaussian, impl Differentiable<State = DVector<f64>> + Sync>> {
    let centres = BUMPS.map(|(position, _)| line() * position);
    let heights =
        move |w: &DVector<f64>| [0, 1].map(|i| bump(BUMPS[i].1, (w - &centres[i]).norm_squared()));
    let centres = BUMPS.map(|(position, _)| line() * position);
    let of_gradient = heights.clone();
    let gradient = move |w: &DVector<f64>| {
        let pulls = of_gradient(w).map(|height| GAIN * height / (WIDTH * WIDTH));
        &centres[0] * pulls[0] + &centres[1] * pulls[1] - w * (pulls[0] + pulls[1])
    };
    let value = move |w: &DVector<f64>| GAIN * heights(w).iter().sum::<f64>();
    let objective = FunctionModel::new(value).with_gradient(gradient);
    Ok(TemperedPath::new(Gaussian::standard(DIMENSION)?, objective))
}

/// Returns `log Z` and the probability of the right half. The midpoint rule runs over the position t along the line and
/// the distance r from it, which has density `r^3 exp(-r^2/2) / 2`.
fn exact() -> (f64, f64) {
    let (mut total, mut right) = (0.0, 0.0);
    for i in 0..1_200 {
        let t = -6.0 + 0.01 * (f64::from(i) + 0.5);
        for j in 0..600 {
            let r = 0.01 * (f64::from(j) + 0.5);
            let objective: f64 = BUMPS
                .iter()
                .map(|&(position, height)| bump(height, (t - position).powi(2) + r * r))
                .sum();
            let density = 0.5 * r.powi(3) * (GAIN * objective - 0.5 * (r * r + t * t)).exp();
            let mass = 1e-4 * density / std::f64::consts::TAU.sqrt();
            total += mass;
            right += if t > MIDDLE { mass } else { 0.0 };
        }
    }
    (total.ln(), right / total)
}

#[derive(Default)]
struct Tally {
    log_z: Vec<f64>,
    right: Vec<f64>,
    ess: Vec<f64>,
    seconds: f64,
}

impl Tally {
    fn add(&mut self, run: &Run<DVector<f64>>, seconds: f64, (log_z, right): (f64, f64)) {
        let line = line();
        let is_right = |state: &DVector<f64>| f64::from(state.dot(&line) > MIDDLE);
        self.log_z.push(run.log_z() - log_z);
        self.right.push(run.expectation(is_right).0 - right);
        self.ess
            .push(run.effective_sample_size() / run.chains() as f64);
        self.seconds += seconds;
    }

    fn print(&self, name: &str) {
        let n = self.log_z.len() as f64;
        let rms = |errors: &[f64]| (errors.iter().map(|e| e * e).sum::<f64>() / n).sqrt();
        println!(
            "{name:>24} {:>12.3} {:>14.3} {:>10.3} {:>8.1}",
            rms(&self.log_z),
            rms(&self.right),
            self.ess.iter().sum::<f64>() / n,
            self.seconds
        );
    }
}

fn run<P, K>(path: P, kernel: K, steps: usize, seed: u64) -> annealed::Result<Run<DVector<f64>>>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(Schedule::linear(steps)?);
    ais.chains(CHAINS).seed(seed).run()
}

fn main() -> annealed::Result<()> {
    let options = Options::parse();
    let path = path()?;
    let exact = exact();
    println!("log Z = {:.4}, P(right) = {:.4}", exact.0, exact.1);
    let centres = BUMPS.map(|(position, _)| line() * position);
    let features = BumpFeatures::new(DIMENSION, &centres, &[0.5, 0.75, 1.1])?;
    // The bumps sharpen as beta rises.
    let eps = StepSize::knots([(0.0, 0.05), (0.5, 0.01), (1.0, 0.002)])?;
    let schedule = Schedule::linear(STEPS)?;
    // Nine tenths of the proposals are accepted, all along the path.
    let mala = Mala::new(StepSize::knots([
        (0.0, 0.6),
        (0.2, 0.54),
        (0.35, 0.42),
        (0.5, 0.21),
        (0.6, 0.075),
        (0.7, 0.046),
        (0.8, 0.032),
        (1.0, 0.021),
    ])?)?;
    let mut tallies: [Tally; 3] = Default::default();
    for seed in 1..=options.seeds {
        let begun = std::time::Instant::now();
        let features = features.clone();
        let learned =
            EnsembleModifier::fit(&path, features, &schedule, eps.clone(), PARTICLES, seed)?;
        let modified = DriftModifiedLangevin::new(learned, eps.clone())?;
        let modified = run(&path, modified, STEPS, seed)?;
        tallies[0].add(&modified, begun.elapsed().as_secs_f64(), exact);
        let others = [
            run(&path, UnadjustedLangevin::new(eps.clone())?, OTHERS, seed)?,
            run(&path, mala.clone(), OTHERS, seed)?,
        ];
        for (tally, other) in tallies[1..].iter_mut().zip(&others) {
            tally.add(other, other.seconds(), exact);
        }
    }
    println!(
        "{:>24} {:>12} {:>14} {:>10} {:>8}",
        "", "RMSE log Z", "RMSE P(right)", "ESS/N", "seconds"
    );
    let names = ["learned, 400 stages", "no modifier, 600", "MALA, 600"];
    for (name, tally) in names.iter().zip(&tallies) {
        tally.print(name);
    }
    Ok(())
}
