//! Execution of a run: threads, stopping rules and progress callbacks. Calls to rayon are not generic, so that they are
//! compiled only once.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

#[cfg(feature = "progress")]
use super::progress::progress_bar;
use super::progress::{Callback, Progress, Verdict, callback};
use crate::{Error, Result};

/// Settings for how a run is carried out: threads, stopping rules and progress callbacks. They never change a result's
/// bits, except by ending the run earlier.
///
/// Runners have these setters too. Use this type for calls without a runner:
///
/// ```
/// use annealed::ais::{Execution, Progress};
/// use annealed::prelude::*;
///
/// # let path = GeometricPath::new(Gaussian::standard(1)?, Gaussian::isotropic(DVector::zeros(1), 0.5)?);
/// # let kernel = RandomWalkMetropolis::new(0.7)?;
/// let watched = Execution::new().threads(2).progress(|at: Progress| eprintln!("{at}"));
/// let found = Friction::default().optimize_by(&path, &kernel, 500, 7, &watched)?;
/// # assert_eq!(found.schedule.stages(), 500);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct Execution<'e> {
    pub(crate) threads: Option<usize>,
    pub(crate) until_error: Option<f64>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) progress: Option<Callback<'e>>,
    pub(crate) stop_when: Option<Box<dyn Fn() -> bool + Sync + 'e>>,
}

impl<'e> Execution<'e> {
    /// Creates an execution on all threads of rayon's global pool, without limits or callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads. By default, and for `None`, the run uses rayon's global pool. Without the feature
    /// `rayon` there is always one thread.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets the wall time after which the run ends.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = Some(time);
        self
    }

    /// Sets a progress callback, which any working thread may call. If steps are short enough, it is called after each
    /// thousandth of the run, and at least ten times a second. It returns nothing, or a
    /// [`ControlFlow`](std::ops::ControlFlow) whose `Break` stops the run at the end of the step.
    pub fn progress<V: Verdict>(mut self, progress: impl Fn(Progress) -> V + Sync + 'e) -> Self {
        self.progress = Some(callback(progress));
        self
    }

    /// Sets a function that stops the run at the end of a step by returning true, for example after a signal has set a
    /// flag. It is called after each step (a stage or a move) of a block of chains.
    pub fn stop_when(mut self, asked: impl Fn() -> bool + Sync + 'e) -> Self {
        self.stop_when = Some(Box::new(asked));
        self
    }

    /// Shows a progress bar on standard error. Without a terminal it prints a line after 10, 20, 40, .. s, then every
    /// 10 minutes.
    #[cfg(feature = "progress")]
    pub fn progress_bar(mut self) -> Self {
        self.progress = Some(progress_bar());
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let error = self.until_error.unwrap_or(1.0);
        let positive = error.is_finite() && error > 0.0;
        Error::check(positive, "until_error", error, "a positive number")?;
        Error::check_at_least("threads", self.threads.unwrap_or(1), 1)
    }
}

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum StoppedBy {
    /// All chains or rounds asked for were done. In a merged run some may still be
    /// [missing](crate::estimate::Warning::MissingChains).
    Chains,
    /// The standard error asked for was reached.
    StandardError,
    /// The time limit was reached.
    TimeLimit,
    /// The progress callback or the function given to `stop_when` stopped the run.
    Callback,
    /// The evaluations allowed for [`Rounds`](crate::adaptive::Rounds) were spent.
    Evaluations,
    /// The error of [`Rounds`](crate::adaptive::Rounds) did not fall as their stages grew.
    NoProgress,
}

impl StoppedBy {
    /// Returns the error of a run of `chains` chains that ended for this reason, without a result.
    pub(crate) fn error(self, chains: usize) -> Error {
        Error::Stopped {
            by: self.to_string(),
            chains,
        }
    }
}

impl fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chains => "all chains done",
            Self::StandardError => "standard error reached",
            Self::Evaluations => "budget spent",
            Self::NoProgress => "the error does not fall with more stages",
            Self::TimeLimit => "time limit reached",
            Self::Callback => "interrupted",
        })
    }
}

crate::num::debug_by_fields! {
    Execution for [] Execution<'_> { threads, until_error, time_limit }
}

/// Gives a runner with a field `execution` the setters of [`Execution`]. `$stopped` documents a stopped run's result.
macro_rules! controls {
    ($lifetime:lifetime, $stopped:literal) => {
        /// Sets the number of threads, as [`Execution::threads`](crate::ais::Execution::threads).
        pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
            self.execution = self.execution.threads(threads);
            self
        }

        /// Sets the wall time after which the run ends.
        ///
        #[doc = $stopped]
        pub fn time_limit(mut self, time: std::time::Duration) -> Self {
            self.execution = self.execution.time_limit(time);
            self
        }

        /// Sets a progress callback, which may stop the run, as
        /// [`Execution::progress`](crate::ais::Execution::progress).
        ///
        #[doc = $stopped]
        pub fn progress<V: $crate::work::Verdict>(
            mut self,
            progress: impl Fn($crate::work::Progress) -> V + Sync + $lifetime,
        ) -> Self {
            self.execution = self.execution.progress(progress);
            self
        }

        /// Sets a function that may stop the run, as [`Execution::stop_when`](crate::ais::Execution::stop_when).
        ///
        #[doc = $stopped]
        pub fn stop_when(mut self, asked: impl Fn() -> bool + Sync + $lifetime) -> Self {
            self.execution = self.execution.stop_when(asked);
            self
        }

        /// Shows a progress bar, as [`Execution::progress_bar`](crate::ais::Execution::progress_bar).
        #[cfg(feature = "progress")]
        pub fn progress_bar(mut self) -> Self {
            self.execution = self.execution.progress_bar();
            self
        }
    };
}
pub(crate) use controls;

/// Calls `work` once on each of at most `most` threads, of a new pool of at most `threads` threads, or of rayon's
/// global pool if `threads` is `None`. The work on a block can itself use `width` threads of the pool. Work for a
/// single thread stays on the calling thread, because a pool costs some 50 microseconds, more than a short run.
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
            // Moves into the pool once, instead of at each fork.
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
        .map_err(|error| Error::invalid("threads", threads, refused(error)))
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

/// Refuses a call from a thread of rayon's pool. This thread would wait for other processes, and other threads of the
/// pool might then wait for it forever.
#[cfg(feature = "checkpoint")]
pub(super) fn check_outside_pool() -> Result<()> {
    #[cfg(feature = "rayon")]
    Error::check(
        rayon::current_thread_index().is_none(),
        "ranks",
        "a call from a thread of rayon's pool",
        "one from outside of the pool",
    )?;
    Ok(())
}

/// A piece of work that runs once and stores its result in a variable of its caller.
pub(crate) type Work<'a> = dyn FnMut() + Send + 'a;

/// Runs `left` and `right`, in parallel if a thread is free.
#[cfg(feature = "rayon")]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    rayon::join(left, right);
}

#[cfg(not(feature = "rayon"))]
pub(crate) fn join(left: &mut Work<'_>, right: &mut Work<'_>) {
    left();
    right();
}

/// Runs `work` on `threads` threads, or on rayon's global pool. A single thread gets its own pool too, because work
/// that forks would otherwise enter the global pool.
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

pub(crate) fn merging_panicked(message: String, chains: Range<usize>) -> Error {
    Error::panicked(format!("in merging: {message}"), chains)
}

/// Runs `work`, and returns the message if it panics. It is not generic in `work`, so that it is compiled only once per
/// type of result.
pub(crate) fn caught<T>(work: &mut dyn FnMut() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(message)
}

/// Runs `work`, which consumes its captured values, as [`caught`] does.
pub(crate) fn caught_once<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let mut work = Some(work);
    caught(&mut || work.take().expect("called once")())
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a payload that is no text".to_owned())
}
