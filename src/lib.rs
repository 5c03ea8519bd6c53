//! Annealed importance sampling.

pub mod ais;
pub mod data;
pub mod error;
pub mod kernel;
pub mod model;
pub mod path;
pub mod schedule;

pub use error::{Error, Result};
