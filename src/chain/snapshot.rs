//! A block between two stages, as bytes.
//!
//! Log ratios, the log weights before the last stage and what its moves missed belong to that stage alone, and are not
//! kept.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::block::Block;
use crate::checkpoint::{Decoder, Encoder};
use crate::random::{StreamRng, is_stuck};
use crate::{Error, Result};

impl<S: Serialize> Block<S> {
    /// Writes the chains.
    ///
    /// # Errors
    /// States that the format cannot hold.
    pub(crate) fn encode(&self, encoder: &mut Encoder) -> Result<()> {
        encoder.put_list("states", self.states.iter())?;
        encoder.put_list("random streams", self.rngs.iter())?;
        encoder.put("lanes of random bits", &self.lanes)?;
        encoder.put_list("log weights", self.log_weights.iter())?;
        encoder.put("decisions", &self.decisions)
    }
}

impl<S: DeserializeOwned> Block<S> {
    /// Reads so many chains, of which the first one has this index in its run.
    ///
    /// # Errors
    /// Another number of chains; a generator that stands still; a log weight that is NaN or `+inf`.
    pub(crate) fn decode(
        decoder: &mut Decoder<'_>,
        first_chain: usize,
        chains: usize,
    ) -> Result<Self> {
        let states = decoder.take_list("states", chains)?;
        let rngs: Vec<StreamRng> = decoder.take_list("random streams", chains)?;
        if let Some(chain) = rngs.iter().position(is_stuck) {
            let (found, expected) = (
                format!("zeros for chain {chain}"),
                "bits that are not all 0",
            );
            return Err(Error::invalid("random streams", found, expected));
        }
        let lanes = decoder.take("lanes of random bits")?;
        let log_weights: Vec<f64> = decoder.take_list("log weights", chains)?;
        let weights = log_weights.iter().copied().enumerate();
        let below = |x| x < f64::INFINITY;
        Error::check_each("log weights", "chain", weights, below, "numbers below +inf")?;
        let mut block = Self::new(first_chain, states, rngs);
        block.lanes = lanes;
        block.log_weights = log_weights;
        block.decisions = decoder.take("decisions")?;
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Decisions;
    use crate::random::{LANES, Purpose, stream};

    type Bits = [[u32; LANES]; 4];

    /// Reads a block of one chain whose generators have these bits.
    fn decode(stream_bits: [u64; 4], lane_bits: Option<Bits>) -> Result<Block<f64>> {
        let mut encoder = Encoder::default();
        encoder.put_list("states", [1.5].iter())?;
        encoder.put_list("random streams", [stream_bits].iter())?;
        encoder.put("lanes of random bits", &lane_bits)?;
        encoder.put_list("log weights", [-2.5].iter())?;
        encoder.put("decisions", &Decisions::default())?;
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        let block = Block::decode(&mut decoder, 3, 1)?;
        decoder.finish().map(|()| block)
    }

    #[test]
    fn generators_that_stand_still_are_refused() {
        let (mut one, mut all) = ([[0; LANES]; 4], [[0; LANES]; 4]);
        one[2][LANES - 1] = 1;
        all[1].fill(1);
        let block = decode([0, 0, 1, 0], Some(all)).unwrap();
        assert_eq!(block.states(), [1.5]);
        assert_eq!(block.log_weights(), [-2.5]);
        assert_eq!(block.first_chain(), 3);
        let message = decode([0; 4], None).unwrap_err().to_string();
        assert!(message.contains("zeros for chain 0"), "{message}");
        let message = decode([1; 4], Some(one)).unwrap_err().to_string();
        assert!(message.contains("lanes of random bits"), "{message}");
    }

    #[test]
    fn no_stream_stands_still() {
        assert!((0..100).all(|index| !is_stuck(&stream(0, Purpose::Testing, index))));
    }
}
