//! Recorders: mergeable accumulators that see the chains at recorded stages.

use crate::ais::{Block, Merge};
use crate::kernel::Stage;
use crate::path::Intermediate;

/// Watches a run from inside: called for each block of chains after each recorded stage.
///
/// Each block works on its own clone; clones are merged in a fixed order, so that the result
/// does not depend on the number of threads. The weighted chains `(x_k, w_k)` that a recorder
/// sees target `p_k`.
pub trait Recorder<M: Intermediate>: Merge + Clone {
    /// Looks at one block after a stage.
    fn record(&mut self, stage: &Stage<M>, block: &Block<M::State>);
}

/// Records nothing.
impl<M: Intermediate> Recorder<M> for () {
    fn record(&mut self, _stage: &Stage<M>, _block: &Block<M::State>) {}
}

impl Merge for () {
    fn merge(&mut self, _right: Self) {}
}

/// Two recorders side by side.
impl<M: Intermediate, A: Recorder<M>, B: Recorder<M>> Recorder<M> for (A, B) {
    fn record(&mut self, stage: &Stage<M>, block: &Block<M::State>) {
        self.0.record(stage, block);
        self.1.record(stage, block);
    }
}

impl<A: Merge, B: Merge> Merge for (A, B) {
    fn merge(&mut self, right: Self) {
        self.0.merge(right.0);
        self.1.merge(right.1);
    }
}

/// On-the-fly expectations: the weighted mean of `f(x_k)` at each recorded stage, an estimate of
/// `E f` under `p_k`.
///
/// It holds a closure, so that a [`PartialRun`](crate::ais::PartialRun) with it can be merged but
/// not saved; for that, write a recorder that derives serde's traits.
#[derive(Clone)]
pub struct Expectations<F> {
    function: F,
    stages: Vec<(f64, WeightedMean)>,
}

impl<F> Expectations<F> {
    /// Records the weighted mean of `function`.
    pub fn new(function: F) -> Self {
        Self {
            function,
            stages: Vec::new(),
        }
    }

    /// `(beta_k, mean of f)` at each recorded stage; NaN where no chain carried weight.
    pub fn means(&self) -> impl Iterator<Item = (f64, f64)> {
        self.stages.iter().map(|(beta, mean)| (*beta, mean.get()))
    }
}

impl<F> std::fmt::Debug for Expectations<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.means()).finish()
    }
}

impl<M: Intermediate, F: Fn(&M::State) -> f64 + Clone> Recorder<M> for Expectations<F> {
    fn record(&mut self, stage: &Stage<M>, block: &Block<M::State>) {
        let mut mean = WeightedMean::default();
        for (state, &log_weight) in block.states().iter().zip(block.log_weights()) {
            if log_weight > f64::NEG_INFINITY {
                mean.add(log_weight, (self.function)(state));
            }
        }
        self.stages.push((stage.beta, mean));
    }
}

impl<F> Merge for Expectations<F> {
    fn merge(&mut self, right: Self) {
        for ((_, mine), (_, theirs)) in self.stages.iter_mut().zip(&right.stages) {
            mine.merge(theirs);
        }
    }
}

/// A mean of values with weights given by their logs, as a sum over weights relative to the
/// largest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedMean {
    /// The largest log weight; `None` before the first positive weight.
    max: Option<f64>,
    weight: f64,
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::log_value"))]
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
