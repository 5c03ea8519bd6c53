//! Models from closures: of the log density alone, or of value and gradient together.

use std::marker::PhantomData;

use nalgebra::DVector;
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{add_scaled, set_zero, with_buffer};
use crate::{Error, Result};

/// A model from a closure that computes `log f(x)`. Further closures add a gradient, exact samples or a normaliser.
///
/// ```
/// use annealed::model::{Differentiable, FunctionModel, UnnormalizedModel};
/// use nalgebra::{DVector, dvector};
///
/// let model = FunctionModel::new(|x: &DVector<f64>| -x.norm_squared().powi(2))
///     .with_gradient(|x: &DVector<f64>| -4.0 * x.norm_squared() * x);
/// assert_eq!(model.log_density(&dvector![1.0, 1.0]), -4.0);
/// assert_eq!(model.gradient(&dvector![1.0, 1.0]), dvector![-8.0, -8.0]);
/// ```
#[derive(Clone)]
pub struct FunctionModel<S, F, G = (), D = (), N = ()> {
    log_density: F,
    gradient: G,
    sampler: D,
    log_normalizer: N,
    state: PhantomData<fn(&S)>,
}

/// A closure given to a [`FunctionModel`]. The type of a missing closure is `()`, so that the compiler names what is
/// missing.
#[derive(Debug, Clone, Copy)]
pub struct Provided<C>(C);

impl<S, F: Fn(&S) -> f64> FunctionModel<S, F> {
    /// Creates a model from `log f(x)`, which may be `-inf` but not NaN or `+inf`.
    pub fn new(log_density: F) -> Self {
        Self {
            log_density,
            gradient: (),
            sampler: (),
            log_normalizer: (),
            state: PhantomData,
        }
    }
}

impl FunctionModel<DVector<f64>, ()> {
    /// Creates a model from `log f(x)` of a slice. [`GradientModel`](crate::model::GradientModel) adds the gradient.
    ///
    /// ```
    /// use annealed::model::{FunctionModel, UnnormalizedModel};
    /// use annealed::nalgebra::DVector;
    ///
    /// let model = FunctionModel::of_slices(|x: &[f64]| -x.iter().map(|x| x.abs()).sum::<f64>());
    /// assert_eq!(model.log_density(&DVector::from_vec(vec![1.0, -2.0])), -3.0);
    /// ```
    pub fn of_slices<F: Fn(&[f64]) -> f64>(
        log_density: F,
    ) -> FunctionModel<DVector<f64>, impl Fn(&DVector<f64>) -> f64> {
        FunctionModel::new(move |x: &DVector<f64>| log_density(x.as_slice()))
    }
}

impl<S, F, G, D, N> FunctionModel<S, F, G, D, N> {
    /// Adds a closure for `grad log f(x)`. The model panics in use if the gradient and the state differ in length.
    pub fn with_gradient<H>(self, gradient: H) -> FunctionModel<S, F, Provided<H>, D, N>
    where
        H: Fn(&DVector<f64>) -> DVector<f64>,
    {
        self.map(|_, sampler, log_normalizer| (Provided(gradient), sampler, log_normalizer))
    }

    /// Adds a closure that draws exact samples, so that the model can be a base.
    pub fn with_sampler<E>(self, sampler: E) -> FunctionModel<S, F, G, Provided<E>, N>
    where
        E: Fn(&mut dyn Rng) -> S,
    {
        self.map(|gradient, _, log_normalizer| (gradient, Provided(sampler), log_normalizer))
    }

    /// Adds the known `log Z`.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn with_log_normalizer(
        self,
        log_normalizer: f64,
    ) -> Result<FunctionModel<S, F, G, D, f64>> {
        Error::check_number("log normalizer", log_normalizer)?;
        Ok(self.map(|gradient, sampler, _| (gradient, sampler, log_normalizer)))
    }

    /// Replaces the gradient, sampler and normaliser, possibly with others of different types.
    fn map<H, E, O>(
        self,
        change: impl FnOnce(G, D, N) -> (H, E, O),
    ) -> FunctionModel<S, F, H, E, O> {
        let (gradient, sampler, log_normalizer) =
            change(self.gradient, self.sampler, self.log_normalizer);
        FunctionModel {
            log_density: self.log_density,
            gradient,
            sampler,
            log_normalizer,
            state: PhantomData,
        }
    }
}

impl<S, F: Fn(&S) -> f64, G, D, N> UnnormalizedModel for FunctionModel<S, F, G, D, N> {
    type State = S;

    fn log_density(&self, state: &S) -> f64 {
        (self.log_density)(state)
    }
}

impl<F, G, D, N> Differentiable for FunctionModel<DVector<f64>, F, Provided<G>, D, N>
where
    F: Fn(&DVector<f64>) -> f64,
    G: Fn(&DVector<f64>) -> DVector<f64>,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let log_density = (self.log_density)(state);
        if log_density > f64::NEG_INFINITY {
            let own = (self.gradient.0)(state);
            let (found, expected) = (own.len(), gradient.len());
            assert!(
                found == expected,
                "a gradient of length {found} at a state of dimension {expected}"
            );
            gradient.axpy(scale, &own, 1.0);
        }
        log_density
    }
}

impl<S, F, G, D, N> Sampleable for FunctionModel<S, F, G, Provided<D>, N>
where
    F: Fn(&S) -> f64,
    D: Fn(&mut dyn Rng) -> S,
{
    fn sample<R: Rng + ?Sized>(&self, mut rng: &mut R) -> S {
        (self.sampler.0)(&mut rng)
    }
}

impl<S, F: Fn(&S) -> f64, G, D> NormalizedModel for FunctionModel<S, F, G, D, f64> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

crate::num::debug_by_fields! { FunctionModel for [S, F, G, D, N: std::fmt::Debug] FunctionModel<S, F, G, D, N> { log_normalizer } }

/// A model over `R^d` from one closure on slices: `f(x, gradient)` writes `grad log f(x)` and returns `log f(x)`.
///
/// The gradient is 0 on entry, so the closure may add to it. It is ignored if the closure returns `-inf`. For a density
/// without a gradient use [`FunctionModel::of_slices`](crate::model::FunctionModel::of_slices).
///
/// ```
/// use annealed::prelude::*;
///
/// // exp(-|x|^4)
/// let target = GradientModel::new(2, |x: &[f64], gradient: &mut [f64]| {
///     let square: f64 = x.iter().map(|x| x * x).sum();
///     for (slope, x) in gradient.iter_mut().zip(x) {
///         *slope = -4.0 * square * x;
///     }
///     -square * square
/// })?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, target);
/// let run = Ais::new(&path, Hmc::new(0.3, 3)?).schedule(Schedule::linear(50)?).run()?;
/// # let exact = (std::f64::consts::PI.powf(1.5) / 2.0).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Clone)]
pub struct GradientModel<F> {
    dimension: usize,
    function: F,
}

impl<F: Fn(&[f64], &mut [f64]) -> f64> GradientModel<F> {
    /// Creates a model over states of `dimension` coordinates.
    ///
    /// # Errors
    /// A `dimension` of 0 or above 2^30.
    pub fn new(dimension: usize, function: F) -> Result<Self> {
        Error::check_count("dimension", dimension, 1)?;
        Ok(Self {
            dimension,
            function,
        })
    }

    fn evaluate(&self, state: &DVector<f64>, gradient: &mut DVector<f64>) -> f64 {
        demand_dimension("a state", state.len(), self.dimension);
        set_zero(gradient.as_mut_slice());
        (self.function)(state.as_slice(), gradient.as_mut_slice())
    }
}

impl<F: Fn(&[f64], &mut [f64]) -> f64> UnnormalizedModel for GradientModel<F> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        with_buffer(self.dimension, |ignored| self.evaluate(state, ignored))
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension)
    }
}

impl<F: Fn(&[f64], &mut [f64]) -> f64> Differentiable for GradientModel<F> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        with_buffer(self.dimension, |own| {
            let log_density = self.evaluate(state, own);
            if log_density > f64::NEG_INFINITY {
                add_scaled(gradient.as_mut_slice(), scale, own.as_slice());
            }
            log_density
        })
    }

    fn gradient_into(&self, state: &DVector<f64>, gradient: &mut DVector<f64>) -> f64 {
        self.evaluate(state, gradient)
    }
}

crate::num::debug_by_fields! { GradientModel for [F] GradientModel<F> { dimension } }
