//! Density evaluations, counted in the model or kernel that makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use annealed::nalgebra::{DMatrixView, DMatrixViewMut};
use annealed::prelude::*;

/// A count shared by models, kernels and readers.
#[derive(Clone, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    pub fn add(&self, evaluations: u64) {
        self.0.fetch_add(evaluations, Ordering::Relaxed);
    }

    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub fn spent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A model that counts its evaluations: 1 for a value, and a given number for a value with its gradient.
pub struct Counted<M> {
    model: M,
    of_gradient: u64,
    meter: Meter,
}

impl<M> Counted<M> {
    pub fn new(model: M, of_gradient: u64, meter: &Meter) -> Self {
        Self {
            model,
            of_gradient,
            meter: meter.clone(),
        }
    }

    fn values(&self, states: usize) -> &M {
        self.meter.add(states as u64);
        &self.model
    }

    fn gradients(&self, states: usize) -> &M {
        self.meter.add(self.of_gradient * states as u64);
        &self.model
    }
}

impl<M: UnnormalizedModel> UnnormalizedModel for Counted<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.values(1).log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.model.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.model.evaluates_batches()
    }

    fn log_densities(&self, states: &[M::State], log_densities: &mut [f64]) {
        let model = self.values(states.len());
        model.log_densities(states, log_densities);
    }
}

impl<M: Differentiable> Differentiable for Counted<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let model = self.gradients(1);
        model.accumulate_gradient(state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let model = self.gradients(states.nrows());
        model.accumulate_gradients(states, scale, gradients, log_densities);
    }
}
