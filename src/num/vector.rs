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

/// Adds `s y` to `x`, and then `t x` to `z`.
#[inline]
pub(crate) fn add_scaled_twice((x, s, y): (&mut [f64], f64, &[f64]), (z, t): (&mut [f64], f64)) {
    if x.len() < VECTOR_WIDTH {
        return axpy_twice((x, s, y), (z, t));
    }
    wide(
        #[inline(always)]
        move || axpy_twice((x, s, y), (z, t)),
    );
}

#[inline(always)]
fn axpy_twice((x, s, y): (&mut [f64], f64, &[f64]), (z, t): (&mut [f64], f64)) {
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        *x += s * y;
        *z += t * *x;
    }
}

/// Sets `x` to `s y + t z`.
#[inline]
pub(crate) fn set_blend(x: &mut [f64], weights: [f64; 2], vectors: [&[f64]; 2]) {
    if x.len() < VECTOR_WIDTH {
        return blend(x, weights, vectors);
    }
    wide(
        #[inline(always)]
        move || blend(x, weights, vectors),
    );
}

#[inline(always)]
fn blend(x: &mut [f64], [s, t]: [f64; 2], [y, z]: [&[f64]; 2]) {
    for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
        *x = s * y + t * z;
    }
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
            let [low, high] = [0, VECTOR_WIDTH / 2].map(|half| &sums[half..]);
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
    // The loop has no early exit, so that it can use vector registers.
    wide(
        #[inline(always)]
        move || !values.iter().fold(false, |found, x| found | !x.is_finite()),
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
