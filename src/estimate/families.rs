//! Families of chains that interacted. A family is the descendants of one first ancestor.

use super::{Warning, tail};
use crate::num::{WeightSums, log_add_exp, log_mean_exp};

/// Returns the log of each family's sum of weights, `-inf` if it died out. `roots` lists the first ancestors.
pub(super) fn family_sums(log_weights: &[f64], roots: &[usize]) -> Vec<f64> {
    let mut families = vec![f64::NEG_INFINITY; log_weights.len()];
    for (&root, &log_weight) in roots.iter().zip(log_weights) {
        families[root] = log_add_exp(families[root], log_weight);
    }
    families
}

/// Returns the effective number of families, `(sum w)^2 / sum w^2` over their sums of weights w.
pub(crate) fn effective_families(log_weights: &[f64], roots: &[usize]) -> f64 {
    WeightSums::of(family_sums(log_weights, roots)).effective_sample_size()
}

/// Warns if the tail index of the larger half of the family weights suggests an infinite variance. If chains move well,
/// a family's weight is nearly exponential (shape 0). If they do not, a family's weight is the weight of its ancestor,
/// as in importance sampling from the base. Islands cannot show this, because each lacks the large weights.
///
/// A large shape is no fault if a few families reached another mode, or if the run drew the large weights. The mean
/// then includes these weights and exceeds most families. If the large weights were not drawn, the mean is low. Nor is it
/// a fault if `stages` are few and coarse, so that most families end at each of them.
pub(crate) fn heavy_families(
    log_weights: &[f64],
    roots: &[usize],
    stages: usize,
) -> Option<Warning> {
    let sums = family_sums(log_weights, roots);
    let mut alive: Vec<f64> = sums.iter().copied().filter(|sum| sum.is_finite()).collect();
    alive.sort_unstable_by(|a, b| b.total_cmp(a));
    let tail = (alive.len() / 2).min((3.0 * (sums.len() as f64).sqrt()) as usize);
    // Ends here if fewer than five families are left, so that `alive` is not empty below.
    let k_hat = tail::shape_of_largest(&sums, tail)?;
    let tenth = (alive[alive.len() / 10] - log_mean_exp(&alive)).exp();
    let effective = WeightSums::of(&alive).effective_sample_size();
    let few = (ENOUGH..THIN.1 * alive.len() as f64).contains(&effective);
    let is_coarse = (stages * alive.len()) as f64 <= COARSE * sums.len() as f64;
    let lacks = !is_coarse && (tenth > TENTH || k_hat > HOPELESS) || k_hat > THIN.0 && few;
    (k_hat > largest_shape(tail) && lacks).then_some(Warning::HeavyFamilies { k_hat })
}

/// Number of stages, times the share of families that still live, at or below which the stages are coarse. Runs whose
/// stages each halve the effective sample size have 0.03 to 1.3, right or wrong; runs of 40 fine stages have 1.8 or more.
const COARSE: f64 = 1.0;
/// Ratio of the 90% quantile of the family weights to their mean, above which the mean lacks large weights.
const TENTH: f64 = 1.8;
/// Pareto shape above which the warning appears whatever weights were drawn, because the weights have no mean.
const HOPELESS: f64 = 1.6;
/// Two thresholds for [`heavy_families`]: it warns if the Pareto shape exceeds the first, and the effective number of
/// families, divided by the number of families with weight, is below the second. The weights then spread too far.
const THIN: (f64, f64) = (0.8, 0.03);
/// Effective number of families below which [`THIN`] does not apply, because the standard error is large by itself.
const ENOUGH: f64 = 40.0;

/// Returns the largest Pareto shape without a warning, for a fit to `tail` families. The shape is smaller in 99% of
/// runs with correct errors and 100 to 15,000 slow or fast chains. Above 1/2 the weights have no variance.
fn largest_shape(tail: usize) -> f64 {
    (0.4 + 36.0 / tail as f64).max(0.6)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Exp1, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Counts warnings over 500 sets of chains in `alive` families. `draw` draws the log weight of all chains of a
    /// family.
    fn warned(chains: usize, alive: usize, draw: impl Fn(&mut Xoshiro256PlusPlus) -> f64) -> usize {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let roots: Vec<usize> = (0..chains).map(|chain| chain % alive).collect();
        let heavy = |_: &usize| {
            let families: Vec<f64> = (0..alive).map(|_| draw(&mut rng)).collect();
            let log_weights: Vec<f64> = roots.iter().map(|&root| families[root]).collect();
            heavy_families(&log_weights, &roots, 40).is_some()
        };
        (0..500).filter(heavy).count()
    }

    #[test]
    fn families_of_a_heavy_tail_are_told_from_exponential_ones() {
        let exponential = |rng: &mut Xoshiro256PlusPlus| {
            let (weight, island): (f64, f64) = (rng.sample(Exp1), rng.sample(StandardNormal));
            weight.ln() + 0.5 * island
        };
        let log_normal = |rng: &mut Xoshiro256PlusPlus| 4.0 * rng.sample::<f64, _>(StandardNormal);
        for (chains, alive) in [(400, 25), (400, 100), (3_200, 400)] {
            let false_alarms = warned(chains, alive, exponential);
            assert!(false_alarms <= 10, "{false_alarms} of 500 at {alive}");
        }
        assert!(warned(3_200, 400, log_normal) > 450);
    }

    /// Six stages leave a fifteenth of the families, whose weights are as unequal as those above.
    #[test]
    fn families_of_coarse_stages_are_silent() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        let log_weights =
            Vec::from_iter((0..3_000).map(|_| 4.0 * rng.sample::<f64, _>(StandardNormal)));
        let roots = Vec::from_iter((0..3_000).map(|chain| chain % 200));
        assert!(heavy_families(&log_weights, &roots, 6).is_none());
        assert!(heavy_families(&log_weights, &roots, 40).is_some());
    }

    /// If a few families reach a mode with 20 times the weight, the Pareto shape is large, but the estimate is right.
    #[test]
    fn families_that_reached_another_mode_are_silent() {
        let modes = |rng: &mut Xoshiro256PlusPlus| {
            let weight: f64 = rng.sample(Exp1);
            weight.ln() + if rng.random_bool(0.07) { 3.0 } else { 0.0 }
        };
        let false_alarms = warned(4_000, 600, modes);
        assert!(false_alarms <= 10, "{false_alarms} of 500");
    }

    /// Chains that move slowly have families of nearly log-normal weights, and a correct standard error.
    #[test]
    fn log_normal_families_are_silent() {
        let log_normal = |rng: &mut Xoshiro256PlusPlus| 1.2 * rng.sample::<f64, _>(StandardNormal);
        for (chains, alive) in [(800, 340), (3_200, 1_250), (15_000, 3_400)] {
            let false_alarms = warned(chains, alive, log_normal);
            assert!(false_alarms <= 10, "{false_alarms} of 500 at {alive}");
        }
    }
}
