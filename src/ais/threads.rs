//! Work on several threads. Nothing here is generic, so that rayon is compiled once and not anew
//! for every path, kernel and recorder.

#[cfg(feature = "rayon")]
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// What the thread that calls does while others work. It is told whether all others are done.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut(&dyn Fn() -> bool);

/// Does the work on at most `most` of so many threads, or of those of rayon's global pool, and `meanwhile`
/// on the thread that calls. Work for one thread alone stays on the thread that calls.
///
/// # Errors
/// A pool that cannot be made.
#[cfg(feature = "rayon")]
pub(super) fn side_by_side(
    threads: Option<usize>,
    most: usize,
    work: &(dyn Fn() + Sync),
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<()> {
    let workers = threads.unwrap_or_else(rayon::current_num_threads).min(most);
    if threads.is_none() && workers == 1 && meanwhile.is_none() {
        work();
        return Ok(());
    }
    let at_work = AtomicUsize::new(workers);
    let work = || {
        let _leaves = Leaves(&at_work);
        work();
    };
    let are_done = || at_work.load(Ordering::Acquire) == 0;
    let meanwhile = || {
        if let Some(meanwhile) = meanwhile {
            meanwhile(&are_done);
        }
    };
    let Some(threads) = threads else {
        rayon::in_place_scope(|scope| {
            (0..workers).for_each(|_| scope.spawn(|_| work()));
            meanwhile();
        });
        return Ok(());
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .build()
        .map_err(|error| crate::Error::invalid("threads", threads, error.to_string()))?;
    pool.in_place_scope(|scope| {
        (0..workers).for_each(|_| scope.spawn(|_| work()));
        meanwhile();
    });
    Ok(())
}

/// Counts a worker out, by a panic too.
#[cfg(feature = "rayon")]
struct Leaves<'a>(&'a AtomicUsize);

#[cfg(feature = "rayon")]
impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(not(feature = "rayon"))]
pub(super) fn side_by_side(
    _threads: Option<usize>,
    _most: usize,
    work: &(dyn Fn() + Sync),
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<()> {
    work();
    if let Some(meanwhile) = meanwhile {
        meanwhile(&|| true);
    }
    Ok(())
}

/// A piece of work. It is done once and stores its result in a variable of its caller.
pub(super) type Work<'a> = dyn FnMut() + Send + 'a;

/// Does both pieces of work, side by side where a thread is free.
#[cfg(feature = "rayon")]
pub(super) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    rayon::join(left, right);
}

#[cfg(not(feature = "rayon"))]
pub(super) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    left();
    right();
}

/// Does the work on so many threads, or on those of rayon's global pool.
///
/// # Errors
/// A pool that cannot be made.
#[cfg(feature = "rayon")]
pub(super) fn on_threads(threads: Option<usize>, work: &mut Work<'_>) -> Result<()> {
    let Some(threads) = threads else {
        work();
        return Ok(());
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| crate::Error::invalid("threads", threads, error.to_string()))?;
    pool.install(work);
    Ok(())
}

#[cfg(not(feature = "rayon"))]
pub(super) fn on_threads(_threads: Option<usize>, work: &mut Work<'_>) -> Result<()> {
    work();
    Ok(())
}
