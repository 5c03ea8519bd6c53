//! Work on several threads. What speaks with rayon is not generic, so that it is compiled once.

#[cfg(feature = "rayon")]
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// What the thread that calls does while others work. It is told whether all others are done.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut(&dyn Fn() -> bool);

/// Does the work of `most` blocks, each of which can use `width` threads, on so many threads, or on those of rayon's
/// global pool, and `meanwhile` on the thread that calls. Work for one thread alone stays on the thread that calls.
///
/// # Errors
/// A pool that cannot be made.
#[cfg(feature = "rayon")]
pub(super) fn side_by_side(
    threads: Option<usize>,
    (most, width): (usize, usize),
    work: &(dyn Fn() + Sync),
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<()> {
    let workers = threads.unwrap_or_else(rayon::current_num_threads).min(most);
    if threads.is_none() && workers == 1 && meanwhile.is_none() {
        match width {
            1 => work(),
            // In the pool at once, and not anew at each fork.
            _ => drop(rayon::join(work, || ())),
        }
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
        .num_threads(threads.min(most.max(width)))
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
    _crew: (usize, usize),
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
pub(crate) type Work<'a> = dyn FnMut() + Send + 'a;

/// Does both pieces of work, side by side where a thread is free.
#[cfg(feature = "rayon")]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    rayon::join(left, right);
}

#[cfg(not(feature = "rayon"))]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    left();
    right();
}

/// Does the work on so many threads, `helpful` of which can help, or on those of rayon's global pool.
///
/// # Errors
/// No threads; a pool that cannot be made.
pub(crate) fn in_pool<T: Send>(
    threads: Option<usize>,
    helpful: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    crate::Error::check_at_least("threads", threads.unwrap_or(1), 1)?;
    let (mut work, mut result) = (Some(work), None);
    let mut all = || result = work.take().map(|work| work());
    on_threads(threads.map(|threads| threads.min(helpful)), &mut || {
        // One task moves into the pool at once, and not anew at each fork.
        join(&mut all, &mut || {});
    })?;
    result.expect("the work has been done")
}

/// Does the work on so many threads, or on those of rayon's global pool.
///
/// # Errors
/// A pool that cannot be made.
#[cfg(feature = "rayon")]
fn on_threads(threads: Option<usize>, work: &mut Work<'_>) -> Result<()> {
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
fn on_threads(_threads: Option<usize>, work: &mut Work<'_>) -> Result<()> {
    work();
    Ok(())
}
