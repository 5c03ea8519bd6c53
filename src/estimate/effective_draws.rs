//! Effective number of autocorrelated draws.

/// Returns the number of independent draws whose mean is as precise as the mean of these autocorrelated chains,
///
/// `N / tau`, `tau = 1 + 2 sum_t rho_t`, `rho_t = 1 - (W - mean_j c_j(t)) / V`,
///
/// with the autocovariances `c_j(t)` of each chain, the mean W of the chains' variances, and the variance V, which also
/// includes the distances between the m chains. Chains count by their shares of the N draws. Chains that disagree
/// therefore have few effective draws (Vehtari et al. 2021, Equations 10 and 11, for chains of equal lengths).
/// Correlations are summed in pairs until a pair is not positive; no pair counts more than an earlier one (Geyer 1992).
/// The result is at most the number of draws.
pub(crate) fn effective_draws(chains: &[Vec<f64>]) -> f64 {
    let longest = chains.iter().map(Vec::len).max().unwrap_or(0);
    let (count, total) = (chains.len() as f64, draws(chains));
    let n = total / count;
    let means = chains
        .iter()
        .map(|chain| chain.iter().sum::<f64>() / chain.len() as f64);
    let means: Vec<f64> = means.collect();
    let within = autocovariance(chains, &means, 0) * n / (n - 1.0);
    let mean = |of: &dyn Fn(f64) -> f64| {
        let sums = chains.iter().zip(&means);
        let sums = sums.map(|(chain, mean)| chain.len() as f64 * of(*mean));
        sums.sum::<f64>() / total
    };
    let grand = mean(&|mean| mean);
    let between = match chains.len() {
        1 => 0.0,
        _ => mean(&|mean| (mean - grand).powi(2)) * count / (count - 1.0),
    };
    let variance = within * (n - 1.0) / n + between;
    // Equal draws, or chains of one draw, show no correlation.
    if variance.is_nan() || variance <= 0.0 {
        return total;
    }
    let correlation = |lag| {
        let covariance = autocovariance(chains, &means, lag) * n / (n - 1.0);
        1.0 - (within - covariance) / variance
    };
    let (mut sum, mut least) = (0.0, f64::INFINITY);
    for lag in (0..longest.saturating_sub(1)).step_by(2) {
        let first = if lag == 0 { 1.0 } else { correlation(lag) };
        let pair = first + correlation(lag + 1);
        if pair.is_nan() || pair <= 0.0 {
            break;
        }
        least = pair.min(least);
        sum += least;
    }
    total / (2.0 * sum - 1.0).max(1.0)
}

fn draws(chains: &[Vec<f64>]) -> f64 {
    chains.iter().map(Vec::len).sum::<usize>() as f64
}

/// Returns `1/N sum_i (x_i - mean) (x_(i + lag) - mean)`, summed over the chains, which have N draws together.
pub(super) fn autocovariance(chains: &[Vec<f64>], means: &[f64], lag: usize) -> f64 {
    let of_chain = |(chain, mean): (&Vec<f64>, &f64)| {
        let pairs = chain.iter().zip(chain.iter().skip(lag));
        pairs.map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>()
    };
    chains.iter().zip(means).map(of_chain).sum::<f64>() / draws(chains)
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
        assert_eq!(effective_draws(&[vec![1.0; 10], vec![1.0; 12]]), 22.0);
    }

    /// A short chain adds the draws that it has, and takes none away.
    #[test]
    fn a_short_chain_counts_by_its_draws() {
        let mut rng = stream(3, Purpose::TESTING, 0);
        let mut chains = Vec::from([(); 3].map(|()| autoregression(0.5, 1_000, &mut rng)));
        let alone = effective_draws(&chains);
        for length in [20, 100] {
            chains.truncate(3);
            chains.push(autoregression(0.5, length, &mut rng));
            let found = effective_draws(&chains);
            assert!((found / alone - 1.0).abs() < 0.1, "{found}, {alone}");
        }
    }
}
