//! One pass of a minibatch through a conditional density or a coupling layer.

use std::f64::consts::TAU;

use nalgebra::DMatrix;

use crate::learned::network::Units;
use crate::learned::noise::Noise;

/// The means and scales of a [`ConditionalGaussian`](super::ConditionalGaussian) for each example of
/// a minibatch, d x B each, with the units of the network that gave them. For a coupling layer they
/// are the shifts and scales of the coordinates that it moves.
#[derive(Debug, Clone, Default)]
pub(super) struct Pass {
    pub(super) units: Units,
    pub(super) means: DMatrix<f64>,
    pub(super) log_deviations: DMatrix<f64>,
}

impl Pass {
    /// `log q(mu + sigma eps)` for one column, with the law of its noise eps.
    pub(super) fn log_density_of_noise(&self, column: usize, law: Noise, noise: &[f64]) -> f64 {
        law.log_density(noise) - self.log_volume(column)
    }

    /// The sum of the log scales for one column.
    pub(super) fn log_volume(&self, column: usize) -> f64 {
        self.log_deviations.column(column).sum()
    }

    /// `log N(state; mu, diag sigma^2)` for one column.
    pub(super) fn log_density(&self, column: usize, state: &[f64]) -> f64 {
        let d = self.means.nrows();
        let entries = column * d..(column + 1) * d;
        let terms = entries.zip(state).map(|(k, x)| {
            let log_deviation = self.log_deviations[k];
            let residual = (x - self.means[k]) * (-log_deviation).exp();
            -0.5 * residual * residual - log_deviation
        });
        terms.sum::<f64>() - 0.5 * d as f64 * TAU.ln()
    }
}
