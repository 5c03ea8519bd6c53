//! What the kernels over vectors share. Loops run over slices: the iterators and `fill` of
//! nalgebra do not vectorise.

use nalgebra::DVector;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use crate::kernel::NonFinite;
use crate::model::Differentiable;

/// Gives a scratch vector a length; allocates only where it changes.
pub(super) fn set_len(vector: &mut DVector<f64>, len: usize) {
    if vector.len() != len {
        *vector = DVector::zeros(len);
    }
}

/// Fills a vector with independent standard normals.
pub(super) fn fill_normal<R: Rng + ?Sized>(vector: &mut DVector<f64>, rng: &mut R) {
    for value in vector.as_mut_slice() {
        *value = rng.sample(StandardNormal);
    }
}

/// Writes `grad log f(x)` and returns `log f(x)`, with both checked.
///
/// A position that overflowed lies outside of `R^d`, where every density is 0: the integrator
/// diverged, and the model is not asked. Off the support the gradient is defined as 0, so that a
/// proposal made from there is still a function of the state alone.
pub(super) fn evaluate<M: Differentiable>(
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

/// By arithmetic that vectorises on any target: `0 x` is 0 where x is finite and NaN elsewhere.
#[inline]
fn is_finite(vector: &DVector<f64>) -> bool {
    let (chunks, rest) = vector.as_slice().as_chunks::<8>();
    let mut sums = [0.0; 8];
    for chunk in chunks {
        for l in 0..8 {
            sums[l] += 0.0 * chunk[l];
        }
    }
    (chunks.is_empty() || sums.iter().sum::<f64>() == 0.0) && rest.iter().all(|x| x.is_finite())
}

fn first_non_finite(vector: &DVector<f64>) -> f64 {
    let mut values = vector.iter().copied();
    values.find(|x| !x.is_finite()).unwrap_or(f64::NAN)
}
