//! The meetings of processes that work on a task. Each learns what the others have finished, and whether to stop.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::execution::StoppedBy;
use super::job::{Site, caught_once, merging_panicked};
use super::ledger::{Failure, Rule};
use super::team::{Team, of_rank};
use super::tree::Merge;
use crate::{Error, Result};

/// The news of one process since the last meeting.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct News {
    /// Finished blocks, each a node of the tree of results in serialised form.
    finished: Vec<Vec<u8>>,
    /// Block and text of the failure to report, and whether the failure ends all work.
    failed: Option<(usize, bool, String)>,
    asked: Option<StoppedBy>,
    /// Whether the process has no block in progress and begins none.
    pub(super) is_done: bool,
    /// Whether the process has the outputs of all blocks, if each process runs all of them.
    is_complete: bool,
    has_checkpoint: bool,
}

/// A participant in meetings. The trait is not generic, so that the loop over meetings is compiled only once.
pub(super) trait Meets {
    /// Returns the news of this process. `is_done` is true if its threads are done.
    fn news(&mut self, is_done: bool) -> Result<News>;

    /// Takes in the news of all processes, by rank. All processes reach the same decisions.
    fn hear(&mut self, all: Vec<News>) -> Result<()>;

    fn cancel(&self);

    /// Returns all chains of the task, for error messages.
    fn chains(&self) -> Range<usize>;
}

pub(super) struct Meeting<'a, O> {
    at: &'a Site<'a, O>,
    rule: Rule<'a, O>,
    /// Counts chain-steps, and checks whether this process asks to stop.
    count: &'a dyn Fn(u64),
    rank: usize,
}

impl<'a, O: Merge + Send> Meeting<'a, O> {
    pub(super) fn new(
        at: &'a Site<'a, O>,
        rule: Rule<'a, O>,
        count: &'a dyn Fn(u64),
        team: &Team<'_>,
    ) -> Self {
        Self {
            at,
            rule,
            count,
            rank: team.share().rank,
        }
    }

    /// Enters a block that process `rank` has finished into the ledger.
    fn enter(&self, rank: usize, bytes: &[u8]) -> Result<()> {
        let Some(outbox) = self.at.outbox else {
            return Ok(());
        };
        let ledger = self.at.ledger;
        let node = outbox.read(bytes).and_then(|node| {
            let expected = "blocks of this task that are not finished yet";
            let found = format!("{:?}", node.blocks());
            Error::check(ledger.lacks(&node.blocks()), "blocks", found, expected)?;
            Ok(node)
        });
        let node = node.map_err(|error| of_rank(rank, &error))?;
        let blocks = node.blocks();
        if let Err(message) = caught_once(|| ledger.take_node(node, self.rule)) {
            let chains = self.at.task.chains(blocks.start);
            ledger.fail(blocks.start, merging_panicked(message, chains));
        }
        // This process counted its own blocks step by step.
        if rank != self.rank {
            (self.count)(self.at.task.cost(blocks));
        }
        Ok(())
    }

    /// Takes in the failures of all processes. If each process runs all blocks, one failure ends all work.
    fn fail(&self, all: &[News]) {
        let ends_all = self.at.outbox.is_none();
        if let (Some(own), _) = self.at.ledger.concerns()
            && ends_all
        {
            self.at.ledger.take_failure(Failure { ends_all, ..own });
        }
        for (rank, news) in all
            .iter()
            .enumerate()
            .filter(|(rank, _)| *rank != self.rank)
        {
            let Some((block, of_all, message)) = news.failed.clone() else {
                continue;
            };
            self.at.ledger.take_failure(Failure {
                block,
                ends_all: of_all || ends_all,
                error: Error::Rank { rank, message },
            });
        }
    }
}

impl<O: Merge + Send> Meets for Meeting<'_, O> {
    fn news(&mut self, is_done: bool) -> Result<News> {
        // Checks time limit and callbacks even if no block of this process takes a step.
        (self.count)(0);
        if let Some(saver) = self.at.saver {
            saver.tick_at_rest();
        }
        let (failed, asked) = self.at.ledger.concerns();
        // The process at fault reports its failure itself.
        let own = failed.filter(|failed| !matches!(failed.error, Error::Rank { .. }));
        Ok(News {
            finished: self
                .at
                .outbox
                .map_or(Vec::new(), |outbox| outbox.take_new()),
            failed: own.map(|own| (own.block, own.ends_all, own.error.to_string())),
            asked,
            is_done,
            is_complete: self.at.outbox.is_some() || self.at.ledger.is_complete(),
            has_checkpoint: self.at.saver.is_some_and(|saver| saver.has_written()),
        })
    }

    fn hear(&mut self, all: Vec<News>) -> Result<()> {
        for (rank, news) in all.iter().enumerate() {
            let mut finished = news.finished.iter();
            finished.try_for_each(|bytes| self.enter(rank, bytes))?;
        }
        self.fail(&all);
        // The reason of the lowest rank, so that all processes report the same one.
        if let Some(by) = all.iter().find_map(|news| news.asked) {
            self.at.ledger.stop(by);
        }
        if all.iter().any(|news| news.is_done && !news.is_complete) {
            self.at.ledger.note_short();
        }
        if let Some(saver) = self.at.saver
            && all.iter().all(|news| news.has_checkpoint)
        {
            saver.settle();
        }
        Ok(())
    }

    fn cancel(&self) {
        self.at.ledger.cancel_from(0);
    }

    fn chains(&self) -> Range<usize> {
        let (task, blocks) = (self.at.task, self.at.task.blocks());
        task.chains(blocks.start).start..task.chains(blocks.end - 1).end
    }
}
