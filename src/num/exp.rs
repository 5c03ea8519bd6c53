//! The exponential of a number that is not positive, without a branch, so that loops over it use vector registers.

use std::f64::consts::LOG2_E;

/// ln 2, as a number whose last bits are 0 and the rest: the product of the first with an exponent is exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// A number is rounded to an integer, and has it in its last bits, where this is added.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// `e^x` for x from -708 to 0, to two units in the last place; 0 below, NaN for NaN. It has the same bits on every
/// machine.
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

/// The Taylor series of `e^r` up to `r^12`, in an order of few dependent steps.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
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
}
