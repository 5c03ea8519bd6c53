//! The parameters of an RBM, centred at moments.

use nalgebra::{DMatrix, DVector};

use crate::Result;
use crate::rbm::matching::RbmMoments;
use crate::rbm::model::Rbm;

/// Parameters centred at the moments sought, `(W, a + W mu, b + W^T lambda)` as one vector.
pub(crate) struct Centre<'a> {
    pub(crate) moments: &'a RbmMoments,
}

impl Centre<'_> {
    pub(crate) fn parameters(&self, rbm: &Rbm<f64>) -> DVector<f64> {
        let weights = rbm.weights();
        let hidden_bias = rbm.hidden_bias() + weights * &self.moments.visible;
        let visible_bias = rbm.visible_bias() + weights.tr_mul(&self.moments.hidden);
        stack(weights, &hidden_bias, &visible_bias)
    }

    pub(crate) fn rbm(&self, parameters: &DVector<f64>) -> Result<Rbm<f64>> {
        let (hidden, visible) = self.moments.interaction.shape();
        let (weights, biases) = parameters.as_slice().split_at(hidden * visible);
        let (hidden_bias, visible_bias) = biases.split_at(hidden);
        let weights = DMatrix::from_column_slice(hidden, visible, weights);
        Rbm::new(
            weights.clone(),
            DVector::from_column_slice(hidden_bias) - &weights * &self.moments.visible,
            DVector::from_column_slice(visible_bias) - weights.tr_mul(&self.moments.hidden),
        )
    }

    /// The gradient of `theta . s - log Z` where the model has the moments `found`.
    pub(crate) fn ascent(&self, found: &RbmMoments) -> DVector<f64> {
        let visible = &self.moments.visible - &found.visible;
        let hidden = &self.moments.hidden - &found.hidden;
        let interaction = &self.moments.interaction
            - &found.interaction
            - &self.moments.hidden * visible.transpose()
            - &hidden * self.moments.visible.transpose();
        stack(&interaction, &hidden, &visible)
    }
}

fn stack(weights: &DMatrix<f64>, hidden: &DVector<f64>, visible: &DVector<f64>) -> DVector<f64> {
    let length = weights.len() + hidden.len() + visible.len();
    DVector::from_iterator(length, weights.iter().chain(hidden).chain(visible).copied())
}
