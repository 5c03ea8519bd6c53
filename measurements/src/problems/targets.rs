//! Densities with a known log Z that several programs use as targets, without the path to them.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::data::digits;
use annealed::prelude::*;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::exact::{ln_gamma, log_integral};

/// Pairs of a double well `-x^4 + 6 x^2 + x / 2` and a normal coordinate.
pub struct Wells;

fn well(x: f64) -> f64 {
    -x.powi(4) + 6.0 * x * x + 0.5 * x
}

impl Wells {
    /// Returns log Z of `pairs` pairs, by quadrature.
    pub fn log_z(pairs: usize) -> f64 {
        pairs as f64 * (log_integral(-6.0, 6.0, 2_000, well) + 0.5 * TAU.ln())
    }
}

impl UnnormalizedModel for Wells {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let pairs = x.as_slice().as_chunks::<2>().0;
        pairs.iter().map(|[x, y]| well(*x) - 0.5 * y * y).sum()
    }
}

impl Differentiable for Wells {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let pairs = x.as_slice().as_chunks::<2>().0;
        for (i, [x, y]) in pairs.iter().enumerate() {
            gradient[2 * i] += scale * (-4.0 * x * x * x + 12.0 * x + 0.5);
            gradient[2 * i + 1] -= scale * y;
        }
        self.log_density(x)
    }
}

/// The uniform density on the unit ball of 10 dimensions.
pub struct Ball;

impl UnnormalizedModel for Ball {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        match x.norm_squared() <= 1.0 {
            true => 0.0,
            false => f64::NEG_INFINITY,
        }
    }
}

impl NormalizedModel for Ball {
    fn log_normalizer(&self) -> f64 {
        5.0 * PI.ln() - ln_gamma(6.0)
    }
}

impl Sampleable for Ball {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> DVector<f64> {
        let direction = DVector::from_fn(10, |_, _| rng.sample(StandardNormal));
        direction.normalize() * rng.random::<f64>().powf(0.1)
    }
}

/// Creates a spike with 90% of the mass in a slab ten times as wide. It is a likelihood for the prior [`Ball`].
pub fn spike_and_slab() -> Result<GaussianMixture> {
    let component = |deviation| Gaussian::isotropic(DVector::zeros(10), deviation);
    GaussianMixture::new([(0.1, component(0.1)?), (0.9, component(0.01)?)])
}

/// Returns the log evidence of [`spike_and_slab`] under the prior [`Ball`].
pub fn spike_and_slab_log_z() -> f64 {
    // The wider Gaussian's mass outside of the ball is P(chi^2 with 10 degrees > 100).
    let outside: f64 = (0..5)
        .map(|j| (f64::from(j) * 50f64.ln() - 50.0 - ln_gamma(f64::from(j) + 1.0)).exp())
        .sum();
    (-0.1 * outside).ln_1p() - Ball.log_normalizer()
}

/// Trains an RBM of 64 visible and 20 hidden units on the embedded digits. Also returns the digits' base rates.
pub fn digits_rbm(training: &ContrastiveDivergence) -> Result<(BaseRate, Rbm)> {
    const HIDDEN: usize = 20;
    let images = digits().images;
    let start = Rbm::<f32>::from_data(HIDDEN, &images, 1)?;
    let rbm = training.train(start, &images)?.rbm;
    Ok((BaseRate::from_data(HIDDEN, &images, 1.0)?, rbm))
}
