//! Functions of single units: exponentials, draws and increments of the log weight.
//!
//! They use polynomials, and chunks of [`LANES`] units without inner branches, to vectorize on any target.

use crate::random::LANES;
use crate::rbm::Scalar;
use crate::rbm::engine::layers::{GROUPS, LINE, Line, Row, WIDTH};
use crate::rbm::engine::panels::PanelRow;

/// Returns the polynomial with these coefficients, highest power first. Pairs of terms are computed independently.
#[inline(always)]
fn polynomial<T: Scalar, const FUSED: bool>(coefficients: &[T], x: T) -> T {
    let (highest, pairs) = coefficients.as_rchunks::<2>();
    let square = x * x;
    let highest = highest.first().map_or(T::zero(), |&highest| highest);
    let step = |sum: T, &[odd, even]: &[T; 2]| {
        sum.multiply_add::<FUSED>(square, odd.multiply_add::<FUSED>(x, even))
    };
    pairs.iter().fold(highest, step)
}

/// Returns `e^x` for `x <= 0`. Rounding of `x / ln 2` adds to the relative error of [`exp2_nonpositive`].
#[inline(always)]
pub(crate) fn exp_nonpositive<T: Scalar, const FUSED: bool>(x: T) -> T {
    exp2_nonpositive::<T, FUSED>(x * T::LOG2_E())
}

/// Returns `log(1 + e)` for `e` in [0, 1], as `2 artanh(e / (2 + e))`.
#[inline(always)]
fn log1p_unit<T: Scalar, const FUSED: bool>(e: T) -> T {
    let z = e / (e + T::one() + T::one());
    z * polynomial::<T, FUSED>(T::ARTANH, z * z)
}

/// Returns `2^z` for `z <= 0`, with a relative error of at most 1.2e-7 (f32) or 2.5e-16 (f64). The result is never below
/// the lowest normal number.
#[inline(always)]
fn exp2_nonpositive<T: Scalar, const FUSED: bool>(z: T) -> T {
    // A comparison, because `max` would replace a NaN, which should show in the log weight.
    let z = if z < T::EXP2_LOWEST {
        T::EXP2_LOWEST
    } else {
        z
    };
    let shifted = z + T::ROUND;
    let r = z - (shifted - T::ROUND);
    polynomial::<T, FUSED>(T::EXP2, r).times_exp2_rounded(shifted)
}

/// Draws whether a unit with logit `y` is on, given `e = exp(-|y|)`.
///
/// The unit takes its unlikely value with probability `e / (1 + e)`: if `u (1 + e) < e` for a uniform u. The uniform
/// has a fine resolution near 0, which makes small probabilities accurate.
#[inline(always)]
fn draw<T: Scalar, const FUSED: bool>(y: T, e: T, uniform: T) -> bool {
    let unlikely = uniform.multiply_add::<FUSED>(e, uniform) < e;
    (y > T::zero()) != unlikely
}

/// Draws one chain's 0/1 units of a panel from random bits ([`Words`](super::Words)). Each unit has its own `sum` and
/// `term`, and the logit `ln 2 (factor * sum + term)`.
#[inline(always)]
pub(crate) fn draw_units<T: Scalar, R: PanelRow<Weight: Into<T>>, const FUSED: bool>(
    sums: [&[R::Weight; LANES]; GROUPS],
    factor: T,
    terms: &Row<T>,
    words: &[[u32; LANES]],
    units: &mut [u8; WIDTH],
) {
    let (mut z, mut e) = (Row::<T>::zero(), Row::<T>::zero());
    for (group, sums) in sums.iter().enumerate() {
        let (z, e) = (&mut z.0[group], &mut e.0[group]);
        find_logits::<T, FUSED>(sums, factor, &terms.0[group], z, e);
    }
    let words = by_group::<T>(words);
    for (group, units) in groups_mut(units).iter_mut().enumerate() {
        draw_group::<T, FUSED>(&z.0[group], &e.0[group], words[group], units);
    }
}

/// Sets `z = factor * sum + term` and `e = 2^-|z|`. References as arguments tell the compiler that nothing overlaps.
#[inline(always)]
fn find_logits<T: Scalar, const FUSED: bool>(
    sums: &[impl Into<T> + Copy; LANES],
    factor: T,
    terms: &[T; LANES],
    z: &mut [T; LANES],
    e: &mut [T; LANES],
) {
    for l in 0..LANES {
        let sum: T = sums[l].into();
        z[l] = sum.multiply_add::<FUSED>(factor, terms[l]);
        e[l] = exp2_nonpositive::<T, FUSED>(-z[l].abs());
    }
}

/// Draws a group of units whose logits have the signs of `z`, given `e = exp(-|logit|)`.
#[inline(always)]
fn draw_group<T: Scalar, const FUSED: bool>(
    z: &[T; LANES],
    e: &[T; LANES],
    [high, low]: [&[u32; LANES]; 2],
    units: &mut [u8; LANES],
) {
    for l in 0..LANES {
        let uniform = T::uniform::<FUSED>(high[l], low[l]);
        units[l] = u8::from(draw::<T, FUSED>(z[l], e[l], uniform));
    }
}

/// Position of a stage's end in its segment, and length of the stage, both as fractions of the segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positions<T> {
    end: T,
    step: T,
}

impl<T: Scalar> Positions<T> {
    pub(crate) fn new(start: f64, end: f64) -> Self {
        Self {
            end: T::nearest(end),
            step: T::nearest(end - start),
        }
    }

    /// Returns the exact length of a stage divided by its rounded length. Uncorrected, this rounding in single
    /// precision would be the largest error of a log weight, and the same for all chains.
    pub(crate) fn length_over_rounded(start: f64, end: f64) -> f64 {
        let rounded: f64 = Self::new(start, end).step.as_();
        if rounded == 0.0 {
            1.0
        } else {
            (end - start) / rounded
        }
    }
}

/// Draws the 0/1 units of a panel with logits `y_1`, and adds each `softplus(y_1) - softplus(y_0)` to partial `sums`.
///
/// The logits are `y_i = start + t_i gain` at the stage's start (i = 0) and end (i = 1). `start` is the activation at
/// the segment's start, and `gain` its change over the segment.
#[inline(always)]
pub(crate) fn weigh_and_draw<T: Scalar, const FUSED: bool>(
    start: &Row<T>,
    gain: &Row<T>,
    t: Positions<T>,
    words: &[[u32; LANES]],
    units: &mut [u8; WIDTH],
    sums: &mut [T; LANES],
) {
    let (mut y, mut e) = (Row::<T>::zero(), Row::<T>::zero());
    for group in 0..GROUPS {
        let (start, gain) = (&start.0[group], &gain.0[group]);
        let (y, e) = (&mut y.0[group], &mut e.0[group]);
        for l in 0..LANES {
            y[l] = t.end.multiply_add::<FUSED>(gain[l], start[l]);
            e[l] = exp_nonpositive::<T, FUSED>(-y[l].abs());
        }
    }
    let words = by_group::<T>(words);
    for (group, units) in groups_mut(units).iter_mut().enumerate() {
        draw_group::<T, FUSED>(&y.0[group], &e.0[group], words[group], units);
    }
    for group in 0..GROUPS {
        add_increments::<T, FUSED>(&y.0[group], &e.0[group], &gain.0[group], t, sums);
    }
}

/// Adds each `softplus(y) - softplus(y - step gain)` to one of the partial `sums`, given `e = exp(-|y|)`.
#[inline(always)]
fn add_increments<T: Scalar, const FUSED: bool>(
    y: &[T; LANES],
    e: &[T; LANES],
    gain: &[T; LANES],
    t: Positions<T>,
    sums: &mut [T; LANES],
) {
    let mut far = false;
    for gain in gain {
        // A NaN shows in the sum.
        far |= (t.step * *gain).abs() > T::INCREMENT_RADIUS;
    }
    if far {
        for l in 0..LANES {
            sums[l] += increment_far::<T, FUSED>(y[l], t.step * gain[l], e[l]);
        }
    } else {
        for l in 0..LANES {
            sums[l] += increment_series::<T, FUSED>(y[l], t.step * gain[l], e[l]);
        }
    }
}

/// Returns five terms of the series of `softplus(y) - softplus(y - d)` in `d`, given `e = exp(-|y|)`.
#[inline(always)]
fn increment_series<T: Scalar, const FUSED: bool>(y: T, d: T, e: T) -> T {
    let constant = |x: f64| T::nearest(x);
    let likely = T::likely::<FUSED>(e);
    let s = if y > T::zero() { likely } else { e * likely };
    let q = e * likely * likely;
    let skew = s.multiply_add::<FUSED>(constant(-2.0), T::one());
    // Softplus has the derivatives s, q, q skew, q (1 - 6 q), q skew (1 - 12 q). Term k has the factor -(-d)^k / k!.
    let fifth =
        d * constant(1.0 / 120.0) * skew * q.multiply_add::<FUSED>(constant(-12.0), T::one());
    let fourth = q.multiply_add::<FUSED>(constant(0.25), fifth + constant(-1.0 / 24.0));
    let third = skew.multiply_add::<FUSED>(constant(1.0 / 6.0), d * fourth);
    let second = d.multiply_add::<FUSED>(third, constant(-0.5));
    d * (d * q).multiply_add::<FUSED>(second, s)
}

/// Returns `softplus(y) - softplus(y - d)` for any `d`, given `e = exp(-|y|)`. Takes the difference of the first and of
/// the second part of `softplus(y) = max(y, 0) + log(1 + exp(-|y|))` apart: the first would swamp the second.
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

/// Returns the sum of `softplus(x + sign * w) - softplus(x)` over two slices of the same length.
#[inline(always)]
pub(crate) fn softplus_gain<T: Scalar, const FUSED: bool>(x: &[T], sign: T, w: &[T]) -> f64 {
    let mut sums = [T::zero(); LANES];
    for (x, w) in x.chunks(LANES).zip(w.chunks(LANES)) {
        // Padding has step 0 and adds nothing.
        let (mut from, mut step) = ([T::zero(); LANES], [T::zero(); LANES]);
        from[..x.len()].copy_from_slice(x);
        step[..w.len()].copy_from_slice(w);
        for l in 0..LANES {
            let d = sign * step[l];
            let y = from[l] + d;
            let e = exp_nonpositive::<T, FUSED>(-y.abs());
            sums[l] += increment_far::<T, FUSED>(y, d, e);
        }
    }
    total(&sums)
}

/// Returns the sum of the entries of `values` whose unit is on. `values` is padded with zeros up to a whole [`Line`].
#[inline(always)]
pub(crate) fn dot<T: Scalar>(values: &[T], units: &[Line]) -> f64 {
    let mut sums = [[T::zero(); LANES]; LINE / LANES];
    for (values, line) in values.as_chunks::<LINE>().0.iter().zip(units) {
        let values = values.as_chunks::<LANES>().0.iter();
        let units = line.0.as_chunks::<LANES>().0.iter();
        for (sums, (values, units)) in sums.iter_mut().zip(values.zip(units)) {
            for l in 0..LANES {
                let unit: T = units[l].into();
                sums[l] += values[l] * unit;
            }
        }
    }
    let [a, b, c, d] = &mut sums;
    for l in 0..LANES {
        a[l] = (a[l] + b[l]) + (c[l] + d[l]);
    }
    total(a)
}

#[inline(always)]
pub(crate) fn total<T: Scalar>(sums: &[T; LANES]) -> f64 {
    let mut wide = [0.0; LANES];
    for l in 0..LANES {
        wide[l] = sums[l].as_();
    }
    for width in [8, 4, 2, 1] {
        for l in 0..width {
            wide[l] += wide[l + width];
        }
    }
    wide[0]
}

#[inline(always)]
pub(crate) fn add<T: Scalar>(sums: &mut [T], row: &[T]) {
    for (sum, &x) in sums.iter_mut().zip(row) {
        *sum += x;
    }
}

#[inline(always)]
pub(crate) fn logits_to_probabilities<T: Scalar, const FUSED: bool>(logits: &mut Row<T>) {
    for y in logits.0.as_flattened_mut() {
        let e = exp_nonpositive::<T, FUSED>(-y.abs());
        let likely = T::likely::<FUSED>(e);
        *y = if *y > T::zero() { likely } else { e * likely };
    }
}

/// Returns, for each group of units, the first and the last of the random words that make their uniforms.
#[inline(always)]
fn by_group<T: Scalar>(words: &[[u32; LANES]]) -> [[&[u32; LANES]; 2]; GROUPS] {
    let last = T::WORDS - 1;
    let (first, second) = (&words[..T::WORDS], &words[T::WORDS..]);
    [[&first[0], &first[last]], [&second[0], &second[last]]]
}

#[inline(always)]
fn groups_mut(units: &mut [u8; WIDTH]) -> &mut [[u8; LANES]; GROUPS] {
    let (groups, _) = units.as_chunks_mut();
    groups.first_chunk_mut().expect("a panel has two groups")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::{Simd, sigmoid, softplus_increment};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use crate::random::Lanes;
    use crate::rbm::engine::layers::Words;
    use crate::rbm::scalar::sealed::Elementwise;

    fn grid(lowest: f64, points: usize) -> impl Iterator<Item = f64> {
        (0..=points).map(move |i| lowest * (i as f64 / points as f64).powi(2))
    }

    #[test]
    fn the_likely_probability_is_accurate() {
        for e in (0..=100_000).map(|i| i as f32 / 1e5) {
            let exact = 1.0 / (1.0 + f64::from(e));
            let found = f64::from(<f32 as Elementwise>::likely::<true>(e));
            assert!((found / exact - 1.0).abs() < 1.2e-7, "{e}: {found}");
        }
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

    #[test]
    fn exp2_is_accurate_over_its_whole_range() {
        for z in grid(-124.9, 200_000) {
            let z = z as f32;
            let error = f64::from(exp2_nonpositive::<_, true>(z)) / f64::from(z).exp2() - 1.0;
            assert!(error.abs() < 1.2e-7, "f32, {z}: {error:e}");
        }
        for z in grid(-1_020.9, 200_000) {
            let error = exp2_nonpositive::<_, true>(z) / z.exp2() - 1.0;
            assert!(error.abs() < 5e-16, "f64, {z}: {error:e}");
        }
        for z in [-126.0_f32, -300.0, -1e30, f32::NEG_INFINITY] {
            let lowest = exp2_nonpositive::<_, true>(z);
            assert!((0.0..1e-37).contains(&lowest), "{z}");
        }
        assert_eq!(exp2_nonpositive::<_, true>(0.0_f32), 1.0);
        assert!(exp2_nonpositive::<_, true>(f32::NAN).is_nan());
    }

    /// A unit is drawn by the event `u + u e < e`. The accuracy of its probability `e / (1 + e)` depends on `e` alone.
    #[test]
    fn probabilities_are_within_1e_7() {
        for y in grid(300.0, 20_000).flat_map(|y| [y as f32, -y as f32]) {
            let z = y * std::f32::consts::LOG2_E;
            let e = f64::from(exp2_nonpositive::<_, true>(-z.abs()));
            let unlikely = e / (1.0 + e);
            let p = if y > 0.0 { 1.0 - unlikely } else { unlikely };
            let exact = sigmoid(f64::from(z) * std::f64::consts::LN_2);
            assert!((p - exact).abs() < 6e-8, "{y}");
        }
    }

    fn lanes() -> Lanes {
        Lanes::from_rng(&mut Xoshiro256PlusPlus::seed_from_u64(11))
    }

    fn count_on<T: Scalar>(logit: f64, panels: usize) -> usize {
        let logits = Row([[T::nearest(logit); LANES]; WIDTH / LANES]);
        let (mut words, mut on) = (Words::default(), 0);
        for words in words.draw::<T>(Simd::best(), &mut lanes(), panels) {
            let mut units = [2; WIDTH];
            let (sums, zero) = (logits.0.each_ref(), Row::zero());
            draw_units::<T, Row<T>, true>(sums, T::LOG2_E(), &zero, words, &mut units);
            assert!(units.iter().all(|&unit| unit <= 1), "not a unit");
            on += units.iter().map(|&unit| usize::from(unit)).sum::<usize>();
        }
        on
    }

    fn check_frequencies<T: Scalar>() {
        let panels = 1 << 11;
        let draws = (panels * WIDTH) as f64;
        for y in [-9.0, -2.0, -0.5, 0.0, 0.7, 3.0, 9.0] {
            let (mean, p) = (count_on::<T>(y, panels) as f64 / draws, sigmoid(y));
            let se = (p * (1.0 - p) / draws).sqrt();
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
        for y in [-300.0, 300.0, -1e30, 1e30] {
            let all = if y > 0.0 { 128 * WIDTH } else { 0 };
            assert_eq!(count_on::<f32>(y, 128), all, "{y}");
        }
    }

    #[test]
    fn dot_is_the_sum_over_units_that_are_on() {
        let values: Vec<f32> = (0..2 * LINE).map(|i| i as f32).collect();
        let mut lines = [Line([0; LINE]); 2];
        for (line, unit) in [(0, 3), (0, 40), (1, 0), (1, 63)] {
            lines[line].0[unit] = 1;
        }
        assert_eq!(dot(&values, &lines), 3.0 + 40.0 + 64.0 + 127.0);
    }

    fn check_increments<T: Scalar>(from: f64, tolerance: f64) {
        let (mut words, mut lanes) = (Words::default(), lanes());
        for slope in [1e-6, 1e-4, 1e-3, 0.05, 0.9] {
            for x in grid(350.0, 400).flat_map(|x| [x, -x]) {
                let x = T::nearest(x).as_();
                let (mut start, mut gain) = (Row::zero(), Row::zero());
                // The start is -0.3 of the end, or 0.
                start.0[1][5] = T::nearest(-0.3 * x * from);
                let s = start.0[1][5].as_();
                gain.0[1][5] = T::nearest(x) - start.0[1][5];
                let (mut units, mut sums) = ([0; WIDTH], [T::zero(); LANES]);
                let words = words.draw::<T>(Simd::best(), &mut lanes, 1).next().unwrap();
                let ends = (0.95 - slope, 0.95);
                let t = Positions::new(ends.0, ends.1);
                weigh_and_draw::<_, true>(&start, &gain, t, words, &mut units, &mut sums);
                let found = total(&sums);
                let exact = softplus_increment(s + 0.95 * (x - s), (ends.1 - ends.0) * (x - s));
                let error = (found - exact).abs() / (slope * x.abs() + f64::MIN_POSITIVE);
                assert!(error < tolerance, "slope {slope}, x {x}: {found} {exact}");
            }
        }
    }

    /// Errors are relative to `slope |x|`, which no increment exceeds.
    #[test]
    fn weights_are_accurate_for_short_and_long_stages() {
        for from in [0.0, 1.0] {
            check_increments::<f32>(from, 2e-6);
            check_increments::<f64>(from, 1e-12);
        }
    }

    /// Tests steps beyond `INCREMENT_RADIUS` in double precision, where an error of any coefficient would show.
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
