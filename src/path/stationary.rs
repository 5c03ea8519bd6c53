//! A plain model as the one intermediate model of a path that goes nowhere.

use super::Intermediate;
use crate::model::{UnnormalizedModel, forward_model};

/// A model that stands at `beta = 1`: what a kernel needs to run as plain MCMC on it, or to be
/// checked for invariance ([`testing::invariance`](crate::testing::invariance)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stationary<M>(pub M);

forward_model! {
    [M] Stationary<M> as M, self => self.0;
    UnnormalizedModel Sampleable NormalizedModel Differentiable FullConditionals
}

impl<M: UnnormalizedModel> Intermediate for Stationary<M> {
    fn beta(&self) -> f64 {
        1.0
    }
}
