//! The noise that a learned transition adds to its mean.

use std::f64::consts::{PI, TAU};

use rand::Rng;
use rand_distr::{ChiSquared, Distribution};

use crate::random::StandardNormal;
use crate::{Error, Result};

/// The distribution of the noise `eps` in a forward transition `z_t = mu + sigma eps`.
///
/// Train with Gaussian noise, which gives the better bound. Set Student's noise for the run that estimates Z, since
/// training tends to make `q_t` too narrow. The weights have infinite variance if a Gaussian `q_t` is narrower than
/// `f_t(z_t) r_t(z_{t-1}|z_t)` by more than a factor `sqrt 2` in any direction.
///
/// ```
/// use annealed::learned::{LearnedTransitions, Mean, Noise};
///
/// let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 4, 1)?;
/// // ... train ...
/// let flow = flow.with_noise(Noise::Student { degrees_of_freedom: 5 })?;
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Noise {
    /// Standard normal, `N(0, I)`.
    #[default]
    Gaussian,
    /// Multivariate Student's t: a standard normal times `sqrt(n / chi^2_n)`, one factor for all coordinates.
    Student {
        /// Degrees of freedom n, at least 1.
        degrees_of_freedom: u32,
    },
}

impl Noise {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Gaussian => Ok(()),
            Self::Student { degrees_of_freedom } => {
                Error::check_at_least("degrees of freedom", degrees_of_freedom as usize, 1)
            }
        }
    }

    pub(super) fn fill<R: Rng + ?Sized>(self, noise: &mut [f64], rng: &mut R) {
        let factor = match self {
            Self::Gaussian => 1.0,
            Self::Student { degrees_of_freedom } => {
                let freedom = f64::from(degrees_of_freedom);
                // Checked to be positive when it was set.
                ChiSquared::new(freedom).map_or(f64::NAN, |law| (freedom / law.sample(rng)).sqrt())
            }
        };
        let normal = StandardNormal::get();
        for entry in noise {
            *entry = factor * normal.draw(rng);
        }
    }

    /// Returns the normalised log density of one draw.
    pub(super) fn log_density(self, noise: &[f64]) -> f64 {
        let d = noise.len();
        let square: f64 = noise.iter().map(|e| e * e).sum();
        match self {
            Self::Gaussian => -0.5 * (square + d as f64 * TAU.ln()),
            Self::Student { degrees_of_freedom } => {
                let freedom = f64::from(degrees_of_freedom);
                log_gamma_ratio(degrees_of_freedom, d)
                    - 0.5 * d as f64 * (freedom * PI).ln()
                    - 0.5 * (freedom + d as f64) * (square / freedom).ln_1p()
            }
        }
    }

    /// Returns the factor p in the gradient `-p eps` of the log density at the draw `eps`.
    pub(super) fn pull(self, noise: &[f64]) -> f64 {
        match self {
            Self::Gaussian => 1.0,
            Self::Student { degrees_of_freedom } => {
                let (freedom, square) =
                    (f64::from(degrees_of_freedom), noise.iter().map(|e| e * e));
                (freedom + noise.len() as f64) / (freedom + square.sum::<f64>())
            }
        }
    }
}

/// Returns `log [Gamma((n + d) / 2) / Gamma(n / 2)]`, by `Gamma(x + 1) = x Gamma(x)`.
fn log_gamma_ratio(n: u32, d: usize) -> f64 {
    let odd = d % 2;
    let start = 0.5 * (f64::from(n) + odd as f64);
    let factors = (0..d / 2).map(|i| (start + i as f64).ln());
    let half_step = if odd == 1 { log_half_step(n) } else { 0.0 };
    half_step + factors.sum::<f64>()
}

/// Returns `log g(n)` with `g(n) = Gamma((n + 1) / 2) / Gamma(n / 2)`, by `g(n + 2) = g(n) (n + 1) / n`.
fn log_half_step(n: u32) -> f64 {
    let (first, from) = match n % 2 {
        0 => (PI.sqrt() / 2.0, 2),
        _ => (1.0 / PI.sqrt(), 1),
    };
    let ratios = (from..n).step_by(2).map(|k| f64::from(k).recip().ln_1p());
    first.ln() + ratios.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::Moments;
    use crate::random::{Purpose, stream};

    const LAWS: [Noise; 5] = [
        Noise::Gaussian,
        student(1),
        student(2),
        student(5),
        student(8),
    ];

    const fn student(degrees_of_freedom: u32) -> Noise {
        Noise::Student { degrees_of_freedom }
    }

    #[test]
    fn densities_integrate_to_one() {
        for law in LAWS {
            // x = sinh(sinh u), by the trapezoid rule, reaches a Cauchy distribution's tails.
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
    fn draws_have_the_stated_density_in_any_dimension() {
        let mut rng = stream(2, Purpose::RUN, 0);
        for law in LAWS {
            for d in 1..5 {
                // E[1{x in [-1, 1]^d} / p(x)] = 2^d.
                let mut terms = Moments::default();
                let mut draw = vec![0.0; d];
                for _ in 0..50_000 {
                    law.fill(&mut draw, &mut rng);
                    let inside = draw.iter().all(|x| x.abs() < 1.0);
                    let inverse = (-law.log_density(&draw)).exp();
                    terms.add(if inside { inverse } else { 0.0 });
                }
                let volume = 2f64.powi(d as i32);
                let standard_error = (terms.variance() / terms.count() as f64).sqrt();
                let error = terms.mean() - volume;
                assert!(standard_error < 0.05 * volume, "{standard_error}");
                assert!(error.abs() < 4.0 * standard_error, "{law:?}, {d}: {error}");
            }
        }
    }

    #[test]
    fn students_density_tends_to_the_gaussian() {
        let noise = [0.7, -1.2, 0.1];
        let apart = student(1_000_000).log_density(&noise) - Noise::Gaussian.log_density(&noise);
        assert!(apart.abs() < 1e-5, "{apart}");
    }
}
