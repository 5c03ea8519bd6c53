//! Small pieces of arithmetic that several models share.

/// The pairs `i <= j` below d, row by row.
pub(crate) fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
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
