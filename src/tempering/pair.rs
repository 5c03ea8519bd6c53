//! Statistics of two neighbouring betas: rejections, and sums for the ratio of their normalisers.

use crate::num::{Moments, WeightSums, log_sigmoid};

/// Statistics of two neighbours in one ladder, over the scans of a round.
///
/// Let `r(x) = log f_{j+1}(x) - log f_j(x)`, s the logistic function and c any number. Then
///
/// `log Z_{j+1}/Z_j = c + log E_j[s(r(x) - c)] - log E_{j+1}[s(c - r(x))]`.
///
/// This is Bennett's (1976) acceptance ratio. The variance is smallest at the log ratio itself; c is its last
/// estimate.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct PairSums {
    forward: WeightSums,
    reverse: WeightSums,
    rejections: Moments,
}

/// The log ratios r of a pair, at the states of the lower and of the upper beta.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogRatios {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl LogRatios {
    /// Returns the probability of a swap, `min(1, exp(r(x_j) - r(x_{j+1})))`. A state off the support of its model
    /// always gives way to one on it. Equal infinite ratios give 0.
    pub(super) fn acceptance(self) -> f64 {
        let difference = self.lower - self.upper;
        match difference.is_nan() {
            true => 0.0,
            false => difference.min(0.0).exp(),
        }
    }

    /// Returns whether the lower model excludes its own state.
    fn lower_is_astray(self) -> bool {
        self.lower == f64::INFINITY
    }

    /// Returns whether the upper model excludes its own state.
    pub(super) fn upper_is_astray(self) -> bool {
        self.upper == f64::NEG_INFINITY
    }
}

impl PairSums {
    /// Adds a scan. A state off the support of its own model is left out of the sums.
    pub(super) fn add(&mut self, c: f64, ratios: LogRatios) {
        if !ratios.lower_is_astray() {
            self.forward.add(log_sigmoid(ratios.lower - c));
        }
        if !ratios.upper_is_astray() {
            self.reverse.add(log_sigmoid(c - ratios.upper));
        }
        self.rejections.add(1.0 - ratios.acceptance());
    }

    /// Returns whether no sum counts more than `scans` scans. Checks a file.
    pub(super) fn fits(&self, scans: usize) -> bool {
        let Self {
            forward,
            reverse,
            rejections,
        } = self;
        let counts = [forward.count(), reverse.count(), rejections.count()];
        counts.into_iter().all(|count| count <= scans as u64)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.rejections.merge(&other.rejections);
    }

    pub(super) fn rejection(&self) -> f64 {
        self.rejections.mean()
    }

    /// Returns `log Z_{j+1}/Z_j`; infinite or NaN if no state of one model is possible under the other.
    pub(super) fn log_ratio(&self, c: f64) -> f64 {
        c + self.forward.log_mean() - self.reverse.log_mean()
    }

    /// Returns the influence of this ladder on the pooled log ratio. The influences of all ladders sum to 0.
    pub(super) fn influence(&self, all: &Self) -> f64 {
        let share = |part: &WeightSums, all: &WeightSums| (part.log_sum() - all.log_sum()).exp();
        share(&self.forward, &all.forward) - share(&self.reverse, &all.reverse)
    }
}
