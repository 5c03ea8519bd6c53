//! Jobs whose blocks are saved, or shared with other processes.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::bytes::guarded;
use super::job::{Job, NEEDED, Site};
use super::ledger::Closed;
use super::store::{Finished, Outbox};
use super::task::{Format, Task};
use super::team::Team;
use super::tree::{Merge, Node};
use crate::{Error, Result};

/// Work that is saved, or shared with other processes.
impl Job<'_> {
    pub(super) fn is_kept(&self) -> bool {
        self.team.is_some() || self.keeper.is_some()
    }

    /// Runs a task, as [`run`](Self::run).
    pub(super) fn run_kept<O: Merge + Send>(
        &mut self,
        task: &dyn Task<Output = O>,
        format: Format<O>,
    ) -> Result<Closed<O>> {
        let mut finished = std::mem::take(&mut self.saved.finished);
        let mut under_way = std::mem::take(&mut self.saved.under_way);
        let share = self.team.map(Team::share);
        let is_mine = |block: usize| share.is_none_or(|share| share.has(block));
        let read = || {
            let nodes = finished
                .iter()
                .map(|(blocks, bytes)| node(task, format, blocks, bytes));
            let steps = under_way.iter().map(|(&block, piece)| {
                let steps = checked_steps(task, block, piece)?;
                Ok(if is_mine(block) { steps } else { 0 })
            });
            Ok((nodes.collect::<Result<_>>()?, steps.sum::<Result<u64>>()?))
        };
        let (done, taken) = read().map_err(|error| self.named_by_file(error))?;
        // From here on this process keeps what is its own.
        finished.retain(|(blocks, _)| is_mine(blocks.start));
        under_way.retain(|block, _| is_mine(*block));
        self.skip(taken);
        let keeper = self.keeper.as_ref();
        if let Some(keeper) = keeper {
            keeper.resume(under_way);
        }
        let outbox = Outbox {
            unsent: Finished::new(),
            kept: keeper.map(|_| finished),
        };
        let mut site = Site::new(&self.meter, task, done).shared(share);
        site.keeper = keeper;
        site.format = Some(format);
        site.outbox = share.map(|_| Mutex::new(outbox));
        let worked = self.work(&site);
        // Also after an error, so that a later call can resume.
        if let Some(keeper) = keeper {
            keeper.close(&|| site.finished());
        }
        worked.and_then(|()| site.ledger.close())
    }

    /// Carries a value, as [`carry`](Self::carry).
    pub(super) fn carry_kept<C>(
        &mut self,
        format: Format<C>,
        mut reached: C,
        figures: &[f64],
    ) -> Result<C> {
        let mut bytes = guarded(|| (format.write)("carried value", &reached));
        if let Some(team) = self.team {
            let of_first = team.led(bytes, figures)?;
            reached = (format.read)("value of rank 0", &of_first)?;
            bytes = Ok(of_first);
        }
        if let Some(keeper) = &self.keeper {
            keeper.start_next_task(bytes);
        }
        Ok(reached)
    }

    pub(super) fn named_by_file(&self, error: Error) -> Error {
        match &self.keeper {
            Some(keeper) => keeper.named(error),
            None => error,
        }
    }
}

/// Returns the chain-steps of a block in progress. Refuses bytes that no block of the task can have left.
fn checked_steps<O: Merge + Send>(
    task: &dyn Task<Output = O>,
    block: usize,
    piece: &[u8],
) -> Result<u64> {
    let blocks = task.blocks();
    let expected = format!("one of {blocks:?}");
    Error::check(blocks.contains(&block), "block under way", block, expected)?;
    guarded(|| task.check_saved(block, piece))
}

/// The outputs of finished blocks, as bytes.
impl<O: Merge + Send> Site<'_, O> {
    fn write(&self, node: &Node<O>) -> Result<Vec<u8>> {
        let format = self.format.expect(NEEDED);
        guarded(|| (format.write)("finished blocks", &node.value))
    }

    /// Stores an output that other processes are to have.
    pub(super) fn put(&self, outbox: &Mutex<Outbox>, node: &Node<O>) -> Result<()> {
        let output = (node.blocks(), self.write(node)?);
        let mut outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let file = outbox.kept.iter_mut();
        file.for_each(|file| file.push(output.clone()));
        outbox.unsent.push(output);
        Ok(())
    }

    /// Returns the outputs for the file of this process: its own, or, if it is the only process, all of them, merged as
    /// far as possible.
    pub(super) fn finished(&self) -> Result<Finished> {
        let Some(outbox) = &self.outbox else {
            return self.ledger.encoded(|node| self.write(node));
        };
        let outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(outbox.kept.clone().unwrap_or_default())
    }

    /// Returns the outputs that other processes do not have yet.
    pub(super) fn take_unsent(&self) -> Finished {
        let outbox = self.outbox.as_ref().map(Mutex::lock);
        outbox.map_or(Finished::new(), |outbox| {
            std::mem::take(&mut outbox.unwrap_or_else(PoisonError::into_inner).unsent)
        })
    }
}

/// Decodes the merged output of neighbouring blocks (a node), and refuses blocks or outputs that the task cannot have.
pub(super) fn node<O: Merge + Send>(
    task: &dyn Task<Output = O>,
    format: Format<O>,
    blocks: &Range<usize>,
    bytes: &[u8],
) -> Result<Node<O>> {
    let all = task.blocks();
    let within = all.start <= blocks.start && blocks.start < blocks.end && blocks.end <= all.end;
    let (found, expected) = (format!("{blocks:?}"), format!("blocks within {all:?}"));
    Error::check(within, "finished blocks", &found, &expected)?;
    guarded(|| {
        let value = (format.read)("finished blocks", bytes)?;
        task.check(blocks.clone(), &value)?;
        let node = Node::of(blocks, value);
        node.ok_or_else(|| Error::invalid("finished blocks", found, "a node of the tree of blocks"))
    })
}
