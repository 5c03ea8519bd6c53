//! Annealed importance sampling.

pub mod ais;
pub mod error;
pub mod kernel;
mod math;
pub mod model;
pub mod path;
pub mod schedule;

pub use error::{Error, Result};
