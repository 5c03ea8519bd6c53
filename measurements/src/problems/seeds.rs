//! The same run for many seeds, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use annealed::Result;

/// Runs seeds 1 to `seeds` in parallel. Returns the outcomes in the order of the seeds, or the first error.
pub fn over_seeds<T: Send>(seeds: u64, run: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, found) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                return;
            }
            let outcome = run(seed);
            let mut found = found.lock().expect("no panic in a run");
            found.push((seed, outcome));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().expect("no panic in a run");
    found.sort_by_key(|(seed, _)| *seed);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}
