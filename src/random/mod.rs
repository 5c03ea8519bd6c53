//! Random numbers: a stream for each use, normal numbers, and random bits for many units.
//!
//! [`stream`] gives the generator that belongs to a seed, a [`Purpose`] and an index.

mod lanes;
mod normal;
mod stream;

pub(crate) use lanes::{LANES, Lanes};
pub(crate) use normal::StandardNormal;
pub(crate) use stream::successive;
pub use stream::{Purpose, StreamRng, stream};
