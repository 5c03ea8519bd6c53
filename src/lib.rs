//! Annealed importance sampling.

pub mod ais;
pub mod data;
pub mod error;
pub mod estimate;
pub mod kernel;
mod math;
pub mod model;
pub mod path;
pub mod schedule;
#[cfg(feature = "serde")]
mod serial;
pub mod testing;

pub use error::{Error, Result};
