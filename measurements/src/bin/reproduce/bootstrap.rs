//! Bootstrap samples of the chains of a run.

use rand::{Rng, RngExt, SeedableRng};

pub const SAMPLES: usize = 1_000;

/// Sorted log Z^, ESS and variances of log weights, of samples drawn from the chains with replacement.
#[derive(Debug, Clone)]
pub struct Bootstrap {
    pub log_z: Vec<f64>,
    pub ess: Vec<f64>,
    pub variance: Vec<f64>,
}

impl Bootstrap {
    /// Resamples log weights; `log_z` is the log of their mean weight.
    pub fn new(log_weights: &[f64], log_z: f64) -> Self {
        let centred: Vec<f64> = log_weights.iter().map(|x| x - log_z).collect();
        let weights: Vec<f64> = centred.iter().map(|x| x.exp()).collect();
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
        let samples = (0..SAMPLES).map(|_| sample(&weights, &centred, &mut rng));
        let samples: Vec<[f64; 3]> = samples.collect();
        let sorted = |i: usize| {
            let mut values: Vec<f64> = samples.iter().map(|sample| sample[i]).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        Self {
            log_z: sorted(0).iter().map(|mean| log_z + mean.ln()).collect(),
            ess: sorted(1),
            variance: sorted(2),
        }
    }
}

/// Returns the middle 95% of sorted samples.
pub fn interval(sorted: &[f64]) -> (f64, f64) {
    let tail = sorted.len() / 40;
    (sorted[tail], sorted[sorted.len() - 1 - tail])
}

/// Returns the mean weight, the ESS and the variance of the log weights of one sample.
fn sample(weights: &[f64], log_weights: &[f64], rng: &mut impl Rng) -> [f64; 3] {
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut log_sum, mut log_squares) = (0.0, 0.0);
    for _ in 0..weights.len() {
        let chain = rng.random_range(0..weights.len());
        let (weight, log_weight) = (weights[chain], log_weights[chain]);
        sum += weight;
        squares += weight * weight;
        log_sum += log_weight;
        log_squares += log_weight * log_weight;
    }
    let n = weights.len() as f64;
    let variance = (log_squares - log_sum * log_sum / n) / (n - 1.0);
    [sum / n, sum * sum / squares, variance]
}

/// Returns the middle 95% of the differences `a - b` of independent sorted samples, over all pairs.
pub fn interval_of_difference(a: &[f64], b: &[f64]) -> (f64, f64) {
    let pairs = (a.len() * b.len()) as f64;
    let below = |x: f64| -> usize {
        let of_sample = |a: &f64| b.len() - b.partition_point(|b| b < &(a - x));
        a.iter().map(of_sample).sum()
    };
    let quantile = |share: f64| {
        let (mut low, mut high) = (a[0] - b[b.len() - 1], a[a.len() - 1] - b[0]);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if below(middle) as f64 >= share * pairs {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    };
    (quantile(0.025), quantile(0.975))
}
