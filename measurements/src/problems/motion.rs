//! Brownian motion of unknown scales whose middle is not observed.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::prelude::*;

use super::exact::log_integral;

const STEPS: usize = 30;
/// Observations at steps 1 to 10, and at steps 21 to 30.
const EARLY: [f64; 10] = [
    0.21592641,
    0.118771404,
    -0.07945447,
    0.037677474,
    -0.27885845,
    -0.1484156,
    -0.3250906,
    -0.22957903,
    -0.44110894,
    -0.09830782,
];
const LATE: [f64; 10] = [
    -0.8786016,
    -0.83736074,
    -0.7384849,
    -0.8939254,
    -0.7774566,
    -0.70238715,
    -0.87771565,
    -0.51853573,
    -0.6948214,
    -0.6202789,
];
/// Standard deviation of the priors of both log scales.
const DEVIATION: f64 = 2.0;

fn observed(step: usize) -> Option<f64> {
    EARLY
        .get(step)
        .or_else(|| LATE.get(step.checked_sub(20)?))
        .copied()
}

/// Returns the log density of `x ~ N(0, exp(log_scale)^2)`.
fn log_normal(x: f64, log_scale: f64) -> f64 {
    -0.5 * (x * (-log_scale).exp()).powi(2) - log_scale - 0.5 * TAU.ln()
}

/// Creates the posterior of `(log s_i, log s_o, x_1, .., x_30)`: both log scales N(0, 2^2), `x_t ~ N(x_{t-1}, s_i^2)` from
/// `x_0 = 0`, and `y_t ~ N(x_t, s_o^2)`.
pub fn brownian() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    GradientModel::new(2 + STEPS, |state: &[f64], slope: &mut [f64]| {
        let (scales, path) = state.split_at(2);
        let precisions = [(-2.0 * scales[0]).exp(), (-2.0 * scales[1]).exp()];
        let mut log_density = 0.0;
        for (scale, slope) in scales.iter().zip(&mut *slope) {
            log_density += log_normal(*scale, DEVIATION.ln());
            *slope = -scale / DEVIATION.powi(2);
        }
        for (step, &x) in path.iter().enumerate() {
            let before = if step == 0 { 0.0 } else { path[step - 1] };
            let moved = x - before;
            log_density += log_normal(moved, scales[0]);
            slope[0] += moved * moved * precisions[0] - 1.0;
            slope[2 + step] -= moved * precisions[0];
            if step > 0 {
                slope[1 + step] += moved * precisions[0];
            }
            if let Some(y) = observed(step) {
                let off = y - x;
                log_density += log_normal(off, scales[1]);
                slope[1] += off * off * precisions[1] - 1.0;
                slope[2 + step] += off * precisions[1];
            }
        }
        log_density
    })
}

/// Returns log Z by quadrature over both log scales, with the path integrated out by the Kalman filter.
pub fn log_z(points: usize) -> f64 {
    // The data leave room for the least noise: its scale is bounded by its prior alone.
    log_integral(-16.0, 6.0, points, |inner| {
        let given = log_integral(-16.0, 6.0, points, |outer| {
            log_normal(outer, DEVIATION.ln()) + log_evidence(inner, outer)
        });
        log_normal(inner, DEVIATION.ln()) + given
    })
}

/// Returns the log density of the observations, given the log scales.
fn log_evidence(inner: f64, outer: f64) -> f64 {
    let (innovation, noise) = ((2.0 * inner).exp(), (2.0 * outer).exp());
    let (mut mean, mut variance, mut log_density) = (0.0, 0.0, 0.0);
    for step in 0..STEPS {
        variance += innovation;
        if let Some(y) = observed(step) {
            let (off, total) = (y - mean, variance + noise);
            log_density += log_normal(off, 0.5 * f64::ln(total));
            mean += variance / total * off;
            variance *= noise / total;
        }
    }
    log_density
}
