//! The drift modifier of a path of Gaussians, in closed form.

use nalgebra::DVector;

use crate::drift::DriftModifier;
use crate::path::GaussianPath;

/// Along each axis u of the path, where base and target have the precisions 1 and lambda and their
/// means lie s apart, `p_beta` is `N(c, 1/pi)` with `pi = 1 - beta + beta lambda` and
/// `c = beta lambda s / pi`. The states move with mean and scale:
///
/// `-G(u) = dc/dbeta + (u - c) d(log 1/sqrt pi)/dbeta = lambda s / pi^2 - (u - c) (lambda - 1) / (2 pi)`.
///
/// Panics where the state does not have the path's dimension.
impl DriftModifier for GaussianPath {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let ends = &self.ends;
        let mut along_axes = ends.coordinates(state);
        let axes = ends.precisions.iter().zip(&ends.shift);
        for (u, (&lambda, &s)) in along_axes.iter_mut().zip(axes) {
            let precision = (1.0 - beta) + beta * lambda;
            let centre = beta * lambda * s / precision;
            let growth = -(lambda - 1.0) / (2.0 * precision);
            *u = -(lambda * s / (precision * precision) + (*u - centre) * growth);
        }
        modifier.gemv(1.0, &ends.axes, &along_axes, 0.0);
    }
}
