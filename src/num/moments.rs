//! Running means and variances, of plain values and of values with weights.

use crate::num::WeightSums;

/// The mean of values whose weights are given by their logs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedMean {
    weights: WeightSums,
    /// The sum of weight times value, relative to the largest weight.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    value: f64,
}

impl WeightedMean {
    /// Adds a value of weight `exp(log_weight)`. With a weight of zero the value does not count,
    /// whatever it is.
    pub(crate) fn add(&mut self, log_weight: f64, value: f64) {
        if let Some((here, weight)) = self.weights.scales(log_weight) {
            self.value = self.value * here + weight * value;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some((here, there)) = self.weights.merged_scales(&other.weights) {
            self.value = self.value * here + other.value * there;
        }
    }

    /// Number of values, those of weight zero included.
    pub(crate) fn count(&self) -> u64 {
        self.weights.count()
    }

    /// The log of the sum of the weights.
    pub(crate) fn log_weight(&self) -> f64 {
        self.weights.log_sum()
    }

    /// The weighted mean; NaN where there was no weight.
    pub(crate) fn get(&self) -> f64 {
        self.value / self.weights.sum
    }
}

/// The variance of values whose weights are given by their logs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedVariance {
    weights: WeightSums,
    mean: f64,
    /// Weighted mean of squared deviations.
    spread: f64,
}

impl WeightedVariance {
    pub(crate) fn add(&mut self, log_weight: f64, value: f64) {
        self.merge(&Self {
            weights: WeightSums::of([log_weight]),
            mean: value,
            spread: 0.0,
        });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let mine = self.weights.sum;
        let Some((here, there)) = self.weights.merged_scales(&other.weights) else {
            return;
        };
        let total = self.weights.sum;
        let (here, there) = (mine * here / total, other.weights.sum * there / total);
        let distance = other.mean - self.mean;
        self.mean += there * distance;
        self.spread =
            here * self.spread + there * other.spread + here * there * distance * distance;
    }

    /// The log of the sum of the weights.
    pub(crate) fn log_weight(&self) -> f64 {
        self.weights.log_sum()
    }

    /// The weighted mean of squared distances from a centre.
    pub(crate) fn about(&self, centre: f64) -> f64 {
        self.spread + (self.mean - centre).powi(2)
    }

    /// The variance times `1 / (1 - 1/ESS)`, without which it falls to 0 as the weights collapse;
    /// 0 for a single value.
    pub(crate) fn get(&self) -> f64 {
        let shrinkage = 1.0 - 1.0 / self.weights.effective_sample_size();
        if shrinkage > 0.0 {
            self.spread / shrinkage
        } else {
            0.0
        }
    }
}

/// Running mean and sum of squared deviations, mergeable (Chan, Golub and LeVeque 1983). Both are
/// taken about the first value, so that a common offset costs no digits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Moments {
    count: u64,
    origin: f64,
    /// Relative to the origin.
    mean: f64,
    deviations: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.origin = value;
        }
        self.count += 1;
        let value = value - self.origin;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.deviations += distance * (value - self.mean);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let distance = other.origin - self.origin + (other.mean - self.mean);
        self.count += other.count;
        self.mean += distance * (theirs / (mine + theirs));
        self.deviations +=
            other.deviations + distance * distance * (mine * theirs / (mine + theirs));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> f64 {
        self.origin + self.mean
    }

    /// Sample variance (divisor n - 1); 0 for fewer than two values.
    pub(crate) fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            self.deviations / (self.count - 1) as f64
        }
    }

    /// Standard error of the mean; infinite for fewer than two values.
    pub(crate) fn standard_error(&self) -> f64 {
        match self.count {
            0 | 1 => f64::INFINITY,
            n => (self.variance() / n as f64).sqrt(),
        }
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::default();
        values.into_iter().for_each(|value| moments.add(value));
        moments
    }
}
