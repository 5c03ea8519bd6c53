//! A Gaussian with standard deviations that differ by a factor of 100, along no axis of the coordinates.

use annealed::model::Gaussian;
use annealed::nalgebra::{DMatrix, DVector};

/// Returns the Gaussian of mean 0 in 12 dimensions whose covariance has eigenvalues from 4e-5 to .4.
pub fn many_scales() -> annealed::Result<Gaussian> {
    const DIMENSION: usize = 12;
    let eigenvalue = |i: usize| 0.04 * 10_f64.powf(-3.0 + 4.0 * i as f64 / (DIMENSION - 1) as f64);
    let reflection = DMatrix::from_fn(DIMENSION, DIMENSION, |i, j| {
        f64::from(u8::from(i == j)) - 2.0 / DIMENSION as f64
    });
    let eigenvalues = DMatrix::from_diagonal(&DVector::from_fn(DIMENSION, |i, _| eigenvalue(i)));
    let covariance = &reflection * eigenvalues * &reflection;
    Gaussian::new(DVector::zeros(DIMENSION), covariance)
}
