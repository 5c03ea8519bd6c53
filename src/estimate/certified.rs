//! The lower bound on log Z that holds with a stated confidence.

use super::check;
use crate::num::{WeightedMean, log_add_exp, log_mean_exp};
use crate::{Error, Result};

/// Number of stakes: 1, 1/2, .. 1/512, each with a share of the wealth that falls like 1, 1/2, 1/3, .. .
const STAKES: i32 = 10;
/// How close the bound comes to the root that it approaches from below, in nats.
const TOLERANCE: f64 = 1e-9;

/// A lower bound on `log E[w]` that holds with probability `confidence`, whatever the tails of the weights. They are
/// independent, in an order fixed beforehand, and have one mean; a single weight may be 0.
///
/// A stake l on `w / z` turns 1 into `1 - l + l w / z`, a fair bet where `z = E[w]`. So with shares p_k of the wealth on
/// ten stakes l_k the wealth `M_n(z) = sum_k p_k prod_{i <= n} (1 - l_k + l_k w_i / z)` exceeds `1 / (1 - confidence)`
/// at *any* n with probability at most `1 - confidence` (Ville 1939). The bound is the z at which it does.
///
/// Because it holds at all n at once, it holds whatever ended a run. Where the largest of m bounds is taken, each has the
/// confidence `1 - (1 - confidence) / m`. The method is that of Waudby-Smith and Ramdas (2024); see
/// `docs/intervals.md`.
///
/// # Errors
/// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights); a confidence outside (0, 1).
///
/// ```
/// use annealed::estimate::certified_lower_bound;
///
/// // Where all weights are equal, nearly the stake of 1 alone: ln(1/.05) and the log of its share, over 100 weights.
/// let bound = certified_lower_bound(&[2.0; 100], 0.95)?;
/// assert!((bound - 1.9604).abs() < 1e-4);
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn certified_lower_bound(log_weights: &[f64], confidence: f64) -> Result<f64> {
    check(log_weights)?;
    Error::check_inner_fraction("confidence", confidence)?;
    let enough = -(-confidence).ln_1p();
    let (mut bound, mut step) = (log_mean_exp(log_weights), 1.0);
    while wealth(log_weights, bound).log_weight() < enough {
        bound -= step;
        step *= 2.0;
    }
    // The log wealth is convex in log z and falls, so that Newton's method stays below the root.
    loop {
        let wealth = wealth(log_weights, bound);
        let next = bound + (enough - wealth.log_weight()) / wealth.get();
        if next.is_nan() || next < bound + TOLERANCE {
            return Ok(bound);
        }
        bound = next;
    }
}

/// `log M_N(z)`, as the log of a sum over the stakes, with the mean of their slopes by `log z`.
fn wealth(log_weights: &[f64], log_z: f64) -> WeightedMean {
    let mut wealth = WeightedMean::default();
    let shares = (1..=STAKES).map(|k| 1.0 / f64::from(k));
    let all: f64 = shares.clone().sum();
    for (k, share) in (0..).zip(shares) {
        let stake = 0.5_f64.powi(k);
        let (mut log, mut slope) = ((share / all).ln(), 0.0);
        for log_weight in log_weights {
            let won = stake.ln() + log_weight - log_z;
            let factor = log_add_exp((-stake).ln_1p(), won);
            log += factor;
            slope -= (won - factor).exp();
        }
        wealth.add(log, slope);
    }
    wealth
}
