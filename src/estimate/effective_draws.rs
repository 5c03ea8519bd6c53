//! Effective number of autocorrelated draws.

/// Returns the number of independent draws whose mean is as precise as the mean of these autocorrelated chains,
///
/// `m n / tau`, `tau = 1 + 2 sum_t rho_t`, `rho_t = 1 - (W - mean_j c_j(t)) / V`,
///
/// with the autocovariances `c_j(t)` of each chain of n draws, the mean W of the chains' variances, and the variance V,
/// which also includes the distances between the m chains. Chains that disagree therefore have few effective draws
/// (Vehtari et al. 2021, Equations 10 and 11). Correlations are summed in pairs until a pair is not positive; no pair
/// counts more than an earlier one (Geyer 1992). The result is at most the number of draws. Longer chains are cut to
/// the shortest.
pub(crate) fn effective_draws(chains: &[Vec<f64>]) -> f64 {
    let length = chains.iter().map(Vec::len).min().unwrap_or(0);
    let (count, n) = (chains.len() as f64, length as f64);
    let means = chains
        .iter()
        .map(|chain| chain[..length].iter().sum::<f64>() / n);
    let means: Vec<f64> = means.collect();
    let within = autocovariance(chains, &means, 0) * n / (n - 1.0);
    let grand = means.iter().sum::<f64>() / count;
    let between = match chains.len() {
        1 => 0.0,
        _ => means.iter().map(|mean| (mean - grand).powi(2)).sum::<f64>() / (count - 1.0),
    };
    let variance = within * (n - 1.0) / n + between;
    // Equal draws, or chains of one draw, show no correlation.
    if variance.is_nan() || variance <= 0.0 {
        return count * n;
    }
    let correlation = |lag| {
        let covariance = autocovariance(chains, &means, lag) * n / (n - 1.0);
        1.0 - (within - covariance) / variance
    };
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for lag in (0..length.saturating_sub(1)).step_by(2) {
        let first = if lag == 0 { 1.0 } else { correlation(lag) };
        let pair = first + correlation(lag + 1);
        if pair.is_nan() || pair <= 0.0 {
            break;
        }
        least = pair.min(least);
        sum += least;
    }
    count * n / (2.0 * sum - 1.0).max(1.0)
}

/// Returns the mean over the chains of `1/n sum_i (x_i - mean) (x_(i + lag) - mean)`.
pub(super) fn autocovariance(chains: &[Vec<f64>], means: &[f64], lag: usize) -> f64 {
    let length = chains.iter().map(Vec::len).min().unwrap_or(0);
    let of_chain = |(chain, mean): (&Vec<f64>, &f64)| {
        let pairs = chain[..length].iter().zip(&chain[lag..length]);
        pairs.map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>() / length as f64
    };
    chains.iter().zip(means).map(of_chain).sum::<f64>() / chains.len() as f64
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::random::{Purpose, StandardNormal, stream};

    fn autoregression(correlation: f64, length: usize, rng: &mut impl Rng) -> Vec<f64> {
        let normal = StandardNormal::get();
        let noise = (1.0 - correlation * correlation).sqrt();
        let mut x = normal.draw(rng);
        let step = |_| {
            x = correlation * x + noise * normal.draw(rng);
            x
        };
        (0..length).map(step).collect()
    }

    /// An autoregression has `tau = (1 + rho) / (1 - rho)`.
    #[test]
    fn an_autoregression_is_worth_its_share() {
        for correlation in [0.0, 0.5, 0.9] {
            let mut rng = stream(1, Purpose::TESTING, 0);
            let chains = [(); 4].map(|()| autoregression(correlation, 5_000, &mut rng));
            let exact = 20_000.0 * (1.0 - correlation) / (1.0 + correlation);
            let found = effective_draws(&chains);
            assert!((found / exact - 1.0).abs() < 0.1, "{found}, {exact}");
        }
    }

    #[test]
    fn chains_that_disagree_are_worth_little() {
        let mut rng = stream(2, Purpose::TESTING, 0);
        let mut chains = [(); 4].map(|()| autoregression(0.0, 1_000, &mut rng));
        chains[0].iter_mut().for_each(|x| *x += 5.0);
        let found = effective_draws(&chains);
        assert!(found < 10.0, "{found}");
    }

    #[test]
    fn constant_draws_are_all_worth_something() {
        assert_eq!(effective_draws(&[vec![1.0; 10], vec![1.0; 12]]), 20.0);
    }
}
