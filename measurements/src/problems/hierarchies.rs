//! Hierarchical models: lower levels integrate in closed form, the top level by quadrature.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::estimate::log_mean_exp;
use annealed::prelude::*;
use rand::{Rng, RngExt};
use rand_distr::{Gamma, StandardNormal};

use super::advice::{Advice, Problem};
use super::exact::{ln_gamma, log_integral};

/// Effect of coaching and its standard error in eight schools (Rubin 1981).
const SCHOOLS: [(f64, f64); 8] = [
    (28.0, 15.0),
    (8.0, 10.0),
    (-3.0, 16.0),
    (7.0, 11.0),
    (-1.0, 9.0),
    (1.0, 11.0),
    (18.0, 10.0),
    (12.0, 18.0),
];

fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((x - mean).powi(2) / variance + (TAU * variance).ln())
}

/// Returns the log density of `t = log s` for s half-Cauchy with a scale of 5.
fn log_half_cauchy(t: f64) -> f64 {
    t + (2.0 / (5.0 * PI)).ln() - (2.0 * (t - 5f64.ln())).exp().ln_1p()
}

/// Returns the posterior of m, log s and eight `z_i ~ N(0, 1)`, with effects `m + s z_i`, and its log Z.
pub fn non_centred_schools() -> (impl UnnormalizedModel<State = DVector<f64>> + Sync, f64) {
    let posterior = FunctionModel::new(|x: &DVector<f64>| {
        let schools = x.iter().skip(2).zip(&SCHOOLS);
        let term = |(z, (y, error)): (&f64, &(f64, f64))| {
            let effect = x[0] + x[1].exp() * z;
            log_normal(*z, 0.0, 1.0) + log_normal(*y, effect, error * error)
        };
        log_normal(x[0], 0.0, 25.0) + log_half_cauchy(x[1]) + schools.map(term).sum::<f64>()
    });
    (posterior, schools_log_z())
}

/// Returns log Z by quadrature over `log s`.
fn schools_log_z() -> f64 {
    log_integral(-20.0, 30.0, 4_000, |t| {
        log_half_cauchy(t) + schools_given((2.0 * t).exp())
    })
}

/// Sets up effects `N(m, s^2)` with `m ~ N(0, 5^2)` and s half-Cauchy(5): a funnel of m, log s and eight effects.
pub fn eight_schools(advice: &Advice) -> Result<Problem> {
    let prior = FunctionModel::new(|x: &DVector<f64>| {
        let variance = (2.0 * x[1]).exp();
        let effects = x
            .iter()
            .skip(2)
            .map(|effect| log_normal(*effect, x[0], variance));
        log_normal(x[0], 0.0, 25.0) + log_half_cauchy(x[1]) + effects.sum::<f64>()
    })
    .with_sampler(|rng: &mut dyn Rng| {
        let normals = DVector::from_fn(10, |_, _| rng.sample::<f64, _>(StandardNormal));
        let mean = 5.0 * normals[0];
        let deviation = 5.0 * (0.5 * PI * rng.random::<f64>()).tan();
        DVector::from_fn(10, |i, _| match i {
            0 => mean,
            1 => deviation.ln(),
            _ => mean + deviation * normals[i],
        })
    })
    .with_log_normalizer(0.0)?;
    let likelihood = FunctionModel::new(|x: &DVector<f64>| {
        let effects = x.iter().skip(2).zip(&SCHOOLS);
        let term =
            |(effect, (y, error)): (&f64, &(f64, f64))| log_normal(*y, *effect, error * error);
        effects.map(term).sum::<f64>()
    });
    advice.walk(schools_log_z(), TemperedPath::new(prior, likelihood))
}

/// Returns the log evidence given the variance of the effects, with their common mean integrated out.
fn schools_given(variance: f64) -> f64 {
    let (mut precision, mut weighted, mut log_density) = (1.0 / 25.0, 0.0, -0.5 * 25f64.ln());
    for (y, error) in SCHOOLS {
        let v = error * error + variance;
        precision += 1.0 / v;
        weighted += y / v;
        log_density += log_normal(y, 0.0, v);
    }
    log_density + 0.5 * (weighted * weighted / precision - precision.ln())
}

/// Disasters in British coal mines, 1851 to 1962 (Jarrett 1979).
const DISASTERS: [u8; 112] = [
    4, 5, 4, 1, 0, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5,
    2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1,
    0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 0, 1,
    4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
];

/// Sets up one change of a Poisson rate in a uniform year, rates `Gamma(2, 1)` before and after (Raftery and Akman
/// 1986). The state is the time of the change as a fraction of the 112 years, and two log rates.
pub fn coal_mines(advice: &Advice) -> Result<Problem> {
    let mut sums = vec![0.0];
    for count in DISASTERS {
        sums.push(sums[sums.len() - 1] + f64::from(count));
    }
    let factorials: f64 = DISASTERS
        .iter()
        .map(|&count| ln_gamma(f64::from(count) + 1.0))
        .sum();
    let total = sums[112];
    // Log evidence of `events` in `years`, without the factorials, with the rate `Gamma(2, 1)` integrated out.
    let marginal =
        |years: f64, events: f64| ln_gamma(2.0 + events) - (2.0 + events) * (1.0 + years).ln();
    let evidences: Vec<f64> = (0..112)
        .map(|k| (k as f64, sums[k]))
        .map(|(k, before)| marginal(k, before) + marginal(112.0 - k, total - before) - factorials)
        .collect();
    let prior = FunctionModel::new(|x: &DVector<f64>| match (0.0..1.0).contains(&x[0]) {
        true => x
            .iter()
            .skip(1)
            .map(|rate| 2.0 * rate - rate.exp())
            .sum::<f64>(),
        false => f64::NEG_INFINITY,
    })
    .with_sampler(|rng: &mut dyn Rng| {
        let gamma = Gamma::new(2.0, 1.0).expect("a shape and a scale");
        let mut log_rate = || rng.sample::<f64, _>(gamma).ln();
        let rates = [log_rate(), log_rate()];
        DVector::from_vec(vec![rng.random(), rates[0], rates[1]])
    })
    .with_log_normalizer(0.0)?;
    let likelihood = FunctionModel::new(move |x: &DVector<f64>| {
        let years = (112.0 * x[0]).floor();
        let before = sums[years as usize];
        let first = before * x[1] - years * x[1].exp();
        first + (total - before) * x[2] - (112.0 - years) * x[2].exp() - factorials
    });
    advice.walk(
        log_mean_exp(&evidences),
        TemperedPath::new(prior, likelihood),
    )
}
