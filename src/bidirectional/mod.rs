//! Both directions of a path: reverse runs from samples of the target, beside forward runs.
//!
//! [`Ais::reverse`](crate::ais::Ais::reverse) reads a path backward from [`TargetSamples`]. A [`Bridge`] joins both
//! directions, a [`Bounds`] bounds log Z from either side, and [`Raise`] bounds log-likelihoods.

mod bdmc;
mod bridge;
mod raise;
mod reverse;
mod target_samples;

pub use bdmc::{Bdmc, Bounds};
pub use bridge::{Bridge, BridgeStage};
pub use raise::Raise;
pub use reverse::ReverseRun;
pub use target_samples::{Approximate, Exact, IsExact, Quality, TargetSamples};
