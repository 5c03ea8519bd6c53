//! Small pieces of arithmetic that several models share.

use std::ops::Range;

/// The pairs `i <= j` below d, row by row.
pub(crate) fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
}

/// The next stretch of a range for whose indices the condition holds, without a gap; `None` where there is none.
pub(crate) fn next_run(
    within: Range<usize>,
    holds: impl Fn(usize) -> bool,
) -> Option<Range<usize>> {
    let start = within.clone().find(|&index| holds(index))?;
    let end = (start..within.end).find(|&index| !holds(index));
    Some(start..end.unwrap_or(within.end))
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
