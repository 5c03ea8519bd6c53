//! Work on several threads. Calls to rayon are not generic, so that they are compiled once.

use std::sync::Mutex;
#[cfg(feature = "rayon")]
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// Work of the calling thread while others work. Its argument returns whether all others are done.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut(&dyn Fn() -> bool);

/// Calls `work` on up to `most` of `threads` threads, or of rayon's global pool, and `meanwhile` on the calling
/// thread. A block can use `width` threads. Work for a single thread stays on the calling thread: a pool costs some 50
/// microseconds, more than a short run.
///
/// # Errors
/// A thread pool that cannot be built.
#[cfg(feature = "rayon")]
pub(super) fn side_by_side(
    threads: Option<usize>,
    (most, width): (usize, usize),
    work: &(dyn Fn() + Sync),
    meanwhile: Option<Meanwhile<'_>>,
) -> Result<()> {
    let workers = threads.unwrap_or_else(rayon::current_num_threads).min(most);
    if workers == 1 && width == 1 && meanwhile.is_none() {
        work();
        return Ok(());
    }
    if threads.is_none() && workers == 1 && meanwhile.is_none() {
        // Moves into the pool once, and not at each fork.
        rayon::join(work, || ());
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
    pool(threads.min(most.max(width)))?.in_place_scope(|scope| {
        (0..workers).for_each(|_| scope.spawn(|_| work()));
        meanwhile();
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

/// Counts a worker as finished when dropped, also by a panic.
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
    side_by_side(threads, (1, usize::MAX), &all, None)?;
    let result = result.into_inner().unwrap();
    result.expect("the work has been done")
}
