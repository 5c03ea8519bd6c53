//! Random streams, each fixed by its seed, purpose and index.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "checkpoint")]
use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of random bits; each chain has its own.
pub type StreamRng = Xoshiro256PlusPlus;

/// The uses of randomness. Two uses never share a stream of one seed. Another number of a variant would change all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Purpose {
    /// The chains of an annealed run.
    Run,
    /// The chains of a pilot run, which surveys a path.
    Pilot,
    /// The training of an RBM.
    Training,
    /// The chains of a run that reads a path backward.
    Reverse,
    /// The particles to which a drift modifier is fitted.
    Ensemble = 5,
    /// The chains that learned transitions imitate.
    Imitation,
    /// The chains at the knots of a path.
    Knots,
    /// The seeds of a pilot's later rounds.
    PilotRounds = 9,
    /// The weights at which the training of an RBM starts.
    RbmWeights,
    /// The weights at which the training of a decoder starts.
    DecoderWeights,
    /// The weights at which the training of learned transitions starts.
    FlowWeights,
    /// The hidden units of transitions that imitate a kernel.
    ImitationWeights,
    /// The training of learned transitions.
    FlowTraining,
    /// The chains of moment matching.
    Matching,
    /// The chains that estimate an RBM's moments.
    Moments,
    /// The samples that evaluate learned transitions.
    Evaluation,
    /// A few chains that show what a path and a kernel do, and the shape of the states.
    Probe,
    /// The chains of the checks in [`testing`](crate::testing).
    Testing,
    /// Simulated data.
    Data,
    /// The choice of a run's states as samples of its target, and their moves.
    Resampling,
    /// The chains that read a path backward from held-out data.
    Raise,
    /// Exact samples of a target, where a reverse run starts.
    ExactSamples,
    /// The population of a first pass, which finds stages and kernel.
    FirstPass,
    /// The seeds of the single rounds of a run in rounds.
    Rounds,
    /// The replicas of parallel tempering.
    Tempering,
    /// The seeds of the tuning rounds of parallel tempering.
    TemperingRounds,
    /// The population of nested SMC, which finds levels of the likelihood.
    NestedSmc,
    /// The states from which mean-field solutions of an RBM are sought.
    MeanField,
    /// The search for an RBM's start: the seeds of its pilots, and the draws between pilots.
    Start,
    /// The seeds and the cooling chains of a challenge.
    Challenge,
    /// The chains that cool the configurations of an RBM's layer.
    Cooling,
    /// The draws from fitted distributions that bridge sampling compares with draws from a target.
    BridgeSampling,
}

impl Purpose {
    pub(crate) fn reads_backward(self) -> bool {
        matches!(self, Self::Reverse | Self::Raise)
    }
}

/// Returns stream `index` of a seed and a purpose.
///
/// Streams of one seed never overlap: purposes are `2^192` steps apart (xoshiro's long jump), indices `2^128` steps
/// (its jump). Streams of different seeds start from unrelated states. A call takes one jump per index, about 0.3 us.
pub fn stream(seed: u64, purpose: Purpose, index: usize) -> StreamRng {
    let mut rng = StreamRng::seed_from_u64(seed);
    for _ in 0..purpose as usize {
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
