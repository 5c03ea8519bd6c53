//! Chains: the stage that they pass, and blocks of them that pass it together.

mod block;
mod stage;

pub use block::Block;
pub use stage::{Increment, NonFinite, Stage, Step};
