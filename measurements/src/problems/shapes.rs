//! Densities of one piece, some with heavy or odd tails.

use std::f64::consts::{PI, TAU};

use annealed::Result;
use annealed::prelude::*;

use super::advice::{Advice, Problem};

/// Sets up N(1, S) in 10 dimensions with `S_ij = .9^|i - j|`, from N(0, I).
pub fn gaussian(advice: &Advice) -> Result<Problem> {
    let covariance = DMatrix::from_fn(10, 10, |i, j| 0.9f64.powi(i.abs_diff(j) as i32));
    let target = Gaussian::new(DVector::from_element(10, 1.0), covariance)?;
    // A product of conditionals, each with variance 1 - .81 except the first.
    let exact = 5.0 * TAU.ln() + 4.5 * 0.19f64.ln();
    advice.leap(exact, GeometricPath::new(Gaussian::standard(10)?, target))
}

/// Sets up `exp(- sum |x|)` in 10 dimensions, from N(0, I): a tail heavier than the base's.
pub fn laplace(advice: &Advice) -> Result<Problem> {
    let target = FunctionModel::new(|x: &DVector<f64>| -x.lp_norm(1));
    let exact = 10.0 * 2f64.ln();
    advice.walk(exact, GeometricPath::new(Gaussian::standard(10)?, target))
}

/// Sets up five independent extreme values, `exp(- sum (x + e^-x))`, from N(0, I).
pub fn gumbel(advice: &Advice) -> Result<Problem> {
    let target =
        FunctionModel::new(|x: &DVector<f64>| -x.iter().map(|x| x + (-x).exp()).sum::<f64>());
    advice.walk(0.0, GeometricPath::new(Gaussian::standard(5)?, target))
}

/// Sets up Student's t with 5 degrees of freedom in 10 dimensions, from N(0, I): a polynomial tail.
pub fn student(advice: &Advice) -> Result<Problem> {
    const DIMENSION: usize = 10;
    let target = FunctionModel::new(|x: &DVector<f64>| -7.5 * (x.norm_squared() / 5.0).ln_1p());
    // Gamma(5/2) / Gamma(15/2) (5 pi)^5.
    let gammas: f64 = (0..DIMENSION / 2).map(|j| (2.5 + j as f64).ln()).sum();
    let exact = 5.0 * (5.0 * PI).ln() - gammas;
    advice.walk(
        exact,
        GeometricPath::new(Gaussian::standard(DIMENSION)?, target),
    )
}

/// Sets up the twisted Gaussian of Haario, Saksman and Tamminen (1999) in 8 dimensions, from N(0, 10^2 I).
pub fn banana(advice: &Advice) -> Result<Problem> {
    let target = FunctionModel::new(|x: &DVector<f64>| {
        let straight = x[1] + 0.03 * (x[0] * x[0] - 100.0);
        let rest = x.rows_range(2..).norm_squared();
        -0.5 * (x[0] * x[0] / 100.0 + straight * straight + rest)
    });
    let base = Gaussian::isotropic(DVector::zeros(8), 10.0)?;
    let exact = 4.0 * TAU.ln() + 10f64.ln();
    advice.walk(exact, GeometricPath::new(base, target))
}

/// Sets up the funnel of Neal (2003): `v ~ N(0, 3^2)`, nine `x ~ N(0, e^v)`, from N(0, 3^2 I).
pub fn funnel(advice: &Advice) -> Result<Problem> {
    let target = FunctionModel::new(|x: &DVector<f64>| {
        let (v, rest) = (x[0], x.rows_range(1..).norm_squared());
        -0.5 * (v * v / 9.0 + 9.0 * v + rest * (-v).exp())
    });
    let base = Gaussian::isotropic(DVector::zeros(10), 3.0)?;
    let exact = 5.0 * TAU.ln() + 3f64.ln();
    advice.walk(exact, GeometricPath::new(base, target))
}
