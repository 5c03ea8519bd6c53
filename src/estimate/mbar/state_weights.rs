//! Weights of all draws at a further state.

use rand::seq::SliceRandom;

use super::Difference;
use crate::estimate::{WeightedSample, WeightedStates};
use crate::random::{Purpose, stream};

/// All draws of [`Mbar`](super::Mbar), weighted for a further state, from
/// [`weights_at`](super::Mbar::weights_at). The states of this sample are the indices of the draws, so means are taken
/// of functions of an index. Batches of autocorrelated draws are the independent units. Errors of means take the draws
/// for a sample of the mixture of all states, which is larger than the errors of fixed counts, and leave out the errors
/// of log Z.
#[derive(Debug, Clone)]
pub struct StateWeights {
    draws: Vec<usize>,
    log_weights: Vec<f64>,
    units: Vec<usize>,
    log_z: Difference,
    effective: f64,
}

impl StateWeights {
    /// Creates the weights. In the order of the states, units beside each other would count as correlated, so they get
    /// their numbers in a random order.
    pub(super) fn new(
        log_z: Difference,
        log_weights: Vec<f64>,
        mut units: Vec<usize>,
        effective: f64,
    ) -> Self {
        let count = units.iter().max().map_or(0, |last| last + 1);
        let mut order = Vec::from_iter(0..count);
        order.shuffle(&mut stream(0, Purpose::RESAMPLING, 0));
        units.iter_mut().for_each(|unit| *unit = order[*unit]);
        Self {
            draws: (0..units.len()).collect(),
            log_weights,
            units,
            log_z,
            effective,
        }
    }

    /// Returns log Z of the further state less log Z of state 0.
    pub fn log_z(&self) -> &Difference {
        &self.log_z
    }

    /// Returns the number of independent draws of the further state that all draws are worth, as
    /// [`Mbar::effective_draws`](super::Mbar::effective_draws).
    #[doc(alias = "ess")]
    pub fn effective_draws(&self) -> f64 {
        self.effective
    }
}

impl WeightedSample for StateWeights {
    type State = usize;

    fn weighted_states(&self) -> WeightedStates<'_, usize> {
        WeightedStates {
            states: &self.draws,
            log_weights: self.log_weights.as_slice().into(),
            units: self.units.as_slice().into(),
        }
    }
}
