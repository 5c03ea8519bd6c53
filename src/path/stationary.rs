//! A plain model as the one intermediate model of a path that goes nowhere.

use nalgebra::DVector;
use rand::Rng;

use super::Intermediate;
use crate::model::{
    Differentiable, FullConditionals, NormalizedModel, Sampleable, UnnormalizedModel,
};

/// A model that stands at `beta = 1`: what a kernel needs to run as plain MCMC on it, or to be
/// checked for invariance ([`testing::invariance`](crate::testing::invariance)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stationary<M>(pub M);

impl<M: UnnormalizedModel> UnnormalizedModel for Stationary<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.0.log_density(state)
    }
}

impl<M: UnnormalizedModel> Intermediate for Stationary<M> {
    fn beta(&self) -> f64 {
        1.0
    }
}

impl<M: Sampleable> Sampleable for Stationary<M> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> M::State {
        self.0.sample(rng)
    }
}

impl<M: NormalizedModel> NormalizedModel for Stationary<M> {
    fn log_normalizer(&self) -> f64 {
        self.0.log_normalizer()
    }
}

impl<M: Differentiable> Differentiable for Stationary<M> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.0.accumulate_gradient(state, scale, gradient)
    }
}

impl<M: FullConditionals> FullConditionals for Stationary<M> {
    fn coordinates(&self) -> usize {
        self.0.coordinates()
    }

    fn sample_coordinate<R: Rng + ?Sized>(&self, state: &mut M::State, index: usize, rng: &mut R) {
        self.0.sample_coordinate(state, index, rng)
    }
}
