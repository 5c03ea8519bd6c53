//! Random bits for the units of a block of chains.

use crate::num::Available;
use crate::random::{LANES, Lanes};
use crate::rbm::engine::layers::WIDTH;
use crate::rbm::scalar::Scalar;

/// Random bits for one panel of units of all chains of a block.
#[derive(Debug, Clone)]
pub(crate) struct Words(Vec<[u32; LANES]>);

impl Words {
    /// A buffer for this number of chains.
    pub(crate) fn for_chains<T: Scalar>(chains: usize) -> Self {
        Self(vec![[0; LANES]; chains * Self::of_chain::<T>()])
    }

    /// Changes the number of chains.
    pub(crate) fn set_chains<T: Scalar>(&mut self, chains: usize) {
        self.0.resize(chains * Self::of_chain::<T>(), [0; LANES]);
    }

    /// Number of words for a panel of one chain.
    const fn of_chain<T: Scalar>() -> usize {
        WIDTH / LANES * T::WORDS
    }

    /// Draws new words for one panel and returns a slice for each chain.
    pub(crate) fn draw<T: Scalar>(
        &mut self,
        engine: Available,
        lanes: &mut Lanes,
    ) -> impl Iterator<Item = &[[u32; LANES]]> {
        lanes.fill(engine, &mut self.0);
        self.0.chunks_exact(Self::of_chain::<T>())
    }
}
