//! Posteriors whose evidence is a closed form, a quadrature or a chain of quadratures.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::estimate::log_sum_exp;
use annealed::model::StudentT;
use annealed::nalgebra::{DMatrix, Matrix3, Vector3};
use annealed::prelude::*;
use annealed_measurements::problems::exact::log_integral;
use annealed_measurements::problems::scales::many_scales;

type LogLikelihood = Box<dyn Fn(&[f64]) -> f64 + Send + Sync>;
/// Adds the gradient to the second argument, and returns the log likelihood.
type Gradient = Box<dyn Fn(&[f64], &mut [f64]) -> f64 + Send + Sync>;

pub struct Posterior {
    pub name: String,
    pub log_z: f64,
    pub priors: Priors,
    pub log_likelihood: LogLikelihood,
    pub gradient: Option<Gradient>,
}

impl Posterior {
    fn new(
        name: impl Into<String>,
        log_z: f64,
        priors: Priors,
        log_likelihood: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            log_z,
            priors,
            log_likelihood: Box::new(log_likelihood),
            gradient: None,
        }
    }

    /// Adds a log likelihood with its gradient.
    fn with_gradient(
        self,
        gradient: impl Fn(&[f64], &mut [f64]) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let gradient = Some(Box::new(gradient) as _);
        Self { gradient, ..self }
    }
}

/// Returns independent priors N(0, 1).
fn standard(dimension: usize) -> Result<Priors> {
    Priors::new(vec![Prior::normal(0.0, 1.0)?; dimension])
}

/// Returns independent uniform priors.
fn uniform(dimension: usize, low: f64, high: f64) -> Result<Priors> {
    Priors::new(vec![Prior::uniform(low, high)?; dimension])
}

/// Dimensions, and deviations of a mode with half of the mass beside one of deviation 1.
const NARROW: &[(usize, &[f64])] = &[
    (2, &[0.3, 0.2, 0.1]),
    (3, &[0.6, 0.5, 0.4, 0.3]),
    (5, &[0.25]),
    (6, &[0.9, 0.8, 0.7, 0.6]),
    (12, &[0.9, 0.8]),
];

pub fn all() -> Result<Vec<Posterior>> {
    let mut all = vec![
        normal()?,
        beetles()?,
        correlated()?,
        schools()?,
        cube()?,
        regression(10)?,
        shells()?,
        rosenbrock()?,
        period()?,
        eggbox()?,
    ];
    for dimension in [2, 5, 10] {
        for share in [0.05, 0.1, 0.2] {
            all.push(modes(dimension, share, 1.0)?);
        }
    }
    for (dimension, deviations) in NARROW {
        for &deviation in *deviations {
            all.push(modes(*dimension, 0.5, deviation)?);
        }
    }
    all.extend([student()?, funnel()?, regression(5)?, scales()?]);
    Ok(all)
}

fn log_normal(x: f64, mean: f64, deviation: f64) -> f64 {
    -0.5 * ((x - mean) / deviation).powi(2) - (deviation * TAU.sqrt()).ln()
}

/// Returns the log of an integral over a square, by the midpoint rule with `count` points along each side.
fn log_square(low: f64, high: f64, count: usize, log_f: impl Fn(f64, f64) -> f64) -> f64 {
    let width = (high - low) / count as f64;
    let at = |i: usize| low + width * (i as f64 + 0.5);
    let row = |i| log_sum_exp((0..count).map(|j| log_f(at(i), at(j))));
    log_sum_exp((0..count).map(row)) + 2.0 * width.ln()
}

/// One observation of a normal mean.
fn normal() -> Result<Posterior> {
    let log_z = log_normal(1.3, 0.0, 1.04_f64.sqrt());
    let log_likelihood = |x: &[f64]| log_normal(x[0], 1.3, 0.2);
    let posterior = Posterior::new("normal, 1-d", log_z, standard(1)?, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        slope[0] -= (x[0] - 1.3) / 0.04;
        log_likelihood(x)
    }))
}

/// Deaths of beetles by the log dose of carbon disulphide (Bliss 1935): dose, insects, deaths.
const BEETLES: [(f64, f64, f64); 8] = [
    (1.6907, 59.0, 6.0),
    (1.7242, 60.0, 13.0),
    (1.7552, 62.0, 18.0),
    (1.7842, 56.0, 28.0),
    (1.8113, 63.0, 52.0),
    (1.8369, 59.0, 53.0),
    (1.8610, 62.0, 61.0),
    (1.8839, 60.0, 60.0),
];

/// A logistic regression with the priors N(0, 5^2) of the intercept and N(0, 40^2) of the slope.
fn beetles() -> Result<Posterior> {
    let log_likelihood = |x: &[f64]| {
        let of_dose = |&(dose, insects, deaths): &(f64, f64, f64)| {
            let logit = 5.0 * x[0] + 40.0 * x[1] * (dose - 1.793);
            -deaths * (-logit).exp().ln_1p() - (insects - deaths) * logit.exp().ln_1p()
        };
        BEETLES.iter().map(of_dose).sum::<f64>()
    };
    let log_z = log_square(-1.0, 3.0, 1200, |a, b| {
        log_likelihood(&[a, b]) + log_normal(a, 0.0, 1.0) + log_normal(b, 0.0, 1.0)
    });
    let posterior = Posterior::new("beetles, 2-d", log_z, standard(2)?, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        for &(dose, insects, deaths) in &BEETLES {
            let logit = 5.0 * x[0] + 40.0 * x[1] * (dose - 1.793);
            let of_logit = deaths - insects / (1.0 + (-logit).exp());
            slope[0] += 5.0 * of_logit;
            slope[1] += 40.0 * (dose - 1.793) * of_logit;
        }
        log_likelihood(x)
    }))
}

fn correlated() -> Result<Posterior> {
    let covariance = DMatrix::from_fn(5, 5, |i, j| 0.25 * 0.95_f64.powi(i.abs_diff(j) as i32));
    let law = Gaussian::new(DVector::from_element(5, 1.0), covariance)?;
    let (log_z, same) = (law.log_normalizer(), law.clone());
    let log_likelihood = move |x: &[f64]| law.log_density(&DVector::from_row_slice(x)) - log_z;
    let prior = uniform(5, -10.0, 10.0)?;
    let name = "Gaussian in a box, 5-d";
    let posterior = Posterior::new(name, -5.0 * 20_f64.ln(), prior, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        let mut gradient = DVector::zeros(5);
        let log_density = same.gradient_into(&DVector::from_row_slice(x), &mut gradient);
        slope.iter_mut().zip(&gradient).for_each(|(to, g)| *to += g);
        log_density - log_z
    }))
}

/// Eight schools (Rubin 1981), not centred: mean 5 x_0, deviation exp(1 + x_1), effects mean + deviation x_k.
fn schools() -> Result<Posterior> {
    const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
    const ERRORS: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
    let log_z = log_square(-6.0, 6.0, 800, |a, b| {
        let deviation = (1.0 + b).exp();
        let of_school = |k| log_normal(EFFECTS[k], 5.0 * a, deviation.hypot(ERRORS[k]));
        let prior = log_normal(a, 0.0, 1.0) + log_normal(b, 0.0, 1.0);
        prior + (0..8).map(of_school).sum::<f64>()
    });
    let log_likelihood = |x: &[f64]| {
        let (mean, deviation) = (5.0 * x[0], (1.0 + x[1]).exp());
        let of_school = |k| log_normal(EFFECTS[k], mean + deviation * x[k + 2], ERRORS[k]);
        (0..8).map(of_school).sum()
    };
    let name = "eight schools, 10-d";
    let posterior = Posterior::new(name, log_z, standard(10)?, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        let (mean, deviation) = (5.0 * x[0], (1.0 + x[1]).exp());
        for k in 0..8 {
            let of_effect = (EFFECTS[k] - mean - deviation * x[k + 2]) / ERRORS[k].powi(2);
            slope[0] += 5.0 * of_effect;
            slope[1] += deviation * x[k + 2] * of_effect;
            slope[k + 2] += deviation * of_effect;
        }
        log_likelihood(x)
    }))
}

fn cube() -> Result<Posterior> {
    let log_likelihood = |x: &[f64]| x.iter().map(|&x| log_normal(x, 0.2, 0.1)).sum();
    let prior = uniform(20, -1.0, 1.0)?;
    let name = "Gaussian in a cube, 20-d";
    let posterior = Posterior::new(name, -20.0 * 2_f64.ln(), prior, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        let pairs = slope.iter_mut().zip(x);
        pairs.for_each(|(slope, x)| *slope -= (x - 0.2) / 0.01);
        log_likelihood(x)
    }))
}

/// A posterior whose covariance has eigenvalues from 4e-5 to .4 and no coordinate axis as an axis. Its evidence is 1.
fn scales() -> Result<Posterior> {
    let law = many_scales()?;
    let prior = standard(law.mean().len())?;
    let log_normalizer = law.log_normalizer();
    let log_likelihood = move |x: &[f64]| {
        let log_prior: f64 = x.iter().map(|&x| log_normal(x, 0.0, 1.0)).sum();
        law.log_density(&DVector::from_row_slice(x)) - log_normalizer - log_prior
    };
    Ok(Posterior::new(
        "Gaussian of many scales, 12-d",
        0.0,
        prior,
        log_likelihood,
    ))
}

/// Numbers that look normal: sums of twelve uniform ones, which a linear congruence makes.
fn noise() -> impl FnMut() -> f64 {
    let mut state = 7_u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

fn regression(slopes: usize) -> Result<Posterior> {
    let mut noise = noise();
    let design = DMatrix::from_fn(100, slopes, |_, _| noise());
    let slopes = DVector::from_fn(slopes, |_, _| noise());
    let data = &design * &slopes + DVector::from_fn(100, |_, _| 0.5 * noise());
    let covariance = &design * design.transpose() + DMatrix::identity(100, 100) * 0.25;
    let law = Gaussian::new(DVector::zeros(100), covariance)?;
    let log_z = law.log_density(&data) - law.log_normalizer();
    let (name, priors) = (
        format!("regression, {}-d", slopes.len()),
        standard(slopes.len())?,
    );
    let with_gradient = move |x: &[f64], slope: &mut [f64]| {
        let rest = &data - &design * DVector::from_row_slice(x);
        let gradient = design.tr_mul(&rest) * 4.0;
        slope.iter_mut().zip(&gradient).for_each(|(to, g)| *to += g);
        -2.0 * rest.norm_squared() - 100.0 * (0.5 * TAU.sqrt()).ln()
    };
    let log_likelihood = {
        let with_gradient = with_gradient.clone();
        move |x: &[f64]| with_gradient(x, &mut vec![0.0; x.len()])
    };
    let posterior = Posterior::new(name, log_z, priors, log_likelihood);
    Ok(posterior.with_gradient(with_gradient))
}

fn shells() -> Result<Posterior> {
    let log_density = |x: f64, y: f64| {
        let shell = |centre: f64| log_normal((x - centre).hypot(y), 2.0, 0.1);
        log_sum_exp([shell(-3.5), shell(3.5)])
    };
    let log_z = log_square(-6.0, 6.0, 3000, log_density) - 2.0 * 12_f64.ln();
    let prior = uniform(2, -6.0, 6.0)?;
    Ok(Posterior::new("shells, 2-d", log_z, prior, move |x| {
        log_density(x[0], x[1])
    }))
}

/// The chain of three factors is integrated one coordinate after another.
fn rosenbrock() -> Result<Posterior> {
    const COUNT: usize = 2001;
    let at = |i: usize| -5.0 + 10.0 * (i as f64 + 0.5) / COUNT as f64;
    let mut rest = vec![0.0; COUNT];
    for _ in 0..3 {
        let of = |x: f64| {
            let next = |j: usize| rest[j] - 100.0 * (at(j) - x * x).powi(2);
            log_sum_exp((0..COUNT).map(next)) - (1.0 - x).powi(2)
        };
        rest = Vec::from_iter((0..COUNT).map(|i| of(at(i))));
    }
    // Each sum has the width 10 / COUNT, and the prior's density is 1 / 10 in each coordinate.
    let log_z = log_sum_exp(&rest) - 4.0 * (COUNT as f64).ln();
    let log_likelihood = |x: &[f64]| {
        let factor = |i: usize| 100.0 * (x[i + 1] - x[i] * x[i]).powi(2) + (1.0 - x[i]).powi(2);
        -(0..3).map(factor).sum::<f64>()
    };
    let prior = uniform(4, -5.0, 5.0)?;
    Ok(Posterior::new(
        "Rosenbrock, 4-d",
        log_z,
        prior,
        log_likelihood,
    ))
}

/// A sine of unknown period in 30 observations: frequency x_0, deviation exp(x_1 - 1), amplitudes and level
/// x_2 to x_4.
fn period() -> Result<Posterior> {
    let mut noise = noise();
    let times = Vec::from_iter((0..30).map(|i| 0.33 * i as f64 + 0.1 * noise()));
    let wave = |t: f64| 0.8 * (TAU * 1.9 * t).sin() + 0.3;
    let data = Vec::from_iter(times.iter().map(|&t| wave(t) + 0.4 * noise()));
    let features = |frequency: f64, t: f64| {
        let (sine, cosine) = (TAU * frequency * t).sin_cos();
        Vector3::new(sine, cosine, 1.0)
    };
    let observed = Vec::from_iter(times.into_iter().zip(data));
    let of_frequency = |frequency: f64| {
        let (mut gram, mut moments, mut square) = (Matrix3::zeros(), Vector3::zeros(), 0.0);
        for &(t, y) in &observed {
            let row = features(frequency, t);
            gram += row * row.transpose();
            moments += row * y;
            square += y * y;
        }
        log_integral(-4.0, 4.0, 200, |x| {
            let precision = (-2.0 * (x - 1.0)).exp();
            let whole = Matrix3::identity() + gram * precision;
            let solved = whole.try_inverse().expect("a positive matrix") * moments;
            let fit = square * precision - moments.dot(&solved) * precision * precision;
            let of_data = (whole.determinant()).ln() + 30.0 * (TAU / precision).ln() + fit;
            -0.5 * of_data + log_normal(x, 0.0, 1.0)
        })
    };
    let log_z = log_integral(1.0, 3.0, 4000, of_frequency) - 2_f64.ln();
    let log_likelihood = move |x: &[f64]| {
        let (frequency, deviation) = (x[0], (x[1] - 1.0).exp());
        let at = |&(t, y): &(f64, f64)| {
            let row = features(frequency, t);
            log_normal(y, row.dot(&Vector3::new(x[2], x[3], x[4])), deviation)
        };
        observed.iter().map(at).sum()
    };
    let mut priors = vec![Prior::uniform(1.0, 3.0)?];
    priors.extend(vec![Prior::normal(0.0, 1.0)?; 4]);
    let priors = Priors::new(priors)?;
    Ok(Posterior::new(
        "unknown period, 5-d",
        log_z,
        priors,
        log_likelihood,
    ))
}

fn eggbox() -> Result<Posterior> {
    let log_density = |x: f64, y: f64| (2.0 + (0.5 * x).cos() * (0.5 * y).cos()).powi(5);
    let side = 10.0 * PI;
    let log_z = log_square(0.0, side, 4000, log_density) - 2.0 * side.ln();
    let prior = uniform(2, 0.0, side)?;
    Ok(Posterior::new("eggbox, 2-d", log_z, prior, move |x| {
        log_density(x[0], x[1])
    }))
}

/// Two modes in a box: one of the given share and deviation at 3 in all coordinates, and one of deviation 1 at -3.
fn modes(dimension: usize, share: f64, deviation: f64) -> Result<Posterior> {
    let log_likelihood = move |x: &[f64]| {
        let mode = |share: f64, mean, deviation| {
            let terms = x.iter().map(|&x| log_normal(x, mean, deviation));
            share.ln() + terms.sum::<f64>()
        };
        log_sum_exp([mode(share, 3.0, deviation), mode(1.0 - share, -3.0, 1.0)])
    };
    let name = format!("modes of {share} (deviation {deviation}), {dimension}-d");
    let log_z = -(dimension as f64) * 20_f64.ln();
    let prior = uniform(dimension, -10.0, 10.0)?;
    let posterior = Posterior::new(name, log_z, prior, log_likelihood);
    Ok(posterior.with_gradient(move |x, slope| {
        let log_mode = |share: f64, mean, deviation| {
            let terms = x.iter().map(|&x| log_normal(x, mean, deviation));
            share.ln() + terms.sum::<f64>()
        };
        let log_modes = [
            log_mode(share, 3.0, deviation),
            log_mode(1.0 - share, -3.0, 1.0),
        ];
        let log_density = log_sum_exp(log_modes);
        let [one, other] = log_modes.map(|mode| (mode - log_density).exp());
        for (slope, x) in slope.iter_mut().zip(x) {
            *slope -= one * (x - 3.0) / (deviation * deviation) + other * (x + 3.0);
        }
        log_density
    }))
}

/// A Student t distribution with 2 degrees of freedom in a wide box, which holds all but a 10,000th of it.
fn student() -> Result<Posterior> {
    let law = StudentT::new(
        Gaussian::isotropic(DVector::from_element(3, 1.0), 0.5)?,
        2.0,
    )?;
    let log_likelihood =
        move |x: &[f64]| law.log_density(&DVector::from_row_slice(x)) - law.log_normalizer();
    let prior = uniform(3, -100.0, 100.0)?;
    let name = "Student t, 3-d";
    Ok(Posterior::new(
        name,
        -3.0 * 200_f64.ln(),
        prior,
        log_likelihood,
    ))
}

/// A funnel (Neal 2003) in a box: the log scale is N(0, 3^2), and five coordinates have that scale.
fn funnel() -> Result<Posterior> {
    let log_likelihood = |x: &[f64]| {
        let scale = (0.5 * x[0]).exp();
        let rest = x[1..].iter().map(|&x| log_normal(x, 0.0, scale));
        log_normal(x[0], 0.0, 3.0) + rest.sum::<f64>()
    };
    // Of a normal distribution the box holds erf(10 / (scale sqrt 2)).
    let log_share = |scale: f64| {
        let end = (10.0 / scale / 2_f64.sqrt()).min(6.0);
        log_integral(0.0, end, 200, |t| -t * t) + (2.0 / PI.sqrt()).ln()
    };
    let log_z = log_integral(-10.0, 10.0, 4000, |x| {
        log_normal(x, 0.0, 3.0) + 5.0 * log_share((0.5 * x).exp())
    });
    let prior = uniform(6, -10.0, 10.0)?;
    let log_z = log_z - 6.0 * 20_f64.ln();
    Ok(Posterior::new("funnel, 6-d", log_z, prior, log_likelihood))
}
