//! What a thread does with a block of ladders.

use std::ops::Range;
use std::sync::PoisonError;

use super::ladders::Ladders;
use super::round::{Outcome, Plan};
use super::rounds::Rounds;
use crate::ais::{Ledger, caught};
use crate::kernel::{Invariant, Workspace};
use crate::path::AnnealingPath;
use crate::{Error, Result};

/// Takes the blocks of a round through all scans, one after another, and ends the round where something says so.
pub(super) struct Worker<'a, 'p, P: AnnealingPath, K: Invariant<P::At<'p>>, T> {
    pub(super) rounds: &'a Rounds<'a, 'p, P, K, T>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) ledger: &'a Ledger<Outcome<T>>,
}

impl<'p, P, K, T> Worker<'_, 'p, P, K, T>
where
    P: AnnealingPath<State: Clone + Send> + Sync,
    K: Invariant<P::At<'p>> + Sync,
    T: Send,
{
    /// Takes a block through the scans that are left. The error is `None` where it was canceled.
    pub(super) fn block(
        &self,
        block: usize,
        canceled: &dyn Fn() -> bool,
    ) -> Result<Outcome<T>, Option<Error>> {
        let mut ladders = None;
        let scanned = caught(|| self.scan(block, &mut ladders, canceled));
        // A panic on the way is an error that names its place.
        let scanned = scanned.unwrap_or_else(|message| {
            let range = self.rounds.run.settings.ladders_of(block);
            Err(Some(panicked(message, &ladders, range)))
        });
        let ended = scanned.map(|()| ladders.expect("a block that has begun").finish());
        if let Some(archive) = self.rounds.archive {
            archive.end(block, ended.as_ref().ok());
        }
        ended.map(|ended| self.rounds.take(block, ended))
    }

    /// Takes a block, which is left in `ladders`, to the end of the round.
    fn scan(
        &self,
        block: usize,
        ladders: &mut Option<Ladders<'p, P, K::Workspace>>,
        canceled: &dyn Fn() -> bool,
    ) -> Result<(), Option<Error>> {
        let (plan, archive) = (self.plan, self.rounds.archive);
        let run = self.rounds.run;
        let range = run.settings.ladders_of(block);
        let start = self.rounds.starts[block].lock();
        let start = start.unwrap_or_else(PoisonError::into_inner).take();
        let kept = archive.and_then(|archive| archive.begin(block, plan));
        let start = || Ladders::start(run.path, range.clone(), plan, start);
        let ladders = ladders.insert(kept.unwrap_or_else(start)?);
        while ladders.scans < plan.scans {
            ladders.scan(&run.kernel, plan)?;
            self.count(range.len(), 1);
            let ended = ladders.scans == plan.scans;
            let canceled = canceled() && !ended;
            if let Some(archive) = archive.filter(|_| !ended) {
                archive.passed(block, ladders, canceled);
            }
            if canceled {
                return Err(None);
            }
        }
        Ok(())
    }

    /// Counts so many scans of so many ladders.
    fn count(&self, ladders: usize, scans: usize) {
        let moves = (ladders * self.plan.schedule.betas().len() * scans) as u64;
        let Rounds {
            run, meter, begun, ..
        } = self.rounds;
        run.conduct.count(moves, meter, *begun, self.ledger);
    }

    /// Counts blocks that another process has finished.
    pub(super) fn arrived(&self, blocks: Range<usize>) -> Result<()> {
        let settings = &self.rounds.run.settings;
        let ladders = blocks.map(|block| settings.ladders_of(block).len()).sum();
        let counted = caught(|| self.count(ladders, self.plan.scans));
        counted.map_err(|message| Error::panicked(message, 0..settings.ladders))
    }
}

/// The error of a panic, with the ladders and the beta that were at hand.
fn panicked<P: AnnealingPath<State: Clone>, W: Workspace>(
    message: String,
    ladders: &Option<Ladders<'_, P, W>>,
    range: Range<usize>,
) -> Error {
    let place = ladders.as_ref().map(Ladders::at_hand);
    let (chains, stage, beta) = place.unwrap_or((range, 0, 0.0));
    Error::Panicked {
        message,
        chains,
        stage,
        beta,
    }
}
