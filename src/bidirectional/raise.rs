//! RAISE: a lower bound on the log-likelihood of the model that annealing defines.

use crate::ais::{Ais, Recorder};
use crate::estimate::log_mean_exp;
use crate::kernel::Reversal;
use crate::model::UnnormalizedModel;
use crate::num::Moments;
use crate::path::AnnealingPath;
use crate::random::Purpose;
use crate::{Error, Result};

/// The reverse annealed importance sampling estimator (RAISE) of held-out log-likelihoods.
///
/// Annealing defines its own model: the distribution q of its final states, which tends to the target with more stages.
/// From a state v, m chains pass the path backward. With their weights `w_i`,
///
/// `q^(v) = f_K(v) / Z_0 * (1/m) sum_i w_i`
///
/// is an unbiased estimate of q(v), so `E log q^(v) <= log q(v)`. It does not bound the target's own
/// log-likelihood. Source: Burda, Grosse and Salakhutdinov (2015).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Raise {
    log_probabilities: Vec<f64>,
}

impl Raise {
    /// Returns `log q^(v)` of each state, in nats; `-inf` if annealing cannot end at it.
    pub fn log_probabilities(&self) -> &[f64] {
        &self.log_probabilities
    }

    /// Returns the mean of `log q^(v)` and its standard error over the states. The error is infinite for a single
    /// state, or if a value is `-inf`.
    pub fn mean(&self) -> (f64, f64) {
        let impossible = self.log_probabilities.contains(&f64::NEG_INFINITY);
        if impossible {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let moments = Moments::from_iter(self.log_probabilities.iter().copied());
        (moments.mean(), moments.standard_error())
    }
}

impl<'p, P, K, R> Ais<'p, P, K, R>
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send + Sync,
    K: Sync,
    R: Recorder<P::At> + Send + Sync,
{
    /// Estimates RAISE of held-out states, with `chains_each` independent chains per state. The model is the
    /// distribution of final states without [`resampling`](Self::resampling) or [`waste_free`](Self::waste_free).
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); no states; `chains_each` of 0.
    pub fn raise(&self, held_out: &[P::State], chains_each: usize) -> Result<Raise>
    where
        K: Reversal<P::At>,
    {
        Error::check_at_least("chains_each", chains_each, 1)?;
        Error::check_not_empty("held_out", held_out.len())?;
        let chains = held_out.len().saturating_mul(chains_each);
        Error::check_count("chains of all states", chains, 1)?;
        let states = held_out.iter();
        let starts: Vec<P::State> = states
            .flat_map(|state| std::iter::repeat_n(state.clone(), chains_each))
            .collect();
        let run = self.read_backward(Purpose::RAISE, &starts)?;
        let target = self.path.at(1.0);
        let log_z_0 = self.settings.log_base_normalizer;
        let weights = run.log_weights().chunks_exact(chains_each);
        let log_probability = |(state, weights): (&P::State, &[f64])| {
            target.log_density(state) - log_z_0 + log_mean_exp(weights)
        };
        Ok(Raise {
            log_probabilities: held_out.iter().zip(weights).map(log_probability).collect(),
        })
    }
}
