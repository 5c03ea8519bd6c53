//! The exchange of blocks: ranks send outputs to rank 0, which sends the first canceled block.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::courier::Letter;
use super::{Ranks, pause};
use crate::work::ledger::Share;
use crate::work::others::{Blocks, Dealt, Others};
use crate::work::store::{Destination, Finish, Keeper, Recipient};
use crate::{Error, Result};

/// A message to rank 0.
#[derive(Serialize, Deserialize)]
enum Report {
    /// Pieces of blocks under way, for a checkpoint.
    Left(Letter),
    Finished(usize, Vec<u8>),
    Failed(usize, String),
    /// All blocks of the rank are done or canceled.
    Ended,
}

/// A message of rank 0.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Cancels all blocks from this one on.
    Limit(usize),
    /// Asks the blocks at work to leave their pieces.
    Leave,
    /// All ranks have ended.
    Over,
}

impl Others for Ranks {
    fn share(&self) -> Share {
        Share {
            rank: self.rank(),
            size: self.size(),
        }
    }

    fn deal(&mut self, known: Dealt) -> Result<Dealt> {
        if self.rank() > 0 {
            return Ok(self.hear()?.1);
        }
        for rank in 1..self.size() {
            let share = Share {
                rank,
                ..self.share()
            };
            let pieces = known.1.iter().filter(|(block, _)| share.has(**block));
            let pieces: std::collections::BTreeMap<_, _> = pieces.collect();
            self.tell(rank, &(&known.0, pieces))?;
        }
        Ok((Vec::new(), known.1))
    }

    fn inform(&mut self, known: Option<Vec<u8>>) -> Result<Vec<u8>> {
        match (self.rank(), known) {
            (0, Some(known)) => self.tell_all(&known).map(|()| known),
            _ => Ok(self.hear()?.1),
        }
    }

    /// # Errors
    /// [`Error::Rank`] if another rank failed as a whole; a panic in a block of this one; the error of counting. A
    /// block that failed on another rank is an error in the ledger of rank 0.
    fn exchange(
        &mut self,
        blocks: &dyn Blocks,
        saving: Option<(&Destination<'_>, Finish<'_>)>,
    ) -> Result<()> {
        let outcome = match self.rank() {
            0 => self.collect(blocks, saving),
            _ => self.report(blocks, saving),
        };
        if outcome.is_err() {
            blocks.cancel_from(0);
        }
        outcome
    }
}

/// Takes in a message of another rank.
fn take_in(
    rank: usize,
    report: Report,
    blocks: &dyn Blocks,
    keeper: Option<&Keeper<'_>>,
) -> Result<()> {
    match (report, keeper) {
        (Report::Left(letter), Some(keeper)) => keeper.receive(rank, letter),
        (Report::Ended, Some(keeper)) => keeper.end_rank(rank),
        (Report::Left(_) | Report::Ended, None) => {}
        (Report::Finished(block, output), _) => {
            blocks.enter(block, &output)?;
            blocks.arrived(block..block + 1)?;
        }
        (Report::Failed(block, message), _) => {
            blocks.fail(block, Error::Rank { rank, message });
        }
    }
    Ok(())
}

impl Ranks {
    /// Takes in the outputs of the other ranks until all have ended.
    fn collect(
        &mut self,
        blocks: &dyn Blocks,
        saving: Option<(&Destination<'_>, Finish<'_>)>,
    ) -> Result<()> {
        let saving = saving.and_then(|(destination, finish)| Some((destination.keeper()?, finish)));
        let mut at_work = self.size() - 1;
        let mut told = usize::MAX;
        let mut heard = Instant::now();
        if let Some((keeper, _)) = saving {
            (1..self.size()).for_each(|rank| keeper.begin_rank(rank));
        }
        while at_work > 0 {
            match self.look()? {
                Some((rank, report)) => {
                    heard = Instant::now();
                    at_work -= usize::from(matches!(report, Report::Ended));
                    let keeper = saving.map(|(keeper, _)| keeper);
                    take_in(rank, report, blocks, keeper)?;
                }
                None => {
                    blocks.arrived(0..0)?;
                    pause(heard);
                }
            }
            let limit = blocks.limit();
            if limit < told {
                self.tell_all(&Order::Limit(limit))?;
                told = limit;
            }
            if let Some((keeper, finish)) = saving {
                if keeper.asks() {
                    self.tell_all(&Order::Leave)?;
                }
                keeper.tick(finish);
            }
        }
        self.tell_all(&Order::Over)
    }

    /// Sends this rank's outputs to rank 0, until rank 0 ends the exchange.
    fn report(
        &mut self,
        blocks: &dyn Blocks,
        saving: Option<(&Destination<'_>, Finish<'_>)>,
    ) -> Result<()> {
        let courier = saving.and_then(|(destination, _)| destination.courier());
        let mut ended = false;
        let mut busy = Instant::now();
        loop {
            // Asked first, so that the pieces of the last thread to end are there.
            let done = blocks.are_done();
            let (finished, failed) = blocks.take_out()?;
            let letters = courier.map_or(Vec::new(), |courier| courier.take_out());
            if !letters.is_empty() || !finished.is_empty() {
                busy = Instant::now();
            }
            let finished = finished.into_iter();
            let finished = finished.map(|(block, output)| Report::Finished(block, output));
            for report in letters.into_iter().map(Report::Left).chain(finished) {
                self.tell(0, &report)?;
            }
            match failed {
                Some((_, panic @ Error::Panicked { .. })) => return Err(panic),
                Some((block, error)) => {
                    self.tell(0, &Report::Failed(block, error.to_string()))?;
                }
                None => {}
            }
            if done && !ended {
                self.tell(0, &Report::Ended)?;
                ended = true;
            }
            match self.look()? {
                Some((_, Order::Limit(block))) => blocks.cancel_from(block),
                Some((_, Order::Leave)) => {
                    // Nothing may follow the end.
                    if let Some(courier) = courier.filter(|_| !ended) {
                        courier.ask();
                    }
                }
                Some((_, Order::Over)) => return Ok(()),
                None => pause(busy),
            }
        }
    }
}
