//! Random numbers: one stream for each use, and the laws that inner loops draw from.

mod lanes;
mod normal;
mod stream;

pub(crate) use lanes::{LANES, Lanes};
pub(crate) use normal::StandardNormal;
pub(crate) use stream::successive;
pub use stream::{Purpose, StreamRng, stream};
