//! Scalar arithmetic that several models share.

/// Writes zeros. The compiler would turn any plain loop into a call of `memset`, which costs more
/// than a few stores.
#[inline]
pub(crate) fn set_zero(values: &mut [f64]) {
    if values.len() < 8 {
        let zero = std::hint::black_box(0.0);
        values.iter_mut().for_each(|value| *value = zero);
    } else {
        values.fill(0.0);
    }
}

/// `weight * x`, and 0 for a weight of 0 times an infinity.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}
