//! What is done to every unit, written so that the compiler can use vector instructions on any
//! target: polynomials instead of library calls, chunks of [`LANES`] units, no branches inside.

use crate::model::rbm::lanes::{LANES, Lanes};
use crate::model::rbm::scalar::Scalar;

/// `n` rounded up to a whole number of chunks.
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

#[inline(always)]
fn horner<T: Scalar>(coefficients: &[T], x: T) -> T {
    coefficients.iter().fold(T::zero(), |sum, &c| sum * x + c)
}

/// `e^x` for `x <= 0`, within 1e-7 (f32) or 2.5e-16 (f64) relatively; below the lowest normal
/// number it stays there.
#[inline(always)]
pub(crate) fn exp_nonpositive<T: Scalar>(x: T) -> T {
    let x = if x < T::EXP_LOWEST { T::EXP_LOWEST } else { x };
    let shifted = x * T::LOG2_E + T::ROUND;
    let n = shifted - T::ROUND;
    let r = x - n * T::LN_2_HIGH - n * T::LN_2_LOW;
    horner(T::EXP, r) * T::exp2_rounded(shifted)
}

/// `log(1 + e)` for `e` in [0, 1]: `2 artanh(z)` with `z = e / (2 + e)`.
#[inline(always)]
fn log1p_unit<T: Scalar>(e: T) -> T {
    let z = e / (e + T::one() + T::one());
    z * horner(T::ARTANH, z * z)
}

#[inline(always)]
fn softplus<T: Scalar>(y: T) -> T {
    let positive = if y > T::zero() { y } else { T::zero() };
    positive + log1p_unit(exp_nonpositive(-y.abs()))
}

/// A unit with logit `y` and `e = exp(-|y|)`, drawn without division or logarithm: it takes its
/// unlikely value with probability `e / (1 + e)`, decided by the fine end of the uniform.
#[inline(always)]
fn draw<T: Scalar>(y: T, e: T, uniform: T) -> T {
    let unlikely = uniform + uniform * e < e;
    if (y > T::zero()) != unlikely {
        T::one()
    } else {
        T::zero()
    }
}

/// Replaces each input by a unit with logit `offset + scale * input`, drawn as 0 or 1. All
/// lengths are one multiple of [`LANES`].
#[inline]
pub(crate) fn draw_units<T: Scalar>(units: &mut [T], offset: &[T], scale: T, lanes: &mut Lanes) {
    for (units, offset) in units
        .as_chunks_mut::<LANES>()
        .0
        .iter_mut()
        .zip(chunks(offset))
    {
        let uniforms = T::uniforms(lanes);
        for l in 0..LANES {
            let y = offset[l] + scale * units[l];
            units[l] = draw(y, exp_nonpositive(-y.abs()), uniforms[l]);
        }
    }
}

/// Replaces each activation x by a unit with logit `beta_1 x`, drawn as 0 or 1, and returns the
/// sum over them of `softplus(beta_1 x) - softplus(beta_0 x)`: one exponential serves both. The
/// length is a multiple of [`LANES`]; an `x` of 0 adds nothing.
#[inline]
pub(crate) fn weigh_and_draw<T: Scalar>(
    units: &mut [T],
    beta: (f64, f64),
    lanes: &mut Lanes,
) -> f64 {
    let slope = T::nearest(beta.1 - beta.0);
    let beta = T::nearest(beta.1);
    if largest(units) * slope.abs() <= T::INCREMENT_RADIUS {
        weigh_with(units, beta, slope, lanes, increment_series)
    } else {
        weigh_with(units, beta, slope, lanes, |y, d, _| {
            softplus(y) - softplus(y - d)
        })
    }
}

#[inline(always)]
fn weigh_with<T: Scalar>(
    units: &mut [T],
    beta: T,
    slope: T,
    lanes: &mut Lanes,
    increment: impl Fn(T, T, T) -> T,
) -> f64 {
    let mut sums = [T::zero(); LANES];
    for units in units.as_chunks_mut::<LANES>().0 {
        let uniforms = T::uniforms(lanes);
        for l in 0..LANES {
            let x = units[l];
            let y = beta * x;
            let e = exp_nonpositive(-y.abs());
            sums[l] += increment(y, slope * x, e);
            units[l] = draw(y, e, uniforms[l]);
        }
    }
    sums.iter().map(|sum| sum.to_f64()).sum()
}

/// Five terms of `softplus(y) - softplus(y - d)` in `d`, given `e = exp(-|y|)`.
#[inline(always)]
fn increment_series<T: Scalar>(y: T, d: T, e: T) -> T {
    let constant = |x: f64| T::nearest(x);
    let likely = T::one() / (T::one() + e);
    let s = if y > T::zero() { likely } else { e * likely };
    let q = e * likely * likely;
    let skew = T::one() - s - s;
    let fifth = d * constant(1.0 / 120.0) * skew * (T::one() - constant(12.0) * q);
    let fourth = d * (constant(-1.0 / 24.0) * (T::one() - constant(6.0) * q) + fifth);
    let third = d * (constant(1.0 / 6.0) * skew + fourth);
    d * (s + d * q * (constant(-0.5) + third))
}

/// Sum of the entries of `values` where the unit is on. All lengths are one multiple of
/// [`LANES`].
#[inline]
pub(crate) fn dot<T: Scalar>(values: &[T], units: &[T]) -> f64 {
    let mut sums = [T::zero(); LANES];
    for (values, units) in chunks(values).iter().zip(chunks(units)) {
        for l in 0..LANES {
            sums[l] += values[l] * units[l];
        }
    }
    sums.iter().map(|sum| sum.to_f64()).sum()
}

/// Adds `sign * row` to `sums`.
#[inline]
pub(crate) fn add_scaled<T: Scalar>(sums: &mut [T], sign: T, row: &[T]) {
    for (sum, &x) in sums.iter_mut().zip(row) {
        *sum += sign * x;
    }
}

/// Replaces logits by probabilities.
#[inline]
pub(crate) fn logits_to_probabilities<T: Scalar>(logits: &mut [T]) {
    for y in logits {
        let e = exp_nonpositive(-y.abs());
        let likely = T::one() / (T::one() + e);
        *y = if *y > T::zero() { likely } else { e * likely };
    }
}

/// `sum_i softplus(y_i)`: the logarithms are taken of products, each factor in [1, 2].
#[inline]
pub(crate) fn softplus_sum(logits: &[f64]) -> f64 {
    // A product of 512 factors of at most 2 is far from overflow.
    logits.chunks(512 * LANES).map(softplus_sum_short).sum()
}

#[inline(always)]
fn softplus_sum_short(logits: &[f64]) -> f64 {
    let mut products = [1.0; LANES];
    let mut sums = [0.0; LANES];
    let (whole, rest) = logits.as_chunks::<LANES>();
    for chunk in whole {
        for l in 0..LANES {
            products[l] *= 1.0 + exp_nonpositive(-chunk[l].abs());
            sums[l] += chunk[l].max(0.0);
        }
    }
    for (l, &y) in rest.iter().enumerate() {
        products[l] *= 1.0 + exp_nonpositive(-y.abs());
        sums[l] += y.max(0.0);
    }
    (0..LANES).map(|l| sums[l] + products[l].ln()).sum()
}

#[inline(always)]
fn chunks<T>(values: &[T]) -> &[[T; LANES]] {
    values.as_chunks().0
}

/// The largest magnitude. A NaN is passed over here and surfaces in the sum.
#[inline(always)]
fn largest<T: Scalar>(x: &[T]) -> T {
    let mut maxima = [T::zero(); LANES];
    for chunk in chunks(x) {
        for l in 0..LANES {
            let magnitude = chunk[l].abs();
            maxima[l] = if magnitude > maxima[l] {
                magnitude
            } else {
                maxima[l]
            };
        }
    }
    maxima
        .iter()
        .fold(T::zero(), |max, &m| if m > max { m } else { max })
}
