//! How a run is carried out: threads, its end, and those who watch it.

use std::fmt;
use std::time::{Duration, Instant};

#[cfg(feature = "progress")]
use super::progress::progress_bar;
use super::progress::{Callback, Progress, Verdict, callback};
use crate::{Error, Result};

/// How a run is carried out: threads, its end, and those who watch it. It changes no bit of a result but where the run ends.
///
/// Runners have the same setters of their own. This is for calls without a runner:
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
    pub(crate) stop_when: Option<Asked<'e>>,
}

/// Whether a run has been asked to stop.
pub(crate) type Asked<'e> = Box<dyn Fn() -> bool + Sync + 'e>;

impl<'e> Execution<'e> {
    /// On all threads of rayon's global pool, to the end, unwatched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads; rayon's global pool unless set, or for `None`. Without the feature `rayon` there is
    /// one whatever is set.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Ends the run after this wall time.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = Some(time);
        self
    }

    /// Calls `progress` about a thousand times a run and ten times a second, as far as steps are that short,
    /// from whichever thread is at work. It returns nothing, or a
    /// [`ControlFlow`](std::ops::ControlFlow), of which `Break` stops the run at the end of the step.
    pub fn progress<V: Verdict>(mut self, progress: impl Fn(Progress) -> V + Sync + 'e) -> Self {
        self.progress = Some(callback(progress));
        self
    }

    /// Stops the run at the end of a step when `asked` says so, as `Break` of a [progress](Self::progress)
    /// callback does: for a flag that a signal sets. It is asked after each step of a block.
    pub fn stop_when(mut self, asked: impl Fn() -> bool + Sync + 'e) -> Self {
        self.stop_when = Some(Box::new(asked));
        self
    }

    /// Shows a progress bar while the run lasts: on a terminal (standard error) a bar, elsewhere a line after 10, 20,
    /// 40, .. seconds, later every ten minutes.
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

    /// Whether the user's function says that the run is to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.stop_when.as_ref().is_some_and(|asked| asked())
    }

    /// Whether the time is over of what began then.
    pub(super) fn is_over(&self, begun: Instant) -> bool {
        self.time_limit
            .is_some_and(|limit| begun.elapsed() >= limit)
    }
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum StoppedBy {
    /// All chains, or rounds, asked for were done. Of a merged run some may still be
    /// [missing](crate::estimate::Warning::MissingChains).
    Chains,
    /// The standard error asked for was reached.
    StandardError,
    /// The time was over.
    TimeLimit,
    /// The progress callback said so, or the function given to `stop_when`.
    Callback,
    /// The evaluations that [`Rounds`](crate::adaptive::Rounds) may take were spent.
    Evaluations,
}

impl fmt::Display for StoppedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chains => "the number asked for",
            Self::StandardError => "the standard error",
            Self::Evaluations => "the budget of evaluations",
            Self::TimeLimit => "the time limit",
            Self::Callback => "the caller (a progress callback, stop_when or Ctrl-C)",
        })
    }
}

impl fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("threads", &self.threads)
            .field("until_error", &self.until_error)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

/// Gives a runner with a field `execution` the setters of an [`Execution`]. The text says what the result is of a run that
/// is stopped.
macro_rules! controls {
    ($lifetime:lifetime, $stopped:literal) => {
        /// Sets the number of threads, as [`Execution::threads`](crate::ais::Execution::threads).
        pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
            self.execution = self.execution.threads(threads);
            self
        }

        /// Ends the run after this wall time.
        ///
        #[doc = $stopped]
        pub fn time_limit(mut self, time: std::time::Duration) -> Self {
            self.execution = self.execution.time_limit(time);
            self
        }

        /// Calls `progress` now and then, as [`Execution::progress`](crate::ais::Execution::progress). It may stop the
        /// run.
        ///
        #[doc = $stopped]
        pub fn progress<V: $crate::work::Verdict>(
            mut self,
            progress: impl Fn($crate::work::Progress) -> V + Sync + $lifetime,
        ) -> Self {
            self.execution = self.execution.progress(progress);
            self
        }

        /// Stops the run when `asked` says so, as [`Execution::stop_when`](crate::ais::Execution::stop_when).
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
