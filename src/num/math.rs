//! Numerics that several models share.

/// `weight * x`, where a weight of zero makes even an infinity vanish.
#[inline]
pub(crate) fn weighted(weight: f64, x: f64) -> f64 {
    if weight == 0.0 && x.is_infinite() {
        0.0
    } else {
        weight * x
    }
}
