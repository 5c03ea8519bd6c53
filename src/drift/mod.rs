//! Adaptive annealing (Barron and Luo 2007): transitions that follow the moving density.
//!
//! Along a path `p_beta = f_beta / Z_beta`, with `s = d/dbeta log f_beta`, a field G with
//!
//! ```text
//! div(G p) = (s - E s) p
//! ```
//!
//! carries `p_beta` to `p_(beta + delta)`, to first order, when states move by `-delta G` ([`DriftModifiedLangevin`]).
//!
//! Use a [`QuadratureModifier`] in one dimension, a [`SeparableModifier`] for a product of densities, a
//! [`RidgeModifier`] for a ridge superposition ([`RidgePath`], [`RidgeGibbs`]), and otherwise an [`EnsembleModifier`].

mod ensemble;
mod langevin;
mod projection;
mod quadrature;
mod ridge;
mod ridge_function;
mod ridge_gibbs;
mod ridge_modifier;
mod ridge_path;
mod shift_monitor;

pub use ensemble::{BumpFeatures, EnsembleModifier, Features};
pub use langevin::DriftModifiedLangevin;
pub use quadrature::{QuadratureModifier, SeparableModifier};
pub use ridge::{RidgePrior, RidgeState};
pub use ridge_function::{Bounded, RidgeFunction, Sinusoid, Tanh};
pub use ridge_gibbs::RidgeGibbs;
pub use ridge_modifier::RidgeModifier;
pub use ridge_path::{RidgePath, RidgeVectorPath};
pub use shift_monitor::ShiftMonitor;

use nalgebra::DVector;

use crate::path::GaussianPath;

/// A drift modifier: a field G such that states move by `-delta G` as beta grows by delta. It is exact if
/// `div(G p_beta) = (s - E s) p_beta` with `s = d/dbeta log f_beta`. Weights are unbiased for any field that depends on
/// beta and the state alone. Barron and Luo (2007) use the gain `gamma beta` in place of beta: their modifier is
/// `G / gamma`.
#[doc(alias = "drift modifier")]
pub trait DriftModifier {
    /// Writes `G_beta(x)`, which must be finite, to `modifier`, which has the length of the state.
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>);

    /// Returns `G_beta(x)`.
    fn modifier(&self, beta: f64, state: &DVector<f64>) -> DVector<f64> {
        let mut modifier = DVector::zeros(state.len());
        self.modifier_into(beta, state, &mut modifier);
        modifier
    }
}

impl<D: DriftModifier + ?Sized> DriftModifier for &D {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        (**self).modifier_into(beta, state, modifier)
    }
}

/// The exact modifier. Along each axis u of the path, base and target have precisions 1 and lambda, and means s apart.
/// Then `p_beta` is `N(c, 1/pi)` with `pi = 1 - beta + beta lambda` and `c = beta lambda s / pi`, and
///
/// `-G(u) = dc/dbeta + (u - c) d(log 1/sqrt pi)/dbeta = lambda s / pi^2 - (u - c) (lambda - 1) / (2 pi)`.
///
/// Panics if the state does not have the path's dimension.
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
