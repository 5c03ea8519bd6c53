//! The work on blocks of chains, shared by threads.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::ledger::{Ledger, Rule};
use super::threads::{Meanwhile, side_by_side};
use super::tree::{Forest, Merge};
use crate::{Error, Result};

/// What one block does, given its index and whether it has been canceled. Canceled work ends in
/// `Err(None)`.
pub(crate) type BlockWork<'a, T> =
    &'a (dyn Fn(usize, &dyn Fn() -> bool) -> Result<T, Option<Error>> + Sync);

/// Where threads are at work, as the thread that has called them sees it.
#[cfg_attr(not(feature = "mpi"), allow(dead_code))] // Only processes that share their work look.
pub(crate) struct Site<'a, T> {
    pub(super) ledger: &'a Ledger<T>,
    pub(super) rule: Option<Rule<'a, T>>,
    /// Whether all threads are done.
    pub(super) are_done: &'a dyn Fn() -> bool,
}

/// Does the work of all blocks, on so many threads or on those of rayon's global pool.
///
/// # Errors
/// That of the leftmost block that failed, or a panic.
pub(crate) fn run_blocks<T: Merge + Send>(
    blocks: Range<usize>,
    threads: Option<usize>,
    work: BlockWork<'_, T>,
) -> Result<Forest<T>> {
    let count = blocks.len();
    let ledger = Ledger::new(blocks);
    let chains = |block: usize| block..block + 1;
    work_through(&ledger, count, threads, None, work, &chains, None)?;
    Ok(ledger.close()?.prefix)
}

/// What the thread that calls does while others work.
pub(crate) type AtSite<'a, T> = &'a mut dyn FnMut(&Site<'_, T>) -> Result<()>;

/// Does the work that a ledger hands out, at most so many blocks at once, and `meanwhile` on the thread that
/// calls. A panic in the merging of what blocks leave is the error of the block, with its chains.
///
/// # Errors
/// Threads that cannot be had, or the error of `meanwhile`.
pub(crate) fn work_through<T: Merge + Send>(
    ledger: &Ledger<T>,
    most: usize,
    threads: Option<usize>,
    rule: Option<Rule<'_, T>>,
    work: BlockWork<'_, T>,
    chains: &(dyn Fn(usize) -> Range<usize> + Sync),
    meanwhile: Option<AtSite<'_, T>>,
) -> Result<()> {
    let worker = || {
        while let Some(block) = ledger.hand_out() {
            let outcome = work(block, &|| ledger.is_canceled(block));
            if let Err(message) = caught(|| ledger.enter(block, outcome, rule)) {
                ledger.fail(block, merging_panicked(message, chains(block)));
            }
        }
    };
    let mut outcome = Ok(());
    let mut meanwhile = meanwhile.map(|meanwhile| {
        |are_done: &dyn Fn() -> bool| {
            let _ends = EndsByPanic(ledger);
            outcome = meanwhile(&Site {
                ledger,
                rule,
                are_done,
            });
        }
    });
    let meanwhile = meanwhile
        .as_mut()
        .map(|meanwhile| meanwhile as Meanwhile<'_>);
    side_by_side(threads, most, &worker, meanwhile)?;
    outcome
}

/// The error of a panic in the merging of what these chains left.
pub(super) fn merging_panicked(message: String, chains: Range<usize>) -> Error {
    Error::panicked(format!("in merging: {message}"), chains)
}

/// Ends all work where a panic passes by: the others would wait for what never comes.
struct EndsByPanic<'l, T: Merge>(&'l Ledger<T>);

impl<T: Merge> Drop for EndsByPanic<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel_from(0);
        }
    }
}

/// Does the work, or says what a panic in it said.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a payload that is no text".to_owned())
}
