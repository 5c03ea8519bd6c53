//! Germination of seeds: a binomial regression with a random effect for each plate.
//!
//! The counts are from Crowder (1978), as in Breslow and Clayton (1993) and in the examples of BUGS.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::prelude::*;
use annealed::rbm::{sigmoid, softplus};
use annealed_measurements::problems::exact::ln_gamma;

use crate::quadrature::{grid, log_trapezoid};

/// Numbers of seeds that germinated and of seeds sown, on each plate.
const PLATES: [(f64, f64); 21] = [
    (10.0, 39.0),
    (23.0, 62.0),
    (23.0, 81.0),
    (26.0, 51.0),
    (17.0, 39.0),
    (5.0, 6.0),
    (53.0, 74.0),
    (55.0, 72.0),
    (32.0, 51.0),
    (46.0, 79.0),
    (10.0, 13.0),
    (8.0, 16.0),
    (10.0, 30.0),
    (8.0, 28.0),
    (23.0, 45.0),
    (0.0, 4.0),
    (3.0, 12.0),
    (22.0, 41.0),
    (15.0, 30.0),
    (32.0, 51.0),
    (3.0, 7.0),
];
/// First plate of each kind of seed and root extract: (0, 0), (0, 1), (1, 0), (1, 1).
const KINDS: [usize; 4] = [0, 5, 11, 16];
/// Shape and rate of the precision's prior.
const GAMMA: f64 = 0.01;
/// Standard deviation of the coefficients' priors.
const DEVIATION: f64 = 10.0;

/// Returns seed and extract of a plate, each 0 or 1.
fn kind(plate: usize) -> [f64; 2] {
    let kind = KINDS.iter().rposition(|&first| first <= plate);
    let kind = kind.unwrap_or(0);
    [(kind / 2) as f64, (kind % 2) as f64]
}

/// Creates the posterior of `(log tau, a_0, a_1, a_2, a_12, b_1, .., b_21)`: `tau ~ Gamma(.01, .01)`, `a ~ N(0, 10^2)`,
/// `b ~ N(0, 1 / tau)`, and `r ~ Bin(n, p)` with `logit p = a_0 + a_1 x_1 + a_2 x_2 + a_12 x_1 x_2 + b`.
pub fn seeds() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    GradientModel::new(26, |x: &[f64], slope: &mut [f64]| {
        let ([t, a @ ..], effects) = x.split_first_chunk::<5>().map_or(
            // The dimension is checked.
            (&[0.0; 5], x),
            |(head, rest)| (head, rest),
        );
        let tau = t.exp();
        let mut log_density = log_precision(*t);
        slope[0] = GAMMA - GAMMA * tau;
        for (a, slope) in a.iter().zip(&mut slope[1..5]) {
            log_density += log_normal(*a, DEVIATION);
            *slope = -a / DEVIATION.powi(2);
        }
        for (plate, &b) in effects.iter().enumerate() {
            let [seed, extract] = kind(plate);
            let factors = [1.0, seed, extract, seed * extract];
            let logit: f64 = a.iter().zip(factors).map(|(a, factor)| a * factor).sum();
            log_density += log_binomial(plate, logit + b) + 0.5 * (t - TAU.ln() - tau * b * b);
            let (germinated, sown) = PLATES[plate];
            let pull = germinated - sown * sigmoid(logit + b);
            slope[0] += 0.5 * (1.0 - tau * b * b);
            for (slope, factor) in slope[1..5].iter_mut().zip(factors) {
                *slope += factor * pull;
            }
            slope[5 + plate] = pull - tau * b;
        }
        log_density
    })
}

/// Returns the log density of `t = log tau`.
fn log_precision(t: f64) -> f64 {
    GAMMA * (GAMMA.ln() + t - t.exp()) - ln_gamma(GAMMA)
}

fn log_normal(x: f64, deviation: f64) -> f64 {
    -0.5 * ((x / deviation).powi(2) + TAU.ln()) - deviation.ln()
}

/// Returns the log probability of a plate's count.
fn log_binomial(plate: usize, logit: f64) -> f64 {
    let (germinated, sown) = PLATES[plate];
    let ways =
        ln_gamma(sown + 1.0) - ln_gamma(germinated + 1.0) - ln_gamma(sown - germinated + 1.0);
    ways + germinated * logit - sown * softplus(logit)
}

/// log Z by [`log_z`]. It is the same to the last digit with 60, 80 and 120 points.
pub const LOG_Z: f64 = -73.406_179;

/// Returns log Z by quadrature. Given tau, plates of a kind share one logit, and kinds meet in the priors alone: a grid
/// over tau, one over the logits of three kinds, with the integrals over effects and over the fourth inside.
pub fn log_z(points: usize) -> f64 {
    log_trapezoid(&grid(-2.0, 8.0, points / 2), |t| {
        let logits = grid(-4.0, 4.0, points);
        let of_kinds = [0, 1, 2, 3].map(|kind| {
            let plates = KINDS[kind]..KINDS.get(kind + 1).copied().unwrap_or(PLATES.len());
            let log_sum = |logit: &f64| plates.clone().map(|j| log_plate(j, *logit, t)).sum();
            logits.iter().map(log_sum).collect::<Vec<f64>>()
        });
        log_precision(t) + log_kinds(&logits, &of_kinds)
    })
}

/// Returns the log probability of a plate's count, with its effect integrated out.
fn log_plate(plate: usize, logit: f64, t: f64) -> f64 {
    let deviation = (-0.5 * t).exp();
    log_trapezoid(&grid(-7.0, 7.0, 120), |z| {
        log_normal(z, 1.0) + log_binomial(plate, logit + deviation * z)
    })
}

/// Returns the log integral over the logits of the four kinds, given their log likelihoods on a grid.
fn log_kinds(logits: &[f64], of_kinds: &[Vec<f64>; 4]) -> f64 {
    let (points, step) = (logits.len(), logits[1] - logits[0]);
    let top = of_kinds
        .each_ref()
        .map(|log| log.iter().copied().fold(f64::MIN, f64::max));
    let weights =
        [0, 1, 2, 3].map(|k| of_kinds[k].iter().map(|log| (log - top[k]).exp()).collect());
    let weights: [Vec<f64>; 4] = weights;
    let prior: Vec<f64> = (0..6 * points)
        .map(|i| log_normal(step * (i as f64 - 3.0 * points as f64), DEVIATION).exp())
        .collect();
    // Prior of a difference or a mixed difference of grid points.
    let at = |difference: isize| prior[(difference + 3 * points as isize) as usize];
    let last: Vec<f64> = (-(points as isize)..2 * points as isize)
        .map(|sum| {
            (0..points)
                .map(|l| weights[3][l] * at(l as isize - sum))
                .sum()
        })
        .collect();
    let mut total = 0.0;
    for i in 0..points {
        let first = weights[0][i] * log_normal(logits[i], DEVIATION).exp();
        for j in 0..points {
            let second = first * weights[1][j] * at(j as isize - i as isize);
            if second < 1e-30 {
                continue;
            }
            // The prior of a_12 = logit_11 - (logit_01 + logit_10 - logit_00) does not depend on the grid's offset.
            let inner = (0..points).map(|k| {
                let sum = j as isize + k as isize - i as isize;
                weights[2][k] * at(k as isize - i as isize) * last[(sum + points as isize) as usize]
            });
            total += second * inner.sum::<f64>();
        }
    }
    total.ln() + 4.0 * step.ln() + top.iter().sum::<f64>()
}
