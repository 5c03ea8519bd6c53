//! What the kernels over vectors share. Loops run over slices: the iterators and `fill` of
//! nalgebra do not vectorise.

use nalgebra::DVector;
use rand::Rng;

use crate::chain::NonFinite;
use crate::model::Differentiable;
use crate::num::over_vectors;
use crate::random::StandardNormal;

/// Shorter vectors stay in the caller's loop.
const LANES: usize = 8;

/// Gives a scratch vector a length; allocates only where it changes.
#[inline]
pub(crate) fn set_len(vector: &mut DVector<f64>, len: usize) {
    if vector.len() != len {
        *vector = DVector::zeros(len);
    }
}

/// Fills a vector with independent standard normals.
pub(crate) fn fill_normal<R: Rng + ?Sized>(vector: &mut DVector<f64>, rng: &mut R) {
    StandardNormal::get().fill(vector.as_mut_slice(), rng);
}

/// `x <- x + s y`.
#[inline]
pub(crate) fn add_scaled(x: &mut DVector<f64>, s: f64, y: &DVector<f64>) {
    let (x, y) = (x.as_mut_slice(), y.as_slice());
    if x.len() < LANES {
        axpy(x, s, y);
    } else {
        wide_axpy(x, s, y);
    }
}

#[inline(never)]
fn wide_axpy(x: &mut [f64], s: f64, y: &[f64]) {
    over_vectors(
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

/// Writes `grad log f(x)` and returns `log f(x)`, with both checked.
///
/// A position that overflowed lies outside of `R^d`, where every density is 0: the integrator
/// diverged, and the model is not asked. Off the support the gradient is defined as 0, so that a
/// proposal made from there is still a function of the state alone.
pub(crate) fn evaluate<M: Differentiable>(
    quantity: &'static str,
    model: &M,
    position: &DVector<f64>,
    gradient: &mut DVector<f64>,
) -> Result<f64, NonFinite> {
    let log_density = if is_finite(position) {
        NonFinite::check_log_density(quantity, model.gradient_into(position, gradient))?
    } else {
        f64::NEG_INFINITY
    };
    if log_density == f64::NEG_INFINITY {
        gradient.as_mut_slice().fill(0.0);
    } else if !is_finite(gradient) {
        return Err(NonFinite {
            quantity: "gradient of the log density",
            value: first_non_finite(gradient),
            expected: "finite components",
        });
    }
    Ok(log_density)
}

#[inline]
fn is_finite(vector: &DVector<f64>) -> bool {
    let values = vector.as_slice();
    if values.len() < LANES {
        values.iter().all(|x| x.is_finite())
    } else {
        is_wide_finite(values)
    }
}

/// By arithmetic that vectorises on any target: `0 x` is 0 where x is finite and NaN elsewhere.
#[inline(never)]
fn is_wide_finite(values: &[f64]) -> bool {
    over_vectors(
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

fn first_non_finite(vector: &DVector<f64>) -> f64 {
    let mut values = vector.iter().copied();
    values.find(|x| !x.is_finite()).unwrap_or(f64::NAN)
}
