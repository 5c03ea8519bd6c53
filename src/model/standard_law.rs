//! Distributions on the whole line, from which the priors of single parameters are made.

use std::f64::consts::{PI, TAU};

use libm::lgamma;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use crate::num::{log_integral, log_sigmoid, sigmoid};
use crate::random::StandardNormal;
use crate::{Error, Result};

/// A distribution on the whole line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum StandardLaw {
    Normal,
    Student {
        degrees: f64,
    },
    /// The logarithm of a gamma variable of rate 1.
    LogGamma {
        shape: f64,
    },
    /// The logit of a beta variable.
    LogitBeta {
        a: f64,
        b: f64,
    },
    /// A standard normal variable between two ends. The upper end may be infinite.
    TruncatedNormal {
        low: f64,
        high: f64,
    },
}

impl StandardLaw {
    /// Returns the constant of the log density, after a check of the parameters.
    pub(super) fn constant(&self) -> Result<f64> {
        match *self {
            Self::Normal => Ok(TAU.ln()),
            Self::Student { degrees } => {
                let expected = "a number in [0.1, 1e9]";
                let within = (0.1..=1e9).contains(&degrees);
                Error::check(within, "degrees of freedom", degrees, expected)?;
                let half = 0.5 * degrees;
                Ok(lgamma(half + 0.5) - lgamma(half) - 0.5 * (degrees * PI).ln())
            }
            Self::LogGamma { shape } => {
                check_shape("shape", shape)?;
                Ok(-lgamma(shape))
            }
            Self::LogitBeta { a, b } => {
                check_shape("a", a)?;
                check_shape("b", b)?;
                Ok(lgamma(a + b) - lgamma(a) - lgamma(b))
            }
            Self::TruncatedNormal { low, high } => {
                let most = 0_f64.clamp(low, high);
                // Beyond this distance the density is below e^-40 of its greatest value.
                let far = 40.0 / (1.0 + most.abs());
                let (from, to) = ((most - far).max(low), (most + far).min(high));
                let log_f = |z: f64| 0.5 * (most - z) * (most + z);
                let found = log_integral(log_f, from, to, 16);
                let none = || Error::invalid("interval", format!("{low} to {high}"), "mass in it");
                Ok(0.5 * most * most - found.ok_or_else(none)?)
            }
        }
    }

    /// Returns whether the law is of the parameter in place of its coordinate.
    #[inline(always)]
    pub(super) fn is_of_parameter(&self) -> bool {
        matches!(self, Self::TruncatedNormal { .. })
    }

    #[inline(always)]
    pub(super) fn log_density(&self, v: f64, constant: f64) -> (f64, f64) {
        match *self {
            Self::Normal => (-0.5 * (v * v + constant), -v),
            Self::TruncatedNormal { .. } => (constant - 0.5 * v * v, -v),
            Self::Student { degrees } => {
                let log = (v * v / degrees).ln_1p();
                let slope = -(degrees + 1.0) * v / (degrees + v * v);
                (constant - 0.5 * (degrees + 1.0) * log, slope)
            }
            Self::LogGamma { shape } => {
                let x = v.exp();
                (constant + shape * v - x, shape - x)
            }
            Self::LogitBeta { a, b } => {
                let log_density = constant + a * log_sigmoid(v) + b * log_sigmoid(-v);
                (log_density, a * sigmoid(-v) - b * sigmoid(v))
            }
        }
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match *self {
            Self::Normal => StandardNormal::get().draw(rng),
            Self::Student { degrees } => {
                let half = 0.5 * degrees;
                let log_square = half.ln() - log_gamma_variable(half, rng);
                StandardNormal::get().draw(rng) * (0.5 * log_square).exp()
            }
            Self::LogGamma { shape } => log_gamma_variable(shape, rng),
            Self::LogitBeta { a, b } => log_gamma_variable(a, rng) - log_gamma_variable(b, rng),
            Self::TruncatedNormal { low, high } if high < 0.0 => {
                -truncated_normal_variable(-high, -low, rng)
            }
            Self::TruncatedNormal { low, high } => truncated_normal_variable(low, high, rng),
        }
    }
}

/// Draws a standard normal variable between two ends by rejection (Robert 1995). The upper end is not negative. Proposals are
/// uniform in a short interval, exponential in the tail, and normal otherwise: each accepts at least a fifth.
fn truncated_normal_variable<R: Rng + ?Sized>(low: f64, high: f64, rng: &mut R) -> f64 {
    let is_short = high - low < 2.0_f64.min(1.0 / low.max(0.0));
    let most = low.max(0.0);
    loop {
        let (z, log_accepted) = match (is_short, low > 0.5) {
            (true, _) => {
                let z = low + (high - low) * rng.random::<f64>();
                (z, 0.5 * (most - z) * (most + z))
            }
            (false, true) => {
                let beyond = -(1.0 - rng.random::<f64>()).ln() / low;
                (low + beyond, -0.5 * beyond * beyond)
            }
            (false, false) => (StandardNormal::get().draw(rng), 0.0),
        };
        if low < z && z < high && (1.0 - rng.random::<f64>()).ln() <= log_accepted {
            return z;
        }
    }
}

fn check_shape(argument: &'static str, shape: f64) -> Result<()> {
    let within = (1e-3..=1e9).contains(&shape);
    Error::check(within, argument, shape, "a number in [1e-3, 1e9]")
}

/// Draws the log of a gamma variable, computed as a gamma variable of `shape + 1` times `U^(1 / shape)` with U uniform.
/// Logs are used because the variable underflows if its shape is small.
fn log_gamma_variable<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    let gamma = Gamma::new(shape + 1.0, 1.0).expect("a positive shape");
    let uniform = 1.0 - rng.random::<f64>();
    gamma.sample(rng).ln() + uniform.ln() / shape
}
