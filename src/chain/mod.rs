//! Chains: the stage that they pass, and the blocks in which they pass it together.

mod block;
mod stage;
mod step;

pub use block::Block;
pub use stage::Stage;
pub use step::{Decisions, Increment, NonFinite, Step};
