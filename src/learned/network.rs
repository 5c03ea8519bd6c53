//! A network of at most one hidden layer over a minibatch, which has one column for each example. The parameters are
//! one flat slice, layer by layer, each as `[W | b]` with W in columns.

use std::f64::consts::TAU;

use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut};
use rand::{Rng, RngExt};

use crate::{Error, Result};

/// Sizes of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) inputs: usize,
    /// Number of hidden units; 0 for an affine map.
    pub(super) hidden: usize,
    pub(super) outputs: usize,
}

/// A network `x -> W2 relu(W1 x + b1) + b2`, or `x -> W x + b` without hidden units.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    pub(super) sizes: Sizes,
    pub(super) parameters: Vec<f64>,
}

/// Values of a network's units, one column for each example of a minibatch.
#[derive(Debug, Clone, Default)]
pub(super) struct Units {
    /// Values of the hidden units; empty for an affine map.
    hidden: DMatrix<f64>,
    pub(super) outputs: DMatrix<f64>,
}

impl Units {
    /// Returns the inputs of the last layer. `inputs` are the inputs of the network.
    pub(super) fn features<'a>(&'a self, inputs: &'a DMatrix<f64>) -> &'a DMatrix<f64> {
        match self.hidden.is_empty() {
            true => inputs,
            false => &self.hidden,
        }
    }
}

/// Reshapes a matrix. It allocates only if the shape changes.
pub(super) fn set_shape(matrix: &mut DMatrix<f64>, rows: usize, columns: usize) {
    if matrix.shape() != (rows, columns) {
        *matrix = DMatrix::zeros(rows, columns);
    }
}

impl Sizes {
    fn len(self) -> usize {
        let inputs = self.features().saturating_add(1);
        let last = self.outputs.saturating_mul(inputs);
        self.hidden_len().saturating_add(last)
    }

    fn hidden_len(self) -> usize {
        self.hidden.saturating_mul(self.inputs.saturating_add(1))
    }

    /// Refuses this size if `networks` networks of this size have too many parameters in all.
    pub(super) fn check_size(self, networks: usize) -> Result<()> {
        Error::check_count("parameters", self.len().saturating_mul(networks), 0)
    }

    fn features(self) -> usize {
        match self.hidden {
            0 => self.inputs,
            hidden => hidden,
        }
    }

    /// Draws weights and biases uniform on `+- 1 / sqrt(inputs of the layer)`.
    pub(super) fn initialize<R: Rng + ?Sized>(self, rng: &mut R) -> Network {
        let mut uniform = |fan_in: usize| {
            let bound = 1.0 / (fan_in as f64).sqrt();
            rng.random_range(-bound..bound)
        };
        let hidden = (0..self.hidden_len()).map(|_| self.inputs);
        let last = (self.hidden_len()..self.len()).map(|_| self.features());
        Network {
            sizes: self,
            parameters: hidden.chain(last).map(&mut uniform).collect(),
        }
    }

    /// Draws random hidden units, with weights and biases of 0 in the last layer.
    pub(super) fn initialize_to_zero<R: Rng + ?Sized>(self, rng: &mut R) -> Network {
        let mut network = self.initialize(rng);
        network.parameters[self.hidden_len()..].fill(0.0);
        network
    }

    /// Creates the network with these `parameters`.
    pub(super) fn with_parameters(self, parameters: Vec<f64>) -> Result<Network> {
        // A file may hold any sizes; sizes whose product overflows are refused first.
        let widest = self.inputs.max(self.hidden).max(self.outputs);
        let (count, expected) = (parameters.len(), "one for each weight and bias");
        Error::check(widest <= count, "parameters", count, expected)?;
        Error::check_dimension("parameters", count, self.len())?;
        Error::check_finite("parameters", parameters.iter().copied())?;
        let sizes = self;
        Ok(Network { sizes, parameters })
    }
}

impl Network {
    /// Returns the parameters of the hidden layer and of the last one.
    fn layers(&self) -> (&[f64], &[f64]) {
        self.parameters.split_at(self.sizes.hidden_len())
    }

    pub(super) fn forward(&self, inputs: &DMatrix<f64>, units: &mut Units) {
        let (first, last) = self.layers();
        let Units { hidden, outputs } = units;
        set_shape(hidden, self.sizes.hidden, inputs.ncols());
        set_shape(outputs, self.sizes.outputs, inputs.ncols());
        if self.sizes.hidden == 0 {
            return affine(last, inputs, outputs);
        }
        affine(first, inputs, hidden);
        hidden.apply(|h| *h = h.max(0.0));
        affine(last, hidden, outputs);
    }

    /// Backpropagates from the outputs. Adds the parameters' derivatives, summed over the minibatch, to `gradient` and
    /// returns the derivatives by the first `wanted` inputs.
    pub(super) fn backward(
        &self,
        inputs: &DMatrix<f64>,
        units: &Units,
        by_outputs: &DMatrix<f64>,
        gradient: &mut [f64],
        wanted: usize,
    ) -> DMatrix<f64> {
        let (first, last) = self.layers();
        let (first_gradient, last_gradient) = gradient.split_at_mut(first.len());
        add_affine_gradient(units.features(inputs), by_outputs, last_gradient);
        if self.sizes.hidden == 0 {
            return by_inputs(last, by_outputs, wanted);
        }
        let mut by_hidden = by_inputs(last, by_outputs, self.sizes.hidden);
        by_hidden.zip_apply(&units.hidden, |derivative, h| {
            if h <= 0.0 {
                *derivative = 0.0;
            }
        });
        add_affine_gradient(inputs, &by_hidden, first_gradient);
        by_inputs(first, &by_hidden, wanted)
    }

    /// Returns the network whose last inputs are fixed at `context`: the first layer's biases absorb them.
    pub(super) fn given(&self, context: &[f64]) -> Self {
        let units = match self.sizes.hidden {
            0 => self.sizes.outputs,
            hidden => hidden,
        };
        let inputs = self.sizes.inputs - context.len();
        let free = units * inputs;
        let (weights, rest) = self.parameters.split_at(units * self.sizes.inputs);
        let (biases, rest) = rest.split_at(units);
        let mut biases = biases.to_vec();
        for (weights, x) in weights[free..].chunks(units).zip(context) {
            for (bias, weight) in biases.iter_mut().zip(weights) {
                *bias += weight * x;
            }
        }
        Self {
            sizes: Sizes {
                inputs,
                ..self.sizes
            },
            parameters: [&weights[..free], &biases, rest].concat(),
        }
    }
}

/// Writes `W x + b` for each column x of `inputs`.
fn affine(parameters: &[f64], inputs: &DMatrix<f64>, outputs: &mut DMatrix<f64>) {
    let (m, n) = (outputs.nrows(), inputs.nrows());
    let (weights, bias) = parameters.split_at(m * n);
    for mut column in outputs.column_iter_mut() {
        column.copy_from_slice(bias);
    }
    outputs.gemm(1.0, &DMatrixView::from_slice(weights, m, n), inputs, 1.0);
}

/// Adds the derivatives by an affine map's parameters, summed over the minibatch, to `gradient`. The transpose is
/// copied, since nalgebra's product is unreliable for a transposed view.
fn add_affine_gradient(inputs: &DMatrix<f64>, by_outputs: &DMatrix<f64>, gradient: &mut [f64]) {
    let (m, n) = (by_outputs.nrows(), inputs.nrows());
    let (by_weights, by_bias) = gradient.split_at_mut(m * n);
    DMatrixViewMut::from_slice(by_weights, m, n).gemm(1.0, by_outputs, &inputs.transpose(), 1.0);
    for column in by_outputs.column_iter() {
        for (sum, derivative) in by_bias.iter_mut().zip(column.iter()) {
            *sum += derivative;
        }
    }
}

/// Returns the derivatives by the first `wanted` inputs of an affine map.
fn by_inputs(parameters: &[f64], by_outputs: &DMatrix<f64>, wanted: usize) -> DMatrix<f64> {
    let m = by_outputs.nrows();
    let weights = DMatrixView::from_slice(&parameters[..m * wanted], m, wanted);
    weights.transpose() * by_outputs
}

/// The values of a forward pass, a column for each example: the network's units, and the means and log scales of a
/// [`ConditionalGaussian`](super::ConditionalGaussian) or the log slopes of a coupling layer.
#[derive(Debug, Clone, Default)]
pub(super) struct Pass {
    pub(super) units: Units,
    pub(super) means: DMatrix<f64>,
    pub(super) log_deviations: DMatrix<f64>,
}

impl Pass {
    /// Returns the sum of the log scales for one column.
    pub(super) fn log_volume(&self, column: usize) -> f64 {
        self.log_deviations.column(column).sum()
    }

    /// Returns the pairs of `(state - mu) / sigma` and `log sigma` for one column.
    fn scaled(&self, column: usize, state: &[f64]) -> impl Iterator<Item = (f64, f64)> {
        let d = self.means.nrows();
        let entries = column * d..(column + 1) * d;
        entries.zip(state).map(|(k, x)| {
            let log_deviation = self.log_deviations[k];
            ((x - self.means[k]) * (-log_deviation).exp(), log_deviation)
        })
    }

    /// Returns `(state - mu) / sigma` for one column.
    pub(super) fn residuals(&self, column: usize, state: &[f64]) -> Vec<f64> {
        let scaled = self.scaled(column, state);
        scaled.map(|(residual, _)| residual).collect()
    }

    /// Returns `log N(state; mu, diag sigma^2)` for one column.
    pub(super) fn log_density(&self, column: usize, state: &[f64]) -> f64 {
        let terms = self
            .scaled(column, state)
            .map(|(residual, log_deviation)| -0.5 * residual * residual - log_deviation);
        terms.sum::<f64>() - 0.5 * self.means.nrows() as f64 * TAU.ln()
    }
}

/// Checks of derivatives against differences.
#[cfg(test)]
pub(super) mod differences {
    const STEP: f64 = 1e-5;

    /// Decides for each derivative whether it agrees with a one-sided difference of `value(i, step)`, in which argument
    /// i has moved by `step`. A kink within two steps spoils the difference on its own side only. The differences are
    /// of second order, so that curvature spoils neither. The error may be `tolerance (1 + |derivative|)`, and what the
    /// rounding of the values adds.
    pub(in crate::learned) fn agree(
        derivatives: &[f64],
        tolerance: f64,
        mut value: impl FnMut(usize, f64) -> f64,
    ) -> Vec<bool> {
        let mut agrees = |(i, derivative): (usize, &f64)| {
            let here = value(i, 0.0);
            let rounding = 8.0 * f64::EPSILON * here.abs() / STEP;
            [-STEP, STEP].into_iter().any(|step| {
                let [near, far] = [step, 2.0 * step].map(|step| value(i, step) - here);
                let difference = (4.0 * near - far) / (2.0 * step);
                (difference - derivative).abs() < tolerance * (1.0 + derivative.abs()) + rounding
            })
        };
        derivatives.iter().enumerate().map(&mut agrees).collect()
    }

    /// Returns the share of derivatives that agree with differences. A few may disagree, near two kinks of the function.
    pub(in crate::learned) fn share(agree: &[bool]) -> f64 {
        agree.iter().filter(|&&agrees| agrees).count() as f64 / agree.len() as f64
    }
}
