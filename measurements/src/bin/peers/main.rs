//! Training and exact sums by the crate, for `compare.py`. Prints one line of JSON.

mod processor;

use std::path::PathBuf;

use annealed::nalgebra::{DMatrix, DVector};
use annealed::rbm::{ContrastiveDivergence, Rbm, RbmMoments};
use annealed::rbm::{sigmoid, softplus};
use annealed_files::{BinaryData, RbmFile};
use clap::{Args, Parser};
use serde_json::{Value, json};

#[derive(Debug, Parser)]
enum Task {
    /// One epoch of contrastive divergence, in mini-batches of 100
    Training(Training),
    /// log Z and the moments of an RBM
    Enumeration(Enumeration),
}

#[derive(Debug, Args)]
struct Training {
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    hidden: usize,
    #[arg(long, default_value_t = 1)]
    sweeps: usize,
    #[arg(long)]
    persistent: bool,
}

#[derive(Debug, Args)]
struct Enumeration {
    #[arg(long)]
    weights: PathBuf,
    /// Loops over hidden states and units instead of the crate's functions
    #[arg(long)]
    loops: bool,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let found = match Task::parse() {
        Task::Training(options) => options.run()?,
        Task::Enumeration(options) => options.run()?,
    };
    println!("{found}");
    Ok(())
}

impl Training {
    fn run(&self) -> Result<Value, Failure> {
        let data = BinaryData::read(&self.data)?.into_rows();
        let training = ContrastiveDivergence::new(self.sweeps)
            .persistent(self.persistent)
            .batch_size(100)
            .epochs(1)
            .learning_rate(0.05, 0.05)
            .momentum(0.0)
            .weight_decay(0.0);
        let start = Rbm::<f32>::from_data(self.hidden, &data, 1)?;
        let begun = processor::seconds()?;
        let trained = training.train(start, &data)?;
        let rate = data.len() as f64 / (processor::seconds()? - begun);
        Ok(json!({ "rate": rate, "error": trained.curve[0].reconstruction_error }))
    }
}

impl Enumeration {
    fn run(&self) -> Result<Value, Failure> {
        let rbm = RbmFile::<f64>::read(&self.weights)?.rbm;
        let states = (1_u64 << rbm.hidden_units()) as f64;
        let begun = processor::seconds()?;
        let log_z = match self.loops {
            true => log_z_by_loops(&rbm),
            false => rbm.exact_log_normalizer()?,
        };
        let between = processor::seconds()?;
        let moments = match self.loops {
            true => moments_by_loops(&rbm, log_z),
            false => rbm.exact_moments()?,
        };
        let done = processor::seconds()?;
        Ok(json!({
            "log_z_rate": states / (between - begun),
            "moments_rate": states / (done - between),
            "log_z": log_z,
            "on_together": moments.interaction.sum(),
        }))
    }
}

/// Returns the hidden units that are on in `state`.
fn on(rbm: &Rbm<f64>, state: usize) -> impl Iterator<Item = usize> {
    (0..rbm.hidden_units()).filter(move |unit| state >> unit & 1 == 1)
}

/// Returns `log f(h)` of a hidden state, and writes the visible logits to `logits`. `columns` has one column per unit.
fn log_density(rbm: &Rbm<f64>, columns: &DMatrix<f64>, state: usize, logits: &mut [f64]) -> f64 {
    logits.copy_from_slice(rbm.visible_bias().as_slice());
    let mut log_f = 0.0;
    for unit in on(rbm, state) {
        log_f += rbm.hidden_bias()[unit];
        for (logit, weight) in logits.iter_mut().zip(&columns.column(unit)) {
            *logit += weight;
        }
    }
    log_f + logits.iter().copied().map(softplus).sum::<f64>()
}

fn log_z_by_loops(rbm: &Rbm<f64>) -> f64 {
    let columns = rbm.weights().transpose();
    let mut logits = vec![0.0; rbm.visible_units()];
    let log_f: Vec<f64> = (0..1 << rbm.hidden_units())
        .map(|state| log_density(rbm, &columns, state, &mut logits))
        .collect();
    let largest = log_f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = log_f.iter().map(|log_f| (log_f - largest).exp()).sum();
    largest + sum.ln()
}

fn moments_by_loops(rbm: &Rbm<f64>, log_z: f64) -> RbmMoments {
    let columns = rbm.weights().transpose();
    let (visible, hidden) = columns.shape();
    let mut logits = vec![0.0; visible];
    let (mut h, mut v) = (DVector::zeros(hidden), DVector::zeros(visible));
    let mut together = DMatrix::zeros(visible, hidden);
    for state in 0..1 << hidden {
        let p = (log_density(rbm, &columns, state, &mut logits) - log_z).exp();
        let expected = DVector::from_iterator(visible, logits.iter().map(|y| p * sigmoid(*y)));
        v += &expected;
        for unit in on(rbm, state) {
            h[unit] += p;
            let mut column = together.column_mut(unit);
            column += &expected;
        }
    }
    RbmMoments {
        visible: v,
        hidden: h,
        interaction: together.transpose(),
    }
}
