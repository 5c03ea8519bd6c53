//! Random numbers: a stream for each use, normal numbers, and random bits for many units.
//!
//! [`stream`] gives the generator that belongs to a seed, a [`Purpose`] and an index.

mod lanes;
mod normal;
mod stream;

pub(crate) use lanes::{LANES, Lanes};
pub(crate) use normal::StandardNormal;
#[cfg(feature = "checkpoint")]
pub(crate) use stream::is_stuck;
pub(crate) use stream::successive;
pub use stream::{Purpose, StreamRng, stream};
