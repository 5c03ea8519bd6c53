//! Helpers and problems that several modules use, one concept a file. The package `measurements` includes some of them by
//! their path: the autoencoder and five problems.

pub mod autoencoder;
pub mod block_gibbs;
pub mod bumps;
mod closures;
pub mod exact;
pub mod gaussians;
pub mod islands;
pub mod latin;
pub mod logistic;
pub mod lower_bound;
pub mod ring;
pub mod scales;
mod statistics;

pub use closures::{Slopes, batch_model, function, gradient, gradient_model, sampler, value};
pub use statistics::mean_and_error;
