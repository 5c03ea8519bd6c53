//! The evidence of small statistical models.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::estimate::log_mean_exp;
use annealed::prelude::*;
use rand::{Rng, RngExt};
use rand_distr::{Gamma, StandardNormal};

use super::advice::{Advice, Problem};
use super::exact::{ln_gamma, log_integral};
use super::logistic::Logistic;

/// Sets up fifty successes in a hundred trials under a uniform prior (Bayes 1763).
pub fn beta_bernoulli(advice: &Advice) -> Result<Problem> {
    let likelihood = FunctionModel::new(|p: &DVector<f64>| 50.0 * (p[0].ln() + (1.0 - p[0]).ln()));
    let exact = 2.0 * ln_gamma(51.0) - ln_gamma(102.0);
    let prior = UniformBox::new([(0.0, 1.0); 1])?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Sets up 50,000 successes in 10^5 trials of probability `p q`, both uniform: a bent ridge (Surjanovic et al. 2023).
pub fn product(advice: &Advice) -> Result<Problem> {
    const TRIALS: f64 = 1e5;
    let log_choices = ln_gamma(TRIALS + 1.0) - 2.0 * ln_gamma(0.5 * TRIALS + 1.0);
    let log_likelihood = move |r: f64| log_choices + 0.5 * TRIALS * (r.ln() + (-r).ln_1p());
    // The product of two uniform numbers has the density -log r.
    let exact = log_integral(0.47, 0.53, 4_000, |r| (-r.ln()).ln() + log_likelihood(r));
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| log_likelihood(x[0] * x[1]));
    let prior = UniformBox::new([(0.0, 1.0); 2])?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Degrees Fahrenheit and damage to O-rings, 23 space shuttle flights (Dalal, Fowlkes and Hoadley 1989).
const FLIGHTS: [(f64, bool); 23] = [
    (66.0, false),
    (70.0, true),
    (69.0, false),
    (68.0, false),
    (67.0, false),
    (72.0, false),
    (73.0, false),
    (70.0, false),
    (57.0, true),
    (63.0, true),
    (70.0, true),
    (78.0, false),
    (67.0, false),
    (53.0, true),
    (67.0, false),
    (75.0, false),
    (70.0, false),
    (81.0, false),
    (76.0, false),
    (79.0, false),
    (75.0, true),
    (76.0, false),
    (58.0, true),
];

/// Sets up logistic regression of the damage on temperature with priors N(0, 5^2), exact by quadrature.
pub fn shuttle(advice: &Advice) -> Result<Problem> {
    let design = DMatrix::from_fn(23, 2, |i, j| match j {
        0 => 1.0,
        _ => (FLIGHTS[i].0 - 70.0) / 10.0,
    });
    let likelihood = Logistic::new(design, &FLIGHTS.map(|(_, damaged)| damaged));
    let log_prior = |x: f64| -0.02 * x * x - 0.5 * (25.0 * TAU).ln();
    let inner = |a: f64| {
        let given = |b: f64| log_prior(b) + likelihood.log_density(&DVector::from_vec(vec![a, b]));
        log_prior(a) + log_integral(-30.0, 20.0, 400, given)
    };
    let exact = log_integral(-20.0, 20.0, 400, inner);
    let prior = Gaussian::isotropic(DVector::zeros(2), 5.0)?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Strength of radiata pine and its resin-adjusted density, 42 specimens (Williams 1959).
const PINES: [(f64, f64); 42] = [
    (3040.0, 25.4),
    (2470.0, 22.2),
    (3610.0, 32.2),
    (3480.0, 31.0),
    (3810.0, 30.9),
    (2330.0, 23.9),
    (1800.0, 19.2),
    (3110.0, 27.2),
    (3160.0, 26.3),
    (2310.0, 23.9),
    (4360.0, 33.2),
    (1880.0, 21.0),
    (3670.0, 29.0),
    (1740.0, 22.0),
    (2250.0, 23.8),
    (2650.0, 25.3),
    (4970.0, 34.2),
    (2620.0, 25.7),
    (2900.0, 26.4),
    (1670.0, 20.0),
    (2540.0, 23.9),
    (3840.0, 30.7),
    (3800.0, 32.6),
    (4600.0, 32.5),
    (1900.0, 20.8),
    (2530.0, 23.1),
    (2920.0, 29.8),
    (4990.0, 38.1),
    (1670.0, 21.3),
    (3310.0, 28.5),
    (3450.0, 29.2),
    (3600.0, 31.4),
    (2850.0, 25.9),
    (1590.0, 21.4),
    (3770.0, 29.8),
    (3850.0, 30.6),
    (2480.0, 22.6),
    (3570.0, 30.3),
    (2620.0, 23.8),
    (1890.0, 18.4),
    (3030.0, 29.4),
    (3030.0, 28.2),
];

/// Sets up linear regression of the strength with conjugate priors (Friel and Pettitt 2008). The state is the log
/// precision t and the two coefficients in units of their prior deviations given t.
pub fn pines(advice: &Advice) -> Result<Problem> {
    let n = PINES.len() as f64;
    let mean = PINES.iter().map(|(_, z)| z).sum::<f64>() / n;
    let (rate, precisions) = (180_000.0f64, [0.06f64, 6.0]);
    let log_likelihood = move |t: f64, a: f64, b: f64| {
        let square = |&(y, z): &(f64, f64)| (y - a - b * (z - mean)).powi(2);
        let squares: f64 = PINES.iter().map(square).sum();
        0.5 * n * (t - TAU.ln()) - 0.5 * t.exp() * squares
    };
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| {
        let deviation = |precision: f64| (-0.5 * x[0]).exp() / precision.sqrt();
        let a = 3000.0 + x[1] * deviation(precisions[0]);
        let b = 185.0 + x[2] * deviation(precisions[1]);
        log_likelihood(x[0], a, b)
    });
    let prior = FunctionModel::new(move |x: &DVector<f64>| {
        let precision = 3.0 * (x[0] + rate.ln()) - rate * x[0].exp() - 2f64.ln();
        precision - 0.5 * (x[1] * x[1] + x[2] * x[2]) - TAU.ln()
    })
    .with_sampler(move |rng: &mut dyn Rng| {
        let gamma = Gamma::new(3.0, 1.0 / rate).expect("a shape and a scale");
        let log_precision: f64 = rng.sample::<f64, _>(gamma).ln();
        DVector::from_vec(vec![
            log_precision,
            rng.sample(StandardNormal),
            rng.sample(StandardNormal),
        ])
    })
    .with_log_normalizer(0.0)?;
    advice.walk(
        pines_exact(mean, rate),
        TemperedPath::new(prior, likelihood),
    )
}

/// Returns the log of Student's density of the data, with coefficients and precision integrated out.
fn pines_exact(mean: f64, rate: f64) -> f64 {
    let n = PINES.len();
    let design = DMatrix::from_fn(n, 2, |i, j| if j == 0 { 1.0 } else { PINES[i].1 - mean });
    let prior = DMatrix::from_diagonal(&DVector::from_vec(vec![1.0 / 0.06, 1.0 / 6.0]));
    let scatter = DMatrix::identity(n, n) + &design * prior * design.transpose();
    let centre = design * DVector::from_vec(vec![3000.0, 185.0]);
    let off = DVector::from_fn(n, |i, _| PINES[i].0) - centre;
    let cholesky = scatter.cholesky().expect("a positive definite matrix");
    let squares = off.dot(&cholesky.solve(&off));
    let (half, shape) = (0.5 * n as f64, 3.0);
    ln_gamma(shape + half) - ln_gamma(shape) - half * TAU.ln() - cholesky.ln_determinant() / 2.0
        + shape * rate.ln()
        - (shape + half) * (rate + 0.5 * squares).ln()
}

/// Heat of hardening cement and its four ingredients in per cent (Hald 1952).
const CEMENTS: [[f64; 5]; 13] = [
    [78.5, 7.0, 26.0, 6.0, 60.0],
    [74.3, 1.0, 29.0, 15.0, 52.0],
    [104.3, 11.0, 56.0, 8.0, 20.0],
    [87.6, 11.0, 31.0, 8.0, 47.0],
    [95.9, 7.0, 52.0, 6.0, 33.0],
    [109.2, 11.0, 55.0, 9.0, 22.0],
    [102.7, 3.0, 71.0, 17.0, 6.0],
    [72.5, 1.0, 31.0, 22.0, 44.0],
    [93.1, 2.0, 54.0, 18.0, 22.0],
    [115.9, 21.0, 47.0, 4.0, 26.0],
    [83.8, 1.0, 40.0, 23.0, 34.0],
    [113.3, 11.0, 66.0, 9.0, 12.0],
    [109.4, 10.0, 68.0, 8.0, 12.0],
];
/// Standard deviation of the measured heat.
const NOISE: f64 = 2.4;

const SPIKE: f64 = 0.1;
const SLAB: f64 = 2.0;

/// Sets up regression on the centred ingredients, each coefficient from a spike or a slab of equal mass (George and
/// McCulloch 1993). The exact value is a sum over 16 choices.
pub fn spike_and_slab(advice: &Advice) -> Result<Problem> {
    let means = DVector::from_fn(5, |j, _| {
        CEMENTS.iter().map(|row| row[j]).sum::<f64>() / 13.0
    });
    let x = DMatrix::from_fn(13, 4, |i, j| CEMENTS[i][j + 1] - means[j + 1]);
    let y = DVector::from_fn(13, |i, _| CEMENTS[i][0] - means[0]);
    let exact = choices_exact(&x, &y)?;
    let constant = -6.5 * (TAU * NOISE * NOISE).ln();
    let likelihood = FunctionModel::new(move |w: &DVector<f64>| {
        constant - 0.5 * (&y - &x * w).norm_squared() / (NOISE * NOISE)
    });
    let prior = FunctionModel::new(|w: &DVector<f64>| -> f64 {
        let normal = |w: f64, s: f64| (-0.5 * (w / s).powi(2)).exp() / (TAU.sqrt() * s);
        let log_density = |&w: &f64| (0.5 * normal(w, SPIKE) + 0.5 * normal(w, SLAB)).ln();
        w.iter().map(log_density).sum()
    })
    .with_sampler(|rng: &mut dyn Rng| {
        DVector::from_fn(4, |_, _| {
            let deviation = if rng.random() { SPIKE } else { SLAB };
            deviation * rng.sample::<f64, _>(StandardNormal)
        })
    })
    .with_log_normalizer(0.0)?;
    advice.walk(exact, TemperedPath::new(prior, likelihood))
}

/// Returns the log of the mean evidence over all choices, each a Gaussian density of the data.
fn choices_exact(x: &DMatrix<f64>, y: &DVector<f64>) -> Result<f64> {
    let log_evidence = |choice: usize| {
        let deviation = |j: usize, _| if choice >> j & 1 == 1 { SLAB } else { SPIKE };
        let variances = DMatrix::from_diagonal(&DVector::from_fn(4, deviation).map(|s| s * s));
        let noise = DMatrix::identity(13, 13) * (NOISE * NOISE);
        let marginal = Gaussian::new(DVector::zeros(13), x * variances * x.transpose() + noise)?;
        Ok(marginal.log_density(y) - marginal.log_normalizer())
    };
    let evidences: Vec<f64> = (0..16).map(log_evidence).collect::<Result<_>>()?;
    Ok(log_mean_exp(&evidences))
}
