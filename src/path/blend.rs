//! Paths that blend two log densities: the geometric path, and the path from a prior to a posterior.

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::blend_law::{BlendLaw, Geometric, Tempered};
use crate::Result;
use crate::error::Failure;
use crate::model::{
    Differentiable, LocalDensity, NormalizedModel, Sampleable, UnnormalizedModel,
    check_same_dimension,
};
use crate::num::{next_run, with_slice};
use crate::path::{AnnealingPath, BetaDerivative, Ends, Intermediate, Normalized};

/// A path whose log density is a weighted sum of two log densities. The rule L for the weights makes it a
/// [`GeometricPath`] or a [`TemperedPath`].
#[derive(Debug, Clone, PartialEq)]
pub struct Blend<A, B, L> {
    base: A,
    other: B,
    law: PhantomData<L>,
}

/// The geometric path from a base that can be sampled to any target:
///
/// `log f_beta(x) = (1 - beta) log f_a(x) + beta log f_b(x)`.
///
/// The target needs a log density only. For a prior and a likelihood use a [`TemperedPath`], for an RBM an
/// [`RbmPath`](crate::rbm::RbmPath). Since `0 * -inf` counts as 0, the support of the target does not matter at
/// `beta = 0`, nor the support of the base at `beta = 1`. In between a state must lie in both supports.
///
/// ```
/// use annealed::prelude::*;
/// use nalgebra::DVector;
///
/// let target = FunctionModel::new(|x: &DVector<f64>| -0.5 * (x[0] - 1.0).powi(2));
/// let path = GeometricPath::new(Gaussian::standard(1)?, target);
/// let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?).seed(5).run()?;
/// let exact = 0.5 * std::f64::consts::TAU.ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
pub type GeometricPath<A, B> = Blend<A, B, Geometric>;

/// The model at one beta of a [`GeometricPath`].
pub type GeometricAt<'a, A, B> = BlendAt<&'a GeometricPath<A, B>>;

impl<A, B> GeometricPath<A, B>
where
    A: Sampleable,
    B: UnnormalizedModel<State = A::State>,
{
    /// Creates a path between two models over the same states. A run checks only that known dimensions agree.
    pub fn new(base: A, target: B) -> Self {
        Self::between(base, target)
    }

    /// Returns the target, `f_b`.
    pub fn target(&self) -> &B {
        &self.other
    }
}

/// The path from a prior to a posterior, by tempering the likelihood:
///
/// `log f_beta(x) = log p(x) + beta log L(x)`.
///
/// The prior is divided by its normaliser, so log Z of the target is the log evidence, `log integral p(x) L(x) dx`, if
/// `L` includes the constants of the likelihood. A state that p excludes has density 0, even if L is undefined there.
///
/// ```
/// use annealed::estimate::LogZ;
/// use annealed::model::{FunctionModel, Gaussian};
/// use annealed::ais::Ais;
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::path::TemperedPath;
/// use nalgebra::DVector;
///
/// // One observation y = 1 of N(theta, 1), and the prior theta ~ N(0, 1): evidence N(1; 0, 2).
/// let log_likelihood = |theta: &DVector<f64>| {
///     -0.5 * (1.0 - theta[0]).powi(2) - 0.5 * std::f64::consts::TAU.ln()
/// };
/// let path = TemperedPath::new(Gaussian::standard(1)?, FunctionModel::new(log_likelihood));
/// let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?).seed(3).run()?;
/// let exact = -0.25 - 0.5 * (2.0 * std::f64::consts::TAU).ln();
/// assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias("prior", "posterior", "marginal likelihood", "evidence"))]
pub type TemperedPath<P, L> = Blend<Normalized<P>, L, Tempered>;

/// The tempered posterior at one beta of a [`TemperedPath`].
pub type TemperedAt<'a, P, L> = BlendAt<&'a TemperedPath<P, L>>;

impl<P, L> TemperedPath<P, L>
where
    P: Sampleable + NormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    /// Creates a path from a prior to its posterior. [`FunctionModel`](crate::model::FunctionModel) wraps a closure.
    pub fn new(prior: P, log_likelihood: L) -> Self {
        Self::between(Normalized::new(prior), log_likelihood)
    }
}

impl<P, L> TemperedPath<P, L> {
    /// Returns the prior p, normalised.
    pub fn prior(&self) -> &Normalized<P> {
        &self.base
    }

    /// Returns the likelihood L.
    pub fn likelihood(&self) -> &L {
        &self.other
    }
}

impl<A, B, L> Blend<A, B, L> {
    fn between(base: A, other: B) -> Self {
        Self {
            base,
            other,
            law: PhantomData,
        }
    }

    /// Returns the model that chains start from.
    pub fn base(&self) -> &A {
        &self.base
    }

    pub(crate) fn base_mut(&mut self) -> &mut A {
        &mut self.base
    }

    /// Returns the model at `beta` in `[0, 1]`.
    pub fn at(&self, beta: f64) -> BlendAt<&Self> {
        BlendAt { path: self, beta }
    }
}

/// The model at one beta of a [`Blend`]. It contains a handle H of the path: a reference or an [`Arc`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlendAt<H> {
    pub(crate) path: H,
    pub(crate) beta: f64,
}

impl<H> BlendAt<H> {
    /// Returns the handle of the path.
    pub fn path(&self) -> &H {
        &self.path
    }
}

macro_rules! handle {
    ([$($lifetime:lifetime)?] $handle:ty) => {
        impl<$($lifetime,)? A, B, L> AnnealingPath for $handle
        where
            A: Sampleable,
            B: UnnormalizedModel<State = A::State>,
            L: BlendLaw,
        {
            type State = A::State;
            type Base = A;
            type At = BlendAt<Self>;

            fn base(&self) -> &A {
                &self.base
            }

            fn at(&self, beta: f64) -> BlendAt<Self> {
                let path = Self::clone(self);
                BlendAt { path, beta }
            }

            fn check(&self) -> Result<()> {
                check_same_dimension(L::OTHER, &self.other, &self.base)
            }
        }
    };
}

handle! { ['p] &'p Blend<A, B, L> }
handle! { [] Arc<Blend<A, B, L>> }

impl<H, A, B, L> UnnormalizedModel for BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
    L: BlendLaw,
{
    type State = A::State;

    fn log_density(&self, state: &A::State) -> f64 {
        let base = self.path.base.log_density(state);
        L::blend(self.beta, base, || self.path.other.log_density(state))
    }

    fn evaluates_batches(&self) -> bool {
        self.path.other.evaluates_batches()
    }

    fn log_densities(&self, states: &[A::State], log_densities: &mut [f64]) {
        self.path.base.log_densities(states, log_densities);
        self.blend_runs(log_densities, |run, others| {
            self.path.other.log_densities(&states[run], others);
        });
    }

    fn epsilon(&self) -> f64 {
        self.path.base.epsilon().max(self.path.other.epsilon())
    }

    fn failure(&self) -> Option<Failure> {
        let base = self.path.base.failure();
        base.or_else(|| self.path.other.failure())
    }
}

impl<H, A, B, L> BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
    L: BlendLaw,
{
    /// Blends in place: `log_densities` holds the base's log densities on entry. `evaluate` writes the other model's
    /// log densities for a range of states.
    pub(super) fn blend_runs(
        &self,
        log_densities: &mut [f64],
        mut evaluate: impl FnMut(Range<usize>, &mut [f64]),
    ) {
        with_slice(log_densities.len(), |others| {
            let mut done = 0;
            while let Some(run) = next_run(done..log_densities.len(), |state| {
                !L::is_base(self.beta, log_densities[state])
            }) {
                done = run.end;
                let others = &mut others[run.clone()];
                evaluate(run.clone(), others);
                for (value, other) in log_densities[run].iter_mut().zip(others) {
                    *value = L::sum(self.beta, *value, *other);
                }
            }
        });
    }

    /// Returns the two log densities that a log ratio needs. In place of the base's log density it returns 0 if the
    /// base's weight does not depend on beta.
    fn ends_of_ratio(&self, state: &A::State) -> (f64, f64) {
        let base = match L::BASE_FADES {
            true => self.path.base.log_density(state),
            false => 0.0,
        };
        (base, self.path.other.log_density(state))
    }
}

impl<H, A, B, L> Intermediate for BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
    L: BlendLaw,
{
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.beta
    }

    /// Returns `(beta - beta')` times the [slope](BetaDerivative::beta_derivative) at x. It is `-inf` if this model
    /// excludes x, and `+inf` if only the previous one does.
    fn log_ratio(&self, previous: &Self, state: &A::State) -> f64 {
        let (base, other) = self.ends_of_ratio(state);
        L::log_ratio(previous.beta, self.beta, base, other)
    }

    #[inline(always)]
    fn ends(&self, state: &A::State, known: Ends) -> Ends {
        let known = known.or_base(|| self.path.base.log_density(state));
        if L::is_base(self.beta, known.base) {
            return known;
        }
        known.or_target(|| self.path.other.log_density(state))
    }

    fn ends_of_batch(&self, states: &[A::State], bases: &mut [f64], targets: &mut [f64]) {
        let mut done = 0;
        while let Some(run) = next_run(done..states.len(), |state| bases[state].is_nan()) {
            done = run.end;
            let model = &self.path.base;
            model.log_densities(&states[run.clone()], &mut bases[run]);
        }
        let mut done = 0;
        while let Some(run) = next_run(done..states.len(), |state| {
            targets[state].is_nan() && !L::is_base(self.beta, bases[state])
        }) {
            done = run.end;
            let model = &self.path.other;
            model.log_densities(&states[run.clone()], &mut targets[run]);
        }
    }

    #[inline(always)]
    fn log_density_at(&self, ends: Ends) -> f64 {
        L::blend(self.beta, ends.base, || ends.target)
    }

    #[inline(always)]
    fn log_ratio_at(&self, previous: &Self, ends: Ends) -> f64 {
        L::log_ratio(previous.beta, self.beta, ends.base, ends.target)
    }
}

impl<H, A, B, L> BetaDerivative for BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: UnnormalizedModel,
    B: UnnormalizedModel<State = A::State>,
    L: BlendLaw,
{
    /// Returns `log f_b(x) - log f_a(x)` on a [`GeometricPath`], `log L(x)` on a [`TemperedPath`].
    fn beta_derivative(&self, state: &A::State) -> f64 {
        let (base, other) = self.ends_of_ratio(state);
        other - base
    }
}

impl<C, H, A, B, L> LocalDensity<C> for BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: LocalDensity<C>,
    B: LocalDensity<C, State = A::State>,
    L: BlendLaw,
{
    fn log_density_change(&self, state: &A::State, change: &C) -> f64 {
        self.log_density_at(self.end_changes(state, change))
    }

    fn end_changes(&self, state: &A::State, change: &C) -> Ends {
        let mut changes = Ends::UNKNOWN;
        changes.base = self.path.base.log_density_change(state, change);
        if !L::is_base(self.beta, changes.base) {
            changes.target = self.path.other.log_density_change(state, change);
        }
        changes
    }
}

impl<H, A, B, L> Differentiable for BlendAt<H>
where
    H: Deref<Target = Blend<A, B, L>>,
    A: Differentiable,
    B: Differentiable,
    L: BlendLaw,
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
        let [to_base, to_other] = L::weights(self.beta);
        // A base of weight 0 is not evaluated. Its log density then counts as 0.
        log_densities.fill(0.0);
        if to_base > 0.0 {
            let gradients = gradients.as_view_mut();
            let model = &self.path.base;
            model.accumulate_gradients(states, scale * to_base, gradients, log_densities);
        }
        self.blend_runs(log_densities, |run, others| {
            others.fill(0.0);
            if to_other > 0.0 {
                let (first, count) = (run.start, run.len());
                let (states, gradients) =
                    (states.rows(first, count), gradients.rows_mut(first, count));
                let model = &self.path.other;
                model.accumulate_gradients(states, scale * to_other, gradients, others);
            }
        });
    }

    fn end_weights(&self) -> Option<[f64; 2]> {
        Some(L::weights(self.beta))
    }

    fn with_end(
        &self,
        end: usize,
        work: &mut dyn FnMut(&dyn Differentiable<State = DVector<f64>>),
    ) {
        match end {
            0 => work(&self.path.base),
            _ => work(&self.path.other),
        }
    }

    /// Adds the gradient at the mean of the two models' betas. An end whose weight is 0 at that beta is not evaluated.
    fn accumulate_mean_gradient(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let middle = 0.5 * (previous.beta + self.beta);
        let [to_base, to_other] = L::weights(middle);
        let (mut base, mut other) = (0.0, 0.0);
        if to_base > 0.0 {
            let model = &self.path.base;
            base = model.accumulate_gradient(state, scale * to_base, gradient);
        }
        if L::is_base(middle, base) {
            return base;
        }
        if to_other > 0.0 {
            let model = &self.path.other;
            other = model.accumulate_gradient(state, scale * to_other, gradient);
        }
        L::sum(self.beta, base, other)
    }
}
