//! Loops over slices that use vector registers, where the iterators and `fill` of nalgebra do not.

use crate::num::over_vectors;

/// Number of independent partial sums, so that the compiler may use vector registers. Loops over
/// fewer entries stay with their caller.
pub(crate) const LANES: usize = 8;

/// Runs a long loop out of line, compiled for the widest registers; what it calls must be inlined.
#[inline(never)]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    over_vectors(work)
}

/// Writes zeros. A call of `memset`, which the compiler would make of any such loop, costs more than
/// a few stores.
#[inline]
pub(crate) fn set_zero(values: &mut [f64]) {
    if values.len() < LANES {
        let zero = std::hint::black_box(0.0);
        values.iter_mut().for_each(|value| *value = zero);
    } else {
        values.fill(0.0);
    }
}

/// `x <- x + s y`.
#[inline]
pub(crate) fn add_scaled(x: &mut [f64], s: f64, y: &[f64]) {
    if x.len() < LANES {
        return axpy(x, s, y);
    }
    wide(
        #[inline(always)]
        move || {
            let ((x, x_rest), (y, y_rest)) = (x.as_chunks_mut::<LANES>(), y.as_chunks::<LANES>());
            for (x, y) in x.iter_mut().zip(y) {
                // A copy: the compiler cannot tell that the slices do not overlap.
                let mut next = *x;
                axpy(&mut next, s, y);
                *x = next;
            }
            axpy(x_rest, s, y_rest);
        },
    );
}

#[inline(always)]
fn axpy(x: &mut [f64], s: f64, y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += s * y;
    }
}

/// Whether no value is infinite or NaN.
#[inline]
pub(crate) fn all_finite(values: &[f64]) -> bool {
    if values.len() < LANES {
        return values.iter().all(|x| x.is_finite());
    }
    // Arithmetic that vectorises on any target: 0 x is 0 where x is finite and NaN elsewhere.
    wide(
        #[inline(always)]
        move || {
            let (chunks, rest) = values.as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for chunk in chunks {
                for l in 0..LANES {
                    sums[l] += 0.0 * chunk[l];
                }
            }
            sums.iter().sum::<f64>() == 0.0 && rest.iter().all(|x| x.is_finite())
        },
    )
}
