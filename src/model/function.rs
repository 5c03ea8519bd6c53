//! A model from closures.

use std::fmt;
use std::marker::PhantomData;

use nalgebra::DVector;
use rand::Rng;

use super::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::error::{Error, Result};

/// A model made of closures: a log density, and what else the caller knows.
///
/// What has not been given is `()` in the type, and the trait that needs it is not implemented,
/// so that a missing gradient is a compile error where a kernel asks for one.
///
/// ```
/// use annealed::model::{Differentiable, FunctionModel, UnnormalizedModel};
/// use nalgebra::{DVector, dvector};
///
/// let banana = FunctionModel::new(|x: &DVector<f64>| {
///     -0.5 * x[0] * x[0] - 0.5 * (x[1] - x[0] * x[0]).powi(2)
/// })
/// .with_gradient(|x| {
///     let slack = x[1] - x[0] * x[0];
///     dvector![-x[0] + 2.0 * x[0] * slack, -slack]
/// });
/// assert_eq!(banana.log_density(&dvector![1.0, 1.0]), -0.5);
/// assert_eq!(banana.gradient(&dvector![1.0, 1.0]), dvector![-1.0, 0.0]);
/// ```
#[derive(Clone)]
pub struct FunctionModel<S, F, G = (), D = (), Z = ()> {
    log_density: F,
    gradient: G,
    sampler: D,
    log_normalizer: Z,
    state: PhantomData<fn(&S)>,
}

impl<S, F: Fn(&S) -> f64> FunctionModel<S, F> {
    /// A model with this log density, over the closure's argument as state; see
    /// [`UnnormalizedModel::log_density`] for what it may return.
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

impl<F, D, Z> FunctionModel<DVector<f64>, F, (), D, Z> {
    /// Adds the gradient of the log density, as long as the state.
    ///
    /// The closure allocates its result; a model for which that matters implements
    /// [`Differentiable`] itself.
    pub fn with_gradient<G: Fn(&DVector<f64>) -> DVector<f64>>(
        self,
        gradient: G,
    ) -> FunctionModel<DVector<f64>, F, G, D, Z> {
        FunctionModel {
            log_density: self.log_density,
            gradient,
            sampler: self.sampler,
            log_normalizer: self.log_normalizer,
            state: PhantomData,
        }
    }
}

impl<S, F, G, Z> FunctionModel<S, F, G, (), Z> {
    /// Adds an exact sampler, so that a path can start here. All its randomness comes from its
    /// argument.
    pub fn with_sampler<D: Fn(&mut dyn Rng) -> S>(
        self,
        sampler: D,
    ) -> FunctionModel<S, F, G, D, Z> {
        FunctionModel {
            log_density: self.log_density,
            gradient: self.gradient,
            sampler,
            log_normalizer: self.log_normalizer,
            state: PhantomData,
        }
    }
}

impl<S, F, G, D> FunctionModel<S, F, G, D, ()> {
    /// Adds a known `log Z`.
    ///
    /// # Errors
    /// Where it is not finite.
    pub fn with_log_normalizer(
        self,
        log_normalizer: f64,
    ) -> Result<FunctionModel<S, F, G, D, f64>> {
        if !log_normalizer.is_finite() {
            return Err(Error::invalid(
                "log normalizer",
                log_normalizer,
                "a finite number",
            ));
        }
        Ok(FunctionModel {
            log_density: self.log_density,
            gradient: self.gradient,
            sampler: self.sampler,
            log_normalizer,
            state: PhantomData,
        })
    }
}

impl<S, F: Fn(&S) -> f64, G, D, Z> UnnormalizedModel for FunctionModel<S, F, G, D, Z> {
    type State = S;

    fn log_density(&self, state: &S) -> f64 {
        (self.log_density)(state)
    }
}

impl<F, G, D, Z> Differentiable for FunctionModel<DVector<f64>, F, G, D, Z>
where
    F: Fn(&DVector<f64>) -> f64,
    G: Fn(&DVector<f64>) -> DVector<f64>,
{
    /// Panics where the closure's gradient is not as long as `gradient`.
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        gradient.axpy(scale, &(self.gradient)(state), 1.0);
        (self.log_density)(state)
    }
}

impl<S, F, G, D, Z> Sampleable for FunctionModel<S, F, G, D, Z>
where
    F: Fn(&S) -> f64,
    D: Fn(&mut dyn Rng) -> S,
{
    fn sample<R: Rng + ?Sized>(&self, mut rng: &mut R) -> S {
        // A closure cannot be generic over the generator; `&mut R` is sized, hence this coerces.
        (self.sampler)(&mut rng)
    }
}

impl<S, F: Fn(&S) -> f64, G, D> NormalizedModel for FunctionModel<S, F, G, D, f64> {
    fn log_normalizer(&self) -> f64 {
        self.log_normalizer
    }
}

impl<S, F, G, D, Z: fmt::Debug> fmt::Debug for FunctionModel<S, F, G, D, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionModel")
            .field("state", &std::any::type_name::<S>())
            .field("log_normalizer", &self.log_normalizer)
            .finish_non_exhaustive()
    }
}
