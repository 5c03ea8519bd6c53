//! The drift modifier of a product of densities over single coordinates.

use std::borrow::Borrow;

use nalgebra::DVector;

use crate::drift::DriftModifier;
use crate::drift::quadrature::QuadratureModifier;

/// The drift modifier of a path on which every `p_beta` is a product over coordinates, as for an
/// additive objective under a product base. Coordinate i of G is the one-dimensional modifier of
/// factor i.
///
/// It holds one table for each coordinate, or references to shared ones. It panics where the state
/// has another number of coordinates.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SeparableModifier<B = QuadratureModifier> {
    factors: Vec<B>,
}

impl<B: Borrow<QuadratureModifier>> SeparableModifier<B> {
    /// The product of factors with these modifiers, in the order of the coordinates.
    pub fn new(factors: impl IntoIterator<Item = B>) -> Self {
        Self {
            factors: factors.into_iter().collect(),
        }
    }
}

impl<B: Borrow<QuadratureModifier>> DriftModifier for SeparableModifier<B> {
    fn modifier_into(&self, beta: f64, state: &DVector<f64>, modifier: &mut DVector<f64>) {
        let (found, expected) = (state.len(), self.factors.len());
        assert!(
            found == expected,
            "a state of dimension {found} for a drift modifier of dimension {expected}"
        );
        for (i, factor) in self.factors.iter().enumerate() {
            modifier[i] = factor.borrow().at(beta, state[i]);
        }
    }
}

crate::num::deserialize_checked! {
    SeparableModifier<B> { factors: Vec<B> } => {
        crate::Error::check_not_empty("factors", factors.len()).map(|()| SeparableModifier { factors })
    }
}
