//! The path from a refitted base to the target of another path.

use std::sync::Arc;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::base::{Refit, RefittedBase};
use crate::Result;
use crate::model::{Differentiable, NormalizedModel, UnnormalizedModel};
use crate::num::SimdLevel;
use crate::path::{
    AnnealingPath, EndBatch, EndGradients, Ends, GeometricPath, Intermediate, PathAt,
};

type Blended<'p, P> =
    GeometricPath<RefittedBase<&'p <P as AnnealingPath>::Base>, <P as AnnealingPath>::At<'p>>;

/// The geometric path from a refitted base to the target of the path P.
pub(in crate::adaptive) struct RefittedPath<'p, P: AnnealingPath + 'p> {
    path: &'p P,
    blend: Arc<Blended<'p, P>>,
}

/// The model at one beta of the geometric path from a [refitted](crate::adaptive::Rounds::refit) base to the target of
/// the path P. A kernel of a refitted run moves at these, too.
///
/// It owns its share of the path, so that no kernel's type depends on how long the path lives.
#[allow(missing_debug_implementations)] // No user meets a value.
pub struct RefittedAt<'p, P: AnnealingPath + 'p> {
    blend: Arc<Blended<'p, P>>,
    beta: f64,
}

impl<'p, P> RefittedPath<'p, P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    pub(super) fn new(path: &'p P, refit: Refit) -> Self {
        let base = RefittedBase::new(path.base(), refit);
        Self {
            path,
            blend: Arc::new(GeometricPath::new(base, path.at(1.0))),
        }
    }
}

impl<'p, P: AnnealingPath<State = DVector<f64>> + 'p> AnnealingPath for RefittedPath<'p, P> {
    type State = DVector<f64>;
    type Base = RefittedBase<&'p P::Base>;
    type At<'a>
        = RefittedAt<'p, P>
    where
        Self: 'a;

    fn base(&self) -> &Self::Base {
        self.blend.base()
    }

    fn at(&self, beta: f64) -> RefittedAt<'p, P> {
        RefittedAt {
            blend: Arc::clone(&self.blend),
            beta,
        }
    }

    fn check(&self) -> Result<()> {
        self.path.check()?;
        self.blend.check()
    }

    fn simd_level(&self) -> Option<SimdLevel> {
        self.path.simd_level()
    }

    fn rounding_error(&self) -> f64 {
        self.path.rounding_error()
    }
}

impl<'p, P: AnnealingPath + 'p> RefittedAt<'p, P> {
    fn view(&self) -> PathAt<'_, Blended<'p, P>> {
        PathAt {
            path: &self.blend,
            beta: self.beta,
        }
    }
}

impl<'p, P: AnnealingPath<State = DVector<f64>> + 'p> UnnormalizedModel for RefittedAt<'p, P> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        self.view().log_density(state)
    }

    fn evaluates_batches(&self) -> bool {
        self.view().evaluates_batches()
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        self.view().log_densities(states, log_densities);
    }
}

impl<'p, P: AnnealingPath<State = DVector<f64>> + 'p> Intermediate for RefittedAt<'p, P> {
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, previous: &Self, state: &DVector<f64>) -> f64 {
        self.view().log_ratio(&previous.view(), state)
    }

    fn ends(&self, state: &DVector<f64>, known: Ends) -> Ends {
        self.view().ends(state, known)
    }

    fn ends_of_batch(&self, states: &[DVector<f64>], bases: &mut [f64], targets: &mut [f64]) {
        self.view().ends_of_batch(states, bases, targets);
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        self.view().log_density_at(ends)
    }

    fn log_ratio_at(&self, previous: &Self, ends: Ends) -> f64 {
        self.view().log_ratio_at(&previous.view(), ends)
    }
}

impl<'p, P> Differentiable for RefittedAt<'p, P>
where
    P: AnnealingPath<State = DVector<f64>, Base: Differentiable> + 'p,
    P::At<'p>: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.view().accumulate_gradient(state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let model = self.view();
        model.accumulate_gradients(states, scale, gradients, log_densities);
    }

    fn accumulate_mean_gradient(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (model, previous) = (self.view(), previous.view());
        model.accumulate_mean_gradient(&previous, state, scale, gradient)
    }

    fn end_weights(&self) -> Option<[f64; 2]> {
        self.view().end_weights()
    }

    fn end_gradients(&self, state: &DVector<f64>, known: &mut EndGradients) -> f64 {
        self.view().end_gradients(state, known)
    }

    fn end_gradients_of_batch(&self, states: DMatrixView<'_, f64>, ends: [EndBatch<'_>; 2]) {
        self.view().end_gradients_of_batch(states, ends);
    }
}
