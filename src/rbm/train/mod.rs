//! Training an RBM on data, and the Gibbs chains that training moves.

mod sampler;
mod training;

pub(super) use sampler::{Chains, ParameterSums, Sampler};
pub(crate) use training::judged_rows;
pub use training::{ContrastiveDivergence, Epoch, TrainedRbm};
