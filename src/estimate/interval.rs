//! The confidence interval of log Z. Its upper bound is corrected for skewness, and wider if the tail is heavy or few
//! weights are effective. `docs/intervals.md` reports its coverage.

use std::ops::RangeInclusive;

use super::Estimate;
use crate::num::student_quantile;

/// Range of Pareto shapes over which the factor that widens the upper side rises from 1 to [`MOST_WIDENING`]. All constants
/// here are calibrated on weights of known mean, with 50 to 1,000 chains each.
const SHAPES: (f64, f64) = (0.35, 0.65);
/// Largest factor by which a heavy tail widens the upper side.
const MOST_WIDENING: f64 = 3.0;
/// Effective sample size at which the upper side doubles. This side grows less for islands of nearly equal weight, and
/// for a [`CALIBRATED`] number of chains of nearly equal weight.
const DOUBLING_ESS: f64 = 15.0;
/// Numbers of chains for which the upper side grows less if the weights are nearly equal.
const CALIBRATED: RangeInclusive<usize> = 16..=64;

/// Returns the allowance for chance in the Pareto shape fitted to the weights of `chains` chains.
pub(super) fn margin(chains: usize) -> f64 {
    1.5 / (chains as f64).sqrt()
}

impl Estimate {
    /// Returns the distances of the lower and upper bound from the estimate, on the log scale. An estimate is seldom
    /// too high, so only the upper side is corrected, for skewness and tail, on the scale of the mean weight.
    pub(super) fn offsets(&self, level: f64) -> (f64, f64) {
        // The weights carry no more information than ESS equal ones.
        let dof = (self.effective_sample_size() - 1.0).max(1.0);
        let t = student_quantile(0.5 + 0.5 * level, dof);
        let above = self.widening() * self.standard_error() * self.corrected_for_skewness(t);
        (t * self.standard_error(), above.ln_1p())
    }

    /// Returns how far the interval of this level reaches from the estimate on the side of `value`.
    pub(super) fn reach_toward(&self, value: f64, level: f64) -> f64 {
        let (below, above) = self.offsets(level);
        if value > self.value() { above } else { below }
    }

    /// Returns the quantile `t` corrected for the skewness of a studentised mean by Hall's (1992) cubic. It is the h of
    /// `docs/intervals.md`: `h(t) = (1 - cbrt(1 - 3 a (t + a/2))) / a` with `a = skewness / (3 sqrt n)`.
    fn corrected_for_skewness(&self, t: f64) -> f64 {
        let a = self.skewness / (3.0 * (self.units as f64).sqrt());
        let shifted = t + 0.5 * a;
        // The last line cancels if a is small. Its limit is `t + a/2`.
        if a.abs() < 1e-6 {
            return shifted.max(0.0);
        }
        ((1.0 - (1.0 - 3.0 * a * shifted).cbrt()) / a).max(0.0)
    }

    /// Returns the factor by which the upper side widens, because large weights that no chain drew make the true mean
    /// larger. The tail contributes at most [`MOST_WIDENING`]. If a run lacks the large weights, its fitted shape is too small.
    fn widening(&self) -> f64 {
        let (light, heavy) = SHAPES;
        let shape = self.pareto_shape.map_or(light, |k| k + margin(self.units));
        let heaviness = ((shape - light) / (heavy - light)).clamp(0.0, 1.0);
        let few = (DOUBLING_ESS / self.effective_sample_size()).powi(2);
        // Islands, or a few chains, of nearly equal weight do not lack a large one.
        let uneven = match self.is_of_islands() || CALIBRATED.contains(&self.units) {
            true => self.relative_variance.min(1.0),
            false => 1.0,
        };
        (1.0 + (MOST_WIDENING - 1.0) * heaviness) * (1.0 + few * uneven)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Checks the coverage of intervals from few chains with normal log weights, within four standard errors of the
    /// coverage of 40,000 simulations.
    #[test]
    fn intervals_of_few_chains_cover() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
        for (chains, deviation, coverage) in [(16, 0.2, 0.952), (16, 0.5, 0.959), (16, 1.0, 0.973)]
        {
            let (mut held, times) = (0, 4_000);
            for _ in 0..times {
                let normal =
                    |_| deviation * (rng.sample::<f64, _>(StandardNormal) - 0.5 * deviation);
                let log_weights: Vec<f64> = (0..chains).map(normal).collect();
                let (lower, upper) = Estimate::from_log_weights(&log_weights).unwrap().interval();
                held += u32::from(lower <= 0.0 && 0.0 <= upper);
            }
            let found = f64::from(held) / f64::from(times);
            let error = (coverage * (1.0 - coverage) / f64::from(times)).sqrt();
            println!("{chains} chains, deviation {deviation}: coverage {found:.3}");
            assert!(
                (found - coverage).abs() < 4.0 * error,
                "{chains}, {deviation}: {found}"
            );
        }
    }

    #[test]
    fn islands_of_even_weight_lack_no_large_one() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut held = 0;
        for _ in 0..1_000 {
            let normal = |_| 0.3 * (rng.sample::<f64, _>(StandardNormal) - 0.15);
            let islands: Vec<f64> = (0..20).map(normal).collect();
            let estimate = Estimate::of_islands(&islands).unwrap();
            let (lower, upper) = estimate.interval();
            held += usize::from(lower <= 0.0 && 0.0 <= upper);
            let of_uneven = 1.0 + (DOUBLING_ESS / estimate.effective_sample_size()).powi(2);
            assert!(of_uneven > 1.2 * estimate.widening());
        }
        assert!((930..970).contains(&held), "{held}");
    }
}
