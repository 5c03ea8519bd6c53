//! Numerics that several models share.

/// Writes zeros. A call of `memset`, which the compiler would make of any such loop, costs more than
/// a few stores.
#[inline]
pub(crate) fn set_zero(values: &mut [f64]) {
    if values.len() < 8 {
        let zero = std::hint::black_box(0.0);
        values.iter_mut().for_each(|value| *value = zero);
    } else {
        values.fill(0.0);
    }
}

/// `weight * x`, where a weight of zero makes even an infinity vanish.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}
