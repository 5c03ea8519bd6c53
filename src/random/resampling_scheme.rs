//! Schemes of resampling by weight.

use rand::{Rng, RngExt};

use crate::num::WeightSums;

/// Scheme of resampling. Of N copies, a chain with normalised weight `W_i` gets `N W_i` in expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ResamplingScheme {
    /// N independent draws.
    Multinomial,
    /// `floor(N W_i)` certain copies; independent draws decide the rest.
    Residual,
    /// One draw in each of N equal parts of the distribution function.
    Stratified,
    /// Stratified, with draws at the same place in each part.
    Systematic,
}

impl ResamplingScheme {
    /// Returns the number of copies of each chain, `count` in all.
    pub(crate) fn copies<R: Rng + ?Sized>(
        self,
        count: usize,
        log_weights: &[f64],
        rng: &mut R,
    ) -> Vec<usize> {
        let weights = WeightSums::of(log_weights);
        let expected = |w: &f64| count as f64 * weights.share(*w);
        let mut expected: Vec<f64> = log_weights.iter().map(expected).collect();
        let mut copies = vec![0; log_weights.len()];
        if self == Self::Residual {
            for (copies, expected) in copies.iter_mut().zip(&mut expected) {
                *copies = expected.floor() as usize;
                *expected -= expected.floor();
            }
        }
        let left = count.saturating_sub(copies.iter().sum());
        let total: f64 = expected.iter().sum();
        // Rounding may leave a sum that differs from `left`. If `left` is 0 there are no levels to scale.
        let scale = total / left as f64;
        let mut levels = self.levels(left, rng);
        levels.sort_unstable_by(f64::total_cmp);
        // Levels that rounding puts beyond the sum go to the last chain of positive weight.
        let last = expected.iter().rposition(|&x| x > 0.0).unwrap_or(0);
        let (mut chain, mut sum) = (0, expected[0]);
        for level in levels {
            while level * scale >= sum && chain < last {
                chain += 1;
                sum += expected[chain];
            }
            copies[chain] += 1;
        }
        copies
    }

    /// Returns `count` levels between 0 and `count`. Each gives a copy to the chain at which the cumulative weights,
    /// scaled to end at `count`, pass the level.
    fn levels<R: Rng + ?Sized>(self, count: usize, rng: &mut R) -> Vec<f64> {
        match self {
            Self::Systematic => {
                let offset = rng.random::<f64>();
                (0..count).map(|i| i as f64 + offset).collect()
            }
            Self::Stratified => {
                let level = |i| i as f64 + rng.random::<f64>();
                (0..count).map(level).collect()
            }
            Self::Multinomial | Self::Residual => {
                let level = |_| count as f64 * rng.random::<f64>();
                (0..count).map(level).collect()
            }
        }
    }
}
