//! The models `x = s h(z) + sigma e`, where h is even and z and e are standard normal: the posterior of z has two modes.

use std::f64::consts::TAU;

use annealed::learned::Decoder;
use annealed::random::{Purpose, stream};
use annealed_measurements::autoencoder::TrainableDecoder;
use clap::ValueEnum;
use nalgebra::DVector;
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// The function h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    Square,
    Absolute,
}

impl Fold {
    pub fn value(self, z: f64) -> f64 {
        match self {
            Self::Square => z * z,
            Self::Absolute => z.abs(),
        }
    }

    fn slope(self, z: f64) -> f64 {
        match self {
            Self::Square => 2.0 * z,
            Self::Absolute => z.signum(),
        }
    }
}

/// The logarithms of sigma and s.
pub type Theta = [f64; 2];

/// A decoder from one latent number to one observed number.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    pub fold: Fold,
    pub theta: Theta,
}

impl Folded {
    pub fn draw(&self, count: usize, seed: u64) -> Vec<f64> {
        let mut rng = stream(seed, Purpose::RUN, 0);
        let [deviation, scale] = self.theta.map(f64::exp);
        let mut normal = || rng.sample::<f64, _>(StandardNormal);
        let one = |_| scale * self.fold.value(normal()) + deviation * normal();
        (0..count).map(one).collect()
    }

    /// Returns `(x - s h(z)) / sigma`.
    fn residual(&self, x: f64, z: f64) -> f64 {
        let [deviation, scale] = self.theta.map(f64::exp);
        (x - scale * self.fold.value(z)) / deviation
    }

    /// Returns `s / sigma`.
    fn ratio(&self) -> f64 {
        (self.theta[1] - self.theta[0]).exp()
    }

    pub fn log_density(&self, x: f64, z: f64) -> f64 {
        -0.5 * (self.residual(x, z).powi(2) + TAU.ln()) - self.theta[0]
    }
}

impl Decoder for Folded {
    fn latent_dimension(&self) -> usize {
        1
    }

    fn observed_dimension(&self) -> usize {
        1
    }

    fn log_likelihood(&self, x: &DVector<f64>, z: &DVector<f64>) -> f64 {
        self.log_density(x[0], z[0])
    }

    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let slope = self.ratio() * self.fold.slope(z[0]);
        gradient[0] += scale * self.residual(x[0], z[0]) * slope;
        self.log_density(x[0], z[0])
    }
}

impl TrainableDecoder for Folded {
    fn parameters(&self) -> &[f64] {
        &self.theta
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.theta
    }

    fn accumulate_parameter_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut [f64],
    ) {
        let residual = self.residual(x[0], z[0]);
        gradient[0] += scale * (residual * residual - 1.0);
        gradient[1] += scale * residual * self.ratio() * self.fold.value(z[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use annealed::learned::Likelihood;
    use annealed::testing;
    use nalgebra::dvector;

    #[test]
    fn gradients_agree_with_finite_differences() {
        for fold in [Fold::Square, Fold::Absolute] {
            let theta = [-0.4, 0.3];
            let decoder = Folded { fold, theta };
            let (x, z) = (dvector![1.7], dvector![-0.8]);
            let likelihood = Likelihood::new(&decoder, &x).unwrap();
            assert!(testing::gradient_error(&likelihood, &z).unwrap() < 1e-6);
            let mut gradient = [0.0; 2];
            decoder.accumulate_parameter_gradient(&x, &z, 2.0, &mut gradient);
            for (i, derivative) in gradient.into_iter().enumerate() {
                let at = |step: f64| {
                    let mut moved = decoder.clone();
                    moved.theta[i] += step;
                    2.0 * moved.log_likelihood(&x, &z)
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((derivative - difference).abs() < 1e-6 * (1.0 + derivative.abs()));
            }
        }
    }
}
