//! The Pareto shape of the largest weights, which measures how heavy their tail is.

/// Least number of chains for a fit of the tail: five weights in the largest fifth.
pub(crate) const MIN_CHAINS: usize = 25;

/// Returns the Pareto shape `k` of the largest `min(N/5, 3 sqrt N)` of N weights (Vehtari et al. 2024, sec. 3.2), or
/// `None` below [`MIN_CHAINS`] chains or if fewer than five of the largest weights exceed the next largest weight.
/// Moments of order below `1/k` are finite.
pub(crate) fn pareto_shape(log_weights: &[f64]) -> Option<f64> {
    if log_weights.len() < MIN_CHAINS {
        return None;
    }
    let n = log_weights.len() as f64;
    shape_of_largest(log_weights, (n / 5.0).min(3.0 * n.sqrt()) as usize)
}

/// Returns the Pareto shape of the `tail` largest weights, or `None` if fewer than five exceed the next largest weight.
pub(super) fn shape_of_largest(log_weights: &[f64], tail: usize) -> Option<f64> {
    let mut sorted = log_weights.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let relative = |x: f64| (x - sorted[0]).exp();
    let threshold = relative(sorted[tail]);
    let excesses = sorted[..tail]
        .iter()
        .rev()
        .map(|&x| relative(x) - threshold);
    let excesses: Vec<f64> = excesses.filter(|&x| x > 0.0).collect();
    (excesses.len() >= 5).then(|| shape_of_excesses(&excesses))
}

/// Returns the posterior-mean fit of the generalised Pareto distribution to ascending excesses (Zhang and Stephens
/// 2009). Ten pseudo-observations draw the shape towards 1/2 (Vehtari et al. 2024, appendix C).
fn shape_of_excesses(excesses: &[f64]) -> f64 {
    let n = excesses.len() as f64;
    let largest = excesses[excesses.len() - 1];
    // Without this floor, excesses over 300 orders of magnitude would overflow.
    let quartile = excesses[(n / 4.0 + 0.5) as usize - 1].max(1e-100 * largest);
    let points = 30 + n.sqrt() as usize;
    let shape = |theta: f64| excesses.iter().map(|x| (-theta * x).ln_1p()).sum::<f64>() / n;
    let (thetas, log_likelihoods): (Vec<f64>, Vec<f64>) = (1..=points)
        .map(|j| {
            let spread = 1.0 - (points as f64 / (j as f64 - 0.5)).sqrt();
            let theta = 1.0 / largest + spread / (3.0 * quartile);
            let k = shape(theta);
            (theta, n * ((-theta / k).ln() - k - 1.0))
        })
        // Equal excesses can put a point at 0, where the likelihood is 0 / 0.
        .filter(|(_, log_likelihood)| log_likelihood.is_finite())
        .unzip();
    let evidence = super::log_sum_exp(&log_likelihoods);
    let terms = thetas.iter().zip(&log_likelihoods);
    let theta: f64 = terms.map(|(theta, l)| theta * (l - evidence).exp()).sum();
    (n * shape(theta) + 5.0) / (n + 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(k: f64, n: usize) -> Vec<f64> {
        let quantile = |i| -k * ((i as f64 + 0.5) / n as f64).ln();
        (0..n).map(quantile).collect()
    }

    #[test]
    fn recovers_the_shape() {
        for k in [0.2, 0.5, 0.9] {
            let fitted = pareto_shape(&quantiles(k, 10_000)).unwrap();
            assert!((fitted - k).abs() < 0.05, "{fitted} for {k}");
        }
    }

    #[test]
    fn a_common_factor_changes_nothing() {
        let weights = quantiles(0.7, 100);
        let shifted: Vec<f64> = weights.iter().map(|x| x + 1e4).collect();
        let [a, b] = [&weights, &shifted].map(|weights| pareto_shape(weights).unwrap());
        assert!((a - b).abs() < 1e-9);
    }

    #[test]
    fn weights_of_two_values_and_of_all_magnitudes_have_a_finite_shape() {
        let mut two = vec![0.0; 1_600];
        two[..110].fill(1.0);
        let magnitudes: Vec<f64> = (0..100).map(|i| -7.3 * f64::from(i)).collect();
        let five_times = magnitudes.iter().map(|x| 5.0 * x).collect();
        for log_weights in [two, magnitudes, five_times] {
            let k = pareto_shape(&log_weights).unwrap();
            assert!(k.is_finite(), "{k}");
        }
    }

    #[test]
    fn too_little_to_judge() {
        assert_eq!(pareto_shape(&quantiles(0.5, 24)), None);
        assert_eq!(pareto_shape(&[3.0; 100]), None);
    }
}
