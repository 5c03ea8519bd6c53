//! Models from a closure that computes value and gradient together.

use std::fmt;

use nalgebra::DVector;

use crate::error::demand_dimension;
use crate::model::{Differentiable, UnnormalizedModel};
use crate::num::{add_scaled, set_zero, with_buffer};
use crate::{Error, Result};

/// A model over `R^d` from one closure on slices: `f(x, gradient)` writes `grad log f(x)` and returns `log f(x)`.
///
/// The gradient is 0 when the closure gets it, so that the closure may add to it as well. Where it returns `-inf`,
/// what it wrote is ignored. Where only the value is wanted, the gradient is thrown away. A call allocates nothing.
///
/// Without a gradient take [`FunctionModel::of_slices`](crate::model::FunctionModel::of_slices).
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
    /// Over states of this dimension.
    ///
    /// # Errors
    /// A dimension of 0.
    pub fn new(dimension: usize, function: F) -> Result<Self> {
        Error::check_count("dimension", dimension, 1)?;
        Ok(Self {
            dimension,
            function,
        })
    }

    /// # Panics
    /// Where the state has another dimension.
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

impl<F> fmt::Debug for GradientModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GradientModel")
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}
