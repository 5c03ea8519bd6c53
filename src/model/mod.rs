//! Models: unnormalised densities, with a trait for each further ability.
//!
//! ```
//! use annealed::prelude::*;
//!
//! /// The double well `log f(x) = -8 (x^2 - 1)^2`.
//! struct DoubleWell;
//!
//! impl UnnormalizedModel for DoubleWell {
//!     type State = DVector<f64>;
//!
//!     fn log_density(&self, x: &DVector<f64>) -> f64 {
//!         -8.0 * (x[0] * x[0] - 1.0).powi(2)
//!     }
//! }
//!
//! let path = GeometricPath::new(Gaussian::standard(1)?, DoubleWell);
//! println!("{}", Rounds::new(&path, RandomWalkMetropolis::new(0.5)?).budget(50_000).run()?);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! A model of your own implements [`UnnormalizedModel`]. [`FunctionModel`] and [`GradientModel`] wrap closures, and
//! [`BatchModel`] wraps a closure over many states at once. A `DualModel` (feature `num-dual`) takes the gradient by
//! automatic differentiation. A base is also [`Sampleable`]. Langevin and Hamiltonian kernels need [`Differentiable`].
//! The ready-made models are [`Gaussian`], with [Laplace's approximation](Gaussian::laplace), [`StudentT`],
//! [`GaussianMixture`], [`UniformBox`], [`Bernoulli`], [`Bits`], and [`Priors`] of parameters. Some can be
//! [fitted](Fit) to states.

mod batch;
mod bits;
#[cfg(feature = "num-dual")]
mod dual;
mod exponential_family;
mod fit;
mod forward;
mod function;
mod gaussian;
mod gradient_check;
mod joint_prior;
mod lanes;
mod laplace;
mod latent;
mod mixture;
mod mixture_fit;
mod prior;
mod priors;
mod quadratic;
mod redundant;
mod square;
mod standard_law;
mod student;
mod transformed_prior;
mod unbounded;

pub(crate) use batch::single_states;
pub use batch::{BatchModel, BatchOutput};
pub use bits::Bits;
#[cfg(feature = "num-dual")]
pub use dual::DualModel;
pub use exponential_family::{Bernoulli, ExponentialFamily};
pub use fit::Fit;
pub(crate) use fit::{gaussian, mean};
pub(crate) use forward::forward_model;
pub use function::{FunctionModel, GradientModel, Provided};
pub use gaussian::Gaussian;
pub(crate) use gradient_check::{
    OTHERS, PROBES, added_gradient, central_difference, check_gradient,
};
pub use joint_prior::JointPrior;
pub(crate) use latent::{Coordinates, Gradients, LatentPrior};
pub use latent::{Latent, LatentGradient};
pub use mixture::GaussianMixture;
pub(crate) use mixture::Mixture;
pub use prior::Prior;
pub use priors::{Priors, UniformBox};
pub(crate) use quadratic::QuadraticForm;
pub(crate) use square::{Factorization, SquareMatrix, check_symmetric};
pub use student::StudentT;
pub use transformed_prior::TransformedPrior;
pub use unbounded::Unbounded;

use std::sync::Arc;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::Rng;

use crate::error::Failure;
use crate::num::{set_zero, with_buffer};
use crate::{Error, Result};

/// A density known up to a constant: `p(x) = f(x) / Z`.
///
/// The state may be any type: a vector, bits, spins, a struct. A target may be a `Box`, `Arc` or reference of a `dyn`
/// model. A base may not, because a path samples from it.
///
/// ```
/// use annealed::prelude::*;
///
/// type Target = Box<dyn Differentiable<State = DVector<f64>> + Send + Sync>;
/// let quartic = GradientModel::new(1, |x, gradient| {
///     gradient[0] = -4.0 * x[0].powi(3);
///     -x[0].powi(4)
/// })?;
/// for target in [Box::new(quartic) as Target, Box::new(Gaussian::standard(1)?)] {
///     let path = GeometricPath::new(Gaussian::standard(1)?, target);
///     println!("{}", Ais::new(&path, Hmc::new(0.5, 3)?).schedule(Schedule::linear(20)?).run()?);
/// }
/// # Ok::<(), annealed::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model",
    note = "a function of a state is one inside `FunctionModel::new(..)`, and with its gradient inside `GradientModel::new(d, ..)`"
)]
pub trait UnnormalizedModel {
    /// The type of a state x, a point of the space.
    type State;

    /// Returns `log f(x)`; `-inf` off the support, never NaN or `+inf`.
    ///
    /// # Panics
    /// Models of this crate panic if the state has another dimension. A run then returns [`Error::Panicked`].
    fn log_density(&self, state: &Self::State) -> f64;

    /// Returns the number of coordinates of a state, if known. A path refuses models whose dimensions differ.
    fn state_dimension(&self) -> Option<usize> {
        None
    }

    /// Decides whether Metropolis, Langevin and Hamiltonian kernels evaluate the chains of a block together, by
    /// [`log_densities`](Self::log_densities) and [`Differentiable::accumulate_gradients`]. Other kernels, and
    /// [`NestedSmc`](crate::nested::NestedSmc), always go chain by chain. A path returns the answer of its target or
    /// likelihood.
    fn evaluates_batches(&self) -> bool {
        false
    }

    /// Writes `log f(x)` of each state, as [`log_density`](Self::log_density) does. The provided method loops.
    ///
    /// Override it, and [`evaluates_batches`](Self::evaluates_batches), if states can share work. A call gets between 1
    /// state and a whole block. Each value must depend on its own state alone, and may differ from `log_density` by
    /// rounding. If rounding depends on the number of states, the bits of a run depend on its block size.
    ///
    /// ```
    /// use annealed::prelude::*;
    ///
    /// /// Laplace's law.
    /// struct TwoSided;
    ///
    /// impl UnnormalizedModel for TwoSided {
    ///     type State = f64;
    ///
    ///     fn log_density(&self, x: &f64) -> f64 {
    ///         -x.abs()
    ///     }
    ///
    ///     fn evaluates_batches(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn log_densities(&self, states: &[f64], log_densities: &mut [f64]) {
    ///         for (log_density, x) in log_densities.iter_mut().zip(states) {
    ///             *log_density = -x.abs();
    ///         }
    ///     }
    /// }
    ///
    /// let mut found = [0.0; 2];
    /// TwoSided.log_densities(&[1.0, -2.0], &mut found);
    /// assert_eq!(found, [-1.0, -2.0]);
    /// ```
    fn log_densities(&self, states: &[Self::State], log_densities: &mut [f64]) {
        for (log_density, state) in log_densities.iter_mut().zip(states) {
            *log_density = self.log_density(state);
        }
    }

    /// Returns the epsilon of the number type in which log densities are computed; the epsilon of `f64` by default. The
    /// check of a gradient and the warning [`Rounding`](crate::estimate::Warning::Rounding) depend on it.
    fn epsilon(&self) -> f64 {
        f64::EPSILON
    }

    /// Returns the failure of a library that the model calls, if it has failed. The model's log densities are NaN from
    /// then on, and a run returns an [`Error::Model`] in place of the NaN. [`BatchModel`] keeps the error of its
    /// closure here.
    fn failure(&self) -> Option<Failure> {
        None
    }
}

/// Returns `log f(x)` of each state, by one call of a model that evaluates batches.
pub(crate) fn log_densities_of<M: UnnormalizedModel + ?Sized>(
    model: &M,
    states: &[M::State],
) -> Vec<f64> {
    if !model.evaluates_batches() {
        return states.iter().map(|x| model.log_density(x)).collect();
    }
    let mut log_densities = vec![0.0; states.len()];
    model.log_densities(states, &mut log_densities);
    log_densities
}

/// Returns an [`Error::DimensionMismatch`] if both models know their dimensions and these differ.
pub(crate) fn check_same_dimension(
    argument: &'static str,
    model: &impl UnnormalizedModel,
    base: &impl UnnormalizedModel,
) -> Result<()> {
    match (model.state_dimension(), base.state_dimension()) {
        (Some(found), Some(expected)) => Error::check_dimension(argument, found, expected),
        _ => Ok(()),
    }
}

/// A model that can be sampled exactly, as the base of a path must be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sampled exactly",
    note = "a `FunctionModel` can after `.with_sampler(..)`; `Gaussian`, `Priors` and `UniformBox` can; only the base of a path must be"
)]
pub trait Sampleable: UnnormalizedModel {
    /// Draws an exact, independent sample of `p`.
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Self::State;

    /// Draws the start of the chain with this index in its run. By default it is a [`sample`](Self::sample). A base of
    /// many data gives each chain its datum.
    fn sample_chain<R: Rng + ?Sized>(&self, _chain: usize, rng: &mut R) -> Self::State {
        self.sample(rng)
    }
}

/// A model whose normalising constant is known.
#[diagnostic::on_unimplemented(
    message = "the normaliser of `{Self}` is not known",
    note = "a `FunctionModel` has one after `.with_log_normalizer(..)`",
    note = "write `impl NormalizedModel`, with 0 to count log Z from the base; `Ais` and `Tempering` take it by `with_base_log_z`"
)]
pub trait NormalizedModel: UnnormalizedModel {
    /// Returns `log Z`, the log of the integral (or sum) of `f`.
    fn log_normalizer(&self) -> f64;

    /// Returns true if `log Z` follows from the parameters by a tested formula, as for the bases of this crate; false
    /// by default. A [challenge](crate::adaptive::Challenge) compares any other log Z with samples of the model.
    fn has_certain_normalizer(&self) -> bool {
        false
    }
}

/// A model over vectors with a gradient, for Langevin and Hamiltonian kernels.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no gradient",
    note = "a `FunctionModel` has one after `.with_gradient(..)`, a `GradientModel` always; on a path both ends need one",
    note = "with the feature `num-dual`, a `DualModel` differentiates a function of dual numbers"
)]
pub trait Differentiable: UnnormalizedModel<State = DVector<f64>> {
    /// Adds `scale * grad log f(x)` to `gradient` and returns `log f(x)`, unscaled. It must add and not assign: on a
    /// path `gradient` already contains the other end's part.
    /// [`testing::gradient_error`](crate::testing::gradient_error) checks both.
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64;

    /// Adds `scale * grad log f(x)` of each state to `gradients` and writes each `log f(x)`, unscaled. Rows are states,
    /// columns are coordinates. Override it when you override [`log_densities`](UnnormalizedModel::log_densities).
    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        accumulate_each(self, states, scale, gradients, log_densities);
    }

    /// Adds `scale / 2 * (grad log f(x) + grad log f'(x))` to `gradient`, with f' the density of `previous`, and
    /// returns `log f(x)`. This mean is the drift of a stage. Override it if the two models share evaluations.
    fn accumulate_mean_gradient(
        &self,
        previous: &Self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64
    where
        Self: Sized,
    {
        previous.accumulate_gradient(state, 0.5 * scale, gradient);
        self.accumulate_gradient(state, 0.5 * scale, gradient)
    }

    /// Returns the two factors by which the gradients at the [ends](crate::path::Intermediate::ends) of a path enter
    /// `grad log f(x)`. The default, `None`, is for a path without ends and for other models. On a path with ends a
    /// chain keeps its gradients from stage to stage.
    fn end_weights(&self) -> Option<[f64; 2]> {
        None
    }

    /// Calls `work` with an end of the path: the base if `end` is 0, the target or likelihood if it is 1. Override this
    /// method if the ends have [weights](Self::end_weights).
    fn with_end(
        &self,
        _end: usize,
        _work: &mut dyn FnMut(&dyn Differentiable<State = DVector<f64>>),
    ) {
    }

    /// Writes `grad log f(x)` to `gradient` and returns `log f(x)`.
    fn gradient_into(&self, state: &DVector<f64>, gradient: &mut DVector<f64>) -> f64 {
        set_zero(gradient.as_mut_slice());
        self.accumulate_gradient(state, 1.0, gradient)
    }

    /// Returns `grad log f(x)`.
    fn gradient(&self, state: &DVector<f64>) -> DVector<f64> {
        let mut gradient = DVector::zeros(state.len());
        self.gradient_into(state, &mut gradient);
        gradient
    }
}

fn accumulate_each<M: Differentiable + ?Sized>(
    model: &M,
    states: DMatrixView<'_, f64>,
    scale: f64,
    mut gradients: DMatrixViewMut<'_, f64>,
    log_densities: &mut [f64],
) {
    let dimension = states.ncols();
    with_buffer(dimension, |state| {
        with_buffer(dimension, |gradient| {
            for (row, log_density) in log_densities.iter_mut().enumerate() {
                state.tr_copy_from(&states.row(row));
                gradient.tr_copy_from(&gradients.row(row));
                *log_density = model.accumulate_gradient(state, scale, gradient);
                gradients.row_mut(row).tr_copy_from(gradient);
            }
        });
    });
}

/// A model whose coordinates can each be drawn given all the others. Coordinate Gibbs (heat bath) needs it.
pub trait FullConditionals: UnnormalizedModel {
    /// Returns the number of coordinates of the state.
    fn coordinates(&self) -> usize;

    /// Draws coordinate `index` from its conditional given the others, in place.
    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut Self::State,
        index: usize,
        rng: &mut R,
    );
}

/// Log densities of a state under both ends of a path; NaN if not known.
///
/// They determine the log density at every beta of a path that blends its ends. Neither a weight nor a move then
/// evaluates the state again.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ends {
    /// `log f_a(x)`.
    pub base: f64,
    /// `log f_b(x)`, or the log likelihood.
    pub target: f64,
}

impl Ends {
    /// Both log densities unknown.
    pub const UNKNOWN: Self = Self {
        base: f64::NAN,
        target: f64::NAN,
    };

    /// Returns these log densities, with the base evaluated unless it is known.
    #[inline(always)]
    #[must_use]
    pub fn or_base(mut self, evaluate: impl FnOnce() -> f64) -> Self {
        if self.base.is_nan() {
            self.base = evaluate();
        }
        self
    }

    /// Returns these log densities, with the target evaluated unless it is known.
    #[inline(always)]
    #[must_use]
    pub fn or_target(mut self, evaluate: impl FnOnce() -> f64) -> Self {
        if self.target.is_nan() {
            self.target = evaluate();
        }
        self
    }

    /// Returns whether both log densities are known.
    #[inline(always)]
    pub fn are_known(self) -> bool {
        !self.base.is_nan() && !self.target.is_nan()
    }

    /// Stores `log f_beta(x)` itself, for a path whose log density does not split into two ends.
    #[inline(always)]
    pub(crate) fn at_beta(log_density: f64, beta: f64) -> Self {
        Self {
            base: log_density,
            target: beta,
        }
    }

    /// Returns `log f_beta(x)` if [`at_beta`](Self::at_beta) stored it for this `beta`.
    #[inline(always)]
    pub(crate) fn of_beta(self, beta: f64) -> Option<f64> {
        (self.target == beta).then_some(self.base)
    }
}

/// A model that computes a change of its log density faster than the density. A spin's flip, for example, touches only
/// its bonds.
///
/// `C` is the change, for example the index of a spin. A [`LocalProposal`](crate::kernel::LocalProposal) applies it.
/// [`GeometricPath`](crate::path::GeometricPath) and [`TemperedPath`](crate::path::TemperedPath) need this trait from
/// both ends.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know what a change `{C}` does to its log density",
    note = "on a path both ends need to implement `LocalDensity<{C}>`"
)]
pub trait LocalDensity<C>: UnnormalizedModel {
    /// Returns `log f(x') - log f(x)`, with x' the state after the change; `-inf` off the support, never NaN. A wrong
    /// value gives a wrong log Z without a warning: check it with
    /// [`testing::change_error`](crate::testing::change_error).
    fn log_density_change(&self, state: &Self::State, change: &C) -> f64;

    /// Returns the changes of the log densities at the [ends](crate::path::Intermediate::ends) of a path; unknown by
    /// default, as for models that are not on a path.
    fn end_changes(&self, _state: &Self::State, _change: &C) -> Ends {
        Ends::UNKNOWN
    }
}

impl<C, M: LocalDensity<C> + ?Sized> LocalDensity<C> for &M {
    #[inline]
    fn log_density_change(&self, state: &Self::State, change: &C) -> f64 {
        (**self).log_density_change(state, change)
    }
}

forward_model! {
    [M: ?Sized] &M as M, self => **self;
    UnnormalizedModel Sampleable NormalizedModel Differentiable FullConditionals
}
forward_model! {
    [M: ?Sized] Box<M> as M, self => **self;
    UnnormalizedModel Sampleable NormalizedModel Differentiable FullConditionals
}
forward_model! {
    [M: ?Sized] Arc<M> as M, self => **self;
    UnnormalizedModel Sampleable NormalizedModel Differentiable FullConditionals
}
