//! Exact log Z by quadrature, sums, transfer matrices and Kaufman's formula.

use std::f64::consts::{PI, TAU};

use annealed::estimate::log_sum_exp;
use nalgebra::DMatrix;

/// Returns the log of the integral of `exp(log_f)` from `low` to `high`, by Simpson's rule; `intervals` is even.
pub fn log_integral(low: f64, high: f64, intervals: usize, log_f: impl Fn(f64) -> f64) -> f64 {
    let width = (high - low) / intervals as f64;
    let terms: Vec<f64> = (0..=intervals)
        .map(|i| {
            let weight = match i {
                0 => 1.0,
                i if i == intervals => 1.0,
                i if i % 2 == 1 => 4.0,
                _ => 2.0,
            };
            f64::ln(weight) + log_f(low + width * i as f64)
        })
        .collect();
    log_sum_exp(&terms) + (width / 3.0).ln()
}

/// Returns `log Gamma(x)` for `x > 0`, by Stirling's series from 10 on and the recursion below.
pub fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series = 1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0));
    (x - 0.5) * x.ln() - x + 0.5 * TAU.ln() + inverse * series
}

/// Returns the log surface of the unit sphere in `dimension` dimensions.
pub fn log_sphere(dimension: usize) -> f64 {
    let half = 0.5 * dimension as f64;
    2f64.ln() + half * PI.ln() - ln_gamma(half)
}

/// Returns `log sum exp(coupling * sum over bonds of s s')` of the Ising model on a torus, by the formula of Kaufman
/// (1949) in the form of Beale (1996).
pub fn kaufman(rows: usize, columns: usize, coupling: f64) -> f64 {
    let double = 2.0 * coupling;
    let gamma = |l: usize| match l {
        0 => double + coupling.tanh().ln(),
        _ => {
            let cosh = double.cosh() / double.tanh() - (PI * l as f64 / columns as f64).cos();
            cosh.acosh()
        }
    };
    // The logarithm of a product over even or odd l, of 2 cosh or 2 |sinh| of rows gamma / 2.
    let log_product = |first: usize, sign: f64| -> f64 {
        let factor = |l: usize| {
            let x = (0.5 * rows as f64 * gamma(l)).abs();
            x + (sign * (-2.0 * x).exp()).ln_1p()
        };
        (0..columns).map(|r| factor(2 * r + first)).sum()
    };
    let positive = log_sum_exp([
        log_product(1, 1.0),
        log_product(1, -1.0),
        log_product(0, 1.0),
    ]);
    let last = gamma(0).signum() * (log_product(0, -1.0) - positive).exp();
    let sites = (rows * columns) as f64;
    0.5 * sites * (2.0 * double.sinh()).ln() - 2f64.ln() + positive + last.ln_1p()
}

/// Returns `log sum exp(coupling * number of equal neighbours)` of the Potts model of `values` colours on a torus of
/// `side` squared sites, by the transfer matrix between rows.
pub fn potts_torus(side: usize, values: usize, coupling: f64) -> f64 {
    let colour = |row: usize, j: usize| row / values.pow((j % side) as u32) % values;
    let count = |equal: &dyn Fn(usize) -> bool| (0..side).filter(|&j| equal(j)).count() as f64;
    let rows = values.pow(side as u32);
    let transfer = DMatrix::from_fn(rows, rows, |a, b| {
        let within = count(&|j| colour(a, j) == colour(a, j + 1));
        let between = count(&|j| colour(a, j) == colour(b, j));
        (coupling * (within + between)).exp()
    });
    transfer.pow(side as u32).trace().ln()
}

/// Returns the log of the mean of `exp(coupling * sum cos(x_i - x_{i+1}))` over uniform angles on a ring: the sum
/// over all k of the Bessel functions `I_k^sites`.
pub fn rotor_ring(sites: usize, coupling: f64) -> f64 {
    let mean = |k: f64| {
        let integrand = |x: f64| (coupling * x.cos()).exp() * (k * x).cos();
        let points = 256;
        let angles = (0..points).map(|i| TAU * f64::from(i) / f64::from(points));
        angles.map(integrand).sum::<f64>() / f64::from(points)
    };
    let powers = (-40..=40).map(|k| mean(f64::from(k)).abs().powi(sites as i32));
    powers.sum::<f64>().ln()
}

/// Returns the log of the integral of `exp(- sum [stiffness / 2 (x_i - x_{i+1})^2 + potential(x_i)])` on a ring, by
/// the transfer operator on a grid from `-reach` to `reach`.
pub fn field_ring(sites: u32, stiffness: f64, reach: f64, potential: impl Fn(f64) -> f64) -> f64 {
    const POINTS: usize = 160;
    let width = 2.0 * reach / (POINTS - 1) as f64;
    let at = |i: usize| -reach + width * i as f64;
    let transfer = DMatrix::from_fn(POINTS, POINTS, |i, j| {
        let (x, y) = (at(i), at(j));
        let energy = 0.5 * stiffness * (x - y).powi(2) + 0.5 * (potential(x) + potential(y));
        width * (-energy).exp()
    });
    transfer.pow(sites).trace().ln()
}

/// Returns the log likelihood of observations under a hidden Markov chain, by the forward recursion.
/// `log_emissions[t][state]` is the log probability of the observation at time t.
pub fn forward(initial: &[f64], transition: &[Vec<f64>], log_emissions: &[Vec<f64>]) -> f64 {
    let states = initial.len();
    let mut log_forward: Vec<f64> = (0..states)
        .map(|s| initial[s].ln() + log_emissions[0][s])
        .collect();
    for emission in &log_emissions[1..] {
        let into = |to: usize| {
            let from = |s: usize| log_forward[s] + transition[s][to].ln();
            log_sum_exp((0..states).map(from)) + emission[to]
        };
        log_forward = (0..states).map(into).collect();
    }
    log_sum_exp(&log_forward)
}

/// Returns the log density of observations of a random-walk level, by the Kalman filter. `variances` belong to an
/// observation, to a step, and to the first level, whose mean is `mean`.
pub fn kalman(observations: &[f64], mut mean: f64, variances: (f64, f64, f64)) -> f64 {
    let (noise, step, mut variance) = variances;
    let mut log_density = 0.0;
    for y in observations {
        let (surprise, total) = (y - mean, variance + noise);
        log_density -= 0.5 * (surprise * surprise / total + (TAU * total).ln());
        mean += variance / total * surprise;
        variance = variance * noise / total + step;
    }
    log_density
}

/// Returns `log sum f(state)` over all states of `sites` sites with `values` values each.
pub fn enumerate(sites: usize, values: u8, log_f: impl Fn(&Vec<u8>) -> f64) -> f64 {
    let count = usize::from(values).pow(sites as u32);
    let mut state = vec![0; sites];
    let mut terms = Vec::with_capacity(count);
    for _ in 0..count {
        terms.push(log_f(&state));
        // The next number in base `values`.
        for digit in &mut state {
            *digit = (*digit + 1) % values;
            if *digit > 0 {
                break;
            }
        }
    }
    log_sum_exp(&terms)
}
