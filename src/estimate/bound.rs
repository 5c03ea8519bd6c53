//! Lower bounds on log Z: importance-weighted bounds, and certified bounds with a stated confidence.

use std::slice::ChunksExact;

use super::check;
use crate::num::{WeightedMean, largest, log_add_exp, log_mean_exp};
use crate::{Error, Result};

/// Number of bettors in the certified bound. Each stakes a fixed fraction of its wealth on every weight: 1, 1/2, ..
/// 1/512. Their shares of the initial wealth are proportional to 1, 1/2, 1/3, .. .
const STAKES: i32 = 10;
/// Length in nats of a Newton step below which the search for the certified bound ends.
const TOLERANCE: f64 = 1e-9;

/// Returns the k-sample bound `E[log (1/k) sum_{i <= k} w_i]` of Burda et al. (2016, eq. 8), averaged over the
/// `floor(N/k)` disjoint groups of k chains in order. Its expectation grows with k and reaches the log of the mean
/// weight at `k = N`. It is `-inf` if all chains of a group are dead.
///
/// # Errors
/// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), and unless `1 <= k <= N`.
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
    let (groups, largest) = (groups_of(k, log_weights)?, largest(log_weights));
    let count = groups.len() as f64;
    let below: f64 = groups.map(|group| log_mean_exp(group) - largest).sum();
    Ok(largest + below / count)
}

/// Returns the disjoint groups of k weights.
pub(super) fn groups_of(k: usize, log_weights: &[f64]) -> Result<ChunksExact<'_, f64>> {
    check(log_weights)?;
    let chains = log_weights.len();
    let expected = format!("1 to the {chains} chains");
    Error::check((1..=chains).contains(&k), "k", k, expected)?;
    Ok(log_weights.chunks_exact(k))
}

/// Returns a lower bound on `log E[w]` that holds with probability `confidence`, whatever the tails of the weights. The
/// weights must be independent, have the same mean, and be in an order fixed beforehand. A weight may be 0.
///
/// The bound comes from a bet: ten bettors own shares p_k of a wealth of 1, and stake the fraction l_k of their wealth
/// on each weight. After n weights the wealth is `M_n(z) = sum_k p_k prod_{i <= n} (1 - l_k + l_k w_i / z)`. If `z =
/// E[w]`, it exceeds `1 / (1 - confidence)` at *any* n with probability at most `1 - confidence` (Ville 1939;
/// Waudby-Smith and Ramdas 2024). The bound is the log of the z at which the wealth reaches this value. It holds
/// whatever ended the run. To take the largest of m bounds, give each the confidence `1 - (1 - confidence) / m`. See
/// `docs/intervals.md`.
///
/// # Errors
/// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights); a confidence outside (0, 1).
///
/// ```
/// use annealed::estimate::certified_lower_bound;
///
/// // If all weights are equal, the stake of 1 dominates: ln(1/.05) and the log of its share, over 100 weights.
/// let bound = certified_lower_bound(&[2.0; 100], 0.95)?;
/// assert!((bound - 1.9604).abs() < 1e-4);
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn certified_lower_bound(log_weights: &[f64], confidence: f64) -> Result<f64> {
    check(log_weights)?;
    Error::check_inner_fraction("confidence", confidence)?;
    let enough = -(-confidence).ln_1p();
    // At the mean weight the factors of each bettor have the mean 1, so their product is at most 1. The bound is lower.
    let (mut bound, mut step) = (log_mean_exp(log_weights), 1.0);
    while wealth(log_weights, bound).log_weight() < enough {
        bound -= step;
        step *= 2.0;
    }
    // The log wealth is convex and decreasing in log z, so that Newton's method stays below the root.
    loop {
        let wealth = wealth(log_weights, bound);
        let next = bound + (enough - wealth.log_weight()) / wealth.get();
        // The last digits of a large bound are coarser than the tolerance.
        let least = TOLERANCE + 4.0 * f64::EPSILON * bound.abs();
        if next.is_nan() || next < bound + least {
            return Ok(bound);
        }
        bound = next;
    }
}

/// Returns the log wealth `log M_N(z)` and its derivative in `log z`, as a weighted mean over the stakes:
/// `log_weight()` is the log wealth, and `get()` is the derivative.
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
        // A weight of 0 ruins the bettor who stakes 1: `log` is -inf and `slope` NaN, and `add` ignores the pair.
        wealth.add(log, slope);
    }
    wealth
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Log Z may be huge, because a likelihood may leave out a constant of any size.
    #[test]
    fn the_bound_of_a_large_log_z_is_found() {
        let logs = Vec::from_iter((0..500_u32).map(|i| f64::from(i % 7) - 3.0));
        let bound = certified_lower_bound(&logs, 0.95).unwrap();
        for shift in [1e6, 1e8, -1e10, 1e13] {
            let shifted = Vec::from_iter(logs.iter().map(|log| log + shift));
            let found = certified_lower_bound(&shifted, 0.95).unwrap();
            let error = (found - shift - bound).abs();
            assert!(error < 1e-8 + 1e-14 * shift.abs(), "{shift}: {error}");
        }
    }
}
