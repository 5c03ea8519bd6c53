//! Work in blocks: one loop, on threads or processes, that can be observed, stopped, saved and resumed.
//!
//! A [`Task`] defines the work of a block. A [`Job`] runs the blocks of a task, and may save them, or share them with the
//! other processes of a `Team`. A sequence of tasks is plain code that runs one after another and
//! [carries](Job::carry) a value between them.

#[cfg(feature = "checkpoint")]
mod bytes;
mod execution;
mod identity;
mod job;
#[cfg(feature = "checkpoint")]
mod kept;
mod ledger;
#[cfg(feature = "checkpoint")]
mod meeting;
mod meter;
mod progress;
#[cfg(feature = "checkpoint")]
pub mod ranks;
#[cfg(feature = "checkpoint")]
pub mod store;
mod task;
#[cfg(feature = "checkpoint")]
mod team;
mod tree;

pub use execution::{Execution, StoppedBy};
pub(crate) use execution::{caught, caught_once, controls, in_pool, join, merging_panicked};
#[cfg(feature = "checkpoint")]
pub(crate) use identity::Identity;
pub(crate) use identity::{Named, Probe, check_named, named, named_engine};
pub use job::Job;
pub(crate) use ledger::Closed;
pub use progress::{Progress, SoFar, Verdict};
pub(crate) use task::{Format, Halt, Place, Pulse, Single, Stepped, Task, is_look};
pub use tree::Merge;
pub(crate) use tree::{Forest, Node, coalesce, fold};
