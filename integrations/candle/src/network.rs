//! The energy model in candle.

use annealed::estimate::LogZ;
use annealed::model::Gaussian;
use candle_core::{Device, Result, Tensor, Var};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW};

use crate::common::{Batch, Failed, Layer, Network, confinement};

/// A dense network with tanh units, confined by a Gaussian.
pub struct Energy {
    layers: Vec<Linear>,
    optimizer: AdamW,
    mean: Tensor,
    half_precision: Tensor,
}

impl Energy {
    /// Returns the energy of each row of `x`: `|(x - m) / s|^2 / 2 + net(x)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (last, inner) = self.layers.split_last().expect("a network has layers");
        let mut units = x.clone();
        for layer in inner {
            units = layer.forward(&units)?.tanh()?;
        }
        let distance = x.broadcast_sub(&self.mean)?.sqr()?;
        let confinement = distance.broadcast_mul(&self.half_precision)?.sum(1)?;
        last.forward(&units)?.squeeze(1)? + confinement
    }

    fn rows(&self, states: &[f32]) -> Result<Tensor> {
        Tensor::from_slice(states, ((), self.mean.elem_count()), &Device::Cpu)
    }
}

impl Network for Energy {
    fn new(layers: &[Layer], base: &Gaussian) -> std::result::Result<Self, Failed> {
        let (mean, half_precision) = confinement(base);
        let mut variables = Vec::new();
        let mut dense = Vec::new();
        for Layer {
            inputs,
            outputs,
            weights,
        } in layers
        {
            let weights = Var::from_slice(weights, (*outputs, *inputs), &Device::Cpu)?;
            let bias = Var::from_vec(vec![0f32; *outputs], *outputs, &Device::Cpu)?;
            dense.push(Linear::new(
                weights.as_tensor().clone(),
                Some(bias.as_tensor().clone()),
            ));
            variables.extend([weights, bias]);
        }
        Ok(Self {
            layers: dense,
            optimizer: AdamW::new(variables, ParamsAdamW::default())?,
            mean: Tensor::new(mean, &Device::Cpu)?,
            half_precision: Tensor::new(half_precision, &Device::Cpu)?,
        })
    }

    fn log_densities(&self, states: &[f32], n: usize) -> Batch {
        let x = Var::from_slice(states, (n, states.len() / n), &Device::Cpu)?;
        let log_density = self.forward(&x)?.neg()?;
        let gradients = log_density.backward()?.remove(&x).ok_or("no path to x")?;
        Ok((log_density.to_vec1()?, gradients.flatten_all()?.to_vec1()?))
    }

    fn log_z(&self, base: Gaussian) -> annealed::Result<impl LogZ> {
        crate::log_z::log_z(self, base)
    }

    fn learn(
        &mut self,
        data: &[f32],
        samples: &[f32],
        rate: f64,
    ) -> std::result::Result<(), Failed> {
        let mean = |rows| self.forward(&self.rows(rows)?)?.mean_all();
        let loss = (mean(data)? - mean(samples)?)?;
        self.optimizer.set_learning_rate(rate);
        Ok(self.optimizer.backward_step(&loss)?)
    }
}
