//! Population Monte Carlo: draws of a mixture, weighted by the target, move its bases and their shares towards it.

use super::proposal::{Rivals, Target};
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{WeightSums, log_sum_exp};
use crate::random::StreamRng;

/// Number of rounds of draws; the last one gives the shares alone.
const ROUNDS: u64 = 20;
/// Most draws of a round, for each base.
const DRAWS: u64 = 128;
/// Number of updates of the shares after a round of draws.
const UPDATES: usize = 5;
/// Least effective sample size that the weights are flattened to.
const FLAT: f64 = 50.0;

/// Returns the bases with the shares that bring their mixture closest to the target, as far as draws show it:
/// expectation maximisation on draws weighted by `f / q` (Cappe, Douc, Guillin, Marin and Robert 2008). Weights that a few
/// draws dominate are flattened by a power below 1.
pub(super) fn mixed<S: Rivals>(
    mut bases: Vec<S::Base>,
    target: &Target<'_, S>,
    rng: &mut StreamRng,
) -> Vec<(f64, S::Base)> {
    let mut shares = vec![1.0 / bases.len() as f64; bases.len()];
    for left in (1..=ROUNDS).rev() {
        let all = left * bases.len().max(1) as u64;
        let each = (target.left() / all).clamp(1, DRAWS) as usize;
        let Some(draws) = Draws::of(&bases, &counts(&shares, each), target, rng) else {
            break;
        };
        shares = (0..UPDATES).fold(shares, |shares, _| draws.improved(&shares));
        if left > 1 {
            bases = draws.refitted(bases, &shares);
        }
    }
    shares.into_iter().zip(bases).collect()
}

/// Returns the number of draws of each base: half of them even, half by the shares.
fn counts(shares: &[f64], each: usize) -> Vec<usize> {
    let by_share = 0.5 * (each * shares.len()) as f64;
    let count = |share: &f64| each.div_ceil(2) + (by_share * share) as usize;
    shares.iter().map(count).collect()
}

/// Draws of a mixture with their normalised weights.
struct Draws<S> {
    states: Vec<S>,
    /// Log densities of the bases at each draw.
    densities: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl<S: Rivals> Draws<S> {
    /// Draws from each base as often as `counts` says; `None` where the target has density 0 at all draws.
    fn of(
        bases: &[S::Base],
        counts: &[usize],
        target: &Target<'_, S>,
        rng: &mut StreamRng,
    ) -> Option<Self> {
        let drawn = bases.iter().zip(counts);
        let drawn = drawn.flat_map(|(base, &count)| std::iter::repeat_n(base, count));
        let states: Vec<S> = drawn.map(|base| base.sample(rng)).collect();
        let density = |state: &S| {
            let density = |base: &S::Base| base.log_density(state) - base.log_normalizer();
            bases.iter().map(density).collect()
        };
        let densities: Vec<Vec<f64>> = states.iter().map(density).collect();
        let log_counts: Vec<f64> = counts.iter().map(|&count| (count as f64).ln()).collect();
        let log_weight = |(state, densities): (&S, &Vec<f64>)| {
            let parts = densities.iter().zip(&log_counts);
            target.log_density(state) - log_sum_exp(parts.map(|(density, count)| density + count))
        };
        let log_weights: Vec<f64> = states.iter().zip(&densities).map(log_weight).collect();
        Some(Self {
            weights: flattened(&log_weights)?,
            states,
            densities,
        })
    }

    /// Returns the weight of each draw that each base accounts for.
    fn responsibilities(&self, shares: &[f64]) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::with_capacity(self.states.len()); shares.len()];
        for (densities, weight) in self.densities.iter().zip(&self.weights) {
            let parts = densities.iter().zip(shares);
            let parts: Vec<f64> = parts.map(|(density, share)| density + share.ln()).collect();
            let sum = log_sum_exp(&parts);
            for (own, part) in all.iter_mut().zip(parts) {
                own.push(weight * (part - sum).exp());
            }
        }
        all
    }

    fn improved(&self, shares: &[f64]) -> Vec<f64> {
        let all = self.responsibilities(shares);
        all.iter().map(|own| own.iter().sum()).collect()
    }

    fn refitted(&self, bases: Vec<S::Base>, shares: &[f64]) -> Vec<S::Base> {
        let refitted = |(base, mut own): (S::Base, Vec<f64>)| {
            // Sums to the effective number of draws.
            let [sum, squares] = own.iter().fold([0.0, 0.0], |[s, q], w| [s + w, q + w * w]);
            if squares > 0.0 {
                own.iter_mut().for_each(|weight| *weight *= sum / squares);
            }
            S::refit(&base, &self.states, &own).unwrap_or(base)
        };
        let all = self.responsibilities(shares);
        bases.into_iter().zip(all).map(refitted).collect()
    }
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
