//! Groups of trajectories that share one importance-weighted bound.

use crate::num::log_mean_exp;

/// The groups of k trajectories of a minibatch, by their log weights.
#[derive(Debug)]
pub(super) struct Groups {
    /// `w / mean(w)` of each trajectory, the mean taken over its group: how much of the gradient of
    /// `log mean(w)` goes through its log weight, times k. Exactly 1 where k is.
    pub(super) shares: Vec<f64>,
    /// Mean over the groups of `log mean(w) - mean(log w)`. Exactly 0 where k is 1.
    pub(super) gap: f64,
}

impl Groups {
    pub(super) fn new(log_weights: &[f64], k: usize) -> Self {
        let mut gap = 0.0;
        let mut shares = Vec::with_capacity(log_weights.len());
        for group in log_weights.chunks(k) {
            let log_mean = log_mean_exp(group);
            gap += log_mean - group.iter().sum::<f64>() / group.len() as f64;
            shares.extend(group.iter().map(|log_weight| (log_weight - log_mean).exp()));
        }
        let gap = gap / log_weights.len().div_ceil(k) as f64;
        Self { shares, gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_relative_to_the_mean_of_a_group() {
        let log_weights = [1.0_f64, 3.0, 5.0, 5.0].map(|w| w.ln() + 900.0);
        let Groups { shares, gap } = Groups::new(&log_weights, 2);
        for (share, expected) in shares.iter().zip([0.5, 1.5, 1.0, 1.0]) {
            assert!((share - expected).abs() < 1e-12, "{share}");
        }
        let expected = 0.5 * (2f64.ln() - 0.5 * 3f64.ln());
        assert!((gap - expected).abs() < 1e-12, "{gap}");
    }

    #[test]
    fn groups_of_one_change_nothing() {
        let Groups { shares, gap } = Groups::new(&[-0.1, 1e300, 3.7e-9, -712.3], 1);
        assert_eq!((shares, gap), (vec![1.0; 4], 0.0));
    }
}
