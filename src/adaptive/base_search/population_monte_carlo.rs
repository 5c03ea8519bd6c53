//! Population Monte Carlo: draws of a mixture are weighted by the target. They move the mixture's components, called
//! bases, and their shares towards the target, and show where a further base is needed.

use super::find_modes::{FindModes, Target};
use crate::model::{Fit, NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{WeightSums, log_sum_exp, responsibilities};
use crate::random::StreamRng;

/// Number of rounds of draws. A round spends an equal part of the evaluations left, so more rounds have fewer draws
/// each. The first 15 rounds may add a component each.
const ROUNDS: u64 = 20;
/// Number of final rounds in which no component is added to the mixture. The last one only updates the shares. In the
/// other four, the newest component is refitted to draws of its own.
const LAST_ROUNDS: u64 = 5;
/// Largest number of draws in a round, for each component of the mixture. More draws help on funnels and on centred
/// hierarchies. Twenty components reach this limit if the rounds have 102,400 evaluations.
const MOST_DRAWS: u64 = 256;
/// Number of updates of the components' shares after a round of draws. An update needs no evaluation of the target. The
/// number need not be large, since the next round continues from the same shares: there are 100 updates in all.
const SHARE_UPDATES: usize = 5;
/// Effective sample size of the draws below which their weights are flattened, by a power below 1. At 50, each of 12
/// components has about 4 effective draws, as many as its present shape counts for in a refit.
const LEAST_ESS: f64 = 50.0;
/// Share, relative to equal shares, below which a component is dropped when a new one is added. The limit keeps useless
/// components from taking draws. Of n components, the dropped one has less than `0.1 / n` of the mixture.
const IDLE_SHARE: f64 = 0.1;

/// Returns components (bases) and shares of a mixture q close to the target f, by expectation maximisation on draws
/// weighted by `f / q` (Cappe, Douc, Guillin, Marin and Robert 2008). If a few draws dominate the weights, a power
/// below 1 flattens the weights. Components are [added](Draws::split) where the density of the mixture is too low.
pub(super) fn mixed<S: FindModes>(
    mut bases: Vec<S::Law>,
    target: &Target<'_, S>,
    rng: &mut StreamRng,
) -> Vec<(f64, S::Law)> {
    let mut shares = vec![1.0 / bases.len() as f64; bases.len()];
    for left in (1..=ROUNDS).rev() {
        let all = left * bases.len().max(1) as u64;
        let each = (target.left() / all).clamp(1, MOST_DRAWS) as usize;
        let Some(draws) = Draws::of(&bases, &counts(&shares, each), target, rng) else {
            break;
        };
        shares = (0..SHARE_UPDATES).fold(shares, |shares, _| draws.improved(&shares));
        // The last shares must belong to the components that are returned.
        if left > 1 {
            bases = draws.refitted(bases, &shares);
        }
        if left > LAST_ROUNDS {
            draws.split(&mut bases, &mut shares);
        }
    }
    shares.into_iter().zip(bases).collect()
}

/// Returns the number of draws from each component, about `each` on average: one half of all draws is spread evenly
/// over the components, the other half in proportion to `shares`.
fn counts(shares: &[f64], each: usize) -> Vec<usize> {
    let by_share = 0.5 * (each * shares.len()) as f64;
    // Without the even half, a component whose share is near 0 would have no draws by which to regain it.
    let count = |share: &f64| each.div_ceil(2) + (by_share * share) as usize;
    shares.iter().map(count).collect()
}

/// Draws of a mixture with their normalised weights.
struct Draws<S> {
    states: Vec<S>,
    /// Log densities of the components at each draw.
    densities: Vec<Vec<f64>>,
    weights: Vec<f64>,
    /// Normalised squares of the weights, which are large where the density of the mixture is too low.
    squares: Vec<f64>,
}

impl<S: FindModes> Draws<S> {
    /// Draws `counts[i]` states from component i, and weights all draws; `None` if the target is 0 at all draws.
    fn of(
        bases: &[S::Law],
        counts: &[usize],
        target: &Target<'_, S>,
        rng: &mut StreamRng,
    ) -> Option<Self> {
        let drawn = bases.iter().zip(counts);
        let drawn = drawn.flat_map(|(base, &count)| std::iter::repeat_n(base, count));
        let states: Vec<S> = drawn.map(|base| base.sample(rng)).collect();
        let bases: Vec<_> = bases
            .iter()
            .map(|base| (base, base.log_normalizer()))
            .collect();
        let density = |state: &S| {
            let density = |(base, log_z): &(&S::Law, f64)| base.log_density(state) - log_z;
            bases.iter().map(density).collect()
        };
        let densities: Vec<Vec<f64>> = states.iter().map(density).collect();
        let log_counts: Vec<f64> = counts.iter().map(|&count| (count as f64).ln()).collect();
        // The densities of all components count, so that a draw from the tail of one does not get a huge weight.
        let log_weight = |(state, densities): (&S, &Vec<f64>)| {
            let parts = densities.iter().zip(&log_counts);
            target.log_density(state) - log_sum_exp(parts.map(|(density, count)| density + count))
        };
        let log_weights: Vec<f64> = states.iter().zip(&densities).map(log_weight).collect();
        let twice: Vec<f64> = log_weights.iter().map(|x| 2.0 * x).collect();
        Some(Self {
            weights: flattened(&log_weights)?,
            squares: flattened(&twice)?,
            states,
            densities,
        })
    }

    /// Returns the `weights` of the draws, divided among the components by their responsibilities.
    fn responsibilities(&self, weights: &[f64], shares: &[f64]) -> Vec<Vec<f64>> {
        let parts = |densities: &Vec<f64>| {
            let parts = densities.iter().zip(shares);
            Vec::from_iter(parts.map(|(density, share)| density + share.ln()))
        };
        let draws = self.densities.iter().map(parts);
        responsibilities(draws.zip(weights.iter().copied()), shares.len())
    }

    fn improved(&self, shares: &[f64]) -> Vec<f64> {
        let all = self.responsibilities(&self.weights, shares);
        all.iter().map(|own| own.iter().sum()).collect()
    }

    fn refitted(&self, bases: Vec<S::Law>, shares: &[f64]) -> Vec<S::Law> {
        let all = self.responsibilities(&self.weights, shares);
        let refitted = |(base, own)| self.refit(&base, own).unwrap_or(base);
        bases.into_iter().zip(all).map(refitted).collect()
    }

    fn refit(&self, base: &S::Law, mut own: Vec<f64>) -> Option<S::Law> {
        // The weights then sum to the effective number of draws.
        let [sum, squares] = own.iter().fold([0.0, 0.0], |[s, q], w| [s + w, q + w * w]);
        if squares > 0.0 {
            own.iter_mut().for_each(|weight| *weight *= sum / squares);
        }
        base.refit(&self.states, &own).ok()
    }

    /// Adds a component where the density of the mixture q is too low: a copy of the component with the largest part of
    /// `f^2 / q`, refitted to the draws weighted by this part. Original and copy get half of the share each. A
    /// component with a tiny share is dropped.
    fn split(&self, bases: &mut Vec<S::Law>, shares: &mut Vec<f64>) {
        let mut all = self.responsibilities(&self.squares, shares);
        let sums = all.iter().map(|own| own.iter().sum());
        let Some((parent, _)) = largest(sums) else {
            return;
        };
        let Some(new) = self.refit(&bases[parent], all.swap_remove(parent)) else {
            return;
        };
        shares[parent] *= 0.5;
        bases.push(new);
        shares.push(shares[parent]);
        if let Some((least, share)) = largest(shares.iter().map(|share| -share))
            && -share < IDLE_SHARE / shares.len() as f64
        {
            bases.swap_remove(least);
            shares.swap_remove(least);
        }
    }
}

fn largest(values: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns normalised weights, raised to a power that gives them an ESS of at least [`LEAST_ESS`], or half the number
/// of positive weights if that is less; `None` if all weights are 0.
fn flattened(log_weights: &[f64]) -> Option<Vec<f64>> {
    let mut power = 1.0;
    let alive = log_weights.iter().filter(|x| **x > f64::NEG_INFINITY);
    let enough = LEAST_ESS.min(0.5 * alive.count() as f64);
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

#[cfg(test)]
mod tests {

    use nalgebra::{DVector, dvector};

    use super::*;
    use crate::model::{Gaussian, GaussianMixture, StudentT};
    use crate::random::{Purpose, stream};

    #[test]
    fn one_wide_base_becomes_a_mixture_that_covers_a_narrow_part() {
        let part = |mean, deviation| Gaussian::isotropic(dvector![mean], deviation).unwrap();
        let parts = [(0.5, part(0.0, 1.0)), (0.5, part(4.0, 0.1))];
        let target = GaussianMixture::new(parts).unwrap();
        let log_density = |x: &DVector<f64>| target.log_density(x);
        let counted = Target::new(&log_density, None, 20_000, stream(1, Purpose::TESTING, 1));
        let base = StudentT::new(part(0.0, 3.0), 5.0).unwrap();
        let mut rng = stream(1, Purpose::TESTING, 0);
        let found = mixed(vec![base], &counted, &mut rng);
        assert!((found.iter().map(|(share, _)| share).sum::<f64>() - 1.0).abs() < 1e-12);
        for x in [-2.0, 0.0, 2.0, 3.85, 4.0, 4.15] {
            let x = dvector![x];
            let part = |(share, base): &(f64, StudentT)| {
                share.ln() + base.log_density(&x) - base.log_normalizer()
            };
            let too_little = target.log_density(&x) - log_sum_exp(found.iter().map(part));
            assert!(too_little < 1.0, "{}: {too_little}", x[0]);
        }
    }
}
