//! Elementary functions: exponentials, the logistic function, quantiles, and small arithmetic.

use std::f64::consts::{FRAC_PI_2, LOG2_E};
use std::ops::Range;

/// ln 2 in two parts. The last bits of the first part are 0, so that its product with an exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Addend `1.5 * 2^52`. Adding it to x rounds x to an integer, which is stored in the last bits of the sum.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// Returns `e^x` for x in [-708, 0] to two units in the last place; 0 below, NaN for NaN. All machines give the same
/// bits.
#[inline(always)]
pub(crate) fn exp_of_negative(x: f64) -> f64 {
    // x = k ln 2 + r, with |r| < 0.35.
    let shifted = x * LOG2_E + SHIFT;
    let k = shifted - SHIFT;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    // The last bits of `shifted` are k. In the place of the exponent, k + 1023 stands for 2^k.
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let value = taylor(r) * power;
    // Below about -708.7 the power 2^k is subnormal, and the bits above do not stand for it.
    if x < -708.0 { 0.0 } else { value }
}

/// Returns the Taylor series of `e^r` up to `r^12`. Terms are grouped, so that few steps depend on each other.
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

/// Returns the pairs `i <= j` below d, row by row.
pub(crate) fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
}

/// Returns the first range of successive indices in `within` for which `holds` is true.
pub(crate) fn next_run(
    within: Range<usize>,
    holds: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    let start = within.clone().find(|&index| holds(index))?;
    let end = (start..within.end).find(|&index| !holds(index));
    Some(start..end.unwrap_or(within.end))
}

/// Returns `weight * x`, or 0 if the weight is 0 and x is infinite.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}

/// Returns the standard normal quantile at `p` in (0, 1), to about 7 digits: PPND7 of Wichura (1988), algorithm AS 241.
fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * (((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179)
            / (((67.18756360 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt();
    let magnitude = if r <= 5.0 {
        let r = r - 1.6;
        (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777)
            / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    } else {
        let r = r - 5.0;
        (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150)
            / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    };
    magnitude.copysign(q)
}

/// Returns the quantile of Student's t at `p` in (0, 1) for any real `dof >= 1`. It is exact at `dof` 1 and 2, and
/// accurate to 3% between them. Above 2, algorithm 396 of Hill (1970) gives at least 3 digits, and 6 from `dof = 5` on.
pub(crate) fn student_quantile(p: f64, dof: f64) -> f64 {
    let two_tails = 2.0 * p.min(1.0 - p);
    let magnitude = if dof > 2.0 {
        hill(two_tails, dof)
    } else {
        let one = 1.0 / (two_tails * FRAC_PI_2).tan();
        let square = 2.0 / (two_tails * (2.0 - two_tails)) - 2.0;
        let two = square.max(0.0).sqrt();
        // Between 1 and 2 the logarithm of the quantile is interpolated linearly in 1 / dof.
        let share = 2.0 / dof - 1.0;
        one.powf(share) * two.powf(1.0 - share)
    };
    magnitude.copysign(p - 0.5)
}

fn hill(two_tails: f64, n: f64) -> f64 {
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * FRAC_PI_2).sqrt() * n;
    let y = (d * two_tails).powf(2.0 / n);
    let square = if y > 0.05 + a {
        let x = normal_quantile(0.5 * two_tails);
        let small = match n < 5.0 {
            true => 0.3 * (n - 4.5) * (x + 0.6),
            false => 0.0,
        };
        let c = (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b + c + small;
        let y = x * x;
        let y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        (a * y * y).exp_m1()
    } else {
        let tail = ((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0;
        ((1.0 / tail + 0.5 / (n + 4.0)) * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y
    };
    (n * square).sqrt()
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
        // The result is accurate at a step at which the plain difference has no digits left.
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
    fn tabled_quantiles() {
        let tabled = [
            (0.975, 1.959964),
            (0.5, 0.0),
            (0.05, -1.644854),
            (1e-9, -5.997807),
        ];
        for (p, expected) in tabled {
            assert!((normal_quantile(p) - expected).abs() < 2e-6, "normal {p}");
        }
        for (p, dof, expected) in [
            (0.975, 1.0, 12.706205),
            (0.55, 1.0, 0.158384),
            (0.975, 2.0, 4.302653),
            (0.975, 3.0, 3.182446),
            (0.975, 4.0, 2.776445),
            (0.025, 10.0, -2.228139),
            (0.95, 30.0, 1.697261),
            (0.9995, 5.0, 6.868827),
            (0.6, 7.0, 0.263167),
            (0.975, 1e6, 1.959966),
        ] {
            let error = student_quantile(p, dof) / expected - 1.0;
            assert!(error.abs() < 2e-4, "student {p}, {dof}: {error}");
        }
    }
}
