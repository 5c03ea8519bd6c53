//! An energy model of burn: trained on digits, its log Z, an RBM in a file.

#[path = "../../common/mod.rs"]
pub mod common;
mod log_z;
mod network;
pub mod rbm;

pub use network::Energy;
