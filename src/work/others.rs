//! Other processes that share the work of this one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::job::Site;
use super::ledger::Share;
use super::store::{Desk, Finish, Piece};
use super::store::{decode, encode};
use super::tree::Merge;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Finished blocks, and blocks on their way.
pub(crate) type Dealt = (Vec<Range<usize>>, BTreeMap<usize, Piece>);

/// The processes that share the work. The first of them leads. All call the same methods in the same order.
pub trait Others {
    /// Returns the blocks of this process.
    fn share(&self) -> Share;

    /// Deals out what the first process knows of the blocks: which are finished, and which are on their way.
    fn deal(&mut self, known: Dealt) -> Result<Dealt>;

    /// Tells all what the first process knows.
    fn inform(&mut self, known: Option<Vec<u8>>) -> Result<Vec<u8>>;

    /// Brings finished blocks to the first process, while threads do those of this one, and saves blocks on their way.
    /// All leave with no message under way.
    fn exchange(
        &mut self,
        blocks: &dyn Blocks,
        saving: Option<(&Desk<'_>, Finish<'_>)>,
    ) -> Result<()>;
}

/// The blocks at work in this process, whose outputs travel as bytes.
pub(crate) trait Blocks {
    /// Returns the block from which on none is wanted any more.
    fn limit(&self) -> usize;

    /// Lets no block from this one on be done.
    fn cancel_from(&self, block: usize);

    /// Whether all threads are done.
    fn are_done(&self) -> bool;

    /// Counts blocks that another process has finished.
    fn arrived(&self, blocks: Range<usize>) -> Result<()>;

    /// Takes in the output of a block that another process has finished.
    fn enter(&self, block: usize, output: &[u8]) -> Result<()>;

    /// Takes in the error of a block in another process.
    fn fail(&self, block: usize, error: Error);

    /// Takes out what a process that does not lead has finished, and its leftmost block that failed.
    fn take_out(&self) -> Result<TakenOut>;
}

/// Blocks with their outputs, and one with its error.
pub(crate) type TakenOut = (Vec<(usize, Vec<u8>)>, Option<(usize, Error)>);

impl<O: Merge + Serialize + DeserializeOwned> Blocks for Site<'_, O> {
    fn limit(&self) -> usize {
        self.ledger.limit()
    }

    fn cancel_from(&self, block: usize) {
        self.ledger.cancel_from(block);
    }

    fn are_done(&self) -> bool {
        (self.are_done)()
    }

    fn arrived(&self, blocks: Range<usize>) -> Result<()> {
        (self.arrived)(blocks)
    }

    fn enter(&self, block: usize, output: &[u8]) -> Result<()> {
        let output = decode("output of another rank", output)?;
        self.ledger.enter(block, Ok(output), self.rule);
        Ok(())
    }

    fn fail(&self, block: usize, error: Error) {
        self.ledger.enter(block, Err(Some(error)), self.rule);
    }

    fn take_out(&self) -> Result<TakenOut> {
        let (finished, failed) = self.ledger.take_out();
        let outputs = finished.into_iter().map(|node| {
            let output = encode("message to another rank", &node.value)?;
            Ok((node.blocks().start, output))
        });
        Ok((outputs.collect::<Result<_>>()?, failed))
    }
}
