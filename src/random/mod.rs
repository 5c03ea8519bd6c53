//! Streams of random numbers: a [`stream`] for each seed, [`Purpose`] and index.

mod choice;
mod lanes;
mod normal;
mod stream;

pub(crate) use choice::draw_index;
pub(crate) use lanes::{LANES, Lanes};
pub(crate) use normal::StandardNormal;
#[cfg(feature = "checkpoint")]
pub(crate) use stream::is_stuck;
pub(crate) use stream::successive;
pub use stream::{Purpose, StreamRng, stream};
