//! How ranks share the blocks of a ledger: what is finished goes to rank 0, which says from which block on none
//! is wanted any more.

use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::blocks::Site;
use super::ledger::{Share, Watch};
use super::tree::Merge;
use crate::checkpoint::{Courier, Keeper, Letter, Recipient as _};
use crate::ranks::{Ranks, pause};
use crate::{Error, Result};

/// What rank 0 is told.
#[derive(Serialize, Deserialize)]
enum Report<T> {
    /// For a checkpoint.
    Left(Letter),
    Finished(usize, T),
    Failed(usize, String),
    /// All blocks of the rank are done or canceled.
    Ended,
}

/// What rank 0 says.
#[derive(Serialize, Deserialize)]
enum Order {
    /// From this block on none is wanted.
    Limit(usize),
    /// The blocks at work are to leave what they have reached.
    Leave,
    /// All ranks have ended.
    Over,
}

impl Share {
    pub(crate) fn of(ranks: &Ranks) -> Self {
        Self {
            rank: ranks.rank(),
            size: ranks.size(),
        }
    }
}

/// Where what blocks leave for a checkpoint goes: on rank 0 to a keeper, on the others to a courier.
#[derive(Clone, Copy, Default)]
pub(crate) struct Post<'a> {
    pub(crate) keeper: Option<&'a Keeper<'a>>,
    pub(crate) courier: Option<&'a Courier>,
}

/// Brings the blocks of all ranks into the ledger of rank 0, while threads do those of this one. All leave
/// with no message under way.
///
/// # Errors
/// [`Error::Rank`] where another rank failed as a whole; a panic in a block of this one; what the watch says.
/// A block that failed on another rank is an error of that block in the ledger of rank 0.
pub(crate) fn exchange<T: Merge + Serialize + DeserializeOwned>(
    ranks: &mut Ranks,
    site: &Site<'_, T>,
    watch: Watch<'_>,
    post: Post<'_>,
) -> Result<()> {
    let outcome = match site.ledger.leads() {
        true => collect(ranks, site, watch, post.keeper),
        false => report(ranks, site, post.courier),
    };
    if outcome.is_err() {
        site.ledger.cancel_from(0);
    }
    outcome
}

fn collect<T: Merge + DeserializeOwned>(
    ranks: &mut Ranks,
    &Site { ledger, rule, .. }: &Site<'_, T>,
    watch: Watch<'_>,
    keeper: Option<&Keeper<'_>>,
) -> Result<()> {
    let mut at_work = ranks.size() - 1;
    let mut told = ledger.blocks().end;
    let mut heard = Instant::now();
    if let Some(keeper) = keeper {
        (1..ranks.size()).for_each(|rank| keeper.begin_rank(rank));
    }
    while at_work > 0 {
        let report = ranks.look()?;
        if report.is_some() {
            heard = Instant::now();
        }
        match report {
            Some((rank, Report::Left(letter))) => {
                if let Some(keeper) = keeper {
                    keeper.receive(rank, letter);
                }
            }
            Some((_, Report::Finished(block, value))) => {
                ledger.enter(block, Ok(value), rule);
                watch(block..block + 1)?;
            }
            Some((rank, Report::Failed(block, message))) => {
                ledger.enter(block, Err(Some(Error::Rank { rank, message })), rule);
            }
            Some((rank, Report::Ended)) => {
                if let Some(keeper) = keeper {
                    keeper.end_rank(rank);
                }
                at_work -= 1;
            }
            None => {
                watch(0..0)?;
                pause(heard);
            }
        }
        let limit = ledger.limit();
        if limit < told {
            ranks.tell_all(&Order::Limit(limit))?;
            told = limit;
        }
        if let Some(keeper) = keeper {
            if keeper.asks() {
                ranks.tell_all(&Order::Leave)?;
            }
            keeper.tick();
        }
    }
    ranks.tell_all(&Order::Over)
}

fn report<T: Merge + Serialize>(
    ranks: &mut Ranks,
    site: &Site<'_, T>,
    courier: Option<&Courier>,
) -> Result<()> {
    let mut ended = false;
    let mut busy = Instant::now();
    loop {
        // Asked first: what the last thread to end has left is then there.
        let done = (site.are_done)();
        let (finished, failed) = site.ledger.take_out();
        // After the ledger: what a finished block has left goes before its value.
        let letters = courier.map_or(Vec::new(), Courier::take_out);
        if !letters.is_empty() || !finished.is_empty() {
            busy = Instant::now();
        }
        for letter in letters {
            ranks.tell(0, &Report::<T>::Left(letter))?;
        }
        for node in finished {
            let block = node.blocks().start;
            ranks.tell(0, &Report::Finished(block, node.value))?;
        }
        match failed {
            Some((_, panic @ Error::Panicked { .. })) => return Err(panic),
            Some((block, error)) => {
                ranks.tell(0, &Report::<T>::Failed(block, error.to_string()))?;
            }
            None => {}
        }
        if done && !ended {
            ranks.tell(0, &Report::<T>::Ended)?;
            ended = true;
        }
        match ranks.look()? {
            Some((_, Order::Limit(block))) => site.ledger.cancel_from(block),
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
