//! Blocks of chains, and the stages of a schedule that they pass.
//!
//! A [`Stage`] holds the models at its two ends. A kernel moves a chain at a stage and reports a
//! [`Step`], or that a number was not finite ([`NonFinite`]). A [`Block`] holds chains that pass the
//! stages together: recorders see it, and so do kernels that move many chains at once.

mod block;

mod stage;
mod step;

pub use block::Block;
#[cfg(feature = "checkpoint")]
pub(crate) use block::SavedBlock;
pub use stage::Stage;
pub use step::{Decisions, Increment, NonFinite, Step};
