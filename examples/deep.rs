//! A deep Boltzmann machine of the digits, trained layer by layer and then jointly. The example estimates its log Z and
//! a bound on the likelihood of held-out digits. Joint training follows the gradient `E[h h^T | data] - E[h h^T]` of
//! neighbouring layers: mean fields replace the first expectation, persistent chains the second (Salakhutdinov and
//! Hinton 2009).
//!
//! ```text
//! cargo run --release --features full --example deep -- --epochs 60 --stages 10000
//! ```

use annealed::data;
use annealed::prelude::*;
use annealed::random::{Purpose, stream};
use annealed::rbm::{DeepBoltzmann, sigmoid};
use clap::Parser;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// Train a deep Boltzmann machine on the embedded 8 x 8 digits, and estimate its log partition function.
#[derive(Debug, Parser)]
struct Options {
    /// Passes over the data of the joint training
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Number of stages K
    #[arg(long, default_value_t = 1_000)]
    stages: usize,
}

/// Units of the hidden layers.
const LOWER: usize = 16;
const UPPER: usize = 12;
const BATCH: usize = 50;
const RATE: f64 = 0.05;

fn main() -> annealed::Result<()> {
    let Options { epochs, stages } = Options::parse();
    let images = data::digits().images;
    let (training, held_out) = images.split_at(1_500);
    let stacked = layer_by_layer(training)?;
    report("layer by layer", stages, &stacked, training, held_out)?;
    let joint = jointly(stacked, epochs, training)?;
    report("jointly", stages, &joint, training, held_out)
}

/// Trains an RBM on the digits and one on its hidden states, and stacks them.
fn layer_by_layer(training: &[Vec<bool>]) -> annealed::Result<DeepBoltzmann<f64>> {
    let cd = ContrastiveDivergence::new(1).epochs(10).seed(0);
    let lower = cd.train(Rbm::from_data(LOWER, training, 0)?, training)?.rbm;
    let mut rng = stream(0, Purpose::TRAINING, 1);
    let hidden = training
        .iter()
        .map(|image| lower.hidden_probabilities(image));
    let hidden: Vec<Vec<bool>> = hidden.map(|p| draw(p.as_slice(), &mut rng)).collect();
    let upper = cd.train(Rbm::from_data(UPPER, &hidden, 0)?, &hidden)?.rbm;
    // Both RBMs explain the layer between them, so the stack takes half of the upper weights and the mean of both
    // biases.
    let weights = vec![lower.weights().clone(), upper.weights() * 0.5];
    let between = (lower.hidden_bias() + upper.visible_bias()) * 0.5;
    let (visible, top) = (lower.visible_bias().clone(), upper.hidden_bias().clone());
    DeepBoltzmann::new(weights, vec![visible, between, top])
}

fn draw(probabilities: &[f64], rng: &mut impl Rng) -> Vec<bool> {
    let units = probabilities.iter();
    units.map(|p| rng.random::<f64>() < *p).collect()
}

/// Trains all layers at once, with a chain for each image of a mini-batch.
fn jointly(
    start: DeepBoltzmann<f64>,
    epochs: usize,
    training: &[Vec<bool>],
) -> annealed::Result<DeepBoltzmann<f64>> {
    let mut rng = stream(0, Purpose::TRAINING, 2);
    let mut deep = start;
    // A chain is v and the upper layer (the even layers) side by side.
    let fair = vec![0.5; deep.visible_units() + UPPER];
    let mut chains: Vec<Vec<bool>> = (0..BATCH).map(|_| draw(&fair, &mut rng)).collect();
    let mut images = training.to_vec();
    for epoch in 0..epochs {
        images.shuffle(&mut rng);
        let rate = RATE * (1.0 - epoch as f64 / epochs as f64) / BATCH as f64;
        for batch in images.chunks_exact(BATCH) {
            let rbm = deep.to_rbm()?;
            for chain in &mut chains {
                rbm.gibbs_sweep(chain, &mut rng);
            }
            let even = chains
                .iter()
                .map(|chain| chain.split_at(deep.visible_units()));
            let (visible, above): (Vec<_>, Vec<_>) = even.unzip();
            let odd = chains
                .iter()
                .map(|chain| rbm.hidden_activation(chain).map(sigmoid));
            let odd = DMatrix::from_columns(&odd.collect::<Vec<_>>());
            let model = [columns(&visible), odd, columns(&above)];
            let mut data = vec![columns(batch)];
            data.extend(deep.mean_fields(batch)?);
            deep = ascended(&deep, &data, &model, rate)?;
        }
    }
    Ok(deep)
}

fn columns(rows: &[impl AsRef<[bool]>]) -> DMatrix<f64> {
    DMatrix::from_fn(rows[0].as_ref().len(), rows.len(), |i, row| {
        f64::from(rows[row].as_ref()[i])
    })
}

/// Takes a step along the gradient, given all layers of the data and of the model. Each image or chain is a column.
fn ascended(
    deep: &DeepBoltzmann<f64>,
    data: &[DMatrix<f64>],
    model: &[DMatrix<f64>],
    rate: f64,
) -> annealed::Result<DeepBoltzmann<f64>> {
    let moments = |layers: &[DMatrix<f64>], l: usize| &layers[l + 1] * layers[l].transpose();
    let weights = deep.weights().iter().enumerate();
    let weights = weights.map(|(l, w)| w + (moments(data, l) - moments(model, l)) * rate);
    let biases = deep.biases().iter().zip(data.iter().zip(model));
    let biases =
        biases.map(|(b, (data, model))| b + (data.column_sum() - model.column_sum()) * rate);
    DeepBoltzmann::new(weights.collect(), biases.collect())
}

/// Estimates log Z from a start that a search finds, next to the exact value, and bounds the likelihood.
fn report(
    trained: &str,
    stages: usize,
    deep: &DeepBoltzmann<f64>,
    training: &[Vec<bool>],
    held_out: &[Vec<bool>],
) -> annealed::Result<()> {
    let rbm = deep.to_rbm()?;
    let base = deep.base_from_data(training, 1.0)?;
    let path = StartSearch::new(stages)
        .given(base)
        .run(&rbm)?
        .path(rbm.clone())?;
    let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(stages)?);
    let run = ais.chains(256).run()?;
    let exact = rbm.exact_log_normalizer()?;
    println!("trained {trained}: {run}\nexact log Z = {exact:.3}");
    let error = run.log_z() - exact;
    assert!(error.abs() <= 4.0 * run.standard_error() || !run.warnings().is_empty());
    let found = deep.log_likelihood_bound(held_out, run.log_z())?;
    let (mean, error) = (found.mean, found.standard_error);
    println!("log likelihood of held-out images: at least {mean:.2} +- {error:.2} nats an image");
    Ok(())
}
