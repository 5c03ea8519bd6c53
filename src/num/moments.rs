//! Running means and variances.

/// A mean of values with weights given by their logs, as a sum over weights relative to the
/// largest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedMean {
    /// The largest log weight; `None` before the first positive weight.
    max: Option<f64>,
    weight: f64,
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    value: f64,
}

impl WeightedMean {
    /// Adds a value of weight `exp(log_weight)`; a weight of zero changes nothing, whatever the
    /// value.
    pub(crate) fn add(&mut self, log_weight: f64, value: f64) {
        if log_weight == f64::NEG_INFINITY {
            return;
        }
        let max = self.max.unwrap_or(f64::NEG_INFINITY);
        if log_weight <= max {
            let weight = (log_weight - max).exp();
            self.weight += weight;
            self.value += weight * value;
        } else {
            let scale = (max - log_weight).exp();
            self.weight = self.weight * scale + 1.0;
            self.value = self.value * scale + value;
            self.max = Some(log_weight);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let Some(theirs) = other.max else { return };
        let mine = self.max.unwrap_or(theirs);
        let max = mine.max(theirs);
        let (here, there) = ((mine - max).exp(), (theirs - max).exp());
        self.max = Some(max);
        self.weight = self.weight * here + other.weight * there;
        self.value = self.value * here + other.value * there;
    }

    /// The weighted mean; NaN where there was no weight.
    pub(crate) fn get(&self) -> f64 {
        self.value / self.weight
    }
}

/// Running mean and sum of squared deviations, mergeable (Chan, Golub and LeVeque 1983).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Moments {
    count: u64,
    mean: f64,
    deviations: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.deviations += distance * (value - self.mean);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * (theirs / (mine + theirs));
        self.deviations +=
            other.deviations + distance * distance * (mine * theirs / (mine + theirs));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// Sample variance (divisor n - 1); 0 for fewer than two values.
    pub(crate) fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            self.deviations / (self.count - 1) as f64
        }
    }
}
