//! An RBM in burn, and its file.

use std::path::Path;

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::store::{ModuleSnapshot, SafetensorsStore};
use burn::tensor::{Device, Tensor, TensorData, activation};

use crate::common::Failed;
use crate::common::rbm::Parameters;

/// An RBM: a linear layer from visible to hidden units, and visible biases.
#[derive(Module, Debug)]
pub struct Rbm {
    hidden: Linear,
    visible_bias: Param<Tensor<1>>,
}

impl Rbm {
    /// Creates an RBM with these parameters. A `Linear` of burn has weights inputs by outputs, here visible by hidden.
    pub fn with(parameters: &Parameters) -> Self {
        let device = Device::flex();
        let (d, m) = (parameters.visible_bias.len(), parameters.hidden_bias.len());
        let weights = TensorData::new(parameters.weights.clone(), [m, d]);
        let slice = |numbers: &[f32]| Param::from_tensor(Tensor::from_floats(numbers, &device));
        let hidden = Linear {
            weight: Param::from_tensor(Tensor::<2>::from_data(weights, &device).transpose()),
            bias: Some(slice(&parameters.hidden_bias)),
        };
        Self {
            hidden,
            visible_bias: slice(&parameters.visible_bias),
        }
    }

    /// Returns `log f(v)` of each row: `b.v + sum_j softplus(a_j + (W v)_j)`.
    pub fn log_densities(&self, rows: &[f32]) -> Result<Vec<f32>, Failed> {
        let bias = self.visible_bias.val();
        let [d] = bias.dims();
        let v = Tensor::<1>::from_floats(rows, &bias.device()).reshape([rows.len() / d, d]);
        let softplus = activation::softplus(self.hidden.forward(v.clone()), 1.0).sum_dim(1);
        let linear = (v * bias.unsqueeze()).sum_dim(1);
        Ok((softplus + linear).try_into_vec_as()?)
    }

    /// Writes the RBM, as burn writes every module to this format.
    pub fn save_to(&self, path: &Path) -> Result<(), Failed> {
        let mut store = SafetensorsStore::from_file(path).overwrite(true);
        Ok(self.save_into(&mut store)?)
    }
}
