//! What the weights of a run say: `log (1/N) sum w`, how far off it may be, and when not to
//! believe either.

mod bound;
mod interval;
mod quantile;
#[cfg(feature = "serde")]
mod serial;
mod tail;
mod warning;

pub use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
pub use bound::importance_weighted_bound;
pub use warning::Warning;

use std::fmt;

use crate::{Error, Result};

/// The log of a mean of weights, with its error and diagnostics.
///
/// ```
/// use annealed::estimate::Estimate;
///
/// let estimate = Estimate::from_log_weights(&[1.0_f64, 2.0, 3.0, 4.0].map(f64::ln))?;
/// assert!((estimate.value() - 2.5_f64.ln()).abs() < 1e-15);
/// assert!((estimate.effective_sample_size() - 100.0 / 30.0).abs() < 1e-14);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "serial::Unchecked"))]
pub struct Estimate {
    chains: usize,
    dead: usize,
    value: f64,
    /// Population variance of `w / mean(w)`.
    relative_variance: f64,
    /// Skewness of `w`; 0 where all weights are equal.
    skewness: f64,
    pareto_shape: Option<f64>,
    /// Mean of `log w` over the chains that are alive.
    mean_of_alive: f64,
    /// Sample variance of `log w` over the chains that are alive.
    variance_of_alive: f64,
    largest_share: f64,
}

impl Estimate {
    /// From the chains' log weights; `-inf` is a dead chain, whose weight of zero counts in
    /// every mean of weights.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no weights, a NaN or `+inf`; [`Error::AllWeightsZero`]
    /// where all are `-inf`.
    pub fn from_log_weights(log_weights: &[f64]) -> Result<Self> {
        let alive = check(log_weights)?;
        let chains = log_weights.len();
        let n = chains as f64;
        let value = log_mean_exp(log_weights);
        // `w / mean - 1`, without cancellation where the weights are nearly equal.
        let moment = |power| {
            log_weights
                .iter()
                .map(|x| (x - value).exp_m1().powi(power))
                .sum::<f64>()
                / n
        };
        let relative_variance = moment(2);
        let skewness = if relative_variance > 0.0 {
            moment(3) / relative_variance.powf(1.5)
        } else {
            0.0
        };
        let (mean_of_alive, variance_of_alive) = mean_and_variance(&alive);
        let max = alive.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(Self {
            chains,
            dead: chains - alive.len(),
            value,
            relative_variance: relative_variance.min(n - 1.0),
            skewness,
            pareto_shape: tail::pareto_shape(log_weights),
            mean_of_alive,
            variance_of_alive,
            largest_share: ((max - value).exp() / n).min(1.0),
        })
    }

    /// The same with `constant` added to every log weight: `log Z_K` from `log Z_K/Z_0`.
    #[must_use]
    pub fn shifted(self, constant: f64) -> Self {
        Self {
            value: self.value + constant,
            mean_of_alive: self.mean_of_alive + constant,
            ..self
        }
    }

    /// `log (1/N) sum w`: the estimate of `log Z_K/Z_0`, or of what it was
    /// [`shifted`](Self::shifted) to.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Standard error of [`value`](Self::value) by the delta method,
    /// `sd(w) / (sqrt(N) mean(w)) = sqrt((N/ESS - 1) / (N - 1))`; infinite for a single chain,
    /// which says nothing of its error.
    pub fn standard_error(&self) -> f64 {
        if self.chains == 1 {
            return f64::INFINITY;
        }
        (self.relative_variance / (self.chains - 1) as f64).sqrt()
    }

    /// Bounds that hold the true value with probability `level`; infinite for a single chain.
    ///
    /// The lower bound is `value - t SE`, t Student's quantile for `ESS - 1` degrees of freedom.
    /// The upper one takes the same t, corrects it for the weights' skewness (Hall 1992), widens
    /// it by `1 + 6 max(0, min(k, 1) - 0.3)`, k being [`pareto_shape`](Self::pareto_shape), and
    /// is taken on the scale of the mean weight. What that buys is measured in
    /// `docs/intervals.md`. No interval from the weights can see a mode that every chain missed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval(&self, level: f64) -> Result<(f64, f64)> {
        if level > 0.0 && level < 1.0 {
            Ok(self.bounds(level))
        } else {
            Err(Error::invalid("level", level, "a number between 0 and 1"))
        }
    }

    /// The 95% [`interval`](Self::interval).
    pub fn interval_95(&self) -> (f64, f64) {
        self.bounds(0.95)
    }

    fn bounds(&self, level: f64) -> (f64, f64) {
        if self.chains == 1 {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let shape = interval::Shape {
            chains: self.chains as f64,
            effective_sample_size: self.effective_sample_size(),
            standard_error: self.standard_error(),
            skewness: self.skewness,
            pareto_shape: self.pareto_shape,
        };
        let (below, above) = shape.offsets(level);
        (self.value - below, self.value + above)
    }

    /// Number of chains N.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Number of chains of weight zero.
    pub fn dead_chains(&self) -> usize {
        self.dead
    }

    /// `(sum w)^2 / sum w^2`, a count between 1 and N.
    #[doc(alias = "ess")]
    pub fn effective_sample_size(&self) -> f64 {
        self.chains as f64 / (1.0 + self.relative_variance)
    }

    /// Mean of `log w`, in expectation a lower bound on the true value; `-inf` where a chain is
    /// dead.
    pub fn mean_log_weight(&self) -> f64 {
        if self.dead > 0 {
            f64::NEG_INFINITY
        } else {
            self.mean_of_alive
        }
    }

    /// Sample variance (over `n - 1`) of `log w` over the chains that are alive; 0 if only one
    /// is.
    pub fn var_log_weight(&self) -> f64 {
        self.variance_of_alive
    }

    /// The largest weight's share of the sum of weights.
    pub fn largest_share(&self) -> f64 {
        self.largest_share
    }

    /// Shape k of the generalised Pareto distribution fitted to the largest weights (Zhang and
    /// Stephens 2009; Vehtari et al. 2024); `None` where too few of them differ.
    ///
    /// Below 0.5 the weights have a variance; above 0.7 neither estimate nor error is reliable.
    #[doc(alias = "k_hat")]
    pub fn pareto_shape(&self) -> Option<f64> {
        self.pareto_shape
    }

    /// What the weights alone say against the estimate.
    ///
    /// [`FewChains`](Warning::FewChains) below 25 chains; [`DeadChains`](Warning::DeadChains) for
    /// any; [`LowEffectiveSampleSize`](Warning::LowEffectiveSampleSize) below 5% of the chains or
    /// 10; [`DominantWeight`](Warning::DominantWeight) above a share of 1/4;
    /// [`HeavyTail`](Warning::HeavyTail) above a Pareto shape of 0.7.
    pub fn warnings(&self) -> Vec<Warning> {
        let (chains, dead, share) = (self.chains, self.dead, self.largest_share);
        let ess = self.effective_sample_size();
        let few = chains < tail::MIN_CHAINS;
        let low = ess < (0.05 * chains as f64).max(10.0);
        let heavy = self.pareto_shape.filter(|&k| k > 0.7);
        [
            few.then_some(Warning::FewChains { chains }),
            (dead > 0).then_some(Warning::DeadChains { dead, chains }),
            low.then_some(Warning::LowEffectiveSampleSize { ess, chains }),
            (share > 0.25).then_some(Warning::DominantWeight { share }),
            heavy.map(|k_hat| Warning::HeavyTail { k_hat }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl fmt::Display for Estimate {
    /// As `208.631 +- 0.021 (ESS 809 of 1000)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, error) = (self.value, self.standard_error());
        let ess = self.effective_sample_size();
        let chains = self.chains;
        write!(f, "{value:.3} +- {error:.3} (ESS {ess:.0} of {chains})")
    }
}

/// The finite log weights, or what is wrong with them.
fn check(log_weights: &[f64]) -> Result<Vec<f64>> {
    if log_weights.is_empty() {
        return Err(Error::invalid("log_weights", "none", "at least one"));
    }
    let bad = |x: &f64| x.is_nan() || *x == f64::INFINITY;
    if let Some(chain) = log_weights.iter().position(bad) {
        return Err(Error::invalid(
            "log_weights",
            format!("{} at index {chain}", log_weights[chain]),
            "numbers below +inf",
        ));
    }
    let alive: Vec<f64> = log_weights
        .iter()
        .copied()
        .filter(|x| x.is_finite())
        .collect();
    if alive.is_empty() {
        return Err(Error::AllWeightsZero {
            chains: log_weights.len(),
        });
    }
    Ok(alive)
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    // About the first value, so that a common offset costs no digits.
    let origin = values[0];
    let mean = values.iter().map(|x| x - origin).sum::<f64>() / n;
    let squares = values
        .iter()
        .map(|x| (x - origin - mean).powi(2))
        .sum::<f64>();
    (origin + mean, squares / (n - 1.0).max(1.0))
}
