//! Vectors that functions borrow instead of allocating them at each call.

use std::cell::RefCell;

use nalgebra::DVector;

thread_local! {
    static POOL: RefCell<Vec<DVector<f64>>> = const { RefCell::new(Vec::new()) };
    static SLICES: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with so many arbitrary numbers, as [`with_buffer`] does; fewer than ever before allocate nothing.
pub(crate) fn with_slice<T>(length: usize, work: impl FnOnce(&mut [f64]) -> T) -> T {
    let mut buffer = SLICES.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    let result = work(&mut buffer[..length]);
    SLICES.with_borrow_mut(|pool| pool.push(buffer));
    result
}

/// Calls `work` with a vector of this length that holds arbitrary numbers. Each thread keeps its vectors, so that
/// only a new length allocates; calls may be nested.
pub(crate) fn with_buffer<T>(length: usize, work: impl FnOnce(&mut DVector<f64>) -> T) -> T {
    let kept = POOL.with_borrow_mut(Vec::pop);
    let fits = kept.filter(|buffer| buffer.len() == length);
    let mut buffer = fits.unwrap_or_else(|| DVector::zeros(length));
    let result = work(&mut buffer);
    POOL.with_borrow_mut(|pool| pool.push(buffer));
    result
}
