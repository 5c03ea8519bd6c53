//! Parameters of an RBM that are centred at moments.
//!
//! With `mu = E[v]` and `lambda = E[h]`, the centred parameters are `(W, a + W mu, b + W^T lambda)`,
//! here as one vector. In them the weights and the biases hardly interact.

use nalgebra::{DMatrix, DVector};

use crate::Result;
use crate::rbm::matching::RbmMoments;
use crate::rbm::model::Rbm;

impl RbmMoments {
    /// The parameters of an RBM, centred at these moments.
    pub(crate) fn centred(&self, rbm: &Rbm<f64>) -> DVector<f64> {
        let weights = rbm.weights();
        let hidden_bias = rbm.hidden_bias() + weights * &self.visible;
        let visible_bias = rbm.visible_bias() + weights.tr_mul(&self.hidden);
        stack(weights, &hidden_bias, &visible_bias)
    }

    /// The RBM with these parameters, centred at these moments.
    pub(crate) fn uncentred(&self, parameters: &DVector<f64>) -> Result<Rbm<f64>> {
        let (hidden, visible) = self.interaction.shape();
        let (weights, biases) = parameters.as_slice().split_at(hidden * visible);
        let (hidden_bias, visible_bias) = biases.split_at(hidden);
        let weights = DMatrix::from_column_slice(hidden, visible, weights);
        let hidden_bias = DVector::from_column_slice(hidden_bias) - &weights * &self.visible;
        let visible_bias = DVector::from_column_slice(visible_bias) - weights.tr_mul(&self.hidden);
        Rbm::new(weights, hidden_bias, visible_bias)
    }

    /// The gradient of `theta . s - log Z` in centred parameters, with s these moments, where the
    /// model has the moments `found`.
    pub(crate) fn ascent(&self, found: &Self) -> DVector<f64> {
        let visible = &self.visible - &found.visible;
        let hidden = &self.hidden - &found.hidden;
        let interaction = &self.interaction
            - &found.interaction
            - &self.hidden * visible.transpose()
            - &hidden * self.visible.transpose();
        stack(&interaction, &hidden, &visible)
    }
}

fn stack(weights: &DMatrix<f64>, hidden: &DVector<f64>, visible: &DVector<f64>) -> DVector<f64> {
    let length = weights.len() + hidden.len() + visible.len();
    DVector::from_iterator(length, weights.iter().chain(hidden).chain(visible).copied())
}
