//! Paths: families of unnormalised densities `f_beta` from a base (`beta = 0`) to a target (`beta = 1`).
//!
//! ```
//! use annealed::path::Intermediate;
//! use annealed::prelude::*;
//!
//! /// From N(0, 1) to N(0, s^2) by their precisions, a path of values.
//! #[derive(Clone)]
//! struct Precisions {
//!     base: Gaussian,
//!     target: f64,
//! }
//!
//! /// Its model at beta.
//! struct PrecisionAt {
//!     precision: f64,
//!     beta: f64,
//! }
//!
//! impl UnnormalizedModel for PrecisionAt {
//!     type State = DVector<f64>;
//!
//!     fn log_density(&self, x: &DVector<f64>) -> f64 {
//!         -0.5 * self.precision * x.norm_squared()
//!     }
//! }
//!
//! impl Intermediate for PrecisionAt {
//!     fn beta(&self) -> f64 {
//!         self.beta
//!     }
//! }
//!
//! impl AnnealingPath for Precisions {
//!     type State = DVector<f64>;
//!     type Base = Gaussian;
//!     type At = PrecisionAt;
//!
//!     fn base(&self) -> &Gaussian {
//!         &self.base
//!     }
//!
//!     fn at(&self, beta: f64) -> PrecisionAt {
//!         let precision = 1.0 + beta * (self.target - 1.0);
//!         PrecisionAt { precision, beta }
//!     }
//! }
//!
//! let path = Precisions { base: Gaussian::standard(2)?, target: 9.0 };
//! let run = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).schedule(Schedule::linear(50)?).run()?;
//! # let exact = (std::f64::consts::TAU / 9.0).ln();
//! assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`TemperedPath`] leads from a prior to a posterior, [`GeometricPath`] from any base to any target. [`MomentPath`]
//! and [`MomentSplinePath`] average moments. Your own path implements [`AnnealingPath`], and its models
//! [`Intermediate`].

mod blend;
mod blend_law;
mod gaussian;
mod latent;
mod normalized;
mod spline;

pub use crate::model::Ends;
pub use crate::num::SimdLevel;
pub use blend::{Blend, BlendAt, GeometricAt, GeometricPath, TemperedAt, TemperedPath};
pub use blend_law::{Geometric, Tempered};
pub use gaussian::{GaussianPath, MomentPath};
pub use normalized::Normalized;
pub use spline::MomentSplinePath;

use crate::Result;
use crate::estimate::Warning;
use crate::model::{LocalDensity, Sampleable, UnnormalizedModel, forward_model};

pub(crate) fn dimension(path: &impl AnnealingPath) -> usize {
    path.base().state_dimension().unwrap_or(1)
}

/// The model at one point of a path. Two of them make a [`Stage`](crate::kernel::Stage).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no model of a path",
    note = "a plain model becomes one inside of `Stationary`"
)]
pub trait Intermediate: UnnormalizedModel {
    /// Whether the log densities at all betas are functions of two numbers, the [`ends`](Self::ends); false by default.
    /// If true, a chain keeps both from stage to stage, and a random walk needs 1 evaluation per stage, not 2.
    const HAS_ENDS: bool = false;

    /// Returns the model's place on the path: 0 at the base, 1 at the target.
    fn beta(&self) -> f64;

    /// Returns `log f_beta(x) - log f_beta'(x)`, with `previous` at `beta'`; `-inf` if this model excludes `x`, even if
    /// `previous` does too. Override it, and [`log_ratio_given`](Self::log_ratio_given), if the difference loses digits
    /// or has a cheaper form.
    fn log_ratio(&self, previous: &Self, state: &Self::State) -> f64 {
        self.log_ratio_given(previous, state, self.log_density(state), None)
    }

    /// Returns [`log_ratio`](Self::log_ratio), given `log f_beta(x)` as `here`, and `log f_beta'(x)` as `before` if it
    /// is known.
    fn log_ratio_given(
        &self,
        previous: &Self,
        state: &Self::State,
        here: f64,
        before: Option<f64>,
    ) -> f64 {
        ratio_given(previous, state, here, before)
    }

    /// Returns the log densities of the path's ends at `state` that this model needs, without evaluating the `known`
    /// ones again. A path that [has ends](Self::HAS_ENDS) overrides it, and [`log_density_at`](Self::log_density_at).
    ///
    /// ```
    /// use annealed::model::UnnormalizedModel;
    /// use annealed::path::{Ends, Intermediate};
    ///
    /// /// N(0, 1) at beta = 0, the quartic `exp(-x^4)` at beta = 1.
    /// struct Quartic {
    ///     beta: f64,
    /// }
    ///
    /// impl UnnormalizedModel for Quartic {
    ///     type State = f64;
    ///
    ///     fn log_density(&self, x: &f64) -> f64 {
    ///         self.log_density_at(self.ends(x, Ends::UNKNOWN))
    ///     }
    /// }
    ///
    /// impl Intermediate for Quartic {
    ///     const HAS_ENDS: bool = true;
    ///
    ///     fn beta(&self) -> f64 {
    ///         self.beta
    ///     }
    ///
    ///     fn ends(&self, x: &f64, known: Ends) -> Ends {
    ///         known.or_base(|| -0.5 * x * x).or_target(|| -x.powi(4))
    ///     }
    ///
    ///     fn log_density_at(&self, ends: Ends) -> f64 {
    ///         (1.0 - self.beta) * ends.base + self.beta * ends.target
    ///     }
    /// }
    ///
    /// assert_eq!(Quartic { beta: 0.5 }.log_density(&1.0), -0.75);
    /// ```
    fn ends(&self, _state: &Self::State, known: Ends) -> Ends {
        known
    }

    /// Evaluates the [`ends`](Self::ends) of several states, as far as `bases` and `targets`, with an entry for each
    /// state, are still NaN. Kernels that evaluate [batches](UnnormalizedModel::evaluates_batches) call this method.
    /// The provided method loops.
    fn ends_of_batch(&self, states: &[Self::State], bases: &mut [f64], targets: &mut [f64]) {
        for (state, (base, target)) in states.iter().zip(bases.iter_mut().zip(targets)) {
            let known = Ends {
                base: *base,
                target: *target,
            };
            let found = self.ends(state, known);
            (*base, *target) = (found.base, found.target);
        }
    }

    /// Returns `log f_beta(x)`, given the path's [`ends`](Self::ends) at x.
    fn log_density_at(&self, _ends: Ends) -> f64 {
        f64::NAN
    }

    /// Returns [`log_ratio`](Self::log_ratio), given the path's [`ends`](Self::ends) at x. Override it if the
    /// difference loses digits.
    fn log_ratio_at(&self, previous: &Self, ends: Ends) -> f64 {
        difference(self.log_density_at(ends), || previous.log_density_at(ends))
    }
}

/// An intermediate model that is differentiable in beta.
pub trait BetaDerivative: Intermediate {
    /// Returns `d/dbeta log f_beta(x)`, from the right at a knot of the path (from the left at `beta = 1`). Its mean is
    /// `d/dbeta log Z`; its variance is the metric `g(beta)` of the VAROPT schedule.
    fn beta_derivative(&self, state: &Self::State) -> f64;
}

/// A path from a base that can be sampled to a target. Anything that can fail does so when the path is built.
///
/// The implementing type is a handle that is cheap to clone: a small value, or a reference to a large one, such as
/// `&GeometricPath`. A reference to a path is also a path, so runners take `&path` in both cases.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no path, or no handle of one",
    note = "most paths are lent: pass `&path`, or `Arc::new(path)` for a path that owns its ends"
)]
pub trait AnnealingPath: Clone {
    /// The type of a state x, a point of the space.
    type State;
    /// The model at `beta = 0`.
    type Base: Sampleable<State = Self::State>;
    /// The model at one beta; cheap to create.
    type At: Intermediate<State = Self::State>;

    /// Returns the model that chains start from.
    fn base(&self) -> &Self::Base;

    /// Returns the model at `beta` in `[0, 1]`; `at(0)` equals the base, constant included. A run calls it once per
    /// stage and block.
    fn at(&self, beta: f64) -> Self::At;

    /// Returns a cheaper model near `at(beta)`, if the path has one; it equals the base at 0. An annealed run then
    /// passes through these models and ends with one more weighing, `log f_1(x) - log f~_1(x)`, from the last one to
    /// the target, so `E[w] = Z_1 / Z_0` still holds. Other methods take the exact models.
    fn surrogate_at(&self, _beta: f64) -> Option<Self::At> {
        None
    }

    /// Refuses ends whose known properties do not fit together. Runs call it before chains start.
    ///
    /// # Errors
    /// If the states of the ends differ in dimension.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the SIMD level that kernels use on these models, if there is a choice. The bits of a run depend on it.
    fn simd_level(&self) -> Option<SimdLevel> {
        None
    }

    /// Returns an estimate of the rounding error in a chain's log weight along the whole path; 0 by default. A run
    /// warns if it is not small against the standard error.
    fn rounding_error(&self) -> f64 {
        0.0
    }

    /// Returns a lower bound on log Z of the target that is certain to hold; none by default. `states` are final states
    /// of a run's chains, heaviest first. The search for a bound starts from them and takes a small share of the cost of
    /// `chain_steps` moves.
    fn certain_bound(&self, states: &[&Self::State], chain_steps: u64) -> Option<f64> {
        let _ = (states, chain_steps);
        None
    }

    /// Returns the path's reasons to doubt `interval` for log Z of the target, by default the
    /// [`certain_bound`](Self::certain_bound) if it lies above. A run adds them to its warnings.
    fn doubts(&self, certain_bound: Option<f64>, interval: (f64, f64)) -> Vec<Warning> {
        below_bound(certain_bound, interval)
    }
}

impl<P: AnnealingPath> AnnealingPath for &P {
    type State = P::State;
    type Base = P::Base;
    type At = P::At;

    fn base(&self) -> &P::Base {
        P::base(self)
    }

    fn at(&self, beta: f64) -> P::At {
        P::at(self, beta)
    }

    fn surrogate_at(&self, beta: f64) -> Option<P::At> {
        P::surrogate_at(self, beta)
    }

    fn check(&self) -> Result<()> {
        P::check(self)
    }

    fn simd_level(&self) -> Option<SimdLevel> {
        P::simd_level(self)
    }

    fn rounding_error(&self) -> f64 {
        P::rounding_error(self)
    }

    fn certain_bound(&self, states: &[&P::State], chain_steps: u64) -> Option<f64> {
        P::certain_bound(self, states, chain_steps)
    }

    fn doubts(&self, certain_bound: Option<f64>, interval: (f64, f64)) -> Vec<Warning> {
        P::doubts(self, certain_bound, interval)
    }
}

/// Returns the log density `here` minus the log density `before()`; `-inf` if `here` is `-inf`.
#[inline(always)]
fn difference(here: f64, before: impl FnOnce() -> f64) -> f64 {
    if here == f64::NEG_INFINITY {
        here
    } else {
        here - before()
    }
}

/// Returns the log ratio of two densities: `here` minus the log density under the previous model, which is evaluated unless
/// `before` gives it.
#[inline(always)]
fn ratio_given<M: UnnormalizedModel + ?Sized>(
    previous: &M,
    state: &M::State,
    here: f64,
    before: Option<f64>,
) -> f64 {
    difference(here, || {
        before.unwrap_or_else(|| previous.log_density(state))
    })
}

/// A plain model as an intermediate model at `beta = 1`. A kernel can then run on it as plain MCMC, or be checked for
/// invariance ([`testing::invariance`](crate::testing::invariance)).
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

/// Returns a warning if the bound lies above the interval.
pub(crate) fn below_bound(certain_bound: Option<f64>, interval: (f64, f64)) -> Vec<Warning> {
    let below = |bound| Warning::below_bound(bound, 1.0, interval.1);
    Vec::from_iter(certain_bound.and_then(below))
}

/// Largest number of final states of a run from which its path looks for a bound.
pub(crate) const STATES_OF_BOUND: usize = 256;
