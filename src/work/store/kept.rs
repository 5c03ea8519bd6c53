//! Work with checkpoints, in one process or shared by several.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keeper::{Finish, Keeper};
use super::parts::{Finished, Piece, Saved};
use super::{decode, encode, guarded};
use crate::work::job::{Carries, Counts, Job, Outbox, Runs, Saver, Site, finished};
use crate::work::ledger::{Closed, Ledger, Share};
use crate::work::task::Task;
use crate::work::tree::{Forest, Merge, Node};
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

impl KeptJob<'_> {
    fn named(&self, error: Error) -> Error {
        match &self.keeper {
            Some(keeper) => keeper.named(error),
            None => error,
        }
    }

    /// Checks saved unfinished blocks, and returns the number of chain-steps done in the blocks of this process.
    fn taken<O: Merge + Send>(
        &self,
        task: &dyn Task<Output = O>,
        under_way: &BTreeMap<usize, Piece>,
    ) -> Result<u64> {
        let (blocks, share) = (task.blocks(), self.job.team.map(|team| team.share()));
        let mut taken = 0;
        for (&block, piece) in under_way {
            let expected = format!("one of {blocks:?}");
            Error::check(blocks.contains(&block), "block under way", block, expected)?;
            let steps = guarded(|| task.check_saved(block, piece))?;
            let is_mine = share.is_none_or(|share| share.has(block));
            taken += if is_mine { steps } else { 0 };
        }
        Ok(taken)
    }
}

/// Decodes the merged output of neighbouring blocks (a node), and refuses blocks or outputs that the task cannot have.
fn node<O: Merge + Send + DeserializeOwned>(
    task: &dyn Task<Output = O>,
    bytes: &[u8],
) -> Result<Node<O>> {
    let node: Node<O> = decode("finished blocks", bytes)?;
    let blocks = task.blocks();
    let within = node.is_within(blocks.end) && node.blocks().start >= blocks.start;
    let expected = format!("one within {blocks:?}");
    Error::check(within, "finished blocks", "one of other blocks", expected)?;
    task.check(node.blocks(), &node.value)?;
    Ok(node)
}

/// Decodes and checks saved outputs, which are sorted by block.
fn nodes<O: Merge + Send + DeserializeOwned>(
    task: &dyn Task<Output = O>,
    saved: &Finished,
) -> Result<Forest<O>> {
    let read = |(blocks, bytes): &(Range<usize>, Vec<u8>)| {
        let node = node(task, bytes)?;
        let found = format!("those of {:?}", node.blocks());
        let expected = format!("those of {blocks:?}");
        Error::check(node.blocks() == *blocks, "finished blocks", found, expected)?;
        Ok(node)
    };
    saved.iter().map(read).collect()
}

impl<O: Merge + Send + Serialize + DeserializeOwned> Runs<O> for KeptJob<'_> {
    fn run(&mut self, task: &dyn Task<Output = O>) -> Result<Closed<O>> {
        let saved = std::mem::take(&mut self.saved.finished);
        let under_way = std::mem::take(&mut self.saved.under_way);
        let read = || Ok((nodes(task, &saved)?, self.taken(task, &under_way)?));
        let (done, taken) = read().map_err(|error| self.named(error))?;
        let Self { job, keeper, .. } = self;
        let share = job.team.map(|team| team.share());
        // Files of several processes may hold blocks beyond the one at which the rule ends the run. `Job::work` merges
        // them one by one and asks the rule each time.
        let ledger = match self.saved.size {
            1 => Ledger::resumed(task.blocks(), done, task.last_is_unfilled()),
            _ => Ledger::unmerged(task.blocks(), done, task.last_is_unfilled()),
        };
        let ledger = ledger.shared(share);
        job.skip(finished(task, &ledger) + taken);
        let keeper = keeper.as_ref();
        if let Some(keeper) = keeper {
            keeper.resume(under_way);
        }
        let post = share.map(|share| Post {
            task,
            share,
            keeper,
            bag: Mutex::new((Vec::new(), saved)),
        });
        let finish = || match &post {
            Some(post) => Ok(post.finished()),
            None => guarded(|| of_ledger(&ledger)),
        };
        let saver = keeper.map(|keeper| BlockSaver {
            keeper,
            finish: &finish,
        });
        let worked = job.work(&Site {
            task,
            ledger: &ledger,
            saver: saver.as_ref().map(|saver| saver as _),
            outbox: post.as_ref().map(|post| post as _),
        });
        // Also after an error, so that a later call can resume.
        if let Some(keeper) = keeper {
            keeper.close(&finish);
        }
        worked.and_then(|()| ledger.close())
    }
}

/// Encodes the finished blocks, merged as far as possible. Only a run of one process uses this.
fn of_ledger<O: Merge + Serialize>(ledger: &Ledger<O>) -> Result<Finished> {
    ledger.look_at_whole(|nodes| {
        let encoded = |node: &&Node<O>| Ok((node.blocks(), encode("finished blocks", *node)?));
        nodes.iter().map(encoded).collect()
    })
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

/// A sender of outputs to all processes. It also keeps this process's outputs for the process's checkpoint file.
struct Post<'a, O> {
    task: &'a dyn Task<Output = O>,
    share: Share,
    keeper: Option<&'a Keeper<'a>>,
    /// Outputs since the last meeting, and all outputs for the file.
    bag: Mutex<(Vec<Vec<u8>>, Finished)>,
}

impl<O> Post<'_, O> {
    fn bag(&self) -> MutexGuard<'_, (Vec<Vec<u8>>, Finished)> {
        self.bag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the outputs for this process's file: its own, and, until each process has its own file, also all outputs
    /// of earlier calls.
    fn finished(&self) -> Finished {
        let mut bag = self.bag();
        if self.keeper.is_some_and(Keeper::is_settled) {
            bag.1.retain(|(blocks, _)| self.share.has(blocks.start));
        }
        bag.1.clone()
    }
}

impl<O: Merge + Send + Serialize + DeserializeOwned> Outbox<O> for Post<'_, O> {
    fn put(&self, block: usize, output: O) -> Result<()> {
        let node = Node::leaf(block, output);
        let bytes = guarded(|| encode("finished blocks", &node))?;
        let mut bag = self.bag();
        if self.keeper.is_some() {
            bag.1.push((node.blocks(), bytes.clone()));
        }
        bag.0.push(bytes);
        Ok(())
    }

    fn take_new(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.bag().0)
    }

    fn read(&self, bytes: &[u8]) -> Result<Node<O>> {
        guarded(|| node(self.task, bytes))
    }
}

struct BlockSaver<'a> {
    keeper: &'a Keeper<'a>,
    finish: &'a (dyn Fn() -> Result<Finished> + Sync),
}

impl Saver for BlockSaver<'_> {
    fn begin(&self, block: usize) -> Option<Piece> {
        self.keeper.begin(block)
    }

    fn passed(&self, block: usize, save: &dyn Fn() -> Result<Vec<u8>>, is_canceled: bool) {
        if is_canceled || self.keeper.wants(block) {
            self.keeper.leave(block, guarded(save));
        }
        // Canceled blocks are written by `Keeper::close`, at the end of the task.
        if !is_canceled {
            self.keeper.tick(self.finish as Finish<'_>);
        }
    }

    fn end(&self, block: usize) {
        self.keeper.end(block);
    }

    fn age(&self) -> f64 {
        self.keeper.age()
    }

    fn tick_at_rest(&self) {
        self.keeper.tick_at_rest(self.finish as Finish<'_>);
    }

    fn has_written(&self) -> bool {
        self.keeper.has_written()
    }

    fn settle(&self) {
        self.keeper.settle();
    }
}
