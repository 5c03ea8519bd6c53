//! Exact sums over all states of an RBM's smaller layer, and exact samples.

mod enumerated;
mod enumeration;
mod exact_samples;
mod state_block;

pub use enumerated::EnumeratedRbm;
pub(super) use enumeration::Enumeration;
pub use enumeration::MAX_ENUMERATED_UNITS;
pub(crate) use enumeration::{check_log_normalizer, map_tasks};
pub(super) use state_block::{STATES, StateBlock};
