//! Annealing as optimisation: the best point met.

use crate::ais::{Merge, Recorder};
use crate::chain::{Block, Stage};
use crate::num::WeightedMean;
use crate::path::Intermediate;

/// A recorder of an objective L along a run: its weighted mean at each recorded stage, and the
/// best point that any chain stood on there.
#[derive(Clone)]
pub struct ObjectiveTrace<F, S> {
    objective: F,
    best: Option<(f64, S)>,
    stages: Vec<Traced>,
}

/// L at one stage.
#[derive(Debug, Clone, Copy)]
struct Traced {
    beta: f64,
    mean: WeightedMean,
    best: f64,
}

impl<F: Fn(&S) -> f64, S> ObjectiveTrace<F, S> {
    /// A recorder of this objective, which is to be maximised.
    pub fn new(objective: F) -> Self {
        Self {
            objective,
            best: None,
            stages: Vec::new(),
        }
    }
}

impl<F, S> ObjectiveTrace<F, S> {
    /// The largest value found and its point, or `None` before any finite value.
    pub fn best(&self) -> Option<(f64, &S)> {
        self.best.as_ref().map(|(value, state)| (*value, state))
    }

    /// `(beta_k, mean of L under p_k, largest L among the chains)` at each recorded stage. The gain
    /// at a stage is `beta_k` times the gain at the end of the path.
    pub fn stages(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let row = |stage: &Traced| (stage.beta, stage.mean.get(), stage.best);
        self.stages.iter().map(row)
    }
}

impl<M, F> Recorder<M> for ObjectiveTrace<F, M::State>
where
    M: Intermediate<State: Clone>,
    F: Fn(&M::State) -> f64 + Clone,
{
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let mut traced = Traced {
            beta: stage.beta,
            mean: WeightedMean::default(),
            best: f64::NEG_INFINITY,
        };
        for (state, &log_weight) in block.states().iter().zip(block.log_weights()) {
            let value = (self.objective)(state);
            traced.mean.add(log_weight, value);
            traced.best = traced.best.max(value);
            if value.is_finite() && self.best.as_ref().is_none_or(|best| value > best.0) {
                self.best = Some((value, state.clone()));
            }
        }
        self.stages.push(traced);
    }
}

impl<F, S> Merge for ObjectiveTrace<F, S> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(&right.stages) {
            mine.mean.merge(&theirs.mean);
            mine.best = mine.best.max(theirs.best);
        }
        let value = |best: &Option<(f64, S)>| best.as_ref().map_or(f64::NEG_INFINITY, |b| b.0);
        if value(&right.best) > value(&self.best) {
            self.best = right.best;
        }
    }
}

impl<F, S: std::fmt::Debug> std::fmt::Debug for ObjectiveTrace<F, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectiveTrace")
            .field("best", &self.best)
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}
