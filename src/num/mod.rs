//! Numerics apart from annealing: sums in log space, running moments, minimisation, instruction sets,
//! serialisation.

#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
mod amx;
mod deserialize;
pub(crate) mod engine;
mod lbfgs;
mod log_space;
mod logistic;
mod math;
mod moments;
#[cfg(feature = "serde")]
pub(crate) mod serial;

#[cfg(all(target_arch = "x86_64", target_os = "linux", feature = "amx"))]
pub(crate) use amx::are_available as tiles_are_available;
pub(crate) use deserialize::{deserialize_checked, serialize_as};
pub use engine::Engine;
pub(crate) use engine::{Available, over_vectors, vectorized};
pub(crate) use lbfgs::Lbfgs;
pub(crate) use log_space::log_add_exp;
pub use log_space::{WeightSums, log_mean_exp, log_sum_exp};
pub(crate) use logistic::softplus_increment;
pub use logistic::{sigmoid, softplus};
pub(crate) use math::{set_zero, weighted};
pub(crate) use moments::{Moments, WeightedMean, WeightedVariance};
