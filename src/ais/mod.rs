//! The runner: blocks of chains through a schedule, and what the run says.

mod block;
mod stream;

pub use block::Block;
pub use stream::{Purpose, StreamRng, stream};
