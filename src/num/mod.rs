//! Numerics that know nothing of annealing: sums in log space, minimisation, sets of instructions.

#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux", feature = "amx")),
    path = "no_amx.rs"
)]
pub(crate) mod amx;
pub(crate) mod engine;
mod lbfgs;
mod log_space;
mod logistic;
mod math;
mod moments;
#[cfg(feature = "serde")]
pub(crate) mod serial;

pub use engine::Engine;
pub(crate) use engine::{Available, over_vectors, vectorized};
pub(crate) use lbfgs::Lbfgs;
pub(crate) use log_space::log_add_exp;
pub use log_space::{WeightSums, log_mean_exp, log_sum_exp};
pub(crate) use logistic::softplus_increment;
pub use logistic::{sigmoid, softplus};
pub(crate) use math::{set_zero, weighted};
pub(crate) use moments::{Moments, WeightedMean};
