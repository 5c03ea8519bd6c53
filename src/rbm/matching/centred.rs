//! Parameters of an RBM that are centred at moments.
//!
//! With `mu = E[v]` and `lambda = E[h]`, the centred parameters are `(W, a + W mu, b + W^T lambda)`,
//! here as one vector. In them the weights and the biases hardly interact.

use nalgebra::{DMatrix, DMatrixView, DVector};

use crate::Result;
use crate::rbm::matching::RbmMoments;
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;

impl RbmMoments {
    /// The parameters of an RBM, centred at these moments.
    pub(crate) fn centred(&self, rbm: &Rbm<f64>) -> DVector<f64> {
        let weights = rbm.weights();
        let hidden_bias = rbm.hidden_bias() + weights * &self.visible;
        let visible_bias = rbm.visible_bias() + weights.tr_mul(&self.hidden);
        stack(weights, &hidden_bias, &visible_bias)
    }

    /// The RBM with these parameters, centred at these moments.
    pub(crate) fn uncentred<T: Scalar>(&self, parameters: &DVector<f64>) -> Result<Rbm<T>> {
        let (hidden, visible) = self.interaction.shape();
        let (weights, biases) = parameters.as_slice().split_at(hidden * visible);
        let (hidden_bias, visible_bias) = biases.split_at(hidden);
        let weights = DMatrixView::from_slice(weights, hidden, visible);
        let hidden_bias = DVector::from_column_slice(hidden_bias) - weights * &self.visible;
        let visible_bias = DVector::from_column_slice(visible_bias) - weights.tr_mul(&self.hidden);
        Rbm::new(
            weights.map(T::nearest),
            hidden_bias.map(T::nearest),
            visible_bias.map(T::nearest),
        )
    }

    /// The gradient of `theta . s - log Z` in centred parameters, with s these moments, where the
    /// model has the moments `found`.
    pub(crate) fn ascent(&self, found: &Self) -> DVector<f64> {
        let (hidden, visible) = self.interaction.shape();
        let mut gradient = DVector::zeros(hidden * visible + hidden + visible);
        self.ascend(&mut gradient, 1.0, found);
        gradient
    }

    /// Adds `rate` times this gradient to centred parameters.
    pub(crate) fn ascend(&self, parameters: &mut DVector<f64>, rate: f64, found: &Self) {
        let (hidden, visible) = self.interaction.shape();
        let excess_hidden = &self.hidden - &found.hidden;
        let excess_visible = &self.visible - &found.visible;
        let (weights, biases) = parameters.as_mut_slice().split_at_mut(hidden * visible);
        let columns = weights.chunks_exact_mut(hidden);
        let wanted = self.interaction.as_slice().chunks_exact(hidden);
        let found = found.interaction.as_slice().chunks_exact(hidden);
        for (i, ((column, wanted), found)) in columns.zip(wanted).zip(found).enumerate() {
            let (mean, excess) = (self.visible[i], excess_visible[i]);
            for j in 0..hidden {
                let covariance = self.hidden[j] * excess + excess_hidden[j] * mean;
                column[j] += rate * (wanted[j] - found[j] - covariance);
            }
        }
        let excess = excess_hidden.iter().chain(&excess_visible);
        for (bias, excess) in biases.iter_mut().zip(excess) {
            *bias += rate * excess;
        }
    }
}

fn stack(weights: &DMatrix<f64>, hidden: &DVector<f64>, visible: &DVector<f64>) -> DVector<f64> {
    let length = weights.len() + hidden.len() + visible.len();
    DVector::from_iterator(length, weights.iter().chain(hidden).chain(visible).copied())
}
