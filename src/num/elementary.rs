//! Elementary functions: exponentials, the logistic function, the gamma function, and small arithmetic.

use std::f64::consts::{LOG2_E, TAU};
use std::ops::Range;

/// ln 2 in two parts: the product of the first with an exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// A number that rounds what is added to it to an integer, in the last bits of the sum.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// Returns `e^x` for x in [-708, 0] to two units in the last place; 0 below, NaN for NaN. Same bits on every machine.
#[inline(always)]
pub(crate) fn exp_of_negative(x: f64) -> f64 {
    // x = k ln 2 + r, with |r| < 0.35.
    let shifted = x * LOG2_E + SHIFT;
    let k = shifted - SHIFT;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let value = taylor(r) * power;
    if x < -708.0 { 0.0 } else { value }
}

/// Returns the Taylor series of `e^r` up to `r^12`, in few dependent steps.
#[inline(always)]
fn taylor(r: f64) -> f64 {
    let pair = |n: usize| INVERSE_FACTORIALS[n] + INVERSE_FACTORIALS[n + 1] * r;
    let r2 = r * r;
    let four = |n: usize| pair(n) + pair(n + 2) * r2;
    let r4 = r2 * r2;
    let last = four(8) + INVERSE_FACTORIALS[12] * r4;
    four(0) + (four(4) + last * r4) * r4
}

const INVERSE_FACTORIALS: [f64; 13] = {
    let mut inverse = [1.0; 13];
    let (mut n, mut factorial) = (1, 1.0);
    while n < 13 {
        factorial *= n as f64;
        inverse[n] = 1.0 / factorial;
        n += 1;
    }
    inverse
};

/// Returns `log(1 + e^x)`, without overflow.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Returns `log 1/(1 + e^-x)`; `-inf` for `-inf`.
pub(crate) fn log_sigmoid(x: f64) -> f64 {
    -softplus(-x)
}

/// Returns `1 / (1 + e^-x)`, without overflow and accurate in both tails.
pub fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x >= 0.0 {
        1.0 / (1.0 + e)
    } else {
        e / (1.0 + e)
    }
}

/// Returns `softplus(y) - softplus(y - d)`; for small `d` as `-log(1 + sigmoid(y) (e^-d - 1))`, without cancellation.
pub fn softplus_increment(y: f64, d: f64) -> f64 {
    if d.abs() < 1.0 {
        -(sigmoid(y) * (-d).exp_m1()).ln_1p()
    } else {
        softplus(y) - softplus(y - d)
    }
}

/// The least number for which [`ln_gamma`] takes Stirling's series.
const LARGE: f64 = 12.0;

/// Returns `log Gamma(x)` for `x > 0`, to an absolute error of about `1e-15 (1 + |log Gamma(x)|)`.
pub(crate) fn ln_gamma(mut x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let mut product = 1.0;
    while x < LARGE {
        product *= x;
        x += 1.0;
    }
    let (inverse, square) = (x.recip(), x.powi(-2));
    // Bernoulli numbers over 2 k (2 k - 1).
    let coefficients = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    let series = coefficients.iter().rev();
    let series = series.fold(0.0, |sum, coefficient| sum * square + coefficient);
    (x - 0.5) * x.ln() - x + 0.5 * TAU.ln() + inverse * series - product.ln()
}

/// Returns the pairs `i <= j` below d, row by row.
pub(crate) fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
}

/// Returns the first run of indices in `within` for which `holds` is true.
pub(crate) fn next_run(
    within: Range<usize>,
    holds: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    let start = within.clone().find(|&index| holds(index))?;
    let end = (start..within.end).find(|&index| !holds(index));
    Some(start..end.unwrap_or(within.end))
}

/// Returns `weight * x`, and 0 for a weight of 0 times an infinity.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_exact_to_two_units() {
        assert_eq!(exp_of_negative(0.0), 1.0);
        for i in 0..100_000 {
            let x = -7.08e-3 * f64::from(i);
            let error = exp_of_negative(x) / x.exp() - 1.0;
            assert!(error.abs() < 4.5e-16, "{x}: {error}");
        }
        for x in [1e-300, 1e-17, 1e-9] {
            assert_eq!(exp_of_negative(-x), (-x).exp());
        }
        assert_eq!(exp_of_negative(-800.0), 0.0);
        assert_eq!(exp_of_negative(f64::NEG_INFINITY), 0.0);
        assert!(exp_of_negative(f64::NAN).is_nan());
    }

    #[test]
    fn the_increment_agrees_with_the_difference_and_survives_extremes() {
        for y in [-800.0, -300.0, -30.0, -1.5, 0.0, 0.3, 20.0, 300.0, 800.0] {
            for d in [-900.0, -2.0, -0.7, -1e-3, 0.0, 1e-3, 0.5, 3.0, 900.0] {
                let difference = softplus(y) - softplus(y - d);
                let error = (softplus_increment(y, d) - difference).abs();
                assert!(error < 1e-12 * (1.0 + y.abs()), "y {y}, d {d}: {error}");
            }
        }
        // Relative accuracy where the plain difference has none.
        let (y, d) = (300.0, 1e-14);
        assert!((softplus_increment(y, d) / d - 1.0).abs() < 1e-12);
    }

    #[test]
    fn sigmoid_is_accurate_in_both_tails() {
        assert!((sigmoid(-40.0) / (-40.0_f64).exp() - 1.0).abs() < 1e-15);
        assert_eq!(sigmoid(-1e3), 0.0);
        assert_eq!(sigmoid(1e3), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }

    #[test]
    fn factorials_and_half_integers() {
        let mut log_factorial = 0.0;
        for n in 1..60 {
            let x = f64::from(n);
            assert!((ln_gamma(x) - log_factorial).abs() < 2e-15 * (6.0 + log_factorial));
            log_factorial += x.ln();
        }
        let half = 0.5 * std::f64::consts::PI.ln();
        assert!((ln_gamma(0.5) - half).abs() < 4e-15);
        assert!((ln_gamma(1.5) - half - 0.5_f64.ln()).abs() < 4e-15);
        // Gamma(x) Gamma(1 - x) sin(pi x) = pi.
        for x in [1e-3, 0.1, 0.3, 0.49] {
            let sine = (std::f64::consts::PI * x).sin().ln();
            assert!((ln_gamma(x) + ln_gamma(1.0 - x) + sine - 2.0 * half).abs() < 1e-14);
        }
    }

    #[test]
    fn extremes_stay_finite() {
        assert!((ln_gamma(1e-300) - 300.0 * 10_f64.ln()).abs() < 1e-11);
        assert!(ln_gamma(1e300).is_finite());
    }
}
