//! Sums of weights held as logarithms, and running means and variances, weighted or plain.

use std::borrow::Borrow;

use super::VECTOR_WIDTH;
use super::elementary::exp_of_negative;
use super::engine::over_vectors;

/// Returns `log sum_i exp(x_i)`, summed in the given order. `-inf` if no term exceeds `-inf`; NaN if a term is NaN.
///
/// ```
/// let huge = annealed::estimate::log_sum_exp(&[1e5, 1e5]);
/// assert!((huge - (1e5 + 2f64.ln())).abs() < 1e-10);
/// ```
pub fn log_sum_exp(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    WeightSums::of(values).log_sum()
}

/// Returns the largest value, ignoring NaN; `-inf` if there is none.
pub(crate) fn largest(values: impl IntoIterator<Item = impl Borrow<f64>>) -> f64 {
    let values = values.into_iter().map(|value| *value.borrow());
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// Returns true if `value` lies above `limit` by more than rounding, `1e-9 (1 + |limit|)`.
pub(crate) fn exceeds(value: f64, limit: f64) -> bool {
    value - limit > 1e-9 * (1.0 + limit.abs())
}

/// Returns the sums of the first n values, for n from 0.
pub(crate) fn cumulative(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums.push(sums[sums.len() - 1] + value);
    }
    sums
}

/// Returns `log(exp(a) + exp(b))`; `-inf` if a and b are `-inf`.
pub(crate) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    match high == f64::NEG_INFINITY {
        true => high,
        false => high + (low - high).exp().ln_1p(),
    }
}

/// Returns the sums of the three `terms` over all pairs of entries of `x` and `y`, in an order that does not depend on
/// the machine.
#[inline(always)]
fn sum_over_vectors(x: &[f64], y: &[f64], terms: impl Fn(f64, f64) -> [f64; 3]) -> [f64; 3] {
    over_vectors(
        #[inline(always)]
        move || {
            let (xs, x_rest) = x.as_chunks::<VECTOR_WIDTH>();
            let (ys, y_rest) = y.as_chunks::<VECTOR_WIDTH>();
            let mut lanes = [[0.0; VECTOR_WIDTH]; 3];
            for (x, y) in xs.iter().zip(ys) {
                for lane in 0..VECTOR_WIDTH {
                    let [a, b, c] = terms(x[lane], y[lane]);
                    lanes[0][lane] += a;
                    lanes[1][lane] += b;
                    lanes[2][lane] += c;
                }
            }
            let mut totals = lanes.map(|lanes| lanes.iter().sum::<f64>());
            for (x, y) in x_rest.iter().zip(y_rest) {
                for (total, term) in totals.iter_mut().zip(terms(*x, *y)) {
                    *total += term;
                }
            }
            totals
        },
    )
}

/// Returns `log (1/n) sum_i exp(x_i)`; `-inf` for no terms.
pub fn log_mean_exp(values: &[f64]) -> f64 {
    WeightSums::of(values).log_mean()
}

/// Divides the weight of each state among the components of a mixture (expectation maximisation). A state comes as its log
/// densities under the components, shares included, and its weight. Returns the weights of all states, by component.
pub(crate) fn responsibilities(
    states: impl Iterator<Item = (Vec<f64>, f64)>,
    components: usize,
) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::with_capacity(states.size_hint().0); components];
    for (log_densities, weight) in states {
        let sum = log_sum_exp(&log_densities);
        for (own, log_density) in all.iter_mut().zip(log_densities) {
            own.push(weight * (log_density - sum).exp());
        }
    }
    all
}

/// Running sums of `w` and `w^2` from log weights. Merging rounds, so the bits depend on the order of merges.
///
/// ```
/// use annealed::estimate::WeightSums;
///
/// let mut sums = WeightSums::default();
/// for w in [1.0_f64, 2.0, 3.0, 4.0] {
///     sums.add(w.ln());
/// }
/// assert!((sums.log_mean() - 2.5_f64.ln()).abs() < 1e-15);
/// assert!((sums.effective_sample_size() - 100.0 / 30.0).abs() < 1e-14);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WeightSums {
    count: u64,
    /// The largest log weight; `-inf` before the first weight above zero.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    pub(crate) max: f64,
    /// Sum of the weights, relative to the largest.
    sum: f64,
    sum_of_squares: f64,
}

impl Default for WeightSums {
    fn default() -> Self {
        Self {
            count: 0,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            sum_of_squares: 0.0,
        }
    }
}

impl WeightSums {
    pub(crate) fn of(log_weights: impl IntoIterator<Item = impl Borrow<f64>>) -> Self {
        let mut sums = Self::default();
        for log_weight in log_weights {
            sums.add(*log_weight.borrow());
        }
        sums
    }

    /// Adds one log weight; `-inf` is a weight of zero. The caller must refuse NaN and `+inf`, which spoil all figures.
    #[inline]
    pub fn add(&mut self, log_weight: f64) {
        self.scales(log_weight);
    }

    pub(crate) fn add_all(&mut self, log_weights: &[f64]) {
        let (sums, _) = Self::of_slices(log_weights, log_weights);
        self.merge(&sums);
    }

    /// Returns the sums of these log weights, and the sum of the weighted values, relative to the largest weight.
    /// Values of weight zero are ignored.
    fn of_slices(log_weights: &[f64], values: &[f64]) -> (Self, f64) {
        let max = largest(log_weights);
        let mut sums = Self {
            count: log_weights.len() as u64,
            max,
            ..Self::default()
        };
        if max == f64::NEG_INFINITY {
            return (sums, 0.0);
        }
        let weighted = |log_weight: f64, value: f64| {
            let weight = exp_of_negative(log_weight - max);
            let value = if weight > 0.0 { weight * value } else { 0.0 };
            [weight, weight * weight, value]
        };
        let totals = sum_over_vectors(log_weights, values, weighted);
        (sums.sum, sums.sum_of_squares) = (totals[0], totals[1]);
        (sums, totals[2])
    }

    /// Adds all weights of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.merged_scales(other);
    }

    /// Adds one weight. Returns two factors for a sum of weighted values: for its old value, and for the value added
    /// now. Returns `None` for a weight of zero.
    #[inline]
    fn scales(&mut self, log_weight: f64) -> Option<(f64, f64)> {
        self.count += 1;
        if log_weight == f64::NEG_INFINITY {
            return None;
        }
        let (here, weight) = if log_weight <= self.max {
            (1.0, (log_weight - self.max).exp())
        } else {
            let here = (self.max - log_weight).exp();
            self.max = log_weight;
            (here, 1.0)
        };
        self.sum = self.sum * here + weight;
        self.sum_of_squares = self.sum_of_squares * here * here + weight * weight;
        Some((here, weight))
    }

    /// Merges `other`. Returns factors for sums weighted by `self` and by `other`; `None` if `other` has only zeros.
    fn merged_scales(&mut self, other: &Self) -> Option<(f64, f64)> {
        self.count += other.count;
        if other.max == f64::NEG_INFINITY {
            return None;
        }
        let max = self.max.max(other.max);
        let (here, there) = ((self.max - max).exp(), (other.max - max).exp());
        self.sum = self.sum * here + other.sum * there;
        self.sum_of_squares =
            self.sum_of_squares * here * here + other.sum_of_squares * there * there;
        self.max = max;
        Some((here, there))
    }

    /// Returns the number of weights, zeros included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns `log sum w`; `-inf` before the first weight above zero.
    pub fn log_sum(&self) -> f64 {
        self.max + self.sum.ln()
    }

    /// Returns `log (1/n) sum w`; `-inf` before the first weight above zero.
    pub fn log_mean(&self) -> f64 {
        match self.count {
            0 => f64::NEG_INFINITY,
            // The maximum, perhaps large, is added last, so that the mean keeps its digits.
            count => self.max + (self.sum.ln() - (count as f64).ln()),
        }
    }

    /// Returns a weight's share of the sum, given its logarithm.
    pub(crate) fn share(&self, log_weight: f64) -> f64 {
        (log_weight - self.max).exp() / self.sum
    }

    /// Returns `(sum w)^2 / sum w^2`, between 1 and n; 0 before the first weight above zero.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        if self.sum == 0.0 {
            return 0.0;
        }
        self.sum * self.sum / self.sum_of_squares
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedMean {
    weights: WeightSums,
    /// Sum of weight times value, relative to the largest weight.
    #[cfg_attr(feature = "serde", serde(with = "crate::num::serial::log_value"))]
    value: f64,
}

impl WeightedMean {
    /// Adds a value of weight `exp(log_weight)`. A value of weight zero does not count, whatever it is.
    pub(crate) fn add(&mut self, log_weight: f64, value: f64) {
        if let Some((here, weight)) = self.weights.scales(log_weight) {
            self.value = self.value * here + weight * value;
        }
    }

    /// Adds several values. A value of weight zero does not count, whatever it is.
    pub(crate) fn add_all(&mut self, log_weights: &[f64], values: &[f64]) {
        let (weights, value) = WeightSums::of_slices(log_weights, values);
        self.merge(&Self { weights, value });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some((here, there)) = self.weights.merged_scales(&other.weights) {
            self.value = self.value * here + other.value * there;
        }
    }

    /// Returns the number of values, including values of weight zero.
    pub(crate) fn count(&self) -> u64 {
        self.weights.count()
    }

    /// Returns the log of the sum of the weights.
    pub(crate) fn log_weight(&self) -> f64 {
        self.weights.log_sum()
    }

    /// Returns the weighted mean; NaN if all weights are zero.
    pub(crate) fn get(&self) -> f64 {
        self.value / self.weights.sum
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct WeightedVariance {
    weights: WeightSums,
    mean: f64,
    /// Weighted mean of squared deviations.
    spread: f64,
}

impl WeightedVariance {
    pub(crate) fn add(&mut self, log_weight: f64, value: f64) {
        self.merge(&Self {
            weights: WeightSums::of([log_weight]),
            mean: value,
            spread: 0.0,
        });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let mine = self.weights.sum;
        let Some((here, there)) = self.weights.merged_scales(&other.weights) else {
            return;
        };
        let total = self.weights.sum;
        let (here, there) = (mine * here / total, other.weights.sum * there / total);
        let distance = other.mean - self.mean;
        self.mean += there * distance;
        self.spread =
            here * self.spread + there * other.spread + here * there * distance * distance;
    }

    pub(crate) fn log_weight(&self) -> f64 {
        self.weights.log_sum()
    }

    /// Returns the weighted mean of squared distances from `centre`.
    pub(crate) fn about(&self, centre: f64) -> f64 {
        self.spread + (self.mean - centre).powi(2)
    }

    /// Returns the variance times `1 / (1 - 1/ESS)`; 0 for one value.
    pub(crate) fn get(&self) -> f64 {
        // Without the factor the variance would fall to 0 as the weights collapse.
        let shrinkage = 1.0 - 1.0 / self.weights.effective_sample_size();
        match shrinkage > 0.0 {
            true => self.spread / shrinkage,
            false => 0.0,
        }
    }
}

/// A running mean and sum of squared deviations, which can be merged (Chan, Golub and LeVeque 1983).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Moments {
    count: u64,
    origin: f64,
    /// Mean relative to the first value, so that a common offset costs no digits.
    mean: f64,
    deviations: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.origin = value;
        }
        self.count += 1;
        let value = value - self.origin;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.deviations += distance * (value - self.mean);
    }

    /// Adds the differences of several numbers `x - y`.
    pub(crate) fn add_differences(&mut self, x: &[f64], y: &[f64]) {
        let Some(origin) = x.first().zip(y.first()).map(|(x, y)| x - y) else {
            return;
        };
        let [sum, _, _] = sum_over_vectors(x, y, |x, y| [x - y - origin, 0.0, 0.0]);
        let mean = sum / x.len() as f64;
        let square = |x: f64, y: f64| [(x - y - origin - mean).powi(2), 0.0, 0.0];
        let [deviations, _, _] = sum_over_vectors(x, y, square);
        self.merge(&Self {
            count: x.len() as u64,
            origin,
            mean,
            deviations,
        });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let distance = other.origin - self.origin + (other.mean - self.mean);
        self.count += other.count;
        self.mean += distance * (theirs / (mine + theirs));
        self.deviations +=
            other.deviations + distance * distance * (mine * theirs / (mine + theirs));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn mean(&self) -> f64 {
        self.origin + self.mean
    }

    /// Returns the sample variance (divisor n - 1); 0 for fewer than two values.
    pub(crate) fn variance(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            n => self.deviations / (n - 1) as f64,
        }
    }

    /// Returns the standard error of the mean; infinite for fewer than two values.
    pub(crate) fn standard_error(&self) -> f64 {
        match self.count {
            0 | 1 => f64::INFINITY,
            n => (self.variance() / n as f64).sqrt(),
        }
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::default();
        values.into_iter().for_each(|value| moments.add(value));
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn sums_in_log_space_at_the_extremes() {
        assert_eq!(log_add_exp(-INF, -INF), -INF);
        assert_eq!(log_add_exp(-INF, 3.0), 3.0);
        assert_eq!(log_add_exp(1000.0, 1000.0), 1000.0 + 2f64.ln());
        assert_eq!(log_sum_exp([0.0; 0]), -INF);
        assert_eq!(log_sum_exp([-INF, -INF]), -INF);
        assert_eq!(log_sum_exp([-INF, 5.0, -INF]), 5.0);
        let exact = -1000.0 + (1.0 + 1f64.exp() + (-1f64).exp()).ln();
        assert!((log_sum_exp([-1000.0, -999.0, -1001.0]) - exact).abs() < 1e-12);
    }

    #[test]
    fn nan_is_never_masked() {
        assert!(log_add_exp(1.0, f64::NAN).is_nan() && log_add_exp(f64::NAN, -INF).is_nan());
        for other in [1.0, -INF] {
            assert!(log_sum_exp([f64::NAN, other]).is_nan(), "{other}");
            assert!(log_sum_exp([other, f64::NAN]).is_nan(), "{other}");
        }
    }
}
