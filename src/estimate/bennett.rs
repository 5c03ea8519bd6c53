//! Bennett's acceptance ratio: log Z from runs in both directions.

use super::{Estimate, Warning, autocovariance, check, effective_draws, log_z};
use crate::num::{WeightSums, largest, log_sigmoid, student_quantile};
use crate::{Error, Result};

/// An estimate of `log Z_K/Z_0` by Bennett's (1976) acceptance ratio, from forward and reverse chains.
///
/// The mean of the `n_F` forward weights is `Z_K/Z_0`, and the mean of the `n_R` reverse weights is `Z_0/Z_K`. With the
/// logistic function s and `M = log(n_F/n_R)`, the estimate is the root c of
///
/// `sum_F s(log w_F - c - M) = sum_R s(c + M + log w_R)`.
///
/// If the reverse chains begin at exact samples of the target, no other combination of both sets of weights has a
/// smaller asymptotic variance.
///
/// ```
/// use annealed::estimate::BennettEstimate;
///
/// // Two weights in each direction, which agree on Z_K/Z_0 = 3.
/// let forward = [3.0_f64.ln(); 2];
/// let reverse = [-(3.0_f64.ln()); 2];
/// let estimate = BennettEstimate::from_log_weights(&forward, &reverse)?;
/// assert!((estimate.value() - 3.0_f64.ln()).abs() < 1e-12);
/// assert!((estimate.overlap() - 1.0).abs() < 1e-12);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct BennettEstimate {
    value: f64,
    forward: Side,
    reverse: Side,
    overlap: f64,
    /// Estimates from the forward weights alone and from the reverse weights alone. The latter is an estimate of minus
    /// the value.
    one_sided: [Estimate; 2],
    /// Effective share of independent weights, in the direction in which it is smaller, if weights resemble the ones
    /// before them.
    #[cfg_attr(feature = "serde", serde(default))]
    independent_share: Option<f64>,
}

/// Overlap of the two directions below which a warning appears and the interval widens.
const LITTLE: f64 = 0.03;
/// Effective sample size of the acceptances `s(..)` below which a warning appears.
const FEW: f64 = 10.0;
/// Correlation of the ranks of acceptances with the ranks before them, times the root of their number, above which they
/// count as autocorrelated. It is about normal for independent weights, which exceed it in one of three million cases.
const CORRELATED: f64 = 5.0;
/// Largest number of means of successive acceptances from which their autocorrelation is computed.
const MOST_MEANS: usize = 20_000;

/// Statistics of the acceptances `s(..)` of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Side {
    /// Variance of the mean acceptance, relative to the squared mean.
    variance: f64,
    effective_sample_size: f64,
}

impl BennettEstimate {
    /// Creates the estimate from forward log weights, for `Z_K/Z_0`, and reverse log weights, for `Z_0/Z_K`; `-inf` is
    /// a weight of zero. Their numbers may differ. Do not use weights of resampled runs: the estimate would be wrong.
    ///
    /// Give weights in the order in which they were drawn, one chain after the other. If successive weights are clearly
    /// correlated, like the weights of one Markov chain, the error counts them as fewer independent weights, and the
    /// warning [`Autocorrelated`](Warning::Autocorrelated) appears. A correlation below five of its standard errors is
    /// not detected. Among fewer than 26 weights, no correlation is detected.
    ///
    /// # Errors
    /// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), for either direction; fewer than two
    /// chains in one.
    pub fn from_log_weights(forward: &[f64], reverse: &[f64]) -> Result<Self> {
        let mut found = Self::of_independent(forward, reverse)?;
        let shift = found.value + (forward.len() as f64 / reverse.len() as f64).ln();
        let accepted = |w: f64| log_sigmoid(w).exp();
        let forward = forward.iter().map(|w| accepted(w - shift)).collect();
        let reverse = reverse.iter().map(|w| accepted(w + shift)).collect();
        let shares = [
            found.forward.in_order(forward),
            found.reverse.in_order(reverse),
        ];
        let share = shares.into_iter().flatten().min_by(f64::total_cmp);
        found.independent_share = share;
        Ok(found)
    }

    /// Creates the estimate from independent weights.
    pub(crate) fn of_independent(forward: &[f64], reverse: &[f64]) -> Result<Self> {
        Self::of(forward, reverse, reverse.len() as f64)
    }

    /// Creates the estimate with reverse weights of autocorrelated chains. In the equation these weights count as
    /// `effective` independent draws. Their variance uses the effective number of draws of their acceptances.
    pub(crate) fn from_chains(
        forward: &[f64],
        reverse: &[Vec<f64>],
        effective: f64,
    ) -> Result<Self> {
        let mut found = Self::of(forward, &reverse.concat(), effective)?;
        let count: usize = reverse.iter().map(Vec::len).sum();
        let shift = found.value + (forward.len() as f64 / effective).ln();
        let accepted = |w: &f64| log_sigmoid(shift + w).exp();
        let acceptances = reverse
            .iter()
            .map(|chain| chain.iter().map(accepted).collect());
        let time = count as f64 / effective_draws(&Vec::from_iter(acceptances));
        found.reverse.count_as(time);
        Ok(found)
    }

    fn of(forward: &[f64], reverse: &[f64], reverse_count: f64) -> Result<Self> {
        Error::check_at_least("forward chains", forward.len(), 2)?;
        Error::check_at_least("reverse chains", reverse.len(), 2)?;
        let (alive, returned) = (check(forward)?, check(reverse)?);
        let one_sided = [
            Estimate::from_log_weights(forward)?,
            Estimate::from_log_weights(reverse)?,
        ];
        // Computed relative to a middle value, so that a common offset costs no digits.
        let origin = 0.5 * (largest(&alive) - largest(&returned));
        let work = Work {
            log_ratio: (forward.len() as f64 / reverse_count).ln(),
            forward: forward.iter().map(|x| x - origin).collect(),
            reverse: reverse.iter().map(|x| x + origin).collect(),
        };
        let root = work.root(largest(&alive) - origin, -(largest(&returned) + origin));
        Error::check_finite("value of Bennett's estimate", [origin + root])?;
        let (forward, reverse) = work.acceptances(root);
        Ok(Self {
            value: origin + root,
            overlap: work.overlap(root),
            forward: Side::of(&forward),
            reverse: Side::of(&reverse),
            one_sided,
            independent_share: None,
        })
    }

    /// Adds `constant` to the estimate. If the constant is `log Z_0`, the result estimates `log Z_K`.
    pub fn shifted(self, constant: f64) -> Self {
        let [forward, reverse] = self.one_sided;
        Self {
            value: self.value + constant,
            one_sided: [forward.shifted(constant), reverse.shifted(-constant)],
            ..self
        }
    }

    /// Returns the root c, plus the sum of all [`shifted`](Self::shifted) constants.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the standard error of [`value`](Self::value) in closed form: the root of `var_F(s) / (n_F mean_F(s)^2) +
    /// var_R(s) / (n_R mean_R(s)^2)`, with both acceptances s at the root c (Bennett 1976, eq. 10). If less than one
    /// chain is expected in the overlap, equal acceptances do not prove a small error. The error is then at least half
    /// the distance between the estimates from each direction's weights alone. [Autocorrelated](Self::from_log_weights)
    /// weights count as fewer.
    pub fn standard_error(&self) -> f64 {
        let closed = (self.forward.variance + self.reverse.variance).sqrt();
        let [forward, reverse] = &self.one_sided;
        let independent = self.independent_share.unwrap_or(1.0);
        match self.overlap * independent * forward.chains().min(reverse.chains()) as f64 {
            met if met < 1.0 => closed.max(0.5 * (forward.value() + reverse.value()).abs()),
            _ => closed,
        }
    }

    /// Returns the lower and upper bound of the 95% confidence interval, as [`interval_at`](Self::interval_at).
    pub fn interval(&self) -> (f64, f64) {
        self.bounds(0.95)
    }

    /// Returns the interval `value +- t SE`, where t is Student's quantile. Its degrees of freedom follow from the
    /// effective sample sizes of both directions (Welch and Satterthwaite). If the [overlap](Self::overlap) is below
    /// 0.03, this interval is widened to include the intervals from each direction's weights alone, taken as
    /// independent.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        Ok(self.bounds(level))
    }

    fn bounds(&self, level: f64) -> (f64, f64) {
        let t = student_quantile(0.5 + 0.5 * level, self.degrees_of_freedom());
        let half = t * self.standard_error();
        let (lower, upper) = (self.value - half, self.value + half);
        if !self.overlaps_little() {
            return (lower, upper);
        }
        let [(least, up), (down, greatest)] = self.one_sided.map(|alone| alone.bounds(level));
        (lower.min(least).min(-greatest), upper.max(up).max(-down))
    }

    /// Returns [`LittleOverlap`](Warning::LittleOverlap) for an [`overlap`](Self::overlap) below 0.03, or an
    /// [effective sample size](Self::effective_sample_size) below 10, and
    /// [`Autocorrelated`](Warning::Autocorrelated) if successive weights are correlated.
    pub fn warnings(&self) -> Vec<Warning> {
        let (overlap, ess) = (self.overlap, self.effective_sample_size());
        let little = self.overlaps_little() || ess < FEW;
        let little = little.then_some(Warning::LittleOverlap { overlap, ess });
        let share = self.independent_share;
        let correlated = share.map(|share| Warning::Autocorrelated { share });
        little.into_iter().chain(correlated).collect()
    }

    /// Returns whether the interval is so skewed that the standard error misleads, as
    /// [`LogZ::is_skewed`](super::LogZ::is_skewed).
    pub(crate) fn is_skewed(&self) -> bool {
        log_z::is_skewed(self.value, self.interval())
    }

    /// Returns the forward weights' part of the variance of [`value`](Self::value).
    pub(crate) fn forward_variance(&self) -> f64 {
        self.forward.variance
    }

    /// Returns whether the [overlap](Self::overlap) is below 0.03.
    pub(crate) fn overlaps_little(&self) -> bool {
        self.overlap < LITTLE
    }

    pub(crate) fn degrees_of_freedom(&self) -> f64 {
        let total = (self.forward.variance + self.reverse.variance).powi(2);
        let parts = self.forward.satterthwaite() + self.reverse.satterthwaite();
        match parts > 0.0 {
            true => (total / parts).max(1.0),
            false => f64::MAX,
        }
    }

    /// Returns the overlap `int 2 p q / (p + q)` of the path densities p and q of both directions: 1 if p and q are
    /// equal, 0 if they are disjoint.
    pub fn overlap(&self) -> f64 {
        self.overlap
    }

    /// Returns the effective sample size of the acceptances `s(..)`, in the direction in which it is smaller.
    /// [Autocorrelated](Self::from_log_weights) weights count as fewer.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        let reverse = self.reverse.effective_sample_size;
        self.forward.effective_sample_size.min(reverse)
    }
}

impl Side {
    fn of(acceptances: &WeightSums) -> Self {
        let n = acceptances.count() as f64;
        let effective_sample_size = acceptances.effective_sample_size();
        Self {
            // If all acceptances are equal, rounding may put their effective sample size above n.
            variance: ((n / effective_sample_size - 1.0) / (n - 1.0)).max(0.0),
            effective_sample_size,
        }
    }

    /// Lets weights in their order count as fewer independent ones if their `acceptances` are autocorrelated. Returns
    /// the share of the fewer.
    fn in_order(&mut self, acceptances: Vec<f64>) -> Option<f64> {
        // Ranks: a few large acceptances would show correlations by chance.
        let ranks = [ranks(&acceptances)];
        let count = acceptances.len() as f64;
        let [variance, covariance] = [0, 1].map(|lag| autocovariance(&ranks, &[0.0], lag));
        // Equal acceptances have no correlation: the quotient is NaN.
        let is_correlated = covariance / variance * count.sqrt() > CORRELATED;
        if !is_correlated {
            return None;
        }
        // Means of a few successive acceptances have the same correlations, and bound the cost.
        let successive = acceptances.len().div_ceil(MOST_MEANS);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let means: Vec<f64> = acceptances.chunks_exact(successive).map(mean).collect();
        let spread = |x: &[f64]| autocovariance(&[x.to_vec()], &[mean(x)], 0);
        let shrunk = spread(&means) / spread(&acceptances);
        let time = (count * shrunk / effective_draws(&[means])).max(1.0);
        self.count_as(time);
        Some(1.0 / time)
    }

    /// Lets `time` autocorrelated weights count as one independent weight.
    fn count_as(&mut self, time: f64) {
        self.variance *= time;
        self.effective_sample_size /= time;
    }

    fn satterthwaite(&self) -> f64 {
        self.variance.powi(2) / (self.effective_sample_size - 1.0).max(1.0)
    }
}

/// Returns the rank of each value, less the mean rank. Equal values share their mean rank.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let rank = below as f64 + 0.5 * equal.len() as f64 - 0.5 * values.len() as f64;
        equal.iter().for_each(|&place| ranks[place] = rank);
        below += equal.len();
    }
    ranks
}

struct Work {
    /// `M = log(n_F/n_R)`, where n_R is the number of independent reverse weights.
    log_ratio: f64,
    forward: Vec<f64>,
    reverse: Vec<f64>,
}

impl Work {
    fn acceptances(&self, c: f64) -> (WeightSums, WeightSums) {
        let shift = c + self.log_ratio;
        let forward = self.forward.iter().map(|w| log_sigmoid(w - shift));
        let reverse = self.reverse.iter().map(|w| log_sigmoid(shift + w));
        (WeightSums::of(forward), WeightSums::of(reverse))
    }

    /// Returns the root c by bisection. The search starts between the guesses `one` and `other`.
    fn root(&self, one: f64, other: f64) -> f64 {
        // Autocorrelated draws count less in the sum: their number is scaled to the effective one.
        let count = (self.forward.len() as f64 / self.reverse.len() as f64).ln();
        let excess = |c| {
            let (forward, reverse) = self.acceptances(c);
            // Logarithms are compared, because both sums may underflow.
            forward.log_sum() - reverse.log_sum() - (count - self.log_ratio)
        };
        let (mut low, mut high) = (one.min(other), one.max(other));
        let mut margin = 1.0;
        while excess(low) < 0.0 {
            low -= margin;
            margin *= 2.0;
        }
        while excess(high) > 0.0 {
            high += margin;
            margin *= 2.0;
        }
        loop {
            let middle = 0.5 * (low + high);
            // No number lies between `low` and `high`, so the root is exact to the last digit.
            if middle <= low || middle >= high {
                return middle;
            }
            match excess(middle) > 0.0 {
                true => low = middle,
                false => high = middle,
            }
        }
    }

    /// Returns the mean of `E_F[2 s(log w - c)]` and `E_R[2 s(c + log w)]`, which are equal in expectation.
    fn overlap(&self, c: f64) -> f64 {
        let mean = |sum: f64, n: usize| sum / n as f64;
        let forward = self.forward.iter().map(|w| log_sigmoid(w - c).exp()).sum();
        let reverse = self.reverse.iter().map(|w| log_sigmoid(c + w).exp()).sum();
        // The sum may exceed 1 if the forward estimate is above the reverse one, by chance or by wrong samples.
        (mean(forward, self.forward.len()) + mean(reverse, self.reverse.len())).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, StandardNormal, StreamRng, stream};

    /// Log weights of draws of N(0, 1), with `log f_1 - log f_0 = -x^2 / 2`, and of its end N(0, 1/2) back. Successive
    /// draws have this correlation.
    fn weights(correlation: f64, rng: &mut StreamRng) -> [Vec<f64>; 2] {
        let normal = StandardNormal::get();
        let noise = (1.0 - correlation * correlation).sqrt();
        [(1.0, -0.5), (0.5, 0.5)].map(|(variance, factor): (f64, f64)| {
            let mut x = normal.draw(rng);
            let step = |_| {
                x = correlation * x + noise * normal.draw(rng);
                factor * variance * x * x
            };
            (0..2_000).map(step).collect()
        })
    }

    #[test]
    fn weights_of_one_chain_have_an_honest_error() {
        let exact = -0.5 * 2.0_f64.ln();
        for (correlation, is_correlated) in [(0.0, false), (0.9, true), (0.99, true)] {
            let mut held = 0;
            for seed in 0..200 {
                let [forward, reverse] = weights(correlation, &mut stream(seed, Purpose::RUN, 0));
                let found = BennettEstimate::from_log_weights(&forward, &reverse).unwrap();
                let warned = |warning: &Warning| matches!(warning, Warning::Autocorrelated { .. });
                assert_eq!(found.warnings().iter().any(warned), is_correlated, "{seed}");
                let (lower, upper) = found.interval();
                held += usize::from((lower..=upper).contains(&exact));
                let naive = BennettEstimate::of_independent(&forward, &reverse).unwrap();
                assert_eq!(naive.value(), found.value());
                assert_eq!(naive == found, !is_correlated);
            }
            assert!(held >= 180, "{held} of 200 at {correlation}");
        }
    }

    #[test]
    fn equal_and_skewed_weights_are_not_taken_as_correlated() {
        let constant = BennettEstimate::from_log_weights(&[1.0; 1_000], &[-1.0; 500]).unwrap();
        assert!(constant.warnings().is_empty(), "{constant:?}");
        let normal = StandardNormal::get();
        for seed in 0..300 {
            let rng = &mut stream(seed, Purpose::RUN, 1);
            let mut works =
                |count| Vec::from_iter((0..count).map(|_| 3.0 * normal.draw(rng) - 4.5));
            let found = BennettEstimate::from_log_weights(&works(2_000), &works(20)).unwrap();
            assert_eq!(found.independent_share, None, "{seed}");
        }
    }

    #[test]
    fn many_weights_are_summed_up() {
        let [forward, reverse] = weights(0.95, &mut stream(0, Purpose::RUN, 2));
        let share = |copies: usize| {
            let [forward, reverse] = [&forward, &reverse].map(|weights| weights.repeat(copies));
            let found = BennettEstimate::from_log_weights(&forward, &reverse).unwrap();
            found.independent_share.unwrap()
        };
        // Of 200,000 weights, ten at a time are summed up.
        let ratio = share(100) / share(5);
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
    }
}
