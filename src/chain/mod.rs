//! Chains: the stage that they pass, and the block in which they pass it.
//!
//! A kernel's author meets the [`Stage`], which holds the models at its two ends, and says what
//! happened in a [`Step`], or that a number was not finite ([`NonFinite`]). Recorders, and kernels that
//! move many chains at once, see a [`Block`].

mod block;
mod stage;
mod step;

pub use block::Block;
pub use stage::Stage;
pub use step::{Decisions, Increment, NonFinite, Step};
