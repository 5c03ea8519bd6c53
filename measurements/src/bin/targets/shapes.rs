//! Densities whose log Z has a closed form or is an integral over one coordinate.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::prelude::*;
use annealed_measurements::problems::exact::{log_integral, log_sphere};

/// Creates the funnel in 10 dimensions: `x_1 ~ N(0, 3^2)`, `x_i ~ N(0, exp(x_1))`, normalised.
pub fn funnel() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    GradientModel::new(10, |x: &[f64], slope: &mut [f64]| {
        let precision = (-x[0]).exp();
        let square: f64 = x[1..].iter().map(|x| x * x).sum();
        slope[0] = -x[0] / 9.0 + 0.5 * (square * precision - 9.0);
        for (slope, x) in slope.iter_mut().zip(x).skip(1) {
            *slope = -x * precision;
        }
        -0.5 * (x[0] * x[0] / 9.0 + square * precision + 9.0 * x[0] + 10.0 * TAU.ln()) - 3f64.ln()
    })
}

/// Number of double wells of [`wells`].
const WELLS: usize = 5;
/// Squared distance of each well from 0.
const SEPARATION: f64 = 2.0;

/// Creates five double wells `exp(-(x^2 - 2)^2)` and 45 coordinates `exp(-x^2 / 2)`: 32 modes.
pub fn wells() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    GradientModel::new(50, |x: &[f64], slope: &mut [f64]| {
        let mut log_density = 0.0;
        for (i, (x, slope)) in x.iter().zip(slope).enumerate() {
            let off = x * x - SEPARATION;
            let (log, pull) = match i < WELLS {
                true => (-off * off, -4.0 * off * x),
                false => (-0.5 * x * x, -x),
            };
            log_density += log;
            *slope = pull;
        }
        log_density
    })
}

/// Returns log Z of [`wells`].
pub fn wells_log_z() -> f64 {
    let well = log_integral(-5.0, 5.0, 2_000, |x| -(x * x - SEPARATION).powi(2));
    WELLS as f64 * well + 22.5 * TAU.ln()
}

const RADIUS: f64 = 2.0;
const WIDTH: f64 = 0.1;
const SHELLS: usize = 30;

/// Returns the log density of a shell's profile at a distance from its centre.
fn profile(distance: f64) -> f64 {
    -0.5 * (((distance - RADIUS) / WIDTH).powi(2) + TAU.ln()) - WIDTH.ln()
}

/// Creates two thin shells of radius 2 and width .1 around `(-3.5, 0, .., 0)` and `(3.5, 0, .., 0)`, times the
/// uniform prior on `[-6, 6]^30`, whose edge is ten widths away.
pub fn shells() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    GradientModel::new(SHELLS, |x: &[f64], slope: &mut [f64]| {
        let rest: f64 = x[1..].iter().map(|x| x * x).sum();
        let distances = [-3.5, 3.5].map(|centre| ((x[0] - centre).powi(2) + rest).sqrt());
        let logs = distances.map(profile);
        let top = logs[0].max(logs[1]);
        let log = top + (-(logs[0] - logs[1]).abs()).exp().ln_1p();
        for ((distance, log_shell), centre) in distances.into_iter().zip(logs).zip([-3.5, 3.5]) {
            let share = (log_shell - log).exp();
            let pull = -share * (distance - RADIUS) / (WIDTH * WIDTH * distance);
            slope[0] += pull * (x[0] - centre);
            for (slope, x) in slope.iter_mut().zip(x).skip(1) {
                *slope += pull * x;
            }
        }
        log - SHELLS as f64 * 12f64.ln()
    })
}

/// Returns log Z of [`shells`] by a radial integral.
pub fn shells_log_z() -> f64 {
    let power = (SHELLS - 1) as f64;
    let radial = log_integral(0.5, 3.5, 2_000, |r| power * r.ln() + profile(r));
    2f64.ln() + log_sphere(SHELLS) + radial - SHELLS as f64 * 12f64.ln()
}
