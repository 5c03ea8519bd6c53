//! Recorders: mergeable accumulators that see the chains at recorded stages.

use crate::ais::tree::Merge;
use crate::chain::{Block, Stage};
use crate::num::WeightedMean;
use crate::path::Intermediate;

/// Watches a run from inside: called for each block of chains after each recorded stage.
///
/// Each block works on its own clone; clones are merged in a fixed order, so that the result
/// does not depend on the number of threads. The weighted chains `(x_k, w_k)` that a recorder
/// sees target `p_k`.
pub trait Recorder<M: Intermediate>: Merge + Clone {
    /// Looks at one block after a stage.
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>);
}

/// Records nothing.
impl<M: Intermediate> Recorder<M> for () {
    fn record(&mut self, _stage: Stage<'_, M>, _block: &Block<M::State>) {}
}

impl Merge for () {
    fn merge(&mut self, _right: Self) {}
}

/// Records nothing where there is none.
impl<M: Intermediate, R: Recorder<M>> Recorder<M> for Option<R> {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        if let Some(recorder) = self {
            recorder.record(stage, block);
        }
    }
}

impl<R: Merge> Merge for Option<R> {
    fn merge(&mut self, right: Self) {
        if let (Some(mine), Some(theirs)) = (self, right) {
            mine.merge(theirs);
        }
    }
}

/// Two recorders side by side.
impl<M: Intermediate, A: Recorder<M>, B: Recorder<M>> Recorder<M> for (A, B) {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
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
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
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
