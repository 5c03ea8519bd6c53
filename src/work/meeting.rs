//! The meetings of processes that work on a task. Each learns what the others have finished, and whether to stop.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::execution::{StoppedBy, caught_once, merging_panicked};
use super::job::Site;
use super::kept::node;
use super::ledger::Failure;
use super::store::Finished;
use super::team::{Team, of_rank};
use super::tree::Merge;
use crate::{Error, Result};

/// The news of one process since the last meeting.
#[derive(Debug, Serialize, Deserialize)]
struct News {
    finished: Finished,
    /// Block and text of the failure to report, and whether the failure ends all work.
    failed: Option<(usize, bool, String)>,
    asked: Option<StoppedBy>,
    /// Whether the process has no block in progress and begins none.
    is_done: bool,
}

impl<O: Merge + Send> Site<'_, O> {
    /// Exchanges news with the other processes. All reach the same decisions. Returns whether all are done. `is_done` is
    /// true if the threads of this process are done.
    pub(super) fn meet(&self, team: &Team<'_>, is_done: bool) -> Result<bool> {
        let all = team.gather(Ok(self.news(is_done)))?;
        self.hear(&all, team.share().rank)?;
        Ok(all.iter().all(|news| news.is_done))
    }

    fn news(&self, is_done: bool) -> News {
        // Checks time limit and callbacks even if no block of this process takes a step.
        self.count(0);
        if let Some(keeper) = self.keeper {
            keeper.tick(&|| self.finished());
        }
        let (failed, asked) = self.ledger.concerns();
        // The process at fault reports its failure itself.
        let own = failed.filter(|failed| !matches!(failed.error, Error::Rank { .. }));
        News {
            finished: self.take_unsent(),
            failed: own.map(|own| (own.block, own.ends_all, own.error.to_string())),
            asked,
            is_done,
        }
    }

    /// Takes in the news of all processes, by rank.
    fn hear(&self, all: &[News], own_rank: usize) -> Result<()> {
        for (rank, news) in all.iter().enumerate() {
            for (blocks, bytes) in &news.finished {
                let cost = self.enter_of(rank, blocks, bytes)?;
                // This process counted its own blocks step by step.
                if rank != own_rank {
                    self.count(cost);
                }
            }
        }
        self.fail(all, own_rank);
        // The reason of the lowest rank, so that all processes report the same one.
        if let Some(by) = all.iter().find_map(|news| news.asked) {
            self.stop(by);
        }
        Ok(())
    }

    /// Enters a block that process `rank` has finished into the ledger. Returns its chain-steps.
    fn enter_of(&self, rank: usize, blocks: &Range<usize>, bytes: &[u8]) -> Result<u64> {
        // Processes that each run all blocks send no outputs.
        let Some(format) = self.format else {
            return Ok(0);
        };
        let node = node(self.task, format, blocks, bytes).and_then(|node| {
            let expected = "blocks of this task that are not finished yet";
            let lacks = self.ledger.lacks(blocks);
            Error::check(lacks, "blocks", format!("{blocks:?}"), expected)?;
            Ok(node)
        });
        let node = node.map_err(|error| of_rank(rank, &error))?;
        self.ledger.take(node);
        if let Err(message) = caught_once(|| self.merge()) {
            let chains = self.task.chains(blocks.start);
            self.ledger
                .fail(blocks.start, merging_panicked(message, chains));
        }
        Ok(self.task.cost(blocks.clone()))
    }

    /// Ends the work of all processes. If each process runs all blocks, none of them has a result, even if some of them
    /// have finished all blocks.
    fn stop(&self, by: StoppedBy) {
        self.ledger.stop(by);
        if self.outbox.is_none() {
            let block = self.ledger.blocks().start;
            self.ledger.take_failure(Failure {
                block,
                ends_all: true,
                error: by.error(self.task.chains(block).len()),
            });
        }
    }

    /// Takes in the failures of all processes. If each process runs all blocks, one failure ends all work.
    fn fail(&self, all: &[News], own_rank: usize) {
        let ends_all = self.outbox.is_none();
        if let (Some(own), _) = self.ledger.concerns()
            && ends_all
        {
            self.ledger.take_failure(Failure { ends_all, ..own });
        }
        for (rank, news) in all.iter().enumerate() {
            if let Some((block, of_all, message)) = news.failed.clone()
                && rank != own_rank
            {
                self.ledger.take_failure(Failure {
                    block,
                    ends_all: of_all || ends_all,
                    error: Error::Rank { rank, message },
                });
            }
        }
    }
}
