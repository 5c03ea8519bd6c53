//! Equally weighted draws, by systematic resampling of weighted states.

use super::quantities::Function;
use super::weighted_states::check_values;
use super::{Quantities, WeightedStates};
use crate::random::resampling_scheme::ResamplingScheme;
use crate::random::{Purpose, stream};
use crate::{Error, Result};

/// Equally weighted draws from a target, made by [`WeightedSample::draws`](super::WeightedSample::draws). A region that
/// the run did not find is missing from the draws.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct EqualDraws<S> {
    states: Vec<S>,
    distinct: usize,
    effective: f64,
}

impl<S: Clone> EqualDraws<S> {
    pub(super) fn of(sample: &WeightedStates<'_, S>, count: usize, seed: u64) -> Result<Self> {
        Error::check_count("draws", count, 1)?;
        sample.check()?;
        let mut rng = stream(seed, Purpose::RESAMPLING, 0);
        let copies = ResamplingScheme::Systematic.copies(count, &sample.log_weights, &mut rng);
        let mut states = Error::reserved("draws", count)?;
        for (state, &copies) in sample.states.iter().zip(&copies) {
            states.extend(std::iter::repeat_n(state, copies).cloned());
        }
        let squares: f64 = copies.iter().map(|&copies| (copies as f64).powi(2)).sum();
        Ok(Self {
            states,
            distinct: copies.iter().filter(|&&copies| copies > 0).count(),
            effective: (count as f64).powi(2) / squares,
        })
    }
}

impl<S> EqualDraws<S> {
    /// Returns the draws in the order of the weighted states, with copies next to each other.
    pub fn states(&self) -> &[S] {
        &self.states
    }

    /// Returns the number of states among the draws, each counted once.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// Returns `n^2 / sum_i c_i^2` of n draws, with the number of copies `c_i` of each state. It is n if no state is
    /// repeated, and close to the effective sample size of the weights if n is large. States of one family or ladder
    /// depend on each other, which only a [`Summary`](super::Summary) takes into account.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        self.effective
    }

    /// Returns the values of each quantity at the draws, with its name.
    ///
    /// # Errors
    /// No quantity, or two of one name; a value that is not finite.
    pub fn columns<'q>(
        &self,
        quantities: impl Into<Quantities<'q, S>>,
    ) -> Result<Vec<(String, Vec<f64>)>>
    where
        S: 'q,
    {
        let column = |(name, f): (&str, &Function<'q, S>)| {
            let values: Vec<f64> = self.states.iter().map(f).collect();
            check_values(name, values.iter().copied())?;
            Ok((name.to_owned(), values))
        };
        quantities.into().checked()?.map(column).collect()
    }
}
