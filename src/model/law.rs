//! Standard laws on the whole line, of which priors are made.

use std::f64::consts::{PI, TAU};

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use crate::num::{ln_gamma, log_sigmoid, sigmoid};
use crate::random::StandardNormal;
use crate::{Error, Result};

/// A law on the whole line. Laws with parameters hold the constant of their log density.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Written", try_from = "Written"))]
pub(super) enum Law {
    Normal,
    Student {
        degrees: f64,
        constant: f64,
    },
    /// The logarithm of a gamma variable of rate 1.
    LogGamma {
        shape: f64,
        constant: f64,
    },
    /// The logit of a beta variable.
    LogitBeta {
        a: f64,
        b: f64,
        constant: f64,
    },
}

/// A law as it is saved, without what follows from its parameters.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
enum Written {
    Normal,
    Student { degrees: f64 },
    LogGamma { shape: f64 },
    LogitBeta { a: f64, b: f64 },
}

#[cfg(feature = "serde")]
impl From<Law> for Written {
    fn from(law: Law) -> Self {
        match law {
            Law::Normal => Self::Normal,
            Law::Student { degrees, .. } => Self::Student { degrees },
            Law::LogGamma { shape, .. } => Self::LogGamma { shape },
            Law::LogitBeta { a, b, .. } => Self::LogitBeta { a, b },
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for Law {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        match written {
            Written::Normal => Ok(Self::Normal),
            Written::Student { degrees } => Self::student(degrees),
            Written::LogGamma { shape } => Self::log_gamma(shape),
            Written::LogitBeta { a, b } => Self::logit_beta(a, b),
        }
    }
}

impl Law {
    pub(super) fn student(degrees: f64) -> Result<Self> {
        let expected = "a number in [0.1, 1e9]";
        let within = (0.1..=1e9).contains(&degrees);
        Error::check(within, "degrees of freedom", degrees, expected)?;
        let half = 0.5 * degrees;
        let constant = ln_gamma(half + 0.5) - ln_gamma(half) - 0.5 * (degrees * PI).ln();
        Ok(Self::Student { degrees, constant })
    }

    pub(super) fn log_gamma(shape: f64) -> Result<Self> {
        check_shape("shape", shape)?;
        let constant = -ln_gamma(shape);
        Ok(Self::LogGamma { shape, constant })
    }

    pub(super) fn logit_beta(a: f64, b: f64) -> Result<Self> {
        check_shape("a", a)?;
        check_shape("b", b)?;
        let constant = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
        Ok(Self::LogitBeta { a, b, constant })
    }

    /// The log density and its derivative.
    pub(super) fn log_density(&self, v: f64) -> (f64, f64) {
        match *self {
            Self::Normal => (-0.5 * (v * v + TAU.ln()), -v),
            Self::Student { degrees, constant } => {
                let log = (v * v / degrees).ln_1p();
                let slope = -(degrees + 1.0) * v / (degrees + v * v);
                (constant - 0.5 * (degrees + 1.0) * log, slope)
            }
            Self::LogGamma { shape, constant } => {
                let x = v.exp();
                (constant + shape * v - x, shape - x)
            }
            Self::LogitBeta { a, b, constant } => {
                let log_density = constant + a * log_sigmoid(v) + b * log_sigmoid(-v);
                (log_density, a * sigmoid(-v) - b * sigmoid(v))
            }
        }
    }

    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match *self {
            Self::Normal => StandardNormal::get().draw(rng),
            Self::Student { degrees, .. } => {
                let half = 0.5 * degrees;
                let log_square = half.ln() - log_gamma_variable(half, rng);
                StandardNormal::get().draw(rng) * (0.5 * log_square).exp()
            }
            Self::LogGamma { shape, .. } => log_gamma_variable(shape, rng),
            Self::LogitBeta { a, b, .. } => log_gamma_variable(a, rng) - log_gamma_variable(b, rng),
        }
    }
}

fn check_shape(argument: &'static str, shape: f64) -> Result<()> {
    let within = (1e-3..=1e9).contains(&shape);
    Error::check(within, argument, shape, "a number in [1e-3, 1e9]")
}

/// The logarithm of a gamma variable. With a small shape the variable itself may be too small for a number: it is
/// one of shape + 1, times `U^(1 / shape)`.
fn log_gamma_variable<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    let gamma = Gamma::new(shape + 1.0, 1.0).expect("a positive shape");
    let uniform = 1.0 - rng.random::<f64>();
    gamma.sample(rng).ln() + uniform.ln() / shape
}
