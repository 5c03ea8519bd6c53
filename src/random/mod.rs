//! Streams of random numbers: a [`stream`] for each seed, [`Purpose`] and index.

mod lanes;
mod normal;
pub(crate) mod resampling_scheme;
mod stream;

pub(crate) use lanes::{LANES, Lanes};
pub(crate) use normal::StandardNormal;
#[cfg(feature = "checkpoint")]
pub(crate) use stream::is_stuck;
pub(crate) use stream::{BlockStreams, successive};
pub use stream::{Purpose, StreamRng, stream};

use rand::{Rng, RngExt};

/// Draws an index with probability `mass / total`, where `total` is the sum of the `masses`.
pub(crate) fn draw_index<R: Rng + ?Sized>(
    mut masses: impl ExactSizeIterator<Item = f64>,
    total: f64,
    rng: &mut R,
) -> usize {
    let last = masses.len() - 1;
    let mut left = rng.random::<f64>() * total;
    let drawn = masses.position(|mass| {
        left -= mass;
        left < 0.0
    });
    // Rounding may leave no index drawn.
    drawn.unwrap_or(last)
}
