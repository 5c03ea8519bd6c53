//! Centred hierarchies. Their neck reaches to the states with equal effects.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::prelude::*;
use annealed_measurements::problems::exact::log_integral;

use crate::hard::Problem;

/// A mean `m ~ N(0, s^2)`, the log t of a deviation, eight effects `N(m, e^2t)`, and a datum `N(effect, error^2)` of each.
#[derive(Clone, Copy)]
struct Hierarchy {
    data: [f64; 8],
    errors: [f64; 8],
    /// Deviation of the mean, s.
    mean: f64,
    /// Log density of t, and its slope.
    spread: fn(f64) -> (f64, f64),
}

/// Returns the eight schools of Rubin (1981). The deviation of the effects is half Cauchy of scale 5.
pub fn schools() -> Result<Problem> {
    let schools = Hierarchy {
        data: [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
        errors: [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
        mean: 5.0,
        spread: |t| {
            let square = (2.0 * t).exp() / 25.0;
            let log_density = (2.0 / (5.0 * PI)).ln() + t - square.ln_1p();
            (log_density, 1.0 - 2.0 * square / (1.0 + square))
        },
    };
    schools.problem([5.0, 1.5, 10.0], 1.5)
}

/// A harder hierarchy: its data hardly distinguish the effects, and the log of the deviation is `N(0, 2^2)`.
const HARDER: Hierarchy = Hierarchy {
    data: [0.6, -0.4, 1.1, 0.2, -0.9, 0.3, 1.4, -0.1],
    errors: [1.0; 8],
    mean: 1.0,
    spread: |t| (log_normal(t, 0.0, 4.0), -t / 4.0),
};

pub fn hierarchy() -> Result<Problem> {
    HARDER.problem([1.0; 3], 0.0)
}

/// Returns the harder hierarchy with effects `m + e^t z`, over m, t and z. It has the same log Z and no neck.
pub fn non_centred() -> Result<Problem> {
    let (exact, base, _) = hierarchy()?;
    let effects = |x: &DVector<f64>| {
        let scale = x[1].exp();
        DVector::from_fn(10, |i, _| if i < 2 { x[i] } else { x[0] + scale * x[i] })
    };
    let log_density = move |x: &DVector<f64>| HARDER.log_density(&effects(x)) + 8.0 * x[1];
    let gradient = move |x: &DVector<f64>| {
        let mut slope = HARDER.gradient(&effects(x));
        slope[0] += slope.rows_range(2..).sum();
        slope.rows_range_mut(2..).scale_mut(x[1].exp());
        slope[1] += 8.0 + slope.rows_range(2..).dot(&x.rows_range(2..));
        slope
    };
    let target = FunctionModel::new(log_density).with_gradient(gradient);
    Ok((exact, base, Box::new(target)))
}

impl Hierarchy {
    /// Returns the problem from a normal base with these deviations of m, t and effects, and this mean of t.
    fn problem(self, [of_mean, of_spread, of_effect]: [f64; 3], at: f64) -> Result<Problem> {
        let each = |mean: f64, spread, effect| {
            DVector::from_fn(10, |i, _| [mean, spread, effect][i.min(2)])
        };
        let variances = each(
            of_mean.powi(2),
            of_spread * of_spread,
            of_effect * of_effect,
        );
        let base = Gaussian::diagonal(each(0.0, at, 0.0), variances)?;
        let target = FunctionModel::new(move |x: &DVector<f64>| self.log_density(x));
        let target = target.with_gradient(move |x| self.gradient(x));
        let exact = log_integral(-40.0, 40.0, 8_000, |t| (self.spread)(t).0 + self.given(t));
        Ok((exact, base, Box::new(target)))
    }

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        let (mean, t) = (x[0], x[1]);
        let data = self.data.iter().zip(self.errors);
        let terms = x.iter().skip(2).zip(data).map(|(effect, (y, error))| {
            log_normal(*effect, mean, (2.0 * t).exp()) + log_normal(*y, *effect, error * error)
        });
        log_normal(mean, 0.0, self.mean * self.mean) + (self.spread)(t).0 + terms.sum::<f64>()
    }

    fn gradient(&self, x: &DVector<f64>) -> DVector<f64> {
        let (mean, t) = (x[0], x[1]);
        let precision = (-2.0 * t).exp();
        let mut slope = DVector::zeros(10);
        slope[0] = -mean / (self.mean * self.mean);
        slope[1] = (self.spread)(t).1 - 8.0;
        for (i, (y, error)) in self.data.into_iter().zip(self.errors).enumerate() {
            let off = x[2 + i] - mean;
            slope[0] += off * precision;
            slope[1] += off * off * precision;
            slope[2 + i] = (y - x[2 + i]) / (error * error) - off * precision;
        }
        slope
    }

    /// Returns the log density of the data given t, with the effects and the mean integrated out.
    fn given(&self, t: f64) -> f64 {
        let data = self.data.iter().zip(self.errors);
        let terms = data.map(|(y, error)| (y, error * error + (2.0 * t).exp()));
        let (mut precision, mut weighted, mut sum) = (1.0 / (self.mean * self.mean), 0.0, 0.0);
        for (y, variance) in terms {
            precision += 1.0 / variance;
            weighted += y / variance;
            sum += log_normal(*y, 0.0, variance);
        }
        sum + 0.5 * weighted * weighted / precision - 0.5 * (precision * self.mean * self.mean).ln()
    }
}

fn log_normal(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((x - mean).powi(2) / variance + (TAU * variance).ln())
}
