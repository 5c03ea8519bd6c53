//! Bootstrap samples of the chains of a run.

use rand::{Rng, RngExt, SeedableRng};

pub const SAMPLES: usize = 1_000;

/// Sorted log Z^ and ESS of samples drawn from the chains with replacement.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    pub log_z: Vec<f64>,
    pub ess: Vec<f64>,
}

impl Bootstrap {
    /// Resamples log weights; `log_z` is the log of their mean weight.
    pub fn new(log_weights: &[f64], log_z: f64) -> Self {
        let weights: Vec<f64> = log_weights.iter().map(|x| (x - log_z).exp()).collect();
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
        let samples = (0..SAMPLES).map(|_| sample(&weights, &mut rng));
        let (mut log_z, mut ess): (Vec<f64>, Vec<f64>) =
            samples.map(|(mean, ess)| (log_z + mean.ln(), ess)).unzip();
        log_z.sort_by(f64::total_cmp);
        ess.sort_by(f64::total_cmp);
        Self { log_z, ess }
    }
}

/// Returns the middle 95% of sorted samples.
pub fn interval(sorted: &[f64]) -> (f64, f64) {
    let tail = sorted.len() / 40;
    (sorted[tail], sorted[sorted.len() - 1 - tail])
}

fn sample(weights: &[f64], rng: &mut impl Rng) -> (f64, f64) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..weights.len() {
        let weight = weights[rng.random_range(0..weights.len())];
        sum += weight;
        squares += weight * weight;
    }
    (sum / weights.len() as f64, sum * sum / squares)
}
