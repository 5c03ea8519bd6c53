//! Random streams: one a chain, fixed by seed, purpose and chain index alone.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of one chain.
pub type StreamRng = Xoshiro256PlusPlus;

/// What a stream is for, so that one seed never feeds two uses the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Purpose {
    /// An annealed run.
    Run,
    /// A pilot run: tuning and schedules.
    Pilot,
    /// Training a model.
    Training,
}

impl Purpose {
    fn index(self) -> usize {
        match self {
            Self::Run => 0,
            Self::Pilot => 1,
            Self::Training => 2,
        }
    }
}

/// Stream `index` of a seed and purpose: `2^192` steps apart for each purpose (xoshiro's long
/// jump), `2^128` apart for each index (its jump). Streams of one seed never overlap; those of
/// different seeds start from unrelated states, whereas seeding with `seed + index` would make
/// neighbouring seeds share all but one stream. Costs one jump for each index passed, about 0.3 us.
pub fn stream(seed: u64, purpose: Purpose, index: usize) -> StreamRng {
    let mut rng = StreamRng::seed_from_u64(seed);
    for _ in 0..purpose.index() {
        rng.long_jump();
    }
    for _ in 0..index {
        rng.jump();
    }
    rng
}

/// A stream and those after it, each a jump beyond the last.
pub(crate) fn successive(first: StreamRng) -> impl Iterator<Item = StreamRng> {
    std::iter::successors(Some(first), |rng| {
        let mut next = rng.clone();
        next.jump();
        Some(next)
    })
}
