//! Work with checkpoints, in one process or shared by several.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keeper::Keeper;
use super::parts::{Finished, Piece, Saved};
use super::{decode, encode, guarded};
use crate::work::job::{Carries, Counts, Job, Runs, Site};
use crate::work::ledger::Closed;
use crate::work::task::{Save, Task};
use crate::work::tree::{Merge, Node};
use crate::{Error, Result};

/// The work of one process with checkpoints, or of several processes with or without checkpoints.
#[allow(missing_debug_implementations)] // No user meets it.
pub struct KeptJob<'e> {
    pub(super) job: Job<'e>,
    /// The writer of checkpoints, if there are any.
    pub(super) keeper: Option<Keeper<'e>>,
    /// Content of the checkpoint, until the first task takes it.
    pub(super) saved: Saved,
}

/// The part of a task at work that saves its blocks, and sends them to other processes.
pub(in crate::work) struct Kept<'a, O> {
    keeper: Option<&'a Keeper<'a>>,
    format: Format<Node<O>>,
    /// Outputs of this process, if several share the blocks.
    outbox: Option<Mutex<Outbox>>,
}

/// The functions that write and read a value. Their first argument names the value in errors.
struct Format<T> {
    write: fn(&'static str, &T) -> Result<Vec<u8>>,
    read: fn(&'static str, &[u8]) -> Result<T>,
}

/// Outputs of one of several processes: those since the last meeting, and all for its file, if it writes one.
struct Outbox {
    unsent: Vec<Vec<u8>>,
    kept: Option<Finished>,
}

impl KeptJob<'_> {
    fn named(&self, error: Error) -> Error {
        match &self.keeper {
            Some(keeper) => keeper.named(error),
            None => error,
        }
    }
}

impl<O: Merge + Send + Serialize + DeserializeOwned> Runs<O> for KeptJob<'_> {
    fn run(&mut self, task: &dyn Task<Output = O>) -> Result<Closed<O>> {
        let mut finished = std::mem::take(&mut self.saved.finished);
        let mut under_way = std::mem::take(&mut self.saved.under_way);
        let format = Format {
            write: encode::<Node<O>>,
            read: decode::<Node<O>>,
        };
        let share = self.job.team.map(|team| team.share());
        let is_mine = |block: usize| share.is_none_or(|share| share.has(block));
        let read = || {
            let nodes = finished
                .iter()
                .map(|saved| saved_node(task, &format, saved));
            let steps = under_way.iter().map(|(&block, piece)| {
                let steps = checked_steps(task, block, piece)?;
                Ok(if is_mine(block) { steps } else { 0 })
            });
            Ok((nodes.collect::<Result<_>>()?, steps.sum::<Result<u64>>()?))
        };
        let (done, taken) = read().map_err(|error| self.named(error))?;
        // From here on this process keeps what is its own.
        finished.retain(|(blocks, _)| is_mine(blocks.start));
        under_way.retain(|block, _| is_mine(*block));
        let Self { job, keeper, .. } = self;
        let keeper = keeper.as_ref();
        job.skip(taken);
        if let Some(keeper) = keeper {
            keeper.resume(under_way);
        }
        let outbox = Outbox {
            unsent: Vec::new(),
            kept: keeper.map(|_| finished),
        };
        let mut site = Site::new(job, task, done).shared(share);
        site.kept = Some(Kept {
            keeper,
            format,
            outbox: share.map(|_| Mutex::new(outbox)),
        });
        let worked = job.work(&site);
        // Also after an error, so that a later call can resume.
        if let Some(keeper) = keeper {
            keeper.close(&|| site.finished());
        }
        worked.and_then(|()| site.ledger.close())
    }
}

/// Returns the chain-steps of a block in progress. Refuses bytes that no block of the task can have left.
fn checked_steps<O: Merge + Send>(
    task: &dyn Task<Output = O>,
    block: usize,
    piece: &Piece,
) -> Result<u64> {
    let blocks = task.blocks();
    let expected = format!("one of {blocks:?}");
    Error::check(blocks.contains(&block), "block under way", block, expected)?;
    guarded(|| task.check_saved(block, piece))
}

/// Decodes the merged output of neighbouring blocks (a node), and refuses blocks or outputs that the task cannot have.
fn node<O: Merge + Send>(
    task: &dyn Task<Output = O>,
    format: &Format<Node<O>>,
    bytes: &[u8],
) -> Result<Node<O>> {
    let node = (format.read)("finished blocks", bytes)?;
    let blocks = task.blocks();
    let within = node.is_within(blocks.end) && node.blocks().start >= blocks.start;
    let expected = format!("one within {blocks:?}");
    Error::check(within, "finished blocks", "one of other blocks", expected)?;
    task.check(node.blocks(), &node.value)?;
    Ok(node)
}

/// Decodes and checks a saved output.
fn saved_node<O: Merge + Send>(
    task: &dyn Task<Output = O>,
    format: &Format<Node<O>>,
    (blocks, bytes): &(Range<usize>, Vec<u8>),
) -> Result<Node<O>> {
    let node = guarded(|| node(task, format, bytes))?;
    let found = format!("those of {:?}", node.blocks());
    let expected = format!("those of {blocks:?}");
    Error::check(node.blocks() == *blocks, "finished blocks", found, expected)?;
    Ok(node)
}

impl<O> Kept<'_, O> {
    fn write(&self, node: &Node<O>) -> Result<Vec<u8>> {
        guarded(|| (self.format.write)("finished blocks", node))
    }

    /// Calls `at` with the outputs of this process, if several share the blocks.
    fn with_outbox<T>(&self, at: impl FnOnce(&mut Outbox) -> T) -> Option<T> {
        let outbox = self.outbox.as_ref()?;
        Some(at(&mut outbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What happens to blocks besides the work on them.
impl<'a, O: Merge + Send> Site<'a, O> {
    pub(in crate::work) fn keeper(&self) -> Option<&'a Keeper<'a>> {
        self.kept.as_ref()?.keeper
    }

    /// Saves a block after a step, if a checkpoint is due or the block is canceled.
    pub(in crate::work) fn save(&self, block: usize, save: Save<'_>, is_canceled: bool) {
        let Some(keeper) = self.keeper() else {
            return;
        };
        if is_canceled || keeper.wants(block) {
            keeper.leave(block, guarded(save));
        }
        // Canceled blocks are written at the end of the task.
        if !is_canceled {
            keeper.tick(&|| self.finished());
        }
    }

    /// Returns whether several processes share the blocks.
    pub(in crate::work) fn shares_blocks(&self) -> bool {
        let kept = self.kept.as_ref();
        kept.is_some_and(|kept| kept.outbox.is_some())
    }

    /// Stores an output that other processes are to have. Returns `None` if processes do not share the blocks.
    pub(in crate::work) fn send(&self, node: &Node<O>) -> Option<Result<()>> {
        let kept = self.kept.as_ref().filter(|kept| kept.outbox.is_some())?;
        Some(kept.write(node).map(|bytes| {
            kept.with_outbox(|outbox| {
                let file = outbox.kept.iter_mut();
                file.for_each(|file| file.push((node.blocks(), bytes.clone())));
                outbox.unsent.push(bytes);
            });
        }))
    }

    /// Returns the outputs since the last call, as bytes; `None` if processes do not share the blocks.
    pub(in crate::work) fn take_unsent(&self) -> Option<Vec<Vec<u8>>> {
        let kept = self.kept.as_ref()?;
        kept.with_outbox(|outbox| std::mem::take(&mut outbox.unsent))
    }

    /// Decodes an output that a process sent. Refuses blocks or outputs that the task cannot have, and blocks that are
    /// finished.
    pub(in crate::work) fn received(&self, bytes: &[u8]) -> Result<Node<O>> {
        let read = |kept: &Kept<'_, O>| guarded(|| node(self.task, &kept.format, bytes));
        let none = || {
            Err(Error::invalid(
                "blocks",
                "of work that is not shared",
                "none",
            ))
        };
        let node = self.kept.as_ref().map_or_else(none, read)?;
        let expected = "blocks of this task that are not finished yet";
        let found = format!("{:?}", node.blocks());
        Error::check(self.ledger.lacks(&node.blocks()), "blocks", found, expected)?;
        Ok(node)
    }

    /// Returns the finished blocks for the file of this process: its own, or, if it is the only process, all of them,
    /// merged as far as possible.
    pub(in crate::work) fn finished(&self) -> Result<Finished> {
        let Some(kept) = &self.kept else {
            return Ok(Finished::new());
        };
        let own = kept.with_outbox(|outbox| outbox.kept.clone().unwrap_or_default());
        own.map_or_else(|| self.ledger.encoded(|node| kept.write(node)), Ok)
    }
}

impl<C: Serialize + DeserializeOwned> Carries<C> for KeptJob<'_> {
    fn carried(&mut self, check: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>> {
        let checked = |bytes: Vec<u8>| {
            let carried = decode("carried value", &bytes)?;
            check(&carried).map(|()| carried)
        };
        let carried = self.saved.carried.take().map(checked);
        carried.transpose().map_err(|error| self.named(error))
    }

    fn carry(&mut self, reached: C, figures: &[f64]) -> Result<C> {
        let reached = match self.job.team {
            Some(team) => team.led(&reached, figures)?,
            None => reached,
        };
        if let Some(keeper) = &self.keeper {
            keeper.turn(guarded(|| encode("carried value", &reached)));
        }
        Ok(reached)
    }
}

impl Counts for KeptJob<'_> {
    fn job(&self) -> &Job<'_> {
        &self.job
    }
}
