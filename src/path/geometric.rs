//! The geometric path.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::Result;
use crate::model::{
    Differentiable, LocalDensity, Sampleable, UnnormalizedModel, check_same_dimension,
};
use crate::num::{weighted, with_slice};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, PathAt};

/// The geometric path `log f_beta = (1 - beta) log f_a + beta log f_b`.
///
/// At `beta = 0` the support of the target does not matter, and at `beta = 1` that of the base does
/// not, since `0 * -inf` counts as 0. In between a state must lie in both.
///
/// For an RBM this is the path between the *marginal* densities of the visible units; block Gibbs
/// needs the joint one, `RbmPath`.
#[derive(Debug, Clone, PartialEq)]
pub struct GeometricPath<A, B> {
    base: A,
    target: B,
}

impl<A, B> GeometricPath<A, B>
where
    A: Sampleable,
    B: UnnormalizedModel<State = A::State>,
{
    /// The path from a base that can be sampled to any target over the same states. Whether the
    /// states are the same is not checked here: a run refuses ends that say that their states differ
    /// in dimension.
    pub fn new(base: A, target: B) -> Self {
        Self { base, target }
    }

    /// The target, `f_b`.
    pub fn target(&self) -> &B {
        &self.target
    }
}

impl<A, B> AnnealingPath for GeometricPath<A, B>
where
    A: Sampleable,
    B: UnnormalizedModel<State = A::State>,
{
    type State = A::State;
    type Base = A;
    type At<'a>
        = PathAt<'a, Self>
    where
        Self: 'a;

    fn base(&self) -> &A {
        &self.base
    }

    fn at(&self, beta: f64) -> PathAt<'_, Self> {
        PathAt { path: self, beta }
    }

    fn check(&self) -> Result<()> {
        check_same_dimension("target", &self.target, &self.base)
    }
}

/// The model at one beta of a [`GeometricPath`].
pub type GeometricAt<'a, A, B> = PathAt<'a, GeometricPath<A, B>>;

impl<A, B> UnnormalizedModel for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    type State = A::State;

    fn log_density(&self, state: &A::State) -> f64 {
        blend(
            self.beta,
            self.path.base.log_density(state),
            self.path.target.log_density(state),
        )
    }

    /// As the target.
    fn evaluates_batches(&self) -> bool {
        self.path.target.evaluates_batches()
    }

    fn log_densities(&self, states: &[A::State], log_densities: &mut [f64]) {
        with_slice(states.len(), |base| {
            self.path.base.log_densities(states, base);
            self.path.target.log_densities(states, log_densities);
            for (value, base) in log_densities.iter_mut().zip(base) {
                *value = blend(self.beta, *base, *value);
            }
        });
    }
}

/// `(1 - beta) base + beta target` with `0 * -inf = 0`.
fn blend(beta: f64, base: f64, target: f64) -> f64 {
    weighted(1.0 - beta, base) + weighted(beta, target)
}

impl<A, B> Intermediate for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    fn beta(&self) -> f64 {
        self.beta
    }

    /// `(beta - beta') (log f_b(x) - log f_a(x))`, from one evaluation of each.
    ///
    /// It is `-inf` where this model excludes x, and `+inf` where only the previous one does. No
    /// chain is at such a state.
    fn log_ratio(&self, previous: &Self, state: &A::State) -> f64 {
        self.log_ratio_and_density(previous, state).0
    }

    fn log_ratio_and_density(&self, previous: &Self, state: &A::State) -> (f64, f64) {
        let base = self.path.base.log_density(state);
        let target = self.path.target.log_density(state);
        ratio_and_density(previous.beta, self.beta, base, target)
    }

    fn log_ratios_and_densities(
        &self,
        previous: &Self,
        states: &[A::State],
        log_ratios: &mut [f64],
        log_densities: &mut [f64],
    ) {
        self.path.base.log_densities(states, log_ratios);
        self.path.target.log_densities(states, log_densities);
        for (base, target) in log_ratios.iter_mut().zip(log_densities) {
            (*base, *target) = ratio_and_density(previous.beta, self.beta, *base, *target);
        }
    }
}

/// The log ratio from one beta to another, and the log density at the latter, of a state of these log densities.
#[inline(always)]
fn ratio_and_density(from: f64, to: f64, base: f64, target: f64) -> (f64, f64) {
    let here = blend(to, base, target);
    let log_ratio = if base.is_finite() && target.is_finite() {
        (to - from) * (target - base)
    } else if here == f64::NEG_INFINITY {
        here
    } else {
        here - blend(from, base, target)
    };
    (log_ratio, here)
}

impl<C, A, B> LocalDensity<C> for GeometricAt<'_, A, B>
where
    A: LocalDensity<C>,
    B: LocalDensity<C, State = A::State>,
{
    fn log_density_change(&self, state: &A::State, change: &C) -> f64 {
        let of_base = self.path.base.log_density_change(state, change);
        let of_target = self.path.target.log_density_change(state, change);
        blend(self.beta, of_base, of_target)
    }
}

impl<A, B> BetaDerivative for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    /// `log f_b(x) - log f_a(x)`.
    fn beta_derivative(&self, state: &A::State) -> f64 {
        self.path.target.log_density(state) - self.path.base.log_density(state)
    }
}

impl<A, B> Differentiable for GeometricAt<'_, A, B>
where
    A: Differentiable,
    B: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.accumulate_mean_gradient(self, state, scale, gradient)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let (to_base, to_target) = (1.0 - self.beta, self.beta);
        with_slice(log_densities.len(), |base| {
            base.fill(0.0);
            log_densities.fill(0.0);
            if to_base > 0.0 {
                let gradients = gradients.as_view_mut();
                let model = &self.path.base;
                model.accumulate_gradients(states, scale * to_base, gradients, base);
            }
            if to_target > 0.0 {
                let model = &self.path.target;
                model.accumulate_gradients(states, scale * to_target, gradients, log_densities);
            }
            for (value, base) in log_densities.iter_mut().zip(base) {
                *value = blend(self.beta, *base, *value);
            }
        });
    }

    /// The gradient at the mean of the two betas.
    fn accumulate_mean_gradient(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let to_target = 0.5 * (previous.beta + self.beta);
        let to_base = 1.0 - to_target;
        let (mut base, mut target) = (0.0, 0.0);
        if to_base > 0.0 {
            let model = &self.path.base;
            base = model.accumulate_gradient(state, scale * to_base, gradient);
        }
        if to_target > 0.0 {
            let model = &self.path.target;
            target = model.accumulate_gradient(state, scale * to_target, gradient);
        }
        blend(self.beta, base, target)
    }
}
