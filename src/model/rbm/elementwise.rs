//! What is done to every unit, written so that the compiler can use vector instructions on any
//! target: polynomials instead of library calls, chunks of [`LANES`] units, no branches inside.

use crate::model::rbm::lanes::LANES;
use crate::model::rbm::scalar::Scalar;

/// `n` rounded up to a whole number of chunks.
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

#[inline(always)]
fn horner<T: Scalar, const FUSED: bool>(coefficients: &[T], x: T) -> T {
    let step = |sum: T, &c: &T| sum.multiply_add::<FUSED>(x, c);
    coefficients.iter().fold(T::zero(), step)
}

/// `e^x` for `x <= 0`, within 1e-7 (f32) or 2.5e-16 (f64) relatively; below the lowest normal
/// number it stays there.
#[inline(always)]
pub(crate) fn exp_nonpositive<T: Scalar, const FUSED: bool>(x: T) -> T {
    let x = if x < T::EXP_LOWEST { T::EXP_LOWEST } else { x };
    let shifted = x.multiply_add::<FUSED>(T::LOG2_E, T::ROUND);
    let n = shifted - T::ROUND;
    let r = n.multiply_add::<FUSED>(-T::LN_2_HIGH, x);
    let r = n.multiply_add::<FUSED>(-T::LN_2_LOW, r);
    horner::<T, FUSED>(T::EXP, r) * T::exp2_rounded(shifted)
}

/// `log(1 + e)` for `e` in [0, 1]: `2 artanh(z)` with `z = e / (2 + e)`.
#[inline(always)]
fn log1p_unit<T: Scalar, const FUSED: bool>(e: T) -> T {
    let z = e / (e + T::one() + T::one());
    z * horner::<T, FUSED>(T::ARTANH, z * z)
}

/// A unit with logit `y` and `e = exp(-|y|)`, drawn without division or logarithm: it takes its
/// unlikely value with probability `e / (1 + e)`, decided by the fine end of the uniform.
#[inline(always)]
fn draw<T: Scalar, const FUSED: bool>(y: T, e: T, uniform: T) -> T {
    let unlikely = uniform.multiply_add::<FUSED>(e, uniform) < e;
    if (y > T::zero()) != unlikely {
        T::one()
    } else {
        T::zero()
    }
}

/// Replaces each input by a unit with logit `offset + input`, drawn as 0 or 1. All lengths are
/// one multiple of [`LANES`], with `T::WORDS` words for each unit.
#[inline(always)]
pub(crate) fn draw_units<T: Scalar, const FUSED: bool>(
    units: &mut [T],
    offset: &[T],
    words: &[[u32; LANES]],
) {
    let units = units.as_chunks_mut::<LANES>().0.iter_mut();
    let words = words.chunks_exact(T::WORDS);
    for ((units, offset), words) in units.zip(chunks(offset)).zip(words) {
        let uniforms = T::uniforms(words);
        for l in 0..LANES {
            let y = offset[l] + units[l];
            units[l] = draw::<T, FUSED>(y, exp_nonpositive::<T, FUSED>(-y.abs()), uniforms[l]);
        }
    }
}

/// Replaces each activation x at a segment's end by a unit with logit `y_1`, drawn as 0 or 1, and
/// returns the sum over units of `softplus(y_1) - softplus(y_0)`: one exponential serves both.
/// `y_i = s + t_i (x - s)` with the activation s at the segment's start, 0 where there is `None`.
/// All lengths are one multiple of [`LANES`], with `T::WORDS` words for each unit; where `x` and `s`
/// are 0 nothing is added.
#[inline(always)]
pub(crate) fn weigh_and_draw<T: Scalar, const FUSED: bool>(
    units: &mut [T],
    start: Option<&[T]>,
    t: (f64, f64),
    words: &[[u32; LANES]],
) -> f64 {
    match start {
        None => weigh_from::<T, FUSED>(units, std::iter::repeat([T::zero(); LANES]), t, words),
        Some(start) => {
            for (x, &s) in units.iter_mut().zip(start) {
                *x -= s;
            }
            weigh_from::<T, FUSED>(units, chunks(start).iter().copied(), t, words)
        }
    }
}

/// As [`weigh_and_draw`], given `x - s`.
#[inline(always)]
fn weigh_from<T: Scalar, const FUSED: bool>(
    units: &mut [T],
    start: impl Iterator<Item = [T; LANES]>,
    t: (f64, f64),
    words: &[[u32; LANES]],
) -> f64 {
    let step = T::nearest(t.1 - t.0);
    let t = T::nearest(t.1);
    if largest(units) * step.abs() <= T::INCREMENT_RADIUS {
        weigh_with::<T, FUSED>(units, start, t, step, words, increment_series::<T, FUSED>)
    } else {
        weigh_with::<T, FUSED>(units, start, t, step, words, increment_far::<T, FUSED>)
    }
}

#[inline(always)]
fn weigh_with<T: Scalar, const FUSED: bool>(
    units: &mut [T],
    start: impl Iterator<Item = [T; LANES]>,
    t: T,
    step: T,
    words: &[[u32; LANES]],
    increment: impl Fn(T, T, T) -> T,
) -> f64 {
    let mut sums = [T::zero(); LANES];
    let chunks = units.as_chunks_mut::<LANES>().0.iter_mut();
    let words = words.chunks_exact(T::WORDS);
    for ((units, start), words) in chunks.zip(start).zip(words) {
        let uniforms = T::uniforms(words);
        for l in 0..LANES {
            let x = units[l];
            let y = t.multiply_add::<FUSED>(x, start[l]);
            let e = exp_nonpositive::<T, FUSED>(-y.abs());
            sums[l] += increment(y, step * x, e);
            units[l] = draw::<T, FUSED>(y, e, uniforms[l]);
        }
    }
    sums.iter().map(|sum| sum.to_f64()).sum()
}

/// Five terms of `softplus(y) - softplus(y - d)` in `d`, given `e = exp(-|y|)`.
#[inline(always)]
fn increment_series<T: Scalar, const FUSED: bool>(y: T, d: T, e: T) -> T {
    let constant = |x: f64| T::nearest(x);
    let likely = T::one() / (T::one() + e);
    let s = if y > T::zero() { likely } else { e * likely };
    let q = e * likely * likely;
    let skew = T::one() - s - s;
    let fifth =
        d * constant(1.0 / 120.0) * skew * q.multiply_add::<FUSED>(constant(-12.0), T::one());
    let fourth = q.multiply_add::<FUSED>(constant(0.25), fifth + constant(-1.0 / 24.0));
    let third = skew.multiply_add::<FUSED>(constant(1.0 / 6.0), d * fourth);
    let second = d.multiply_add::<FUSED>(third, constant(-0.5));
    d * (d * q).multiply_add::<FUSED>(second, s)
}

/// `softplus(y) - softplus(y - d)` for any `d`, given `e = exp(-|y|)`: the differences of
/// `max(y, 0)` and of `log(1 + exp(-|y|))` apart, because the first would swamp the second.
#[inline(always)]
fn increment_far<T: Scalar, const FUSED: bool>(y: T, d: T, e: T) -> T {
    let least = |a: T, b: T| if a < b { a } else { b };
    let linear = if y > T::zero() {
        least(d, y)
    } else {
        least(d - y, T::zero())
    };
    linear
        + (log1p_unit::<T, FUSED>(e)
            - log1p_unit::<T, FUSED>(exp_nonpositive::<T, FUSED>(-(y - d).abs())))
}

/// Sum of the entries of `values` where the unit is on. All lengths are one multiple of
/// [`LANES`].
#[inline(always)]
pub(crate) fn dot<T: Scalar>(values: &[T], units: &[T]) -> f64 {
    let (mut even, mut odd) = ([T::zero(); LANES], [T::zero(); LANES]);
    let (values, units) = (chunks(values), chunks(units));
    for (values, units) in values.chunks(2).zip(units.chunks(2)) {
        for l in 0..LANES {
            even[l] += values[0][l] * units[0][l];
        }
        if let ([_, values], [_, units]) = (values, units) {
            for l in 0..LANES {
                odd[l] += values[l] * units[l];
            }
        }
    }
    (even.iter().zip(&odd))
        .map(|(a, b)| (*a + *b).to_f64())
        .sum()
}

/// Adds `sign * row` to `sums`.
#[inline(always)]
pub(crate) fn add_scaled<T: Scalar>(sums: &mut [T], sign: T, row: &[T]) {
    for (sum, &x) in sums.iter_mut().zip(row) {
        *sum += sign * x;
    }
}

/// Replaces logits by probabilities.
#[inline(always)]
pub(crate) fn logits_to_probabilities<T: Scalar, const FUSED: bool>(logits: &mut [T]) {
    for y in logits {
        let e = exp_nonpositive::<T, FUSED>(-y.abs());
        let likely = T::one() / (T::one() + e);
        *y = if *y > T::zero() { likely } else { e * likely };
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rbm::{sigmoid, softplus_increment};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use crate::engine::Available;
    use crate::model::rbm::lanes::Lanes;

    fn grid(lowest: f64, points: usize) -> impl Iterator<Item = f64> {
        (0..=points).map(move |i| lowest * (i as f64 / points as f64).powi(2))
    }

    #[test]
    fn exp_is_accurate_over_its_whole_range() {
        for x in grid(-85.9, 200_000) {
            let x = x as f32;
            let error = f64::from(exp_nonpositive::<_, true>(x)) / f64::from(x).exp() - 1.0;
            assert!(error.abs() < 1e-7, "f32, {x}: {error:e}");
        }
        for x in grid(-699.0, 200_000) {
            let error = exp_nonpositive::<_, true>(x) / x.exp() - 1.0;
            assert!(error.abs() < 5e-16, "f64, {x}: {error:e}");
        }
        for x in [-90.0_f32, -300.0, -1e30, f32::NEG_INFINITY] {
            assert!((0.0..1e-37).contains(&exp_nonpositive::<_, true>(x)), "{x}");
        }
        assert_eq!(exp_nonpositive::<_, true>(0.0_f32), 1.0);
        assert!(exp_nonpositive::<_, true>(f32::NAN).is_nan());
    }

    #[test]
    fn log1p_is_accurate() {
        for e in (0..=100_000).map(|i| f64::from(i) / 1e5) {
            let exact = e.ln_1p() + f64::MIN_POSITIVE;
            assert!(
                (log1p_unit::<_, true>(e) / exact - 1.0).abs() < 1e-15 || e == 0.0,
                "{e}"
            );
            let single = log1p_unit::<_, true>(e as f32);
            assert!(
                (f64::from(single) - f64::from(e as f32).ln_1p()).abs() <= 3e-7 * exact,
                "{e}"
            );
        }
    }

    /// The event `u + u e < e` in exact arithmetic has probability `e / (1 + e)`: the accuracy of
    /// a unit is that of `e`, which must hold for both signs and into saturation.
    #[test]
    fn probabilities_are_within_1e_7() {
        for y in grid(300.0, 20_000).flat_map(|y| [y as f32, -y as f32]) {
            let e = f64::from(exp_nonpositive::<_, true>(-y.abs()));
            let unlikely = e / (1.0 + e);
            let p = if y > 0.0 { 1.0 - unlikely } else { unlikely };
            assert!((p - sigmoid(f64::from(y))).abs() < 6e-8, "{y}");
        }
    }

    fn words(units: usize) -> Vec<[u32; LANES]> {
        let mut words = vec![[0; LANES]; 2 * units / LANES];
        let mut lanes = Lanes::from_rng(&mut Xoshiro256PlusPlus::seed_from_u64(11));
        lanes.fill(Available::best(), &mut words);
        words
    }

    fn check_frequencies<T: Scalar>() {
        let draws = 1 << 16;
        for y in [-9.0, -2.0, -0.5, 0.0, 0.7, 3.0, 9.0] {
            let mut units = vec![T::nearest(y / 2.0); draws];
            let offset = vec![T::nearest(y / 2.0); draws];
            draw_units::<_, true>(&mut units, &offset, &words(draws));
            let (mean, p) = (dot(&units, &units) / draws as f64, sigmoid(y));
            let se = (p * (1.0 - p) / draws as f64).sqrt();
            assert!((mean - p).abs() < 4.0 * se, "{y}: {mean} {p}");
        }
    }

    #[test]
    fn units_are_drawn_at_their_probability() {
        check_frequencies::<f32>();
        check_frequencies::<f64>();
    }

    #[test]
    fn saturated_units_do_not_flip() {
        for y in [-300.0_f32, 300.0, -1e30, 1e30] {
            let mut units = vec![y; 1 << 12];
            draw_units::<_, true>(&mut units, &vec![0.0; 1 << 12], &words(1 << 12));
            assert!(units.iter().all(|&unit| unit == f32::from(y > 0.0)), "{y}");
        }
    }

    fn check_increments<T: Scalar>(from: f64, tolerance: f64) {
        for slope in [1e-6, 1e-4, 1e-3, 0.05, 0.9] {
            for x in grid(350.0, 400).flat_map(|x| [x, -x]) {
                let x = T::nearest(x).to_f64();
                let t = (0.95 - slope, 0.95);
                let (mut units, mut start) = ([T::zero(); LANES], [T::zero(); LANES]);
                units[5] = T::nearest(x);
                // At the start -0.3 of what it is at the end, or 0.
                start[5] = T::nearest(-0.3 * x * from);
                let s = start[5].to_f64();
                let found = weigh_and_draw::<_, true>(&mut units, Some(&start), t, &words(LANES));
                let exact = softplus_increment(s + 0.95 * (x - s), (t.1 - t.0) * (x - s));
                let error = (found - exact).abs() / (slope * x.abs() + f64::MIN_POSITIVE);
                assert!(error < tolerance, "slope {slope}, x {x}: {found} {exact}");
            }
        }
    }

    /// Relative to `slope |x|`, which no increment exceeds: what a stage adds to a log weight.
    #[test]
    fn weights_are_accurate_for_short_and_long_stages() {
        for from in [0.0, 1.0] {
            check_increments::<f32>(from, 2e-6);
            check_increments::<f64>(from, 1e-12);
        }
    }

    /// In double precision and beyond the radius in use, so that every coefficient shows.
    #[test]
    fn the_series_has_five_right_terms() {
        for y in grid(12.0, 200).flat_map(|y| [y, -y]) {
            for d in [-0.02, 0.02] {
                let found = increment_series::<_, true>(y, d, exp_nonpositive::<_, true>(-y.abs()));
                let error = (found - softplus_increment(y, d)).abs();
                assert!(error < 1e-11 * d.abs(), "y {y}, d {d}: {error:e}");
            }
        }
    }

    /// Any signs, also those of stages that lead back to the base.
    #[test]
    fn far_increments_are_accurate_for_all_signs() {
        for y in grid(300.0, 60).flat_map(|y| [y, -y]) {
            for d in grid(400.0, 60).flat_map(|d| [d, -d]) {
                let found = increment_far::<_, true>(y, d, exp_nonpositive::<_, true>(-y.abs()));
                let error = (found - softplus_increment(y, d)).abs();
                assert!(error < 1e-13 * (1.0 + d.abs()), "y {y}, d {d}: {error:e}");
            }
        }
    }
}
