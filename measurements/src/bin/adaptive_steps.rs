//! Number of steps that adaptive annealing needs as the gain grows. The slides of Barron and Luo claim the square of
//! the gain. Quadrature propagates the laws of unweighted chains with `eps = delta`: the adaptive one, the naive one,
//! and the reference diffusion at the final gain.
//!
//! ```text
//! cargo run --release -p annealed-measurements --bin adaptive_steps
//! ```

use annealed_measurements::problems::bumps::{Drift, l1_error};

const TOLERANCE: f64 = 0.1;

const GAINS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// Returns the smallest number of steps, to 2%, for which the adaptive law has an L1 distance below `TOLERANCE`.
fn least_steps(gain: f64) -> annealed::Result<usize> {
    let close =
        |steps| Ok::<_, annealed::Error>(l1_error(gain, steps, Drift::Adaptive)? < TOLERANCE);
    let mut enough = 1;
    while !close(enough)? {
        enough *= 2;
    }
    let mut few = enough / 2;
    while enough - few > 1 + enough / 50 {
        let middle = few.midpoint(enough);
        if close(middle)? {
            enough = middle;
        } else {
            few = middle;
        }
    }
    Ok(enough)
}

/// Returns the least-squares slope of log T in log gain.
fn exponent(steps: &[usize]) -> f64 {
    let points = GAINS.iter().zip(steps);
    let points: Vec<_> = points
        .map(|(gain, &t)| (gain.ln(), (t as f64).ln()))
        .collect();
    let n = points.len() as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / n, sum.1 + p.1 / n));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    covariance / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

fn main() -> annealed::Result<()> {
    let row = |gain, steps| -> annealed::Result<String> {
        let drifts = [Drift::Adaptive, Drift::Naive, Drift::Reference];
        let errors = drifts.map(|drift| l1_error(gain, steps, drift));
        let errors: annealed::Result<Vec<f64>> = errors.into_iter().collect();
        let errors = errors?.into_iter().map(|error| format!(" {error:>10.4}"));
        Ok(errors.collect())
    };
    println!("L1 distance from the density at gain 8");
    println!(
        "{:>6} {:>6} {:>10} {:>10} {:>10}",
        "eps", "T", "adaptive", "naive", "reference"
    );
    for (eps, steps) in [(0.08, 100), (0.04, 200), (0.02, 400)] {
        println!("{eps:>6} {steps:>6}{}", row(8.0, steps)?);
    }
    println!("\nLeast T with an L1 distance below {TOLERANCE}, and the distances there");
    println!(
        "{:>6} {:>6} {:>10} {:>10} {:>10}",
        "gain", "T", "adaptive", "naive", "reference"
    );
    let mut least = Vec::new();
    for gain in GAINS {
        let steps = least_steps(gain)?;
        println!("{gain:>6} {steps:>6}{}", row(gain, steps)?);
        least.push(steps);
    }
    println!("T grows with the gain to the power {:.2}", exponent(&least));
    Ok(())
}
