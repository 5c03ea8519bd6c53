//! Densities with several modes, or with a transition on the path to them.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::estimate::log_sum_exp;
use annealed::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::advice::{Advice, Problem};
use super::exact::{log_integral, log_sphere};
use super::targets::{Ball, Wells, spike_and_slab, spike_and_slab_log_z};

/// Sets up sixteen double wells in 32 dimensions, 2^16 modes (Noe et al. 2019; Midgley et al. 2023), from N(0, I).
pub fn many_well(advice: &Advice) -> Result<Problem> {
    let path = GeometricPath::new(Gaussian::standard(32)?, Wells);
    advice.leap(Wells::log_z(16), path)
}

/// Sets up the egg box of Feroz, Hobson and Bridges (2009): 18 modes under a uniform prior.
pub fn eggbox(advice: &Advice) -> Result<Problem> {
    let log_likelihood = |x: f64, y: f64| (2.0 + (0.5 * x).cos() * (0.5 * y).cos()).powi(5);
    let side = 10.0 * PI;
    let inner = |x: f64| log_integral(0.0, side, 1_000, |y| log_likelihood(x, y));
    let exact = log_integral(0.0, side, 1_000, inner) - 2.0 * side.ln();
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| log_likelihood(x[0], x[1]));
    let prior = UniformBox::new([(0.0, side); 2])?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Sets up two Gaussian shells in 10 dimensions under a uniform prior (Feroz, Hobson and Bridges 2009).
pub fn shells(advice: &Advice) -> Result<Problem> {
    const DIMENSION: usize = 10;
    const WIDTH: f64 = 0.1;
    let shell = |radius: f64| -0.5 * ((radius - 2.0) / WIDTH).powi(2) - (TAU.sqrt() * WIDTH).ln();
    let radial = |r: f64| (DIMENSION - 1) as f64 * r.ln() + shell(r);
    let mass = log_sphere(DIMENSION) + log_integral(1.0, 3.0, 2_000, radial);
    let exact = 2f64.ln() + mass - DIMENSION as f64 * 12f64.ln();
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| {
        let rest = x.rows_range(1..).norm_squared();
        let radius = |centre: f64| ((x[0] - centre).powi(2) + rest).sqrt();
        log_sum_exp([shell(radius(-3.5)), shell(radius(3.5))])
    });
    let prior = UniformBox::new([(-6.0, 6.0); DIMENSION])?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Sets up forty Gaussian clusters of variance 1.3 in the plane (Midgley et al. 2023), under a uniform prior.
pub fn clusters(advice: &Advice) -> Result<Problem> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(40);
    let mut centre = || DVector::from_fn(2, |_, _| rng.random_range(-40.0..40.0));
    let components = (0..40).map(|_| Ok((1.0 / 40.0, Gaussian::isotropic(centre(), 1.14)?)));
    let likelihood = GaussianMixture::new(components.collect::<Result<Vec<_>>>()?)?;
    let prior = UniformBox::new([(-50.0, 50.0); 2])?;
    let exact = -2.0 * 100f64.ln();
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Sets up a wide and a narrow Gaussian of equal mass in 10 dimensions (Woodard, Schmidler and Huber 2009). The base is
/// N(0, 2^2 I). On the path the wide Gaussian has nearly all mass.
pub fn two_widths(advice: &Advice) -> Result<Problem> {
    let component =
        |mean, deviation| Gaussian::isotropic(DVector::from_element(10, mean), deviation);
    let target = GaussianMixture::new([(0.5, component(-1.0, 1.0)?), (0.5, component(1.0, 0.3)?)])?;
    let base = Gaussian::isotropic(DVector::zeros(10), 2.0)?;
    advice.walk(0.0, GeometricPath::new(base, target))
}

/// Sets up a spike of 90% of the mass in a slab ten times as wide, under the uniform prior on the unit ball of 10
/// dimensions (Skilling 2006; Salomone et al. 2018): a transition of the first order.
pub fn spike_in_ball(advice: &Advice) -> Result<Problem> {
    let path = TemperedPath::new(Ball, spike_and_slab()?);
    advice.walk(spike_and_slab_log_z(), path)
}
