//! The energy model in burn.

use annealed::estimate::LogZ;
use annealed::model::Gaussian;
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};

use crate::common::{Batch, Failed, Layer, Network, confinement};

/// A dense network with tanh units, confined by a Gaussian.
pub struct Energy {
    pub device: Device,
    net: Net,
    optimizer: ModuleOptimizer,
    mean: Tensor<2>,
    half_precision: Tensor<2>,
}

#[derive(Module, Debug)]
struct Net {
    layers: Vec<Linear>,
}

impl Net {
    fn forward(&self, x: Tensor<2>) -> Tensor<1> {
        let (last, inner) = self.layers.split_last().expect("a network has layers");
        let units = inner
            .iter()
            .fold(x, |units, layer| layer.forward(units).tanh());
        last.forward(units).squeeze_dim(1)
    }
}

impl Energy {
    /// Returns the energy of each row of `x`: `|(x - m) / s|^2 / 2 + net(x)`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<1> {
        let distance = (x.clone() - self.mean.clone()).square();
        let confinement = (distance * self.half_precision.clone())
            .sum_dim(1)
            .squeeze_dim(1);
        self.net.forward(x) + confinement
    }

    fn rows(&self, states: &[f32]) -> Tensor<2> {
        let [_, d] = self.mean.dims();
        Tensor::<1>::from_floats(states, &self.device).reshape([states.len() / d, d])
    }
}

/// Creates a layer. burn stores weights inputs by outputs.
fn dense(
    Layer {
        inputs,
        outputs,
        weights,
    }: &Layer,
    device: &Device,
) -> Linear {
    let weights = Tensor::<2>::from_data(
        TensorData::new(weights.clone(), [*outputs, *inputs]),
        device,
    );
    Linear {
        weight: Param::from_tensor(weights.transpose()),
        bias: Some(Param::from_tensor(Tensor::zeros([*outputs], device))),
    }
}

impl Network for Energy {
    fn new(layers: &[Layer], base: &Gaussian) -> Result<Self, Failed> {
        let device = Device::flex().autodiff();
        let (mean, half_precision) = confinement(base);
        let row =
            |numbers: Vec<f32>| Tensor::<1>::from_floats(numbers.as_slice(), &device).unsqueeze();
        Ok(Self {
            net: Net {
                layers: layers.iter().map(|layer| dense(layer, &device)).collect(),
            },
            optimizer: AdamConfig::new().init(),
            mean: row(mean),
            half_precision: row(half_precision),
            device,
        })
    }

    fn log_densities(&self, states: &[f32], _n: usize) -> Batch {
        let x = self.rows(states).require_grad();
        let log_density = self.forward(x.clone()).neg();
        let gradients = x.grad(&log_density.backward()).ok_or("no path to x")?;
        Ok((log_density.try_into_vec_as()?, gradients.try_into_vec_as()?))
    }

    fn log_z(&self, base: Gaussian) -> annealed::Result<impl LogZ> {
        crate::log_z::log_z(self, base)
    }

    fn learn(&mut self, data: &[f32], samples: &[f32], rate: f64) -> Result<(), Failed> {
        let mean = |rows| self.forward(self.rows(rows)).mean();
        let loss = mean(data) - mean(samples);
        let gradients = GradientsParams::from_grads(loss.backward(), &self.net);
        self.net = self.optimizer.step(rate, self.net.clone(), gradients);
        Ok(())
    }
}
