//! Models from closures behind references: whatever a test computes, its model has the type of the others', so that runs
//! are compiled once for all of them. Models that a test makes here are never freed.

use annealed::model::{BatchModel, FunctionModel, GradientModel};
use nalgebra::DVector;
use num_traits::Float;
use rand::Rng;

type Vector = DVector<f64>;
type Failed = Box<dyn std::error::Error + Send + Sync>;
type Pair<T> = (Vec<T>, Vec<T>);
pub type Value<'a, S> = &'a (dyn Fn(&S) -> f64 + Sync + 'a);
pub type Slopes<'a> = &'a (dyn Fn(&[f64], &mut [f64]) -> f64 + Sync + 'a);
pub type Batches<'a, T> = &'a (dyn Fn(&[T], usize) -> Result<Pair<T>, Failed> + Sync + 'a);

fn leaked<'a, F: 'a>(closure: F) -> &'a F {
    Box::leak(Box::new(closure))
}

/// Returns a number of a state, for an expectation.
pub fn value<'a, S>(function: impl Fn(&S) -> f64 + Sync + 'a) -> Value<'a, S> {
    leaked(function)
}

/// Does the same as [`FunctionModel::new`].
pub fn function<'a, S>(
    log_density: impl Fn(&S) -> f64 + Sync + 'a,
) -> FunctionModel<S, Value<'a, S>> {
    FunctionModel::new(value(log_density))
}

/// Returns the argument of [`FunctionModel::with_gradient`].
pub fn gradient<'a>(
    gradient: impl Fn(&Vector) -> Vector + Sync + 'a,
) -> &'a (dyn Fn(&Vector) -> Vector + Sync + 'a) {
    leaked(gradient)
}

/// Returns the argument of [`FunctionModel::with_sampler`].
pub fn sampler<'a, S>(
    sampler: impl Fn(&mut dyn Rng) -> S + Sync + 'a,
) -> &'a (dyn Fn(&mut dyn Rng) -> S + Sync + 'a) {
    leaked(sampler)
}

/// Does the same as [`GradientModel::new`].
pub fn gradient_model<'a>(
    dimension: usize,
    function: impl Fn(&[f64], &mut [f64]) -> f64 + Sync + 'a,
) -> annealed::Result<GradientModel<Slopes<'a>>> {
    GradientModel::new(dimension, leaked(function) as Slopes<'a>)
}

/// Does the same as [`BatchModel::new`].
pub fn batch_model<'a, T: Float + Into<f64>>(
    dimension: usize,
    function: impl Fn(&[T], usize) -> Result<Pair<T>, Failed> + Sync + 'a,
) -> annealed::Result<BatchModel<Batches<'a, T>, Pair<T>>> {
    BatchModel::new(dimension, leaked(function) as Batches<'a, T>)
}
