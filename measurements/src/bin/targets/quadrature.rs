//! The trapezoid rule in log space, which is exact to rounding for smooth densities that vanish at the grid's ends.

use annealed::estimate::log_sum_exp;

/// Returns `intervals + 1` points from `low` to `high`.
pub fn grid(low: f64, high: f64, intervals: usize) -> Vec<f64> {
    let width = (high - low) / intervals as f64;
    (0..=intervals).map(|i| low + width * i as f64).collect()
}

/// Returns the log of the integral of `exp(log_f)` by the values at the points of a grid.
pub fn log_trapezoid(points: &[f64], log_f: impl Fn(f64) -> f64) -> f64 {
    let terms: Vec<f64> = points.iter().map(|&x| log_f(x)).collect();
    log_sum_exp(&terms) + (points[1] - points[0]).ln()
}
