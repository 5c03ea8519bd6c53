//! What the two reproductions share: data, training, settings.

pub mod data;
pub mod options;

use std::path::Path;
use std::time::Instant;

use annealed::Result;
use annealed::rbm::{BaseRate, ContrastiveDivergence, Rbm, RbmFile};

use clap::ValueEnum;
use data::Data;
use options::Setting;

/// How an RBM is trained.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum Training {
    /// Contrastive divergence with one sweep an update
    Cd1,
    /// Contrastive divergence with 25 sweeps an update
    Cd25,
    /// Persistent contrastive divergence, one sweep an update
    Pcd,
}

impl Training {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cd1 => "CD1",
            Self::Cd25 => "CD25",
            Self::Pcd => "PCD",
        }
    }

    /// Trains an RBM, saying how long it took.
    ///
    /// Mini-batches of 100, learning rate from 0.1 (PCD: 0.05) to 0, as many epochs as make up
    /// the setting's number of updates.
    pub fn run(self, data: &Data, hidden: usize, setting: &Setting, seed: u64) -> Result<Rbm> {
        const BATCH: usize = 100;
        let begun = Instant::now();
        let (sweeps, rate) = match self {
            Self::Cd1 => (1, 0.1),
            Self::Cd25 => (25, 0.1),
            Self::Pcd => (1, 0.05),
        };
        let epochs = setting.updates.div_ceil(data.images.len() / BATCH);
        let trained = ContrastiveDivergence::new(sweeps)
            .persistent(self == Self::Pcd)
            .batch_size(BATCH)
            .epochs(epochs)
            .learning_rate(rate, 0.0)
            .seed(seed)
            .train(Rbm::from_data(hidden, &data.images, seed)?, &data.images)?;
        println!(
            "\n{}({hidden}): {} updates in {:.1} s",
            self.name(),
            epochs * (data.images.len() / BATCH),
            begun.elapsed().as_secs_f64()
        );
        Ok(trained.rbm)
    }
}

/// Writes an RBM and its base rates to `name.npz` in the folder, where there is one.
pub fn save(
    folder: Option<&Path>,
    name: &str,
    rbm: &Rbm,
    data: &Data,
    log_z_exact: Option<f64>,
) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let file = RbmFile {
        rbm: rbm.clone(),
        base: Some(BaseRate::from_data(rbm.hidden_units(), &data.images, 1.0)?),
        log_z_exact,
        chains: None,
    };
    file.write(folder.join(format!("{}.npz", stem(name))))
}

/// The name of an RBM in a file's name.
pub fn stem(name: &str) -> String {
    name.to_lowercase().replace(['(', ')', ' '], "")
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

/// Whole numbers of stages from 100 on, two a decade, up to `longest`, which is the last.
pub fn numbers_of_stages(longest: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (4..)
        .map(|half_decade| 10_f64.powf(0.5 * f64::from(half_decade)).round() as usize)
        .take_while(|&steps| steps < longest)
        .collect();
    numbers.push(longest);
    numbers
}
