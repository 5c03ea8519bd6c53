//! Random bits for the units of a block of chains.

use crate::num::Available;
use crate::random::{LANES, Lanes};
use crate::rbm::engine::layers::WIDTH;
use crate::rbm::scalar::Scalar;

/// Random bits for one panel of units of all chains of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(Vec<[u32; LANES]>);

impl Words {
    /// Draws new words for one panel and returns a slice for each of so many chains.
    pub(crate) fn draw<T: Scalar>(
        &mut self,
        engine: Available,
        lanes: &mut Lanes,
        chains: usize,
    ) -> impl Iterator<Item = &[[u32; LANES]]> {
        let of_chain = WIDTH / LANES * T::WORDS;
        self.0.resize(chains * of_chain, [0; LANES]);
        lanes.fill(engine, &mut self.0);
        self.0.chunks_exact(of_chain)
    }
}
