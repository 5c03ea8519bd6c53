//! Loops over slices in vector registers, and buffers that functions borrow instead of allocating.

use std::cell::RefCell;

use nalgebra::DVector;

use crate::num::over_vectors;

/// Number of entries that loops handle side by side, with independent partial sums, for vector registers.
pub(crate) const VECTOR_WIDTH: usize = 8;

/// Runs a long loop out of line, compiled for the widest registers. Every function that `work` calls must be inlined.
#[inline(never)]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    over_vectors(work)
}

/// Writes zeros. Short slices avoid `memset`, a call that costs more than a few stores.
#[inline]
pub(crate) fn set_zero(values: &mut [f64]) {
    if values.len() < VECTOR_WIDTH {
        // If the compiler knew the number, it would turn the loop into `memset` again.
        let zero = std::hint::black_box(0.0);
        values.iter_mut().for_each(|value| *value = zero);
    } else {
        values.fill(0.0);
    }
}

/// Adds `s y` to `x`.
#[inline]
pub(crate) fn add_scaled(x: &mut [f64], s: f64, y: &[f64]) {
    if x.len() < VECTOR_WIDTH {
        return axpy(x, s, y);
    }
    // A plain loop: if it went by chunks of a register, the compiler would gather and scatter, at a sixth of the speed.
    wide(
        #[inline(always)]
        move || axpy(x, s, y),
    );
}

#[inline(always)]
fn axpy(x: &mut [f64], s: f64, y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += s * y;
    }
}

/// Adds `s y` to `x`, and then `t x` to `z`. Returns whether all entries of `z` are finite.
#[inline]
pub(crate) fn add_scaled_twice(
    (x, s, y): (&mut [f64], f64, &[f64]),
    (z, t): (&mut [f64], f64),
) -> bool {
    if x.len() < VECTOR_WIDTH {
        return axpy_twice((x, s, y), (z, t));
    }
    wide(
        #[inline(always)]
        move || axpy_twice((x, s, y), (z, t)),
    )
}

#[inline(always)]
fn axpy_twice((x, s, y): (&mut [f64], f64, &[f64]), (z, t): (&mut [f64], f64)) -> bool {
    let mut found = 0;
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        *x += s * y;
        *z += t * *x;
        found |= past_finite(*z);
    }
    found < SIGN
}

/// Sets `x` to `s y + t z`. Returns whether all of its entries are finite.
#[inline]
pub(crate) fn set_blend(x: &mut [f64], weights: [f64; 2], vectors: [&[f64]; 2]) -> bool {
    if x.len() < VECTOR_WIDTH {
        return blend(x, weights, vectors);
    }
    wide(
        #[inline(always)]
        move || blend(x, weights, vectors),
    )
}

#[inline(always)]
fn blend(x: &mut [f64], [s, t]: [f64; 2], [y, z]: [&[f64]; 2]) -> bool {
    let mut found = 0;
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        *x = s * y + t * z;
        found |= past_finite(*x);
    }
    found < SIGN
}

/// The sign bit of a number.
const SIGN: u64 = 1 << 63;

/// Returns a number whose [sign bit](SIGN) is set exactly if x is infinite or NaN. A loop can combine many of these
/// numbers without a branch, in vector registers.
#[inline(always)]
fn past_finite(x: f64) -> u64 {
    // All exponent bits of an infinity and of a NaN are set, and adding 1 carries over.
    const ONE_OF_EXPONENT: u64 = 1 << 52;
    x.abs().to_bits() + ONE_OF_EXPONENT
}

/// Returns the sum of squares. For eight entries or more it has the same bits as nalgebra's `norm_squared`.
pub(crate) fn sum_of_squares(x: &[f64]) -> f64 {
    wide(
        #[inline(always)]
        move || {
            let (groups, rest) = x.as_chunks::<VECTOR_WIDTH>();
            let mut sums = [0.0; VECTOR_WIDTH];
            for group in groups {
                for (sum, x) in sums.iter_mut().zip(group) {
                    *sum += x * x;
                }
            }
            // If the compiler knew how the sums are added, it would halve the width of the registers in the loop.
            let sums = std::hint::black_box(sums);
            let (low, high) = sums.split_at(VECTOR_WIDTH / 2);
            let pairs = low.iter().zip(high).map(|(a, b)| a + b);
            pairs.chain(rest.iter().map(|x| x * x)).sum()
        },
    )
}

#[inline]
pub(crate) fn all_finite(values: &[f64]) -> bool {
    if values.len() < VECTOR_WIDTH {
        return values.iter().all(|x| x.is_finite());
    }
    wide(
        #[inline(always)]
        move || values.iter().fold(0, |found, x| found | past_finite(*x)) < SIGN,
    )
}

thread_local! {
    static POOL: RefCell<Vec<DVector<f64>>> = const { RefCell::new(Vec::new()) };
    static SLICES: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with `length` arbitrary numbers. Only a new maximum of `length` allocates.
pub(crate) fn with_slice<T>(length: usize, work: impl FnOnce(&mut [f64]) -> T) -> T {
    let mut buffer = SLICES.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    let result = work(&mut buffer[..length]);
    SLICES.with_borrow_mut(|pool| pool.push(buffer));
    result
}

/// Calls `work` with a vector of `length` arbitrary numbers. Only a new length allocates. Calls may be nested.
pub(crate) fn with_buffer<T>(length: usize, work: impl FnOnce(&mut DVector<f64>) -> T) -> T {
    let kept = POOL.with_borrow_mut(Vec::pop);
    let fits = kept.filter(|buffer| buffer.len() == length);
    let mut buffer = fits.unwrap_or_else(|| DVector::zeros(length));
    let result = work(&mut buffer);
    POOL.with_borrow_mut(|pool| pool.push(buffer));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths that need no register, one with a rest, and whole registers.
    const LENGTHS: [usize; 4] = [1, 7, 13, 32];

    #[test]
    fn every_entry_that_is_not_finite_is_found() {
        for length in LENGTHS {
            let usual = vec![-f64::MAX; length];
            assert!(all_finite(&usual));
            for (place, bad) in (0..length).zip(
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY]
                    .into_iter()
                    .cycle(),
            ) {
                let mut values = usual.clone();
                values[place] = bad;
                assert!(!all_finite(&values), "{bad} at {place} of {length}");
            }
        }
    }

    #[test]
    fn sums_say_whether_they_are_finite() {
        for length in LENGTHS {
            for place in 0..length {
                let mut y = vec![1.0; length];
                let mut x = vec![0.0; length];
                assert!(set_blend(&mut x, [0.25, 0.5], [&y, &y]));
                assert_eq!(x, vec![0.75; length]);
                let mut z = vec![2.0; length];
                assert!(add_scaled_twice((&mut x, 2.0, &y), (&mut z, -1.0)));
                assert_eq!((&x, &z), (&vec![2.75; length], &vec![-0.75; length]));
                y[place] = f64::MAX;
                assert!(!add_scaled_twice((&mut x, 2.0, &y), (&mut z, 1.0)));
                assert!(!set_blend(&mut x, [1.0, 1.0], [&y, &y]));
            }
        }
    }
}
