//! Shares of bases in a mixture, by importance weights of a few draws.

use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{WeightSums, log_sum_exp};
use crate::random::StreamRng;

use super::proposal::Target;

/// Number of iterations.
const ITERATIONS: usize = 30;
/// Least effective sample size that the weights are flattened to.
const FLAT: f64 = 10.0;

/// Returns the shares of the bases that bring their mixture closest to the target, as far as `draws` samples of each
/// show it: expectation maximisation on samples weighted by `f / q`, with q the even mixture (Cappe, Douc, Guillin,
/// Marin and Robert 2008). Weights that a few samples dominate are flattened by a power below 1.
pub(super) fn shares<B>(
    bases: &[&B],
    target: &Target<'_, B::State>,
    draws: usize,
    rng: &mut StreamRng,
) -> Vec<f64>
where
    B: Sampleable + NormalizedModel,
{
    let even = vec![1.0 / bases.len() as f64; bases.len()];
    let drawn = bases
        .iter()
        .flat_map(|base| std::iter::repeat_n(base, draws));
    let states: Vec<B::State> = drawn.map(|base| base.sample(rng)).collect();
    let densities: Vec<Vec<f64>> = states
        .iter()
        .map(|state| {
            let density = |base: &&B| base.log_density(state) - base.log_normalizer();
            bases.iter().map(density).collect()
        })
        .collect();
    let log_weights: Vec<f64> = states
        .iter()
        .zip(&densities)
        .map(|(state, densities)| target.log_density(state) - log_sum_exp(densities))
        .collect();
    let Some(weights) = flattened(&log_weights) else {
        return even;
    };
    (0..ITERATIONS).fold(even, |shares, _| improved(&shares, &densities, &weights))
}

/// Returns normalised weights with an effective sample size of at least [`FLAT`], by a power; `None` where all are 0.
fn flattened(log_weights: &[f64]) -> Option<Vec<f64>> {
    let mut power = 1.0;
    let alive = log_weights.iter().filter(|x| **x > f64::NEG_INFINITY);
    let enough = FLAT.min(0.5 * alive.count() as f64);
    loop {
        let raised: Vec<f64> = log_weights.iter().map(|x| power * x).collect();
        let sums = WeightSums::of(&raised);
        if !sums.log_sum().is_finite() {
            return None;
        }
        if sums.effective_sample_size() >= enough {
            return Some(raised.iter().map(|x| sums.share(*x)).collect());
        }
        power *= 0.7;
    }
}

fn improved(shares: &[f64], densities: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut next = vec![0.0; shares.len()];
    for (densities, weight) in densities.iter().zip(weights) {
        let parts = densities.iter().zip(shares);
        let parts: Vec<f64> = parts.map(|(density, share)| density + share.ln()).collect();
        let all = log_sum_exp(&parts);
        for (next, part) in next.iter_mut().zip(parts) {
            *next += weight * (part - all).exp();
        }
    }
    next
}
