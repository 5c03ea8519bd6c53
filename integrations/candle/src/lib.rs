//! An energy model of candle: trained on digits, its log Z, an RBM in a file.

#[path = "../../common/mod.rs"]
pub mod common;
mod log_z;
mod network;
pub mod rbm;

pub use network::Energy;
