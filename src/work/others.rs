//! Other processes that share the work of this one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::job::Site;
use super::ledger::Share;
use super::store::{Destination, Finish, Piece};
use super::store::{decode, encode};
use super::tree::Merge;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Finished blocks, and saved blocks under way.
pub(crate) type Dealt = (Vec<Range<usize>>, BTreeMap<usize, Piece>);

/// The processes that share the work. The first one leads. All call the same methods in the same order.
pub trait Others {
    /// Returns the share of this process.
    fn share(&self) -> Share;

    /// Sends each process the first one's `known` finished blocks, and those of its share that are under way.
    fn deal(&mut self, known: Dealt) -> Result<Dealt>;

    /// Sends the first process's `known` value to all processes, and returns it.
    fn inform(&mut self, known: Option<Vec<u8>>) -> Result<Vec<u8>>;

    /// Sends finished blocks to the first process while threads work, and saves blocks. Leaves no message unread.
    fn exchange(
        &mut self,
        blocks: &dyn Blocks,
        saving: Option<(&Destination<'_>, Finish<'_>)>,
    ) -> Result<()>;
}

/// The blocks at work in this process, with outputs as bytes.
pub(crate) trait Blocks {
    fn limit(&self) -> usize;

    fn cancel_from(&self, block: usize);

    fn are_done(&self) -> bool;

    /// Counts blocks that another process has finished.
    fn arrived(&self, blocks: Range<usize>) -> Result<()>;

    fn enter(&self, block: usize, output: &[u8]) -> Result<()>;

    fn fail(&self, block: usize, error: Error);

    /// Takes out the finished blocks, and the error to report, of a process that does not lead.
    fn take_out(&self) -> Result<TakenOut>;
}

/// Outputs of blocks, and the error of one block.
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
