//! Models divided by their normalisers.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::error::Failure;
use crate::model::{
    Differentiable, LocalDensity, NormalizedModel, UnnormalizedModel, forward_model,
};

/// A model divided by its normaliser: its log density is `log f(x) - log Z`, and its own log Z is 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalized<M> {
    model: M,
    log_normalizer: f64,
}

impl<M: NormalizedModel> Normalized<M> {
    /// Creates the model divided by its own normaliser.
    pub fn new(model: M) -> Self {
        Self {
            log_normalizer: model.log_normalizer(),
            model,
        }
    }
}

impl<M> Normalized<M> {
    pub(crate) fn model(&self) -> &M {
        &self.model
    }

    /// Returns the model, to be changed without a change of its log Z.
    pub(crate) fn model_mut(&mut self) -> &mut M {
        &mut self.model
    }
}

impl<M: UnnormalizedModel> UnnormalizedModel for Normalized<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.model.log_density(state) - self.log_normalizer
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.model.evaluates_batches()
    }

    fn log_densities(&self, states: &[M::State], log_densities: &mut [f64]) {
        self.model.log_densities(states, log_densities);
        log_densities
            .iter_mut()
            .for_each(|x| *x -= self.log_normalizer);
    }

    fn epsilon(&self) -> f64 {
        self.model.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.model.failure()
    }
}

impl<M: UnnormalizedModel> NormalizedModel for Normalized<M> {
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl<C, M: LocalDensity<C>> LocalDensity<C> for Normalized<M> {
    fn log_density_change(&self, state: &M::State, change: &C) -> f64 {
        self.model.log_density_change(state, change)
    }
}

forward_model! { [M] Normalized<M> as M, self => self.model; Sampleable }

impl<M: Differentiable> Differentiable for Normalized<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.model.accumulate_gradient(state, scale, gradient) - self.log_normalizer
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let model = &self.model;
        model.accumulate_gradients(states, scale, gradients, log_densities);
        log_densities
            .iter_mut()
            .for_each(|x| *x -= self.log_normalizer);
    }
}
