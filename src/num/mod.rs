//! Numerics apart from annealing: sums in log space, running moments, minimisation, quadrature,
//! instruction sets, serialisation.

#[cfg(test)]
pub(crate) mod allocation;
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux", feature = "amx")),
    path = "no_amx.rs"
)]
pub(crate) mod amx;
mod buffer;
mod deserialize;
pub(crate) mod engine;
mod exp;
mod gamma;
mod lbfgs;
mod log_space;
mod logistic;
mod math;
mod moments;
mod quadrature;
#[cfg(feature = "serde")]
pub(crate) mod serial;
mod setters;
mod vector;

pub(crate) use buffer::{with_buffer, with_slice};
pub(crate) use deserialize::{deserialize_checked, serialize_as};
pub use engine::Engine;
pub(crate) use engine::{Available, over_vectors, vectorized};
pub(crate) use exp::exp_of_negative;
pub(crate) use gamma::ln_gamma;
pub(crate) use lbfgs::Lbfgs;
pub(crate) use log_space::log_add_exp;
pub use log_space::{WeightSums, log_mean_exp, log_sum_exp};
pub(crate) use logistic::{log_sigmoid, softplus_increment};
pub use logistic::{sigmoid, softplus};
pub(crate) use math::{next_run, pairs, weighted};
pub(crate) use moments::{Moments, WeightedMean, WeightedVariance};
pub(crate) use quadrature::log_integral;
pub(crate) use setters::setters;
pub(crate) use vector::{VECTOR_WIDTH, add_scaled, all_finite, set_zero, wide};
