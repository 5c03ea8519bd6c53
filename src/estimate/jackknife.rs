//! The importance-weighted bound with a jackknife correction.

use super::bound::groups_of;
use crate::num::{Moments, largest, log_add_exp};
use crate::{Error, Result};

/// Returns the k-sample bound without its bias in `1/k, ..., 1/k^m`, by the jackknife of order m (Nowozin 2018, eq.
/// 13), averaged over the disjoint groups of k chains in order:
///
/// `sum_{j <= m} (-1)^j (k - j)^m / ((m - j)! j!) L_{k-j}`
///
/// where `L_{k-j}` is the log of the mean weight, averaged over all ways to leave out j weights of the group. Order 1
/// is `k L_k - (k - 1) L_{k-1}`. Order 0 is the [bound](super::importance_weighted_bound) itself.
///
/// It is **no bound**: its expectation may exceed the log of the mean weight. Its bias is of order `k^-(m+1)` if the
/// weights have enough moments, and its variance grows with m. The weights must be independent.
///
/// # Errors
/// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), and unless `1 <= k <= N` and `m < k`; a group
/// with m or fewer weights above 0; more than 2^30 ways to leave weights out.
///
/// ```
/// use annealed::estimate::jackknife;
///
/// let log_weights = [1.0_f64, 2.0].map(f64::ln);
/// let corrected = jackknife(&log_weights, 2, 1)?;
/// assert!((corrected - (2.0 * 1.5_f64.ln() - 0.5 * 2.0_f64.ln())).abs() < 1e-14);
/// # Ok::<(), annealed::Error>(())
/// ```
pub fn jackknife(log_weights: &[f64], k: usize, order: usize) -> Result<f64> {
    let groups = groups_of(k, log_weights)?;
    let expected = format!("fewer than the {k} chains of a group");
    Error::check(order < k, "order", order, expected)?;
    let ways: f64 = (0..=order).map(|j| binomial(k, j)).sum();
    Error::check_count("ways to leave out chains", ways as usize, 1)?;
    let count = groups.len() as f64;
    let mut sum = 0.0;
    for group in groups {
        let alive = group.iter().filter(|&&x| x > f64::NEG_INFINITY).count();
        let expected = format!("more than {order} in each group");
        Error::check(alive > order, "weights above 0", alive, expected)?;
        sum += of_group(group, order) / count;
    }
    Ok(sum)
}

/// Returns the standard error of the [`jackknife`] of order 1 of all weights, `n L_n - (n - 1) L_{n-1}`, by the jackknife over
/// the weights: `sqrt((n - 1) / n sum_i (c_i - c)^2)`, where `c_i` is the value without weight i and c the mean of all
/// `c_i`. It is infinite with fewer than three weights above 0.
///
/// It contains the error that the correction adds. For 16 log-normal weights whose logs have a standard deviation of 1 to 1.6,
/// the error of `L_n` alone would be too small by 5 to 15%.
pub(crate) fn jackknife_error(log_weights: &[f64]) -> f64 {
    let (n, largest) = (log_weights.len() as f64, largest(log_weights));
    let weights: Vec<f64> = log_weights.iter().map(|x| (x - largest).exp()).collect();
    // Sums without two weights. A difference would cancel if one of them dominates.
    let sum = |i: usize, j: usize| {
        let rest = weights
            .iter()
            .enumerate()
            .filter(|(k, _)| *k != i && *k != j);
        rest.map(|(_, weight)| weight).sum::<f64>()
    };
    let without = |i: usize| {
        let all = sum(i, i);
        let others = weights.iter().enumerate().filter(|(j, _)| *j != i);
        let pairs = others.map(|(j, &w)| if w > 0.5 * all { sum(i, j) } else { all - w });
        (n - 1.0) * all.ln() - (n - 2.0) / (n - 1.0) * pairs.map(f64::ln).sum::<f64>()
    };
    let without = Moments::from_iter((0..weights.len()).map(without));
    let error = (n - 1.0) * (without.variance() / n).sqrt();
    if n > 2.0 && error.is_finite() {
        error
    } else {
        f64::INFINITY
    }
}

fn of_group(group: &[f64], order: usize) -> f64 {
    let largest = largest(group);
    let relative: Vec<f64> = group.iter().map(|x| x - largest).collect();
    // The log of the sum of the weights from each index on. Sums are built up, because subtracting a dominant weight
    // from a total would cancel.
    let mut tails = vec![f64::NEG_INFINITY; group.len() + 1];
    for (i, &x) in relative.iter().enumerate().rev() {
        tails[i] = log_add_exp(x, tails[i + 1]);
    }
    let bound = |left_out: usize| {
        let sums = log_sums(f64::NEG_INFINITY, &relative, &tails, left_out);
        sums / binomial(group.len(), left_out) - ((group.len() - left_out) as f64).ln()
    };
    // The coefficients add up to 1 and the bounds are close: sum the differences.
    let whole = bound(0);
    let correction = (1..=order).map(|j| coefficient(group.len(), order, j) * (bound(j) - whole));
    largest + whole + correction.sum::<f64>()
}

/// Returns the sum, over all ways to leave out `left_out` of `rest`, of the log of the sum of the other weights. `kept`
/// is the log sum of the weights before `rest`, and `tails[i]` the log sum from `rest[i]` on.
fn log_sums(mut kept: f64, rest: &[f64], tails: &[f64], left_out: usize) -> f64 {
    if left_out == 0 {
        return log_add_exp(kept, tails[0]);
    }
    let mut sum = 0.0;
    for i in 0..=rest.len() - left_out {
        sum += log_sums(kept, &rest[i + 1..], &tails[i + 1..], left_out - 1);
        kept = log_add_exp(kept, rest[i]);
    }
    sum
}

/// Returns `(-1)^j (k - j)^m / ((m - j)! j!)`, where m is `order`.
fn coefficient(k: usize, order: usize, j: usize) -> f64 {
    let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
    let sign = if j.is_multiple_of(2) { 1.0 } else { -1.0 };
    let power = ((k - j) as f64).powi(order as i32);
    sign * power / (factorial(order - j) * factorial(j))
}

fn binomial(n: usize, j: usize) -> f64 {
    (0..j).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{importance_weighted_bound, log_mean_exp};

    /// Weights 1 and 5, the latter with probability .3.
    const LARGE: f64 = 5.0;
    const PROBABILITY: f64 = 0.3;

    /// Returns the mean of a symmetric function of n weights, each 1 or 5, by enumeration.
    fn mean(n: usize, value: impl Fn(&[f64]) -> f64) -> f64 {
        let of_count = |large: usize| {
            let mut log_weights = vec![LARGE.ln(); large];
            log_weights.resize(n, 0.0);
            let rest = (1.0 - PROBABILITY).powi((n - large) as i32);
            binomial(n, large) * PROBABILITY.powi(large as i32) * rest * value(&log_weights)
        };
        (0..=n).map(of_count).sum()
    }

    #[test]
    fn its_mean_is_that_of_the_bounds_that_it_combines() {
        let bound = |n| mean(n, log_mean_exp);
        for n in [2, 3, 7] {
            let expected = n as f64 * bound(n) - (n as f64 - 1.0) * bound(n - 1);
            let found = mean(n, |w| jackknife(w, n, 1).unwrap());
            assert!((found - expected).abs() < 1e-13, "{n}: {found}, {expected}");
        }
        let (n, m) = (6.0_f64, 4.0_f64);
        let expected = 0.5 * n * n * bound(6) - 25.0 * bound(5) + 0.5 * m * m * bound(4);
        let found = mean(6, |w| jackknife(w, 6, 2).unwrap());
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
    }

    #[test]
    fn each_order_removes_a_power_of_the_bias() {
        let exact = (PROBABILITY * LARGE + 1.0 - PROBABILITY).ln();
        let bias = |n, order| mean(n, |w| jackknife(w, n, order).unwrap()) - exact;
        for (order, least, most) in [(0, 1.9, 2.1), (1, 3.8, 4.1)] {
            let ratio = bias(16, order) / bias(32, order);
            assert!((least..most).contains(&ratio), "order {order}: {ratio}");
        }
        // By enumeration with 40 digits.
        for (order, expected) in [
            (0, -2.243_147_205_975_7e-2),
            (1, 7.458_268_007_375e-4),
            (2, 7.167_356_637_6e-5),
        ] {
            let found = bias(16, order);
            assert!((found - expected).abs() < 1e-13, "order {order}: {found}");
        }
        // The bound is one, the corrected one is not.
        assert!(bias(8, 0) < 0.0 && bias(8, 1).abs() < 0.3 * bias(8, 0).abs());
    }

    #[test]
    fn order_zero_is_the_bound() {
        let log_weights: Vec<f64> = (0..23).map(|i| (f64::from(i) * 1.7).sin() * 4.0).collect();
        for k in [1, 4, 23] {
            let bound = importance_weighted_bound(&log_weights, k).unwrap();
            let zeroth = jackknife(&log_weights, k, 0).unwrap();
            assert!((bound - zeroth).abs() < 1e-13, "{k}: {bound}, {zeroth}");
        }
    }

    #[test]
    fn a_weight_above_all_others_leaves_them_their_digits() {
        // Without the largest, log (e^-800 + e^-801)/2; without another, the largest alone.
        let without = -800.0 + (-1f64).exp().ln_1p() - 2f64.ln();
        let pairs = (without + 2.0 * 0.5f64.ln()) / 3.0;
        let expected = 3.0 * (1.0 / 3.0f64).ln() - 2.0 * pairs;
        for shift in [0.0, 1e4, -1e4] {
            let log_weights = [0.0, -800.0, -801.0].map(|x| x + shift);
            let found = jackknife(&log_weights, 3, 1).unwrap() - shift;
            assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
        }
    }

    #[test]
    fn its_error_is_that_of_leaving_out_each_weight() {
        let log_weights = [0.3, -1.2, 0.8, 1.9, 1.1_f64];
        let without = |i: usize| {
            let mut rest = log_weights.to_vec();
            rest.remove(i);
            jackknife(&rest, 4, 1).unwrap()
        };
        let values: Vec<f64> = (0..5).map(without).collect();
        let mean = values.iter().sum::<f64>() / 5.0;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let expected = (0.8 * squares).sqrt();
        assert!((jackknife_error(&log_weights) - expected).abs() < 1e-13);
        let dead = f64::NEG_INFINITY;
        for few in [
            &[0.0][..],
            &[0.0, 0.0],
            &[dead, 0.0, 1.0],
            &[0.0, dead, -50.0],
        ] {
            assert_eq!(jackknife_error(few), f64::INFINITY, "{few:?}");
        }
        assert!(jackknife_error(&[dead, 0.0, 1.0, 2.0]).is_finite());
        assert!(jackknife_error(&[0.0, -50.0, -51.0]).is_finite());
    }

    /// The jackknife of the log of the mean is off by 6%.
    #[test]
    fn its_error_has_the_variance_of_the_corrected_value() {
        let n = 16;
        let corrected = |w: &[f64]| jackknife(w, n, 1).unwrap();
        let centre = mean(n, corrected);
        let variance = mean(n, |w| (corrected(w) - centre).powi(2));
        let found = mean(n, |w| jackknife_error(w).powi(2));
        assert!((found / variance - 1.0).abs() < 0.04, "{found}, {variance}");
    }

    #[test]
    fn what_has_no_jackknife_is_refused() {
        let dead = f64::NEG_INFINITY;
        for (log_weights, k, order) in [
            (vec![], 1, 0),
            (vec![0.0, f64::NAN], 1, 0),
            (vec![0.0; 4], 0, 0),
            (vec![0.0; 4], 5, 1),
            (vec![0.0; 4], 2, 2),
            (vec![0.0, dead, 0.0, 0.0], 2, 1),
            (vec![0.0; 2_000], 2_000, 1_000),
        ] {
            let refused = jackknife(&log_weights, k, order);
            assert!(refused.is_err(), "{k}, {order}: {refused:?}");
        }
        assert!(jackknife(&[0.0, dead, 0.0, 0.0], 4, 1).unwrap().is_finite());
    }
}
