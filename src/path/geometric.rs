//! The geometric path.

use nalgebra::DVector;

use super::{AnnealingPath, BetaDerivative, Intermediate};
use crate::model::{Differentiable, Sampleable, UnnormalizedModel};

/// `f_beta = f_base^(1 - beta) f_target^beta`, between any two models over the same state.
///
/// A factor with exponent 0 is 1, also where its density is 0: at `beta = 0` the target's
/// support plays no part, at `beta = 1` the base's plays none. In between, `f_beta` is 0 where
/// either is.
///
/// ```
/// use annealed::model::{FunctionModel, Gaussian, UnnormalizedModel};
/// use annealed::path::{AnnealingPath, GeometricPath};
/// use nalgebra::{DVector, dvector};
///
/// let quartic = FunctionModel::new(|x: &DVector<f64>| -x[0].powi(4));
/// let path = GeometricPath::new(Gaussian::standard(1), quartic);
/// assert_eq!(path.at(0.25).log_density(&dvector![2.0]), 0.75 * -2.0 + 0.25 * -16.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeometricPath<A, B> {
    base: A,
    target: B,
}

impl<A, B> GeometricPath<A, B>
where
    A: Sampleable,
    B: UnnormalizedModel<State = A::State>,
{
    /// The path from `base` to `target`, each owned or borrowed.
    pub fn new(base: A, target: B) -> Self {
        Self { base, target }
    }
}

impl<A, B> GeometricPath<A, B> {
    /// The model at `beta = 1`.
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
        = GeometricAt<'a, A, B>
    where
        Self: 'a;

    fn base(&self) -> &A {
        &self.base
    }

    fn at(&self, beta: f64) -> GeometricAt<'_, A, B> {
        GeometricAt {
            base: &self.base,
            target: &self.target,
            beta,
        }
    }
}

/// A [`GeometricPath`] at one beta.
#[derive(Debug)]
pub struct GeometricAt<'a, A, B> {
    base: &'a A,
    target: &'a B,
    beta: f64,
}

// Derived, these would ask the models to be Copy.
impl<A, B> Clone for GeometricAt<'_, A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, B> Copy for GeometricAt<'_, A, B> {}

impl<A, B> UnnormalizedModel for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    type State = A::State;

    /// At either end, only that end is evaluated.
    fn log_density(&self, state: &A::State) -> f64 {
        if self.beta == 0.0 {
            self.base.log_density(state)
        } else if self.beta == 1.0 {
            self.target.log_density(state)
        } else {
            blend(
                self.beta,
                self.base.log_density(state),
                self.target.log_density(state),
            )
        }
    }
}

impl<A, B> Intermediate for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    fn beta(&self) -> f64 {
        self.beta
    }

    /// `(beta - beta') (log f_target - log f_base)`, each end evaluated once.
    ///
    /// Where an end excludes `x`: `-inf` if this model excludes it, else the difference, which
    /// is `+inf` where only `previous` excludes it. Going forward that takes `beta = 1` and an
    /// `x` outside the base's support, where a chain at `beta' < 1` never is: `+inf` says that
    /// the state did not come from `previous`. A NaN or `+inf` from either end is passed on.
    fn log_ratio(&self, previous: &Self, state: &A::State) -> f64 {
        log_ratio(
            self.beta,
            previous.beta,
            self.base.log_density(state),
            self.target.log_density(state),
        )
    }
}

impl<A, B> BetaDerivative for GeometricAt<'_, A, B>
where
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
{
    /// `log f_target(x) - log f_base(x)`, the same at every beta. It is infinite where one end
    /// excludes `x`, and NaN where both do: there `f_beta` is 0 along the whole path.
    fn beta_derivative(&self, state: &A::State) -> f64 {
        self.target.log_density(state) - self.base.log_density(state)
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
        let (base, target, beta) = (self.base, self.target, self.beta);
        // An end that plays no part must not add 0 * inf.
        if beta == 0.0 {
            base.accumulate_gradient(state, scale, gradient)
        } else if beta == 1.0 {
            target.accumulate_gradient(state, scale, gradient)
        } else {
            blend(
                beta,
                base.accumulate_gradient(state, scale * (1.0 - beta), gradient),
                target.accumulate_gradient(state, scale * beta, gradient),
            )
        }
    }
}

/// `(1 - beta) a + beta b` with `0 * -inf = 0`.
fn blend(beta: f64, base: f64, target: f64) -> f64 {
    if beta == 0.0 {
        base
    } else if beta == 1.0 {
        target
    } else {
        (1.0 - beta) * base + beta * target
    }
}

/// [`Intermediate::log_ratio`] from the log densities of the two ends.
fn log_ratio(beta: f64, previous: f64, base: f64, target: f64) -> f64 {
    let slope = target - base;
    if slope.is_finite() {
        return (beta - previous) * slope;
    }
    let sound = base < f64::INFINITY && target < f64::INFINITY;
    if !sound {
        // NaN or +inf, before the cases below, which do not all look at both ends.
        return base + target;
    }
    let here = blend(beta, base, target);
    if here == f64::NEG_INFINITY {
        here
    } else {
        here - blend(previous, base, target)
    }
}
