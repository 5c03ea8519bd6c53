//! A centred hierarchy, whose neck reaches to where its effects are equal.

use std::f64::consts::TAU;

use annealed::Result;
use annealed::prelude::*;

use crate::hard::Problem;
use crate::problems::exact::log_integral;

/// Eight data, each with a standard error of 1.
const DATA: [f64; 8] = [0.6, -0.4, 1.1, 0.2, -0.9, 0.3, 1.4, -0.1];
/// Deviation of the log of the effects' deviation.
const WIDE: f64 = 2.0;

/// Sets up `m ~ N(0, 1)`, `t ~ N(0, 2^2)`, eight effects `N(m, e^2t)` and data `N(effect, 1)`, from a normal base.
pub fn hierarchy() -> Result<Problem> {
    let log_density = |x: &DVector<f64>| {
        let (mean, t) = (x[0], x[1]);
        let effects = x.iter().skip(2).zip(DATA);
        let terms = effects.map(|(effect, y)| {
            log_normal(*effect, mean, (2.0 * t).exp()) + log_normal(y, *effect, 1.0)
        });
        log_normal(mean, 0.0, 1.0) + log_normal(t, 0.0, WIDE * WIDE) + terms.sum::<f64>()
    };
    let gradient = |x: &DVector<f64>| {
        let (mean, t) = (x[0], x[1]);
        let precision = (-2.0 * t).exp();
        let mut slope = DVector::zeros(10);
        slope[0] = -mean;
        slope[1] = -t / (WIDE * WIDE) - 8.0;
        for (i, y) in DATA.into_iter().enumerate() {
            let off = x[2 + i] - mean;
            slope[0] += off * precision;
            slope[1] += off * off * precision;
            slope[2 + i] = y - x[2 + i] - off * precision;
        }
        slope
    };
    let target = FunctionModel::new(log_density).with_gradient(gradient);
    let exact = log_integral(-40.0, 40.0, 8_000, |t| {
        log_normal(t, 0.0, WIDE * WIDE) + given(1.0 + (2.0 * t).exp())
    });
    Ok((exact, Gaussian::standard(10)?, Box::new(target)))
}

/// Returns the log density of the data, each of this variance around a mean `N(0, 1)` that is integrated out.
fn given(variance: f64) -> f64 {
    let precision = 1.0 + DATA.len() as f64 / variance;
    let weighted = DATA.iter().sum::<f64>() / variance;
    let data = DATA.iter().map(|y| log_normal(*y, 0.0, variance));
    data.sum::<f64>() + 0.5 * (weighted * weighted / precision - precision.ln())
}

fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((x - mean).powi(2) / variance + (TAU * variance).ln())
}
