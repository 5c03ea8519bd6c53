//! Random streams, each fixed by its seed, purpose and index.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "checkpoint")]
use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

#[cfg(feature = "serde")]
use crate::{Error, Result};

/// The generator of random bits; each chain has its own.
pub type StreamRng = Xoshiro256PlusPlus;

/// A use of randomness. Two uses never share a stream of one seed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Purpose(u8);

crate::num::deserialize_checked! { Purpose as (number: u8) => Self::of(number) }

/// Defines the purposes. A purpose whose number changes takes other streams, which changes all its runs.
macro_rules! purposes {
    ($($(#[doc = $doc:literal])+ $public:vis $name:ident = $number:literal;)+) => {
        impl Purpose {
            $($(#[doc = $doc])+ $public const $name: Self = Self($number);)+

            /// Returns the purpose that a file names by its number.
            #[cfg(feature = "serde")]
            fn of(number: u8) -> Result<Self> {
                match number {
                    $($number)|+ => Ok(Self(number)),
                    _ => Err(Error::invalid("purpose", number, "the number of a purpose")),
                }
            }
        }

        impl fmt::Debug for Purpose {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self.0 {
                    $($number => stringify!($name),)+
                    _ => "unknown",
                })
            }
        }
    };
}

// A number belongs to its purpose for ever, since it decides on the bits of runs: 4 and 8 are gone, and the next one is 35.
purposes! {
    /// The chains of an annealed run.
    pub RUN = 0;
    /// The chains of a pilot run, which surveys a path.
    pub PILOT = 1;
    /// The training of an RBM.
    pub TRAINING = 2;
    /// The chains of a run that reads a path backward.
    pub(crate) REVERSE = 3;
    /// The particles to which a drift modifier is fitted.
    pub(crate) ENSEMBLE = 5;
    /// The chains that learned transitions imitate.
    pub(crate) IMITATION = 6;
    /// The chains at the knots of a path.
    pub(crate) KNOTS = 7;
    /// The seeds of a pilot's later rounds.
    pub(crate) PILOT_ROUNDS = 9;
    /// The weights at which the training of an RBM starts.
    pub RBM_WEIGHTS = 10;
    /// The weights at which the training of a decoder starts.
    pub DECODER_WEIGHTS = 11;
    /// The weights at which the training of learned transitions starts.
    pub(crate) FLOW_WEIGHTS = 12;
    /// The hidden units of transitions that imitate a kernel.
    pub(crate) IMITATION_WEIGHTS = 13;
    /// The training of learned transitions.
    pub(crate) FLOW_TRAINING = 14;
    /// The chains of moment matching.
    pub(crate) MATCHING = 15;
    /// The chains that estimate an RBM's moments.
    pub(crate) MOMENTS = 16;
    /// The samples that evaluate learned transitions.
    pub(crate) EVALUATION = 17;
    /// A few chains that show what a path and a kernel do, and the shape of the states.
    pub(crate) PROBE = 18;
    /// The chains of the checks in [`testing`](crate::testing).
    pub TESTING = 19;
    /// Simulated data.
    pub DATA = 20;
    /// The choice of a run's states as samples of its target, and their moves.
    pub(crate) RESAMPLING = 21;
    /// The chains that read a path backward from held-out data.
    pub(crate) RAISE = 22;
    /// Exact samples of a target, where a reverse run starts.
    pub(crate) EXACT_SAMPLES = 23;
    /// The population of a first pass, which finds stages and kernel.
    pub(crate) FIRST_PASS = 24;
    /// The seeds of the single rounds of a run in rounds.
    pub(crate) ROUNDS = 25;
    /// The first passes from which a base is fitted, and its draws.
    pub(crate) FITTED = 34;
    /// The replicas of parallel tempering.
    pub(crate) TEMPERING = 26;
    /// The seeds of the tuning rounds of parallel tempering.
    pub(crate) TEMPERING_ROUNDS = 27;
    /// The population of nested SMC, which finds levels of the likelihood.
    pub(crate) NESTED_SMC = 28;
    /// The states from which mean-field solutions of an RBM are sought.
    pub(crate) MEAN_FIELD = 29;
    /// The search for an RBM's start: the seeds of its pilots, and the draws between pilots.
    pub(crate) START = 30;
    /// The seeds and the cooling chains of a challenge.
    pub(crate) CHALLENGE = 31;
    /// The chains that cool the configurations of an RBM's layer.
    pub(crate) COOLING = 32;
    /// The draws from fitted distributions that bridge sampling compares with draws from a target.
    pub(crate) BRIDGE_SAMPLING = 33;
}

impl Purpose {
    pub(crate) fn reads_backward(self) -> bool {
        matches!(self, Self::REVERSE | Self::RAISE)
    }
}

/// Returns stream `index` of a seed and a purpose.
///
/// Streams of one seed never overlap: purposes are `2^192` steps apart (xoshiro's long jump), indices `2^128` steps
/// (its jump). Streams of different seeds start from unrelated states. A call takes one jump per index, about 0.3 us.
pub fn stream(seed: u64, purpose: Purpose, index: usize) -> StreamRng {
    let mut rng = StreamRng::seed_from_u64(seed);
    for _ in 0..purpose.0 {
        rng.long_jump();
    }
    for _ in 0..index {
        rng.jump();
    }
    rng
}

/// Returns whether the generator is in the state of all zeros, which it never leaves and no seed gives.
#[cfg(feature = "checkpoint")]
pub(crate) fn is_stuck(rng: &StreamRng) -> bool {
    let mut next = rng.clone();
    next.next_u64();
    next == *rng
}

/// Returns `first` and the streams that follow, each a jump beyond the one before.
pub(crate) fn successive(first: StreamRng) -> impl Iterator<Item = StreamRng> {
    std::iter::successors(Some(first), |rng| {
        let mut next = rng.clone();
        next.jump();
        Some(next)
    })
}

/// Streams of the first chain of each block, made on demand: a run may end long before its last block.
pub(crate) struct BlockStreams {
    block_size: usize,
    made: Mutex<Made>,
}

struct Made {
    next: (usize, StreamRng),
    /// Streams of earlier blocks that have not been taken yet.
    waiting: BTreeMap<usize, StreamRng>,
}

impl BlockStreams {
    /// Creates the streams of blocks of `block_size` chains, given the first block and its stream as `next`.
    pub(crate) fn new(next: (usize, StreamRng), block_size: usize) -> Self {
        let waiting = BTreeMap::new();
        Self {
            block_size,
            made: Mutex::new(Made { next, waiting }),
        }
    }

    /// Takes the stream of a block's first chain, once per block.
    pub(crate) fn take(&self, block: usize) -> StreamRng {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        while made.next.0 <= block {
            let (earlier, stream) = made.next.clone();
            made.waiting.insert(earlier, stream);
            made.next.0 += 1;
            (0..self.block_size).for_each(|_| made.next.1.jump());
        }
        let waiting = made.waiting.remove(&block);
        waiting.expect("each block is asked for once")
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_purpose_are_refused() {
        assert_eq!(
            serde_json::from_str::<Purpose>("3").unwrap(),
            Purpose::REVERSE
        );
        for number in ["4", "35", "255"] {
            let refused = serde_json::from_str::<Purpose>(number).unwrap_err();
            assert!(refused.to_string().contains("invalid purpose"), "{refused}");
        }
    }
}
