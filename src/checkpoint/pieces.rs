//! What blocks have left, in the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use crate::{Error, Result};

/// What a block has left.
pub(crate) type Piece = Arc<Vec<u8>>;

/// What blocks have left, by their index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    pub(crate) finished: BTreeMap<usize, Piece>,
    pub(crate) under_way: BTreeMap<usize, Piece>,
}

/// Adds the number of some pieces, and each with its block and its length.
pub(super) fn put_list<'d>(
    parts: &mut Vec<Piece>,
    pieces: impl Iterator<Item = (&'d usize, &'d Piece)>,
) -> Result<()> {
    let pieces: Vec<_> = pieces.collect();
    let mut encoder = Encoder::default();
    encoder.put("number of blocks", &pieces.len())?;
    for (block, piece) in pieces {
        encoder.put("block", block)?;
        encoder.put("length of a block", &piece.len())?;
        parts.push(Arc::new(std::mem::take(&mut encoder).finish()));
        parts.push(Arc::clone(piece));
    }
    parts.push(Arc::new(encoder.finish()));
    Ok(())
}

impl Pieces {
    /// Forgets the blocks from this one on.
    pub(crate) fn truncate(&mut self, blocks: usize) {
        self.finished.split_off(&blocks);
        self.under_way.split_off(&blocks);
    }

    /// Reads the pieces of a run of so many blocks.
    ///
    /// # Errors
    /// Blocks beyond the last, out of order, or both finished and under way.
    pub(crate) fn decode(decoder: &mut Decoder<'_>, blocks: usize) -> Result<Self> {
        let finished = take_list(decoder, blocks)?;
        let under_way = take_list(decoder, blocks)?;
        let both = under_way.keys().find(|block| finished.contains_key(block));
        let block = both.copied().unwrap_or_default();
        let expected = "blocks that are not finished";
        Error::check(both.is_none(), "block under way", block, expected)?;
        Ok(Self {
            finished,
            under_way,
        })
    }
}

fn take_list(decoder: &mut Decoder<'_>, blocks: usize) -> Result<BTreeMap<usize, Piece>> {
    let count: usize = decoder.take("number of blocks")?;
    let expected = format!("at most {blocks}");
    Error::check(count <= blocks, "number of blocks", count, expected)?;
    let mut pieces = BTreeMap::new();
    let mut next = 0;
    for _ in 0..count {
        let block = decoder.take("block")?;
        let expected = format!("{next} to {}", blocks - 1);
        Error::check((next..blocks).contains(&block), "block", block, expected)?;
        next = block + 1;
        pieces.insert(block, Arc::new(decoder.take_bytes("block")?.to_vec()));
    }
    Ok(pieces)
}
