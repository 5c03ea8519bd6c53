//! Distributions on the whole line, from which the priors of single parameters are made.

use std::f64::consts::{PI, TAU};

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use crate::num::{ln_gamma, log_sigmoid, sigmoid};
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
                Ok(ln_gamma(half + 0.5) - ln_gamma(half) - 0.5 * (degrees * PI).ln())
            }
            Self::LogGamma { shape } => {
                check_shape("shape", shape)?;
                Ok(-ln_gamma(shape))
            }
            Self::LogitBeta { a, b } => {
                check_shape("a", a)?;
                check_shape("b", b)?;
                Ok(ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b))
            }
        }
    }

    pub(super) fn log_density(&self, v: f64, constant: f64) -> (f64, f64) {
        match *self {
            Self::Normal => (-0.5 * (v * v + constant), -v),
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
