//! The random streams of blocks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::settings::Settings;
use crate::random::{StreamRng, stream};

/// The stream of the first chain of each block, made when it is asked for: a run with a budget may be allowed
/// far more chains than it needs.
pub(super) struct BlockStreams {
    block_size: usize,
    made: Mutex<Made>,
}

struct Made {
    /// The next block, and its stream.
    next: (usize, StreamRng),
    /// Streams of earlier blocks that nobody has asked for yet.
    waiting: BTreeMap<usize, StreamRng>,
}

impl BlockStreams {
    /// Of a run's blocks from this one on.
    pub(super) fn new(settings: &Settings, first: usize) -> Self {
        let chain = settings.block_size * first;
        let next = (first, stream(settings.seed, settings.purpose, chain));
        Self {
            block_size: settings.largest_block(),
            made: Mutex::new(Made {
                next,
                waiting: BTreeMap::new(),
            }),
        }
    }

    /// The stream of a block's first chain. Each block is asked for once.
    pub(super) fn take(&self, block: usize) -> StreamRng {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        while made.next.0 < block {
            let (earlier, stream) = made.next.clone();
            made.waiting.insert(earlier, stream);
            self.step(&mut made);
        }
        if made.next.0 == block {
            let stream = made.next.1.clone();
            self.step(&mut made);
            return stream;
        }
        let waiting = made.waiting.remove(&block);
        waiting.expect("each block is asked for once")
    }

    fn step(&self, made: &mut Made) {
        made.next.0 += 1;
        (0..self.block_size).for_each(|_| made.next.1.jump());
    }
}
