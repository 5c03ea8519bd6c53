//! Work with checkpoints, by one process or several.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keeper::{Finished, Keeper, Piece, Recipient, Saved};
use super::{decode, encode, guarded};
use crate::work::job::{Carries, Counts, Job, Runs, Saver, Site, finished};
use crate::work::ledger::{Closed, Ledger, Share};
#[cfg(feature = "mpi")]
use crate::work::mpi::Courier;
use crate::work::others::Others;
use crate::work::task::{AtWork, Erased, Persist};
use crate::work::tree::{Forest, Merge, Node};
use crate::{Error, Result};

/// The work of one process, or of several together, with checkpoints.
#[allow(missing_debug_implementations)] // No user meets it.
pub struct KeptJob<'e> {
    pub(in crate::work) job: Job<'e>,
    pub(in crate::work) destination: Destination<'e>,
    /// Content of the checkpoint, until the first task takes it.
    pub(in crate::work) saved: Saved,
    /// Number of saved blocks that the first task may use.
    pub(in crate::work) usable: usize,
    pub(in crate::work) others: Option<&'e mut dyn Others>,
}

/// The destination of blocks at work: the file, or the process that writes it.
pub(crate) enum Destination<'e> {
    Keeper(Box<Keeper<'e>>),
    #[cfg(feature = "mpi")]
    Courier(Courier),
}

impl<'e> Destination<'e> {
    fn recipient(&self) -> &dyn Recipient {
        match self {
            Self::Keeper(keeper) => &**keeper,
            #[cfg(feature = "mpi")]
            Self::Courier(courier) => courier,
        }
    }

    #[cfg(feature = "mpi")]
    pub(in crate::work) fn courier(&self) -> Option<&Courier> {
        match self {
            Self::Keeper(_) => None,
            Self::Courier(courier) => Some(courier),
        }
    }

    fn named(&self, error: Error) -> Error {
        match self.keeper() {
            Some(keeper) => keeper.named(error),
            None => error,
        }
    }

    pub(in crate::work) fn keeper(&self) -> Option<&Keeper<'e>> {
        match self {
            Self::Keeper(keeper) => Some(keeper),
            #[cfg(feature = "mpi")]
            Self::Courier(_) => None,
        }
    }
}

impl KeptJob<'_> {
    fn share(&self) -> Share {
        self.others
            .as_ref()
            .map_or(Share::WHOLE, |others| others.share())
    }

    /// Reads and checks the saved outputs for the first task; later tasks find none.
    fn finished<T: Persist>(&mut self, task: &T) -> Result<Forest<T::Output>> {
        let bytes = std::mem::take(&mut self.saved.finished);
        if bytes.is_empty() {
            return Ok(Forest::new());
        }
        let mut finished: Forest<T::Output> = decode("finished blocks", &bytes)?;
        finished.retain(|node| node.blocks().end <= self.usable);
        let (blocks, mut next) = (task.blocks(), 0);
        for node in &finished {
            let within = node.is_within(blocks.end) && node.blocks().start >= next;
            let expected = format!("one within {next}..{}", blocks.end);
            Error::check(within, "finished blocks", "one of other blocks", expected)?;
            next = node.blocks().end;
            task.check(node.blocks(), &node.value)?;
        }
        Ok(finished)
    }

    /// Checks unfinished blocks, and returns the chain-steps that those of this process have taken.
    fn taken<T: Persist>(&self, task: &T, under_way: &BTreeMap<usize, Piece>) -> Result<u64> {
        let (blocks, share) = (task.blocks(), self.share());
        let mut taken = 0;
        for (&block, piece) in under_way {
            let expected = format!("one of {blocks:?}");
            Error::check(blocks.contains(&block), "block under way", block, expected)?;
            let at = guarded(|| task.restore(block, piece))?;
            taken += if share.has(block) { task.taken(&at) } else { 0 };
        }
        Ok(taken)
    }
}

impl<T: Persist> Runs<T> for KeptJob<'_> {
    fn run(&mut self, task: &T) -> Result<Option<Closed<T::Output>>> {
        let done = self.finished(task);
        let done = done.map_err(|error| self.destination.named(error))?;
        let mut under_way = std::mem::take(&mut self.saved.under_way);
        under_way.retain(|block, piece| *block < self.usable && !piece.is_empty());
        self.usable = usize::MAX;
        let mut elsewhere = Vec::new();
        if let Some(others) = &mut self.others {
            let finished = done.iter().map(Node::blocks).collect();
            (elsewhere, under_way) = others.deal((finished, under_way))?;
        }
        let taken = self.taken(task, &under_way);
        let taken = taken.map_err(|error| self.destination.named(error))?;
        let share = self.share();
        let ledger = Ledger::resumed(task.blocks(), done, task.last_is_unfilled());
        let ledger = ledger.shared(share).without(elsewhere);
        let Self {
            job,
            destination,
            others,
            ..
        } = self;
        let work = Erased::kept(task);
        job.skip(finished(&work, &ledger) + taken);
        let recipient = destination.recipient();
        recipient.resume(under_way);
        let saver = BlockSaver {
            ledger: &ledger,
            recipient,
        };
        let finish = || saver.finished();
        let worked = match others {
            None => job.work(&work, &ledger, Some(&saver), None),
            Some(others) => {
                let exchange = &mut |site: &Site<'_, T::Output>| {
                    others.exchange(site, Some((destination, &finish)))
                };
                job.work(&work, &ledger, Some(&saver), Some(exchange))
            }
        };
        if let Some(keeper) = destination.keeper() {
            keeper.close(&finish);
        }
        let closed = worked.and_then(|()| ledger.close())?;
        Ok((share.rank == 0).then_some(closed))
    }
}

impl<C: Serialize + DeserializeOwned> Carries<C> for KeptJob<'_> {
    fn carried(&mut self, check: &dyn Fn(&C) -> Result<()>) -> Result<Option<C>> {
        let mut carried = self.saved.carried.take();
        if let Some(others) = &mut self.others {
            let known = encode("carried value", &carried)?;
            carried = decode("carried value", &others.inform(Some(known))?)?;
        }
        let checked = |bytes: Vec<u8>| {
            let carried = decode("carried value", &bytes)?;
            check(&carried).map(|()| carried)
        };
        let carried = carried.map(checked);
        carried
            .transpose()
            .map_err(|error| self.destination.named(error))
    }

    fn carry(&mut self, reached: Option<C>) -> Result<C> {
        let bytes = reached
            .as_ref()
            .map(|reached| guarded(|| encode("carried value", reached)));
        if let Some(keeper) = self.destination.keeper() {
            keeper.turn(
                bytes
                    .clone()
                    .expect("the process that leads has reached it"),
            );
        }
        match &mut self.others {
            None => Ok(reached.expect("the only process leads")),
            Some(others) => decode("carried value", &others.inform(bytes.transpose()?)?),
        }
    }
}

impl Counts for KeptJob<'_> {
    fn alone(&self) -> &Job<'_> {
        &self.job
    }
}

struct BlockSaver<'a, O> {
    ledger: &'a Ledger<O>,
    recipient: &'a dyn Recipient,
}

impl<O: Merge + Serialize> BlockSaver<'_, O> {
    fn finished(&self) -> Result<Finished> {
        guarded(|| {
            self.ledger.look_at_whole(|nodes| {
                Ok(Finished {
                    blocks: nodes.iter().map(|node| node.blocks()).collect(),
                    bytes: encode("finished blocks", nodes)?,
                })
            })
        })
    }
}

impl<O: Merge + Serialize + Send> Saver<O> for BlockSaver<'_, O> {
    fn begin(&self, block: usize) -> Option<Piece> {
        self.recipient.begin(block)
    }

    fn passed(&self, block: usize, at: &dyn AtWork<O>, is_canceled: bool) {
        if is_canceled || self.recipient.wants(block) {
            self.recipient.leave(block, guarded(|| at.save()));
        }
        if !is_canceled {
            self.recipient.tick(&|| self.finished());
        }
    }

    fn end(&self, block: usize) {
        self.recipient.end(block);
    }

    fn age(&self) -> Option<f64> {
        self.recipient.age()
    }
}
