//! What the weights of a run say: `log (1/N) sum w`, how far off it may be, and when not to
//! believe either.

mod log_space;
mod quantile;
mod warning;

pub use log_space::{WeightSums, log_mean_exp, log_sum_exp};
pub use warning::Warning;

use crate::error::{Error, Result};

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
pub struct Estimate {
    chains: usize,
    dead: usize,
    value: f64,
    /// Population variance of `w / mean(w)`.
    relative_variance: f64,
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
        let relative_variance = log_weights
            .iter()
            .map(|x| (x - value).exp_m1().powi(2))
            .sum::<f64>()
            / n;
        let (mean_of_alive, variance_of_alive) = mean_and_variance(&alive);
        let max = alive.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(Self {
            chains,
            dead: chains - alive.len(),
            value,
            relative_variance: relative_variance.min(n - 1.0),
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
    /// # Errors
    /// [`Error::InvalidArgument`] unless `0 < level < 1`.
    pub fn interval(&self, level: f64) -> Result<(f64, f64)> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::invalid("level", level, "a number between 0 and 1"));
        }
        if self.chains == 1 {
            return Ok((f64::NEG_INFINITY, f64::INFINITY));
        }
        let t = quantile::student(0.5 + 0.5 * level, (self.chains - 1) as f64);
        let half_width = t * self.standard_error();
        Ok((self.value - half_width, self.value + half_width))
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

    /// What the weights alone say against the estimate.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.dead > 0 {
            warnings.push(Warning::DeadChains {
                dead: self.dead,
                chains: self.chains,
            });
        }
        warnings
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
