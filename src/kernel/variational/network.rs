//! A network of at most one hidden layer over a minibatch, with its gradients.
//!
//! A minibatch is a matrix with one column an example. The parameters are one flat slice, layer
//! after layer, each as `[W | b]` with W in columns.

use nalgebra::{DMatrix, DMatrixView};
use rand::{Rng, RngExt};

/// Sizes of a network `x -> W2 relu(W1 x + b1) + b2`, or `x -> W x + b` without hidden units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) inputs: usize,
    /// 0 for an affine map.
    pub(super) hidden: usize,
    pub(super) outputs: usize,
}

impl Network {
    /// Number of parameters.
    pub(super) fn len(self) -> usize {
        self.hidden_len() + self.outputs * (self.features() + 1)
    }

    fn hidden_len(self) -> usize {
        self.hidden * (self.inputs + 1)
    }

    /// Inputs of the last layer.
    fn features(self) -> usize {
        if self.hidden == 0 {
            self.inputs
        } else {
            self.hidden
        }
    }

    /// Weights and biases uniform on `+- 1 / sqrt(inputs of the layer)`.
    pub(super) fn initialize<R: Rng + ?Sized>(self, rng: &mut R) -> Vec<f64> {
        let mut uniform = |fan_in: usize| {
            let bound = 1.0 / (fan_in as f64).sqrt();
            rng.random_range(-bound..bound)
        };
        let hidden = (0..self.hidden_len()).map(|_| self.inputs);
        let last = (self.hidden_len()..self.len()).map(|_| self.features());
        hidden.chain(last).map(&mut uniform).collect()
    }

    /// Writes the hidden units and the outputs.
    pub(super) fn forward(
        self,
        parameters: &[f64],
        inputs: &DMatrix<f64>,
        hidden: &mut DMatrix<f64>,
        outputs: &mut DMatrix<f64>,
    ) {
        let (first, last) = parameters.split_at(self.hidden_len());
        if self.hidden == 0 {
            return affine(last, inputs, outputs);
        }
        affine(first, inputs, hidden);
        hidden.apply(|h| *h = h.max(0.0));
        affine(last, hidden, outputs);
    }

    /// From the derivatives in the outputs, adds those in the parameters, summed over the
    /// minibatch, to `gradient`, and returns those in the inputs.
    pub(super) fn backward(
        self,
        parameters: &[f64],
        inputs: &DMatrix<f64>,
        hidden: &DMatrix<f64>,
        by_outputs: &DMatrix<f64>,
        gradient: &mut [f64],
    ) -> DMatrix<f64> {
        let (first, last) = parameters.split_at(self.hidden_len());
        let (first_gradient, last_gradient) = gradient.split_at_mut(self.hidden_len());
        if self.hidden == 0 {
            return affine_backward(last, inputs, by_outputs, last_gradient);
        }
        let mut by_hidden = affine_backward(last, hidden, by_outputs, last_gradient);
        by_hidden.zip_apply(hidden, |derivative, h| {
            if h <= 0.0 {
                *derivative = 0.0;
            }
        });
        affine_backward(first, inputs, &by_hidden, first_gradient)
    }
}

/// `W x + b` for each column x.
fn affine(parameters: &[f64], inputs: &DMatrix<f64>, outputs: &mut DMatrix<f64>) {
    let (m, n) = (outputs.nrows(), inputs.nrows());
    let (weights, bias) = parameters.split_at(m * n);
    for mut column in outputs.column_iter_mut() {
        column.copy_from_slice(bias);
    }
    outputs.gemm(1.0, &DMatrixView::from_slice(weights, m, n), inputs, 1.0);
}

/// The transposes are copied: nalgebra's product is not to be trusted with a transposed view.
fn affine_backward(
    parameters: &[f64],
    inputs: &DMatrix<f64>,
    by_outputs: &DMatrix<f64>,
    gradient: &mut [f64],
) -> DMatrix<f64> {
    let (m, n) = (by_outputs.nrows(), inputs.nrows());
    let (by_weights, by_bias) = gradient.split_at_mut(m * n);
    nalgebra::DMatrixViewMut::from_slice(by_weights, m, n).gemm(
        1.0,
        by_outputs,
        &inputs.transpose(),
        1.0,
    );
    for column in by_outputs.column_iter() {
        for (sum, derivative) in by_bias.iter_mut().zip(column.iter()) {
            *sum += derivative;
        }
    }
    let weights = DMatrixView::from_slice(&parameters[..m * n], m, n).transpose();
    weights * by_outputs
}
