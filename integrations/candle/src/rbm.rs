//! An RBM in candle, and its file.

use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Linear, Module, VarBuilder, VarMap, linear};

use crate::common::rbm::Parameters;

/// An RBM: a linear layer from visible to hidden units, and visible biases.
pub struct Rbm {
    variables: VarMap,
    hidden: Linear,
    visible_bias: Tensor,
}

impl Rbm {
    /// Creates an RBM, and gives its variables the numbers of `parameters`.
    pub fn new(parameters: &Parameters) -> Result<Self> {
        let (d, m) = (parameters.visible_bias.len(), parameters.hidden_bias.len());
        let mut variables = VarMap::new();
        let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        let hidden = linear(d, m, builder.pp("hidden"))?;
        let visible_bias = builder.get(d, "visible_bias")?;
        let slice = |numbers: &[f32]| Tensor::new(numbers, &Device::Cpu);
        variables.set_one(
            "hidden.weight",
            slice(&parameters.weights)?.reshape((m, d))?,
        )?;
        variables.set_one("hidden.bias", slice(&parameters.hidden_bias)?)?;
        variables.set_one("visible_bias", slice(&parameters.visible_bias)?)?;
        Ok(Self {
            variables,
            hidden,
            visible_bias,
        })
    }

    /// Returns `log f(v)` of each row: `b.v + sum_j softplus(a_j + (W v)_j)`.
    pub fn log_densities(&self, rows: &[f32]) -> Result<Vec<f32>> {
        let v = Tensor::from_slice(rows, ((), self.visible_bias.elem_count()), &Device::Cpu)?;
        let softplus = (self.hidden.forward(&v)?.exp()? + 1.0)?.log()?;
        (v.broadcast_mul(&self.visible_bias)?.sum(1)? + softplus.sum(1)?)?.to_vec1()
    }

    /// Writes the RBM, as candle writes every model.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.variables.save(path)
    }
}
