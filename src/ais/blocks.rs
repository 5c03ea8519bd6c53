//! The work on blocks of chains: shared by threads, and canceled where a block fails.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::threads::on_threads;
use super::tree::{self, Forest, Merge};
use crate::{Error, Result};

/// What one block does, given its index and whether another block has canceled it. Canceled work
/// ends in `Err(None)`.
pub(crate) trait Work<T>:
    Fn(usize, &dyn Fn() -> bool) -> Result<T, Option<Error>> + Sync
{
}

impl<T, F: Fn(usize, &dyn Fn() -> bool) -> Result<T, Option<Error>> + Sync> Work<T> for F {}

/// Does the work of all blocks, on so many threads or on those of rayon's global pool.
///
/// # Errors
/// That of the leftmost block that failed. An error cancels the blocks to its right only, so that
/// the same error is reported whatever thread came first; a panic cancels all.
pub(crate) fn run_blocks<T: Merge + Send>(
    blocks: Range<usize>,
    threads: Option<usize>,
    work: &impl Work<T>,
) -> Result<Forest<T>> {
    // More threads than blocks would have nothing to do.
    let threads = threads.map(|threads| threads.min(blocks.len()));
    let first_canceled = AtomicUsize::new(usize::MAX);
    let leaf = |block: usize| {
        let canceled = || first_canceled.load(Ordering::Relaxed) <= block;
        if canceled() {
            return Err(None);
        }
        let outcome = work(block, &canceled);
        let first = match &outcome {
            Err(Some(Error::Panicked { .. })) => 0,
            Err(Some(_)) => block + 1,
            _ => usize::MAX,
        };
        first_canceled.fetch_min(first, Ordering::Relaxed);
        outcome
    };
    let mut nodes = None;
    on_threads(threads, &mut || {
        nodes = Some(tree::map_reduce(blocks.clone(), &leaf));
    })?;
    let nodes = nodes.expect("the work has been done");
    nodes.map_err(|error| error.expect("a block is canceled only by one that failed"))
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
