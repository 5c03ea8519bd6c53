//! The noise that a learned transition adds to its mean.

use std::f64::consts::{PI, TAU};

use rand::{Rng, RngExt};
use rand_distr::{ChiSquared, Distribution, StandardNormal};

use crate::error::{Error, Result};

/// The law of `eps` in a forward transition `z_t = mu + sigma eps`, one independent draw a
/// coordinate.
///
/// A Gaussian `q_t` that is narrower, anywhere, than the `f_t(z_t) r_t(z_{t-1}|z_t)` that it should
/// match by more than a factor `sqrt 2` gives weights of infinite variance, and training narrows
/// more than it widens (the divergence that it minimises forgives what q misses). Student's noise
/// has tails that no Gaussian outweighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Noise {
    /// Standard normal.
    #[default]
    Gaussian,
    /// Student's t.
    Student {
        /// Degrees of freedom, at least 1.
        degrees_of_freedom: u32,
    },
}

impl Noise {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Student {
                degrees_of_freedom: 0,
            } => Err(Error::invalid("degrees of freedom", 0, "at least 1")),
            _ => Ok(()),
        }
    }

    /// Draws every entry. The degrees of freedom have been checked.
    pub(super) fn fill<'a, R: Rng + ?Sized>(
        self,
        entries: impl Iterator<Item = &'a mut f64>,
        rng: &mut R,
    ) {
        let chi_squared = match self {
            Self::Gaussian => None,
            Self::Student { degrees_of_freedom } => {
                ChiSquared::new(f64::from(degrees_of_freedom)).ok()
            }
        };
        for entry in entries {
            *entry = rng.sample(StandardNormal);
            if let (Self::Student { degrees_of_freedom }, Some(law)) = (self, &chi_squared) {
                *entry *= (f64::from(degrees_of_freedom) / law.sample(rng)).sqrt();
            }
        }
    }

    /// The sum over coordinates of the log density of each, normalised.
    pub(super) fn log_density(self, noise: &[f64]) -> f64 {
        match self {
            Self::Gaussian => {
                let squares: f64 = noise.iter().map(|e| e * e).sum();
                -0.5 * (squares + noise.len() as f64 * TAU.ln())
            }
            Self::Student { degrees_of_freedom } => {
                let freedom = f64::from(degrees_of_freedom);
                let tails: f64 = noise.iter().map(|e| (e * e / freedom).ln_1p()).sum();
                let scale = log_student_scale(degrees_of_freedom);
                noise.len() as f64 * scale - 0.5 * (freedom + 1.0) * tails
            }
        }
    }
}

/// `log [Gamma((n + 1) / 2) / (sqrt(n pi) Gamma(n / 2))]`, by the recursion of the Gammas' ratio
/// `g(n + 2) = g(n) (n + 1) / n` from `g(1) = 1 / sqrt pi`, `g(2) = sqrt pi / 2`.
fn log_student_scale(n: u32) -> f64 {
    let even = n % 2 == 0;
    let first = if even {
        PI.sqrt() / 2.0
    } else {
        1.0 / PI.sqrt()
    };
    let from = if even { 2 } else { 1 };
    let ratio = (from..n)
        .step_by(2)
        .map(|k| f64::from(k + 1) / f64::from(k));
    ratio.product::<f64>().ln() + first.ln() - 0.5 * (f64::from(n) * PI).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ais::{Purpose, stream};

    const LAWS: [Noise; 5] = [
        Noise::Gaussian,
        Noise::Student {
            degrees_of_freedom: 1,
        },
        Noise::Student {
            degrees_of_freedom: 2,
        },
        Noise::Student {
            degrees_of_freedom: 5,
        },
        Noise::Student {
            degrees_of_freedom: 8,
        },
    ];

    #[test]
    fn densities_integrate_to_one() {
        for law in LAWS {
            // x = sinh(sinh u), by the trapezoid rule, reaches a Cauchy law's tails.
            let step = 1e-3;
            let density = |i: i32| {
                let u = step * f64::from(i);
                let slope = u.sinh().cosh() * u.cosh();
                law.log_density(&[u.sinh().sinh()]).exp() * slope * step
            };
            let total: f64 = (-4_500..=4_500).map(density).sum();
            assert!((total - 1.0).abs() < 1e-9, "{law:?}: {total}");
        }
    }

    #[test]
    fn draws_have_the_stated_density() {
        let mut rng = stream(2, Purpose::Run, 0);
        for law in LAWS {
            let mut draws = vec![0.0; 100_000];
            law.fill(draws.iter_mut(), &mut rng);
            // E[1{|x| < 1} / p(x)] = 2.
            let term = |x: &f64| match x.abs() < 1.0 {
                true => (-law.log_density(&[*x])).exp(),
                false => 0.0,
            };
            let n = draws.len() as f64;
            let mean = draws.iter().map(term).sum::<f64>() / n;
            let square = draws.iter().map(|x| term(x).powi(2)).sum::<f64>() / n;
            let standard_error = ((square - mean * mean) / n).sqrt();
            assert!(standard_error < 0.01, "{standard_error}");
            assert!((mean - 2.0).abs() < 4.0 * standard_error, "{law:?}: {mean}");
        }
    }
}
