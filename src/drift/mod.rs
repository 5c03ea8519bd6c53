//! Adaptive annealing (Barron and Luo 2007): transitions that follow the moving density.
//!
//! Along a path `p_beta = f_beta / Z_beta` the density changes by
//! `d p/d beta = (s - E s) p` with `s = d/dbeta log f_beta`. A field G with
//!
//! ```text
//! div(G p) = (s - E s) p
//! ```
//!
//! carries `p_beta` to `p_(beta + delta)`, to first order, when each state is moved by `-delta G`. Langevin steps
//! with this shift ([`DriftModifiedLangevin`]) need not wait for the chain to mix. A wrong G costs
//! variance, never bias.
//!
//! G comes from a [`QuadratureModifier`] in one dimension, from a [`SeparableModifier`] for a product of
//! densities, from an [`EnsembleModifier`] fitted to particles, or from a [`RidgeModifier`] for a superposition of
//! ridge functions, which [`RidgePath`] and [`RidgeGibbs`] anneal. [`ObjectiveTrace`] takes annealing as
//! optimisation.

mod ensemble;
mod features;
mod gaussian;
mod langevin;
mod middles;
mod monitor;
mod optimum;
mod projection;
mod quadrature;
mod ridge;
mod ridge_function;
mod ridge_gibbs;
mod ridge_modifier;
mod ridge_path;
mod ridge_vectors;
mod separable;

pub use ensemble::EnsembleModifier;
pub use features::{BumpFeatures, Features};
pub use langevin::DriftModifiedLangevin;
pub use monitor::{ShiftMonitor, ShiftsCut};
pub use optimum::ObjectiveTrace;
pub use quadrature::QuadratureModifier;
pub use ridge::{RidgePrior, RidgeState};
pub use ridge_function::{Bounded, RidgeFunction, Sinusoid, Tanh};
pub use ridge_gibbs::RidgeGibbs;
pub use ridge_modifier::RidgeModifier;
pub use ridge_path::{RidgeAt, RidgePath};
pub use ridge_vectors::{RidgeObjective, RidgeVectorAt, RidgeVectorPath};
pub use separable::SeparableModifier;

use nalgebra::DVector;

/// A drift modifier: a field G that says where states should move as beta grows.
///
/// It is exact where `div(G p_beta) = (s - E s) p_beta` with `s = d/dbeta log f_beta`. The sign is
/// such that states move by `-delta G`. Barron and Luo anneal in the gain `gamma = gamma_K beta`;
/// their modifier is this one divided by `gamma_K`, and the shifts are the same.
///
/// The weights are unbiased for any field that depends on beta and the state alone.
pub trait DriftModifier {
    /// Writes `G_beta(x)`, finite, to `modifier`, which is as long as the state.
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>);

    /// `G_beta(x)`.
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
