//! A plain model that stands in for an intermediate model at `beta = 1`.

use super::Intermediate;
use crate::model::{LocalDensity, UnnormalizedModel, forward_model};

/// A model taken as an intermediate model at `beta = 1`. A kernel can then run on it as plain MCMC, or
/// be checked for invariance ([`testing::invariance`](crate::testing::invariance)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stationary<M>(pub M);

forward_model! {
    [M] Stationary<M> as M, self => self.0;
    UnnormalizedModel Sampleable NormalizedModel Differentiable FullConditionals
}

impl<C, M: LocalDensity<C>> LocalDensity<C> for Stationary<M> {
    fn log_density_change(&self, state: &M::State, change: &C) -> f64 {
        self.0.log_density_change(state, change)
    }
}

impl<M: UnnormalizedModel> Intermediate for Stationary<M> {
    fn beta(&self) -> f64 {
        1.0
    }
}
