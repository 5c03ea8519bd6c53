//! Vectors that functions borrow instead of allocating them at each call.

use std::cell::RefCell;

use nalgebra::DVector;

thread_local! {
    static POOL: RefCell<Vec<DVector<f64>>> = const { RefCell::new(Vec::new()) };
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
