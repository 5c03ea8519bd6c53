//! Solution of the equations of many states, by Newton's method in log space.

use nalgebra::{DMatrix, DVector};

use super::data::Data;
use super::mixture::{StateMixture, Weights};
use crate::{Error, Result};

/// Largest number of Newton steps.
const STEPS: usize = 60;
/// Step below which the next one would be below rounding, because each step squares the error.
const LAST: f64 = 1e-7;
/// Expected gain of the objective below which rounding decides about it. Between groups without overlap, rounding makes
/// longer steps than [`LAST`].
const LEAST_GAIN: f64 = 1e-20;
/// Expected gain of the last step that is accepted.
const SMALL_GAIN: f64 = 1e-15;
/// Addition to the diagonal of the information over the shares `a_k`. Groups of states without overlap leave it regular,
/// and the rounding of their gradients moves them by less than [`LAST`].
const RIDGE: f64 = 1e-9;

/// Maximises the objective from `log_z` on, by Newton steps that are halved if the objective falls. Returns the
/// solution, and `sum_n w_n p_k p_l` there.
///
/// # Errors
/// Steps that do not converge.
pub(super) fn solve(
    data: &Data,
    weights: &Weights,
    log_z: Vec<f64>,
) -> Result<(Vec<f64>, DMatrix<f64>)> {
    let shares = DVector::from_column_slice(&weights.shares);
    // The own densities of the draws add a constant to the objective.
    let slope = |c: &DVector<f64>| {
        let mixture = StateMixture::new(data, weights, c.as_slice());
        let (products, log_mixture) = mixture.sums(&weights.of_draw);
        (products, -shares.dot(c) - log_mixture)
    };
    let mut c = DVector::from_vec(log_z);
    let (mut products, mut objective) = slope(&c);
    for left in (0..STEPS).rev() {
        let gradient = products.column_sum() - &shares;
        let step = inverse(&products, &weights.shares) * &gradient;
        let least = objective - 1e-13 * (1.0 + objective.abs());
        let mut factor = 1.0;
        loop {
            (products, objective) = slope(&(&c + factor * &step));
            if objective >= least || factor < 1e-9 {
                break;
            }
            factor *= 0.5;
        }
        let gain = gradient.dot(&step);
        c += factor * &step;
        if step.amax() < LAST || gain < LEAST_GAIN || left == 0 && gain < SMALL_GAIN {
            return Ok((c.as_slice().to_vec(), products));
        }
    }
    let (value, expected) = ("no solution", "states that overlap");
    Err(Error::invalid("log densities", value, expected))
}

/// Returns the inverse of the information, with c of the first state with draws fixed. The information is minus the
/// second derivative of the objective, `-P_kl = -sum_n w_n p_k p_l` for k other than l, with rows that sum to 0. The
/// inverse has rows and columns of 0 for the fixed state, and for states without draws.
pub(super) fn inverse(products: &DMatrix<f64>, shares: &[f64]) -> DMatrix<f64> {
    let states = shares.len();
    let fixed = shares.iter().position(|share| *share > 0.0);
    let is_free = |i: usize| shares[i] > 0.0 && Some(i) != fixed;
    let entry = |i: usize, j: usize| match (is_free(i) && is_free(j), i == j) {
        (false, is_diagonal) => f64::from(u8::from(is_diagonal)),
        (true, false) => -products[(i, j)],
        // Sums of positive numbers keep all digits, however small the overlap is.
        (true, true) => {
            let others = (0..states).filter(|l| *l != i).map(|l| products[(i, l)]);
            others.sum::<f64>() + RIDGE * shares[i]
        }
    };
    let inverse = DMatrix::from_fn(states, states, entry).try_inverse();
    let mut inverse = inverse.unwrap_or_else(|| DMatrix::repeat(states, states, f64::NAN));
    for state in (0..states).filter(|state| !is_free(*state)) {
        inverse[(state, state)] = 0.0;
    }
    inverse
}
