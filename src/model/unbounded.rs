//! A function of parameters as one of coordinates without bounds.

use nalgebra::DVector;

use crate::model::{Differentiable, Priors, UnnormalizedModel};
use crate::num::{set_zero, with_buffer};

/// A likelihood of parameters, as a function of the coordinates of their [`Priors`]; made by
/// [`Priors::likelihood`].
///
/// Its value is that at the parameters, without a Jacobian, which belongs to the prior. Its gradient follows by the
/// chain rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Unbounded<M> {
    priors: Priors,
    likelihood: M,
}

impl<M> Unbounded<M> {
    pub(super) fn new(priors: Priors, likelihood: M) -> Self {
        Self { priors, likelihood }
    }
}

impl<M: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for Unbounded<M> {
    type State = DVector<f64>;

    /// # Panics
    /// Where the state has another dimension than the priors.
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(self.priors.dimension(), |parameters| {
            self.priors.write_parameters(state, parameters);
            self.likelihood.log_density(parameters)
        })
    }

    /// That of the likelihood, where it knows its own, so that it is compared with that of the prior.
    fn state_dimension(&self) -> Option<usize> {
        let own = self.likelihood.state_dimension();
        own.or(Some(self.priors.dimension()))
    }
}

impl<M: Differentiable> Differentiable for Unbounded<M> {
    /// # Panics
    /// Where the state has another dimension than the priors.
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let dimension = self.priors.dimension();
        with_buffer(dimension, |parameters| {
            with_buffer(dimension, |slopes| {
                self.priors.write_parameters(state, parameters);
                set_zero(slopes.as_mut_slice());
                let model = &self.likelihood;
                let log_likelihood = model.accumulate_gradient(parameters, scale, slopes);
                if log_likelihood > f64::NEG_INFINITY {
                    self.priors.chain(state, slopes, gradient);
                }
                log_likelihood
            })
        })
    }
}
