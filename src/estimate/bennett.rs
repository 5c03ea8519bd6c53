//! Bennett's acceptance ratio: log Z from runs in both directions.

use super::{check, quantile};
use crate::num::{WeightSums, log_sigmoid};
use crate::{Error, Result};

/// The estimate of `log Z_K/Z_0` by Bennett's (1976) acceptance ratio, from chains that passed a path
/// forward and chains that passed it backward.
///
/// With `w_F` the weights of `n_F` forward chains (`E w_F = Z_K/Z_0`), `w_R` those of `n_R` reverse chains
/// (`E w_R = Z_0/Z_K`), the logistic function s and `M = log(n_F/n_R)`, it is the root c of
///
/// `sum_F s(log w_F - c - M) = sum_R s(c + M + log w_R)`.
///
/// Where the reverse chains began at exact samples of the target, no other combination of the two sets
/// of weights has a smaller asymptotic variance.
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
}

/// The acceptances `s(..)` of one direction's chains, in their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Side {
    /// The variance of the mean acceptance, relative to its square.
    variance: f64,
    effective_sample_size: f64,
}

impl BennettEstimate {
    /// The estimate from log weights of forward chains, for `Z_K/Z_0`, and of reverse chains, for `Z_0/Z_K`. Their
    /// numbers may differ; `-inf` is a weight of zero. With weights of resampled runs the estimate is wrong.
    ///
    /// # Errors
    /// As [`Estimate::from_log_weights`](super::Estimate::from_log_weights), for either direction; fewer
    /// than two chains in one.
    pub fn from_log_weights(forward: &[f64], reverse: &[f64]) -> Result<Self> {
        Error::check_at_least("forward chains", forward.len(), 2)?;
        Error::check_at_least("reverse chains", reverse.len(), 2)?;
        let (alive, returned) = (check(forward)?, check(reverse)?);
        // About a value in the middle, so that a common offset costs no digits.
        let origin = 0.5 * (greatest(&alive) - greatest(&returned));
        let work = Work {
            forward: forward.iter().map(|x| x - origin).collect(),
            reverse: reverse.iter().map(|x| x + origin).collect(),
        };
        let root = work.root(greatest(&alive) - origin, -(greatest(&returned) + origin));
        Error::check_finite("value of Bennett's estimate", [origin + root])?;
        let (forward, reverse) = work.acceptances(root);
        Ok(Self {
            value: origin + root,
            overlap: work.overlap(root),
            forward: Side::of(&forward),
            reverse: Side::of(&reverse),
        })
    }

    /// The same with `constant` added: with `log Z_0`, an estimate of `log Z_K`.
    pub fn shifted(self, constant: f64) -> Self {
        Self {
            value: self.value + constant,
            ..self
        }
    }

    /// The root c, plus what it was [`shifted`](Self::shifted) by.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Standard error of [`value`](Self::value) in closed form: the root of
    /// `var_F(s) / (n_F mean_F(s)^2) + var_R(s) / (n_R mean_R(s)^2)`, with both acceptances s at the root
    /// (Bennett 1976, eq. 10).
    pub fn standard_error(&self) -> f64 {
        (self.forward.variance + self.reverse.variance).sqrt()
    }

    /// The 95% confidence interval, lower and upper bound.
    pub fn interval(&self) -> (f64, f64) {
        self.bounds(0.95)
    }

    /// `value +- t SE`, where t is Student's quantile. Its degrees of freedom follow from the effective
    /// sample sizes of the two sets of acceptances (Welch and Satterthwaite).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        Error::check_inner_fraction("level", level)?;
        Ok(self.bounds(level))
    }

    fn bounds(&self, level: f64) -> (f64, f64) {
        let t = quantile::student(0.5 + 0.5 * level, self.degrees_of_freedom());
        let half = t * self.standard_error();
        (self.value - half, self.value + half)
    }

    fn degrees_of_freedom(&self) -> f64 {
        let total = (self.forward.variance + self.reverse.variance).powi(2);
        let parts = self.forward.satterthwaite() + self.reverse.satterthwaite();
        match parts > 0.0 {
            true => (total / parts).max(1.0),
            false => f64::MAX,
        }
    }

    /// The overlap of the two directions, `int 2 p q / (p + q)` over the densities p and q of their paths: 1 where
    /// they are equal and 0 where they have nothing in common.
    pub fn overlap(&self) -> f64 {
        self.overlap
    }

    /// The effective sample size of the acceptances, of the direction where it is smaller.
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
            variance: ((n / effective_sample_size - 1.0) / (n - 1.0)).max(0.0),
            effective_sample_size,
        }
    }

    fn satterthwaite(&self) -> f64 {
        self.variance.powi(2) / (self.effective_sample_size - 1.0).max(1.0)
    }
}

/// The log weights of both directions, each for its own ratio.
struct Work {
    forward: Vec<f64>,
    reverse: Vec<f64>,
}

impl Work {
    /// The acceptances at c, as sums over `log s`.
    fn acceptances(&self, c: f64) -> (WeightSums, WeightSums) {
        let shift = c + (self.forward.len() as f64 / self.reverse.len() as f64).ln();
        let forward = self.forward.iter().map(|w| log_sigmoid(w - shift));
        let reverse = self.reverse.iter().map(|w| log_sigmoid(shift + w));
        (WeightSums::of(forward), WeightSums::of(reverse))
    }

    /// The zero of a decreasing function of c, by bisection from two guesses.
    fn root(&self, one: f64, other: f64) -> f64 {
        let excess = |c| {
            let (forward, reverse) = self.acceptances(c);
            forward.log_sum() - reverse.log_sum()
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
            if middle <= low || middle >= high {
                return middle;
            }
            match excess(middle) > 0.0 {
                true => low = middle,
                false => high = middle,
            }
        }
    }

    /// `E_F[2 s(log w - c)]`, which equals `E_R[2 s(c + log w)]`: the mean of the two.
    fn overlap(&self, c: f64) -> f64 {
        let mean = |sum: f64, n: usize| sum / n as f64;
        let forward = self.forward.iter().map(|w| log_sigmoid(w - c).exp()).sum();
        let reverse = self.reverse.iter().map(|w| log_sigmoid(c + w).exp()).sum();
        (mean(forward, self.forward.len()) + mean(reverse, self.reverse.len())).min(1.0)
    }
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
