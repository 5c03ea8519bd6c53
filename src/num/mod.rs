//! Numerics apart from annealing: sums in log space, moments, minimisation, quadrature, SIMD, serialisation.

mod elementary;
pub(crate) mod engine;
mod lbfgs;
mod log_space;
mod macros;
mod quadrature;
mod vector;

pub(crate) use elementary::{
    exp_of_negative, log_sigmoid, next_run, pairs, softplus_increment, student_quantile, weighted,
};
pub use elementary::{sigmoid, softplus};
pub use engine::SimdLevel;
pub(crate) use engine::{Simd, over_vectors, vectorized};
pub(crate) use lbfgs::Lbfgs;
pub(crate) use log_space::{
    Moments, WeightedMean, WeightedVariance, cumulative, exceeds, largest, log_add_exp,
    responsibilities,
};
pub use log_space::{WeightSums, log_mean_exp, log_sum_exp};
#[cfg(feature = "serde")]
pub(crate) use macros::serial;
pub(crate) use macros::{copy, debug_by_fields, deserialize_checked, serialize_as, setters};
pub(crate) use quadrature::log_integral;
pub(crate) use vector::{
    VECTOR_WIDTH, add_scaled, add_scaled_twice, all_finite, set_blend, set_zero, sum_of_squares,
    wide, with_buffer, with_slice,
};
