//! The Ising model in continuous variables.

use std::f64::consts::LN_2;

use annealed::Result;
use annealed::prelude::*;
use annealed_measurements::problems::exact::kaufman;

const SIDE: usize = 8;
const SITES: usize = SIDE * SIDE;
/// Smallest eigenvalue of the shifted coupling.
const LEAST: f64 = 0.1;

/// Returns the critical coupling `log(1 + sqrt 2) / 2` between neighbours.
fn coupling() -> f64 {
    0.5 * 2f64.sqrt().ln_1p()
}

/// Returns the shift of the diagonal: the couplings' least eigenvalue is -4 times the coupling on an even torus.
fn shift() -> f64 {
    LEAST + 4.0 * coupling()
}

/// Returns the Gaussian `N(0, K)`, K the couplings of the torus with a shifted diagonal.
pub fn couplings() -> Result<Gaussian> {
    let covariance = DMatrix::from_fn(SITES, SITES, |a, b| {
        let off = |x: usize, y: usize| {
            let off = x.abs_diff(y);
            off.min(SIDE - off)
        };
        match off(a / SIDE, b / SIDE) + off(a % SIDE, b % SIDE) {
            0 => shift(),
            1 => coupling(),
            _ => 0.0,
        }
    });
    Gaussian::new(DVector::zeros(SITES), covariance)
}

/// Creates the dual of the critical Ising model on a torus of 8 x 8 spins, `exp(-x' K^-1 x / 2) prod cosh x_i`. Given
/// x, the spins are independent.
pub fn ising() -> Result<impl Differentiable<State = DVector<f64>> + Send + Sync> {
    let precision = couplings()?.precision();
    GradientModel::new(SITES, move |x: &[f64], slope: &mut [f64]| {
        let x = DVector::from_column_slice(x);
        let pull = &precision * &x;
        let mut log_density = -0.5 * pull.dot(&x);
        for ((slope, x), pull) in slope.iter_mut().zip(&x).zip(&pull) {
            *slope = x.tanh() - pull;
            log_density += x.abs() + (-2.0 * x.abs()).exp().ln_1p() - LN_2;
        }
        log_density
    })
}

/// Returns log Z by the formula of Kaufman for the spins.
pub fn log_z() -> Result<f64> {
    let sites = SITES as f64;
    // The Gaussian's normaliser is sqrt |2 pi K|.
    Ok(couplings()?.log_normalizer()
        + kaufman(SIDE, SIDE, coupling())
        + sites * (0.5 * shift() - LN_2))
}
