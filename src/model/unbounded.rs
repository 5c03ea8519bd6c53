//! A likelihood of parameters as a function of coordinates without bounds.

use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector};

use crate::error::Failure;
use crate::model::{Differentiable, Priors, UnnormalizedModel};
use crate::num::{set_zero, with_buffer};

/// A likelihood of parameters as a function of the coordinates of their [`Priors`], made by [`Priors::likelihood`]. Its
/// value contains no Jacobian, because the prior includes it. Its gradient follows by the chain rule.
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

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(self.priors.parameter_count(), |parameters| {
            self.priors.write_parameters(state, parameters);
            self.likelihood.log_density(parameters)
        })
    }

    /// Returns the priors' number of coordinates. If the likelihood has more or fewer parameters than the priors, adds
    /// the difference, so a path refuses the model for its dimension.
    fn state_dimension(&self) -> Option<usize> {
        let parameters = self.priors.parameter_count();
        let own = self.likelihood.state_dimension().unwrap_or(parameters);
        Some((self.priors.dimension() + own).saturating_sub(parameters))
    }

    fn evaluates_batches(&self) -> bool {
        self.likelihood.evaluates_batches()
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        let parameters = states.iter().map(|state| self.priors.parameters(state));
        self.likelihood
            .log_densities(&Vec::from_iter(parameters), log_densities);
    }

    fn epsilon(&self) -> f64 {
        self.likelihood.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.likelihood.failure()
    }
}

impl<M: Differentiable> Differentiable for Unbounded<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let count = self.priors.parameter_count();
        with_buffer(count, |parameters| {
            with_buffer(count, |slopes| {
                self.priors.write_parameters(state, parameters);
                set_zero(slopes.as_mut_slice());
                let model = &self.likelihood;
                let log_likelihood = model.accumulate_gradient(parameters, scale, slopes);
                if log_likelihood > f64::NEG_INFINITY {
                    self.priors.pull_back(state, parameters, slopes, gradient);
                }
                log_likelihood
            })
        })
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let (chains, count) = (states.nrows(), self.priors.parameter_count());
        let mut parameters = DMatrix::zeros(chains, count);
        self.priors.write_rows(states, &mut parameters);
        let mut slopes = DMatrix::zeros(chains, count);
        self.likelihood.accumulate_gradients(
            parameters.as_view(),
            scale,
            slopes.as_view_mut(),
            log_densities,
        );
        self.priors
            .pull_back_rows(states, &parameters, &slopes, gradients, log_densities);
    }
}
