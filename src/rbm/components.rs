//! The components of a base that is a mixture of products of Bernoullis.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};

use crate::num::{log_mean_exp, sigmoid, softplus};
use crate::rbm::model::{largest_sum, masked_sum_of};
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// The C components of a mixture of products of Bernoullis, with shares `pi_c` and logits `theta_c`.
///
/// Each has an [activation](Activations)
///
/// `x_c = lambda_c + theta_c.v`, `lambda_c = log(C pi_c) - sum_i log(1 + e^(theta_ci))`,
///
/// so that the mixture is the mean over c of `exp(x_c)`. The mean of `exp(t x_c)` leads from the
/// mixture, at t = 1, to 1, at t = 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Components<T: Scalar> {
    shares: Vec<f64>,
    /// `theta` (D x C): a column for each component.
    logits: DMatrix<T>,
    /// `lambda` (C).
    offsets: Vec<f64>,
}

impl<T: Scalar> Components<T> {
    /// From masses, which need not sum to 1, and logits (D x C).
    pub(crate) fn new(masses: &[f64], logits: DMatrix<T>) -> Result<Self> {
        for &mass in masses {
            Error::check_positive("mass of a component", mass)?;
        }
        let total = masses.iter().sum();
        Error::check_positive("sum of the masses", total)?;
        Self::with_shares(masses.iter().map(|mass| mass / total).collect(), logits)
    }

    /// From shares, which sum to 1 but for rounding.
    pub(crate) fn with_shares(shares: Vec<f64>, logits: DMatrix<T>) -> Result<Self> {
        let mut offsets = Vec::with_capacity(shares.len());
        for (&share, logits) in shares.iter().zip(logits.column_iter()) {
            Error::check_positive("share of a component", share)?;
            let log_normalizer: f64 = logits.iter().map(|x| softplus(x.as_())).sum();
            offsets.push((share * shares.len() as f64).ln() - log_normalizer);
        }
        Error::check_finite("log densities of the components", offsets.iter().copied())?;
        Ok(Self {
            shares,
            logits,
            offsets,
        })
    }

    pub(crate) fn shares(&self) -> &[f64] {
        &self.shares
    }

    pub(crate) fn logits(&self) -> &DMatrix<T> {
        &self.logits
    }

    pub(crate) fn offsets(&self) -> &[f64] {
        &self.offsets
    }

    pub(crate) fn activations(&self, visible: &[bool]) -> Activations {
        let components = self.offsets.iter().zip(self.logits.column_iter());
        let activations = components
            .map(|(lambda, logits)| lambda + masked_sum_of(logits.as_slice(), visible))
            .collect();
        Activations(activations)
    }

    /// Draws a component by its share.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        draw(&self.shares, rng)
    }

    /// The logits of the probabilities that visible units are on (D).
    pub(crate) fn mean_logits(&self) -> DVector<T> {
        let shares = &self.shares;
        let mean = |probabilities: DMatrix<f64>| {
            // Means that underflow count as the least that there is.
            let mean = probabilities * DVector::from_column_slice(shares);
            mean.map(|p| p.max(f64::MIN_POSITIVE))
        };
        let on = mean(self.logits.map(|x| sigmoid(x.as_())));
        let off = mean(self.logits.map(|x| sigmoid(-x.as_())));
        on.zip_map(&off, |on, off| T::nearest((on / off).ln()))
    }

    /// The largest size of a sum of logits of one component.
    pub(crate) fn largest_sum(&self) -> f64 {
        let sums = self.logits.column_iter().map(|logits| largest_sum(logits));
        sums.fold(0.0, f64::max)
    }
}

/// The activations `x_c` of the components at one state.
pub(crate) struct Activations(Vec<f64>);

impl Activations {
    /// `log (1/C) sum_c exp(t x_c)`.
    pub(crate) fn log_mean(&self, t: f64) -> f64 {
        let scaled: Vec<f64> = self.0.iter().map(|x| t * x).collect();
        log_mean_exp(&scaled)
    }

    /// `log_mean(t) - log_mean(t + step)`, without the cancellation of the plain difference.
    ///
    /// With `x_c = m + r_c`, m the largest, it is `-step m - log(1 + sum_c p_c (exp(step r_c) - 1))`, where p is the law of
    /// the components at t.
    pub(crate) fn log_ratio(&self, t: f64, step: f64) -> f64 {
        if step < 0.0 {
            // No exponential of a positive number.
            return -self.log_ratio(t + step, -step);
        }
        let (largest, p) = self.law(t);
        let gains = p.iter().zip(&self.0);
        let gain: f64 = gains
            .map(|(p, x)| p * (step * (x - largest)).exp_m1())
            .sum();
        -step * largest - gain.ln_1p()
    }

    /// The derivative of `log_mean` at t: the mean activation, `sum_c p_c x_c`.
    pub(crate) fn mean(&self, t: f64) -> f64 {
        let p = self.law(t).1;
        p.iter().zip(&self.0).map(|(p, x)| p * x).sum()
    }

    /// Draws a component given the state: c with a probability proportional to `exp(t x_c)`.
    pub(crate) fn draw<R: Rng + ?Sized>(&self, t: f64, rng: &mut R) -> usize {
        draw(&self.law(t).1, rng)
    }

    /// The largest activation, and the probabilities in proportion to `exp(t x_c)`.
    fn law(&self, t: f64) -> (f64, Vec<f64>) {
        let largest = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut p: Vec<f64> = self.0.iter().map(|x| (t * (x - largest)).exp()).collect();
        let total: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= total);
        (largest, p)
    }
}

/// Draws an index with these probabilities.
pub(super) fn draw<R: Rng + ?Sized>(probabilities: &[f64], rng: &mut R) -> usize {
    let mut left = rng.random::<f64>();
    let chosen = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Rounding may leave nothing chosen, at the far end.
    chosen.unwrap_or(probabilities.len() - 1)
}
