//! The importance-weighted lower bound on log Z.

use super::check;
use crate::num::log_mean_exp;
use crate::{Error, Result};

/// The k-sample bound `E[log (1/k) sum_{i <= k} w_i]` of Burda et al. (2016, eq. 8), averaged
/// over the `floor(N/k)` disjoint groups of k chains in their order.
///
/// In expectation it grows with k and stays below the log of the mean weight. `k = 1` gives the
/// mean of `log w`, `k = N` the log of the mean weight. A group whose chains are all dead makes it
/// `-inf`.
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
    let largest = log_weights
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let groups = log_weights.chunks_exact(k);
    let count = groups.len() as f64;
    let below: f64 = groups.map(|group| log_mean_exp(group) - largest).sum();
    Ok(largest + below / count)
}
