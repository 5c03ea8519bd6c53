//! Work on several threads. Nothing here is generic, so that rayon is compiled once and not anew
//! for every path, kernel and recorder.

use crate::Result;

/// Does the work on at most `most` of so many threads, or of those of rayon's global pool, and `meanwhile`
/// on the thread that calls.
///
/// # Errors
/// A pool that cannot be made.
#[cfg(feature = "rayon")]
pub(super) fn side_by_side(
    threads: Option<usize>,
    most: usize,
    work: &(dyn Fn() + Sync),
    meanwhile: &mut dyn FnMut(),
) -> Result<()> {
    let Some(threads) = threads else {
        let workers = rayon::current_num_threads().min(most);
        rayon::in_place_scope(|scope| {
            (0..workers).for_each(|_| scope.spawn(|_| work()));
            meanwhile();
        });
        return Ok(());
    };
    let workers = threads.min(most);
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

#[cfg(not(feature = "rayon"))]
pub(super) fn side_by_side(
    _threads: Option<usize>,
    _most: usize,
    work: &(dyn Fn() + Sync),
    meanwhile: &mut dyn FnMut(),
) -> Result<()> {
    work();
    meanwhile();
    Ok(())
}
