//! Fits by learned transitions that take x as an input, with the decoder trained beside them.

use annealed::ais::Ais;
use annealed::learned::{AmortizedTransitions, Likelihood, Mean, Objective, Training};
use annealed::model::Gaussian;
use annealed::path::TemperedPath;
use annealed::schedule::Schedule;
use annealed_measurements::autoencoder::Autoencoder;
use nalgebra::{DVector, dvector};

use crate::exact::Fit;
use crate::model::Folded;

const HIDDEN: usize = 32;
const BATCH: usize = 256;
/// Chains for the bound on one datum.
const CHAINS: usize = 100;

pub struct Settings {
    pub objective: Objective,
    pub transitions: usize,
    pub iterations: usize,
    pub rate: f64,
}

/// Trains an encoder and the decoder `start` together on `data`, and measures the encoder's bound.
pub fn fit(settings: &Settings, start: &Folded, data: &[f64], seed: u64) -> annealed::Result<Fit> {
    let vectors: Vec<DVector<f64>> = data.iter().map(|&x| dvector![x]).collect();
    let mean = Mean::Gated { hidden: HIDDEN };
    let encoder = AmortizedTransitions::new(mean, 1, 1, settings.transitions, seed)?;
    let schedule = Schedule::linear(settings.transitions)?;
    let training = Training::new(settings.objective)
        .iterations(settings.iterations)
        .batch_size(BATCH)
        .learning_rate(settings.rate)
        .seed(seed);
    let trained = Autoencoder::train(training, encoder, start.clone(), &vectors, &schedule)?;
    let prior = Gaussian::standard(1)?;
    let mut bound = 0.0;
    for x in &vectors {
        let path = TemperedPath::new(&prior, Likelihood::new(&trained.decoder, x)?);
        let ais = Ais::new(&path, trained.encoder.flow.given(x)?).schedule(schedule.clone());
        let run = ais.chains(CHAINS).threads(1).seed(seed).run()?;
        bound += run.lower_bound() / data.len() as f64;
    }
    Ok(Fit {
        theta: trained.decoder.theta,
        bound,
    })
}
