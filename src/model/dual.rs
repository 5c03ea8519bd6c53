//! A model from a function of dual numbers, which is differentiated automatically.

use nalgebra::DVector;
use num_dual::Dual64;

use crate::error::demand_dimension;
use crate::model::{Differentiable, UnnormalizedModel};
use crate::{Error, Result};

/// A model over `R^d` from `log f(x)`, written for dual numbers. They carry a derivative along (forward mode).
///
/// Write the function for any [`DualNum`](num_dual::DualNum), re-exported with its crate as `annealed::num_dual`. A log
/// density costs one call of the function, a gradient d calls. With many coordinates, a
/// [`GradientModel`](crate::model::GradientModel) with a gradient written by hand or from reverse mode is faster.
///
/// ```
/// use annealed::num_dual::DualNum;
/// use annealed::prelude::*;
///
/// /// -|x|^4
/// fn quartic<D: DualNum<Primitive = f64> + Copy>(x: &[D]) -> D {
///     -x.iter().map(|x| *x * *x).sum::<D>().powi(2)
/// }
///
/// let target = DualModel::new(2, quartic)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, target);
/// let run = Ais::new(&path, Hmc::new(0.3, 3)?).schedule(Schedule::linear(50)?).run()?;
/// # let exact = (std::f64::consts::PI.powf(1.5) / 2.0).ln();
/// # assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias("automatic differentiation", "autodiff"))]
pub struct DualModel<F> {
    dimension: usize,
    function: F,
}

impl<F: Fn(&[Dual64]) -> Dual64> DualModel<F> {
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

    /// Returns the coordinates of a state as dual numbers with derivative 0.
    fn constants(&self, state: &DVector<f64>) -> Vec<Dual64> {
        demand_dimension("a state", state.len(), self.dimension);
        state.iter().map(|&x| Dual64::from(x)).collect()
    }
}

impl<F: Fn(&[Dual64]) -> Dual64> UnnormalizedModel for DualModel<F> {
    type State = DVector<f64>;

    fn log_density(&self, state: &DVector<f64>) -> f64 {
        (self.function)(&self.constants(state)).re
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.dimension)
    }
}

impl<F: Fn(&[Dual64]) -> Dual64> Differentiable for DualModel<F> {
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut dual = self.constants(state);
        let mut log_density = f64::NEG_INFINITY;
        for i in 0..self.dimension {
            dual[i].eps = 1.0;
            let value = (self.function)(&dual);
            dual[i].eps = 0.0;
            log_density = value.re;
            if log_density == f64::NEG_INFINITY {
                break;
            }
            gradient[i] += scale * value.eps;
        }
        log_density
    }
}

crate::num::debug_by_fields! { DualModel for [F] DualModel<F> { dimension } }
