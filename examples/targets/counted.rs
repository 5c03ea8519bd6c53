//! Evaluations of a model, counted where they are made.

use std::sync::atomic::{AtomicU64, Ordering};

use annealed::nalgebra::{DMatrixView, DMatrixViewMut};
use annealed::prelude::*;

/// A model that counts its evaluations: 1 for a value, with its gradient or without.
pub struct Counted<M> {
    model: M,
    spent: AtomicU64,
}

impl<M> Counted<M> {
    pub fn new(model: M) -> Self {
        let spent = AtomicU64::new(0);
        Self { model, spent }
    }

    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    fn add(&self, states: usize) -> &M {
        self.spent.fetch_add(states as u64, Ordering::Relaxed);
        &self.model
    }
}

impl<M: UnnormalizedModel> UnnormalizedModel for Counted<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.add(1).log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.model.evaluates_batches()
    }

    fn log_densities(&self, states: &[M::State], log_densities: &mut [f64]) {
        self.add(states.len()).log_densities(states, log_densities);
    }
}

impl<M: Differentiable> Differentiable for Counted<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.add(1).accumulate_gradient(state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        self.add(states.nrows())
            .accumulate_gradients(states, scale, gradients, log_densities);
    }
}
