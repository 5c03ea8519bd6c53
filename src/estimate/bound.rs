//! Lower bounds on log Z: the importance-weighted one, and one that holds with a stated confidence.

use super::check;
use crate::num::{WeightedMean, log_add_exp, log_mean_exp};
use crate::{Error, Result};

/// Number of stakes: 1, 1/2, .. 1/512, each with a share of the wealth that falls like 1, 1/2, 1/3, .. .
const STAKES: i32 = 10;
/// The distance in nats to which the bound approaches its root, from below.
const TOLERANCE: f64 = 1e-9;

/// The k-sample bound `E[log (1/k) sum_{i <= k} w_i]` of Burda et al. (2016, eq. 8), averaged over the `floor(N/k)`
/// disjoint groups of k chains in their order. In expectation it grows with k, from the mean of `log w` to the log of
/// the mean weight at `k = N`. A group whose chains are all dead makes it `-inf`.
///
/// # Errors
/// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), and unless
/// `1 <= k <= N`.
///
/// ```
/// use annealed::estimate::importance_weighted_bound;
///
/// let log_weights = [1.0_f64, 2.0, 3.0, 4.0].map(f64::ln);
/// let bound = importance_weighted_bound(&log_weights, 2)?;
/// assert!((bound - 0.5 * (1.5_f64.ln() + 3.5_f64.ln())).abs() < 1e-15);
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn importance_weighted_bound(log_weights: &[f64], k: usize) -> Result<f64> {
    check(log_weights)?;
    let chains = log_weights.len();
    let expected = format!("1 to the {chains} chains");
    Error::check((1..=chains).contains(&k), "k", k, expected)?;
    let all = log_weights.iter().copied();
    let largest = all.fold(f64::NEG_INFINITY, f64::max);
    let groups = log_weights.chunks_exact(k);
    let count = groups.len() as f64;
    let below: f64 = groups.map(|group| log_mean_exp(group) - largest).sum();
    Ok(largest + below / count)
}

/// A lower bound on `log E[w]` that holds with probability `confidence`, whatever the tails of the weights. They are
/// independent, in an order fixed beforehand, and have one mean; a single weight may be 0.
///
/// A stake l on `w / z` turns 1 into `1 - l + l w / z`, a fair bet where `z = E[w]`. So with shares p_k of the wealth on
/// ten stakes l_k the wealth `M_n(z) = sum_k p_k prod_{i <= n} (1 - l_k + l_k w_i / z)` exceeds `1 / (1 - confidence)`
/// at *any* n with probability at most `1 - confidence` (Ville 1939). The bound is the z at which it does.
///
/// It therefore holds whatever ended a run. Where the largest of m bounds is taken, each has the confidence
/// `1 - (1 - confidence) / m`. Source: Waudby-Smith and Ramdas (2024); see `docs/intervals.md`.
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
