//! Work on several threads. Nothing here is generic, so that rayon is compiled once and not anew
//! for every path, kernel and recorder.

use crate::Result;

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
