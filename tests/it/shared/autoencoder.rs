//! A variational autoencoder: amortized transitions as its encoder, and a decoder to bits.

use annealed::learned::{
    AmortizedTransitions, Decoder, TrainedTransitions, Trainer, Training, TrainingError,
};
use annealed::random::{Purpose, stream};
use annealed::rbm::{sigmoid, softplus};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DMatrixView, DMatrixViewMut, DVector};
use rand::RngExt;

const CLIP: f64 = 10.0;

/// A decoder with parameters theta that can be trained.
pub trait TrainableDecoder: Decoder {
    fn parameters(&self) -> &[f64];

    fn parameters_mut(&mut self) -> &mut [f64];

    /// Adds `scale * d/dtheta log p(x|z)` to `gradient`, which is as long as theta.
    fn accumulate_parameter_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut [f64],
    );
}

#[derive(Debug, Clone, PartialEq)]
pub struct Autoencoder<D> {
    pub encoder: TrainedTransitions<AmortizedTransitions>,
    pub decoder: D,
}

impl<D: TrainableDecoder> Autoencoder<D> {
    /// Trains an encoder by `training`, and the decoder together with it: Adam on `E log p(x|z_T)`, at the same rate.
    ///
    /// # Errors
    /// The errors of [`Trainer::new`] and [`Trainer::step`]; a gradient of the decoder that is not finite.
    pub fn train(
        training: Training,
        encoder: AmortizedTransitions,
        mut decoder: D,
        data: &[DVector<f64>],
        schedule: &Schedule,
    ) -> Result<Self, TrainingError<AmortizedTransitions>> {
        let mut trainer = Trainer::new(training, encoder, data, schedule)?;
        let mut optimizer = Adam::new(decoder.parameters().len());
        for iteration in 0.. {
            let Some(rate) = trainer.learning_rate() else {
                break;
            };
            let mut gradient = vec![0.0; decoder.parameters().len()];
            for drawn in trainer.step(&decoder)? {
                let (x, z) = (drawn.observation, &drawn.latent);
                decoder.accumulate_parameter_gradient(x, z, drawn.weight, &mut gradient);
            }
            if let Some(&value) = gradient.iter().find(|x| !x.is_finite()) {
                return Err(TrainingError::Diverged {
                    iteration,
                    transition: schedule.stages(),
                    quantity: "gradient of the decoder at the states",
                    value,
                    last_good: Box::new(trainer.finish().flow),
                });
            }
            clip(&mut gradient);
            optimizer.ascend(decoder.parameters_mut(), &gradient, rate);
        }
        let encoder = trainer.finish();
        Ok(Self { encoder, decoder })
    }
}

fn clip(gradient: &mut [f64]) {
    let norm = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > CLIP {
        gradient.iter_mut().for_each(|x| *x *= CLIP / norm);
    }
}

/// Running means of a gradient and of its squares (Kingma and Ba 2015).
pub struct Adam {
    moments: Vec<(f64, f64)>,
    step: i32,
}

impl Adam {
    pub fn new(len: usize) -> Self {
        let moments = vec![(0.0, 0.0); len];
        Self { moments, step: 0 }
    }

    pub fn ascend(&mut self, parameters: &mut [f64], gradient: &[f64], rate: f64) {
        self.step += 1;
        let rate = rate / (1.0 - 0.9_f64.powi(self.step));
        let square_scale = 1.0 / (1.0 - 0.999_f64.powi(self.step));
        let slopes = gradient.iter().zip(&mut self.moments);
        for (parameter, (slope, (mean, square))) in parameters.iter_mut().zip(slopes) {
            *mean += (1.0 - 0.9) * (slope - *mean);
            *square += (1.0 - 0.999) * (slope * slope - *square);
            *parameter += rate * *mean / ((*square * square_scale).sqrt() + 1e-8);
        }
    }
}

/// A decoder to independent bits, whose logits are `l(z) = W2 relu(W1 z + b1) + b2`:
/// `log p(x|z) = sum_i [x_i l_i(z) - log(1 + e^(l_i(z)))]`.
#[derive(Debug, Clone, PartialEq)]
pub struct BernoulliDecoder {
    latent: usize,
    hidden: usize,
    observed: usize,
    /// Both layers, each as its weights, column by column, and its biases.
    parameters: Vec<f64>,
}

impl BernoulliDecoder {
    /// Creates a decoder from `latent` numbers through `hidden` units to `observed` bits. Random weights are uniform
    /// on `+- 1 / sqrt(inputs of the layer)`.
    pub fn new(latent: usize, hidden: usize, observed: usize, seed: u64) -> Self {
        let mut rng = stream(seed, Purpose::DECODER_WEIGHTS, 0);
        let mut layer = |inputs: usize, outputs: usize| {
            let bound = 1.0 / (inputs as f64).sqrt();
            let uniform = (0..outputs * (inputs + 1)).map(|_| rng.random_range(-bound..bound));
            uniform.collect::<Vec<_>>()
        };
        let parameters = [layer(latent, hidden), layer(hidden, observed)].concat();
        Self {
            latent,
            hidden,
            observed,
            parameters,
        }
    }

    fn layers(&self) -> (&[f64], &[f64]) {
        self.parameters.split_at(self.hidden * (self.latent + 1))
    }

    /// Returns the hidden units and the logits, one column each.
    fn forward(&self, z: &DVector<f64>) -> (DMatrix<f64>, DMatrix<f64>) {
        let (first, last) = self.layers();
        let mut hidden = affine(first, &column(z), self.hidden);
        hidden.apply(|h| *h = h.max(0.0));
        let logits = affine(last, &hidden, self.observed);
        (hidden, logits)
    }

    /// Returns the scaled derivatives of `log p(x|z)` in the logits, `x - sigmoid(l)`, and in the hidden units.
    fn backward(
        &self,
        x: &DVector<f64>,
        scale: f64,
        hidden: &DMatrix<f64>,
        logits: &DMatrix<f64>,
    ) -> (DMatrix<f64>, DMatrix<f64>) {
        let by_logits = logits.zip_map(&column(x), |logit, x| scale * (x - sigmoid(logit)));
        let mut by_hidden = by_inputs(self.layers().1, &by_logits, self.hidden);
        by_hidden.zip_apply(hidden, |derivative, h| {
            if h <= 0.0 {
                *derivative = 0.0;
            }
        });
        (by_logits, by_hidden)
    }
}

impl Decoder for BernoulliDecoder {
    fn latent_dimension(&self) -> usize {
        self.latent
    }

    fn observed_dimension(&self) -> usize {
        self.observed
    }

    fn log_likelihood(&self, x: &DVector<f64>, z: &DVector<f64>) -> f64 {
        log_probability(x, &self.forward(z).1)
    }

    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (hidden, logits) = self.forward(z);
        let by_hidden = self.backward(x, scale, &hidden, &logits).1;
        *gradient += by_inputs(self.layers().0, &by_hidden, self.latent).column(0);
        log_probability(x, &logits)
    }
}

impl TrainableDecoder for BernoulliDecoder {
    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn accumulate_parameter_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut [f64],
    ) {
        let (hidden, logits) = self.forward(z);
        let (by_logits, by_hidden) = self.backward(x, scale, &hidden, &logits);
        let (first, last) = gradient.split_at_mut(self.layers().0.len());
        add_affine_gradient(&hidden, &by_logits, last);
        add_affine_gradient(&column(z), &by_hidden, first);
    }
}

fn column(vector: &DVector<f64>) -> DMatrix<f64> {
    DMatrix::from_column_slice(vector.len(), 1, vector.as_slice())
}

fn log_probability(x: &DVector<f64>, logits: &DMatrix<f64>) -> f64 {
    let terms = x.iter().zip(logits);
    terms.map(|(x, &logit)| x * logit - softplus(logit)).sum()
}

/// Returns `W x + b`, of `outputs` numbers.
fn affine(parameters: &[f64], inputs: &DMatrix<f64>, outputs: usize) -> DMatrix<f64> {
    let (weights, bias) = parameters.split_at(outputs * inputs.nrows());
    let weights = DMatrixView::from_slice(weights, outputs, inputs.nrows());
    let mut result = DMatrix::from_column_slice(outputs, 1, bias);
    result.gemm(1.0, &weights, inputs, 1.0);
    result
}

/// Returns the derivatives of an affine map with respect to its inputs.
fn by_inputs(parameters: &[f64], by_outputs: &DMatrix<f64>, inputs: usize) -> DMatrix<f64> {
    let outputs = by_outputs.nrows();
    let weights = DMatrixView::from_slice(&parameters[..outputs * inputs], outputs, inputs);
    weights.transpose() * by_outputs
}

/// Adds the derivatives of an affine map with respect to its parameters.
fn add_affine_gradient(inputs: &DMatrix<f64>, by_outputs: &DMatrix<f64>, gradient: &mut [f64]) {
    let (m, n) = (by_outputs.nrows(), inputs.nrows());
    let (by_weights, by_bias) = gradient.split_at_mut(m * n);
    DMatrixViewMut::from_slice(by_weights, m, n).gemm(1.0, by_outputs, &inputs.transpose(), 1.0);
    for (sum, derivative) in by_bias.iter_mut().zip(by_outputs) {
        *sum += derivative;
    }
}
