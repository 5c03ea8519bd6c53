//! Shared by the integrations: data, training by samples, and the questions that each answers. No framework occurs here.

pub mod checks;
pub mod digits;
pub mod rbm;
pub mod report;
pub mod training;

use std::error::Error;

use annealed::estimate::LogZ;
use annealed::model::{Gaussian, Sampleable};
use annealed::nalgebra::DVector;
use annealed::random::{Purpose, stream};

/// Any error, of a framework or of `annealed`.
pub type Failed = Box<dyn Error + Send + Sync>;

/// Log densities of n states, and their gradients row after row.
pub type Batch = Result<(Vec<f32>, Vec<f32>), Failed>;

/// An energy model that a framework evaluates and trains: `log f(x) = -|(x - m) / s|^2 / 2 - net(x)`.
///
/// The first term confines the states: mean m and deviations s are those of the base. A network alone may stay finite
/// far out or fall without end, and then no Z exists. Here the net is bounded, so that Z always does.
pub trait Network: Sized + Sync {
    /// Creates a network with these initial weights, confined as `base`.
    fn new(layers: &[Layer], base: &Gaussian) -> Result<Self, Failed>;

    /// Returns the log densities of n states, row after row in `states`, and the gradients.
    fn log_densities(&self, states: &[f32], n: usize) -> Batch;

    /// Estimates log Z from `base`, by the code that the page shows.
    fn log_z(&self, base: Gaussian) -> annealed::Result<impl LogZ>;

    /// Takes a step of Adam that raises the log densities of `data` against those of `samples`.
    fn learn(&mut self, data: &[f32], samples: &[f32], rate: f64) -> Result<(), Failed>;
}

/// Weights of a dense layer, outputs by inputs row after row. Biases begin at 0.
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Vec<f32>,
}

/// Returns random weights of dense layers with these numbers of units, the inputs first. Each weight has the variance
/// `gain^2 / inputs`. A seed gives all frameworks the same network.
pub fn layers(units: &[usize], gain: f64, seed: u64) -> annealed::Result<Vec<Layer>> {
    let mut rng = stream(seed, Purpose::DATA, 0);
    units
        .windows(2)
        .map(|pair| {
            let [inputs, outputs] = [pair[0], pair[1]];
            let mean = DVector::zeros(inputs * outputs);
            let law = Gaussian::isotropic(mean, gain / (inputs as f64).sqrt())?;
            let weights = law.sample(&mut rng).iter().map(|w| *w as f32).collect();
            Ok(Layer {
                inputs,
                outputs,
                weights,
            })
        })
        .collect()
}

/// Returns the mean of a Gaussian, and the halved inverses of its variances, which weigh the confinement.
pub fn confinement(base: &Gaussian) -> (Vec<f32>, Vec<f32>) {
    let mean = base.mean().iter().map(|m| *m as f32).collect();
    let halves = base
        .covariance()
        .diagonal()
        .map(|variance| (0.5 / variance) as f32);
    (mean, halves.as_slice().to_vec())
}
