//! Weights of all draws at a further state.

use rand::seq::SliceRandom;

use super::Difference;
use crate::estimate::{LogZ, WeightSums, WeightedSample, WeightedStates};
use crate::random::{Purpose, stream};

/// All draws of [`Mbar`](super::Mbar), weighted for a further state, from
/// [`weights_at`](super::Mbar::weights_at). The states of this sample are the indices of the draws, so means are taken
/// of functions of an index. Batches of autocorrelated draws are the independent units. Errors of means take the draws
/// for a sample of the mixture of all states, which is larger than the errors of fixed counts, and leave out the errors
/// of log Z.
#[derive(Debug, Clone)]
pub struct StateWeights {
    pub(super) draws: Vec<usize>,
    pub(super) log_weights: Vec<f64>,
    pub(super) units: Vec<usize>,
    pub(super) log_z: Difference,
}

impl StateWeights {
    /// Returns log Z of the further state less log Z of state 0.
    pub fn log_z(&self) -> &Difference {
        &self.log_z
    }

    /// Returns the log weights of all draws. The weights sum to 1 in expectation, and to `exp` of the estimate of
    /// [`log_z`](Self::log_z) exactly.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Returns `(sum w)^2 / sum w^2`, a count. It does not allow for autocorrelation.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        WeightSums::of(&self.log_weights).effective_sample_size()
    }
}

/// Returns the units with their numbers in a random order. In the order of the states, units beside each other would
/// count as correlated.
pub(super) fn in_random_order(units: Vec<usize>) -> Vec<usize> {
    let count = units.iter().max().map_or(0, |last| last + 1);
    let mut order = Vec::from_iter(0..count);
    order.shuffle(&mut stream(0, Purpose::RESAMPLING, 0));
    units.into_iter().map(|unit| order[unit]).collect()
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

impl std::fmt::Display for StateWeights {
    /// Writes log Z relative to state 0, and the effective sample size.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (value, error) = (self.log_z.log_z(), self.log_z.standard_error());
        crate::estimate::write_value(f, value, error)?;
        let (ess, draws) = (self.effective_sample_size(), self.draws.len());
        write!(f, " (ESS {ess:.0} of {draws})")
    }
}
