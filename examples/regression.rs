//! Evidence from a prior and a likelihood alone: does pressure change with the boiling point of water?
//!
//! The data are seventeen measurements by J. D. Forbes (1857): boiling point in degrees Fahrenheit and pressure in
//! inches of mercury. The evidence compares two models of the log pressure, a constant and a line, next to the exact
//! values. Then bidirectional Monte Carlo tests the same set-up on simulated data.
//!
//! ```text
//! cargo run --release --example regression
//! ```

use annealed::many::{LogLikelihoods, SimulatedRun};
use annealed::model::Latent;
use annealed::prelude::*;
use annealed::random::{Purpose, stream};

const BOILING_POINT: [f64; 17] = [
    194.5, 194.3, 197.9, 198.4, 199.4, 199.9, 200.9, 201.1, 201.4, 201.3, 203.6, 204.6, 209.5,
    208.6, 210.7, 211.9, 212.2,
];
const PRESSURE: [f64; 17] = [
    20.79, 20.79, 22.40, 22.67, 23.15, 23.35, 23.89, 23.99, 24.02, 24.01, 25.14, 26.57, 28.49,
    27.76, 29.04, 29.88, 30.06,
];
/// Standard deviation of the measured log pressure.
const NOISE: f64 = 0.01;

/// Returns the design: a constant, and the boiling point in units of ten degrees about 203.
fn design(columns: usize) -> DMatrix<f64> {
    DMatrix::from_fn(17, columns, |i, j| {
        ((BOILING_POINT[i] - 203.0) / 10.0).powi(j as i32)
    })
}

fn log_pressure() -> DVector<f64> {
    DVector::from_iterator(17, PRESSURE.iter().map(|p| p.ln()))
}

/// Returns a wide prior about a pressure of 25 inches and no slope.
fn prior(columns: usize) -> annealed::Result<Gaussian> {
    let mut mean = DVector::zeros(columns);
    mean[0] = 25f64.ln();
    Gaussian::new(mean, DMatrix::identity(columns, columns) * 0.25)
}

/// Returns `log N(y; m, C)` with `m = X mu` and `C = X S X' + NOISE^2 I`, the coefficients integrated out.
fn exact_log_evidence(columns: usize) -> annealed::Result<f64> {
    let x = design(columns);
    let mut mean = DVector::zeros(columns);
    mean[0] = 25f64.ln();
    let covariance = &x * x.transpose() * 0.25 + DMatrix::identity(17, 17) * (NOISE * NOISE);
    let y = Gaussian::new(&x * mean, covariance)?;
    Ok(y.log_density(&log_pressure()) - y.log_normalizer())
}

/// Returns the path from the prior to the posterior given the log pressures `y`.
fn path(
    columns: usize,
    y: DVector<f64>,
) -> annealed::Result<TemperedPath<Gaussian, impl Differentiable>> {
    let (x, variance) = (design(columns), NOISE * NOISE);
    let constant = -0.5 * 17.0 * (2.0 * std::f64::consts::PI * variance).ln();
    let (design, observed) = (x.clone(), y.clone());
    let log_likelihood = move |w: &DVector<f64>| {
        constant - 0.5 * (&observed - &design * w).norm_squared() / variance
    };
    let gradient = move |w: &DVector<f64>| x.tr_mul(&(&y - &x * w)) / variance;
    let likelihood = FunctionModel::new(log_likelihood).with_gradient(gradient);
    Ok(TemperedPath::new(prior(columns)?, likelihood))
}

/// Returns a schedule with most stages near beta 0: the likelihood is ten thousand times as sharp as the prior.
fn schedule(steps: usize) -> annealed::Result<Schedule> {
    Schedule::power(steps, 5.0)
}

fn log_evidence(columns: usize) -> annealed::Result<f64> {
    let path = path(columns, log_pressure())?;
    let pass = FirstPass::new(&path, Hmc::new(0.1, 5)?);
    let kernel = pass.seed(1).run()?.kernel;
    let run = Ais::new(&path, kernel)
        .schedule(schedule(500)?)
        .chains(500)
        .seed(1)
        .run()?;
    let exact = exact_log_evidence(columns)?;
    println!("{columns} coefficients: {run}");
    println!("         closed form: {exact:.3}");
    assert!((run.log_z() - exact).abs() <= 4.0 * run.standard_error());
    Ok(run.log_z())
}

/// Runs twenty sets of simulated data: forward from the prior, and backward from the coefficients that generated the
/// data.
fn simulated(columns: usize) -> annealed::Result<SimulatedRun> {
    let (prior, x) = (prior(columns)?, design(columns));
    let mut rng = stream(1, Purpose::DATA, 0);
    let coefficients: Vec<_> = (0..20).map(|_| prior.sample(&mut rng)).collect();
    let noise = Gaussian::standard(17)?;
    let simulate = |w: &DVector<f64>| &x * w + noise.sample(&mut rng) * NOISE;
    let sets: Vec<_> = coefficients.iter().map(simulate).collect();
    let log_likelihood = |w: &Latent| {
        let error = &sets[w.datum()] - &x * &w.vector;
        -0.5 * error.norm_squared() / (NOISE * NOISE)
    };
    let kernel = RandomWalkMetropolis::new(0.1)?;
    LogLikelihoods::new(
        prior,
        FunctionModel::new(log_likelihood),
        sets.len(),
        kernel,
    )
    .stages(2_000)
    .seed(1)
    .run_simulated(&coefficients)
}

fn main() -> annealed::Result<()> {
    let (constant, line) = (log_evidence(1)?, log_evidence(2)?);
    println!(
        "log Bayes factor of the line over the constant: {:.2}",
        line - constant
    );
    println!("line: {}", simulated(2)?);
    Ok(())
}
