//! Work on several threads. Calls to rayon are not generic, so that they are compiled once.

use std::sync::Mutex;

use crate::Result;

/// Calls `work` on up to `most` of `threads` threads, or of rayon's global pool. A block can use `width` threads. Work
/// for a single thread stays on the calling thread: a pool costs some 50 microseconds, more than a short run.
///
/// # Errors
/// A thread pool that cannot be built.
#[cfg(feature = "rayon")]
pub(super) fn side_by_side(
    threads: Option<usize>,
    (most, width): (usize, usize),
    work: &(dyn Fn() + Sync),
) -> Result<()> {
    let workers = threads.unwrap_or_else(rayon::current_num_threads).min(most);
    if workers == 1 && width == 1 {
        work();
        return Ok(());
    }
    let Some(threads) = threads else {
        if workers == 1 {
            // Moves into the pool once, and not at each fork.
            rayon::join(work, || ());
        } else {
            rayon::in_place_scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work())));
        }
        return Ok(());
    };
    pool(threads.min(most.max(width)))?.in_place_scope(|scope| {
        (0..workers).for_each(|_| scope.spawn(|_| work()));
    });
    Ok(())
}

#[cfg(feature = "rayon")]
fn pool(threads: usize) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let refused = |error: rayon::ThreadPoolBuildError| error.to_string();
    pool.build()
        .map_err(|error| crate::Error::invalid("threads", threads, refused(error)))
}

#[cfg(not(feature = "rayon"))]
pub(super) fn side_by_side(
    _threads: Option<usize>,
    _crew: (usize, usize),
    work: &(dyn Fn() + Sync),
) -> Result<()> {
    work();
    Ok(())
}

/// Refuses to wait on a thread of rayon's pool, for which other threads of the pool might wait forever.
#[cfg(feature = "checkpoint")]
pub(super) fn check_outside_pool() -> Result<()> {
    #[cfg(feature = "rayon")]
    crate::Error::check(
        rayon::current_thread_index().is_none(),
        "ranks",
        "a call from a thread of rayon's pool",
        "one from outside of the pool",
    )?;
    Ok(())
}

/// A piece of work that runs once and stores its result in a variable of its caller.
pub(crate) type Work<'a> = dyn FnMut() + Send + 'a;

/// Runs both pieces of work, in parallel if a thread is free.
#[cfg(feature = "rayon")]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    rayon::join(left, right);
}

#[cfg(not(feature = "rayon"))]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    left();
    right();
}

/// Runs `work` on `threads` threads, or on those of rayon's global pool. One thread takes a pool, too: work that forks
/// would else enter the global one.
///
/// # Errors
/// A thread pool that cannot be built.
pub(crate) fn in_pool<T: Send>(
    threads: Option<usize>,
    work: impl Fn() -> Result<T> + Sync,
) -> Result<T> {
    let result = Mutex::new(None);
    let all = || *result.lock().unwrap() = Some(work());
    side_by_side(threads, (1, usize::MAX), &all)?;
    let result = result.into_inner().unwrap();
    result.expect("the work has been done")
}
