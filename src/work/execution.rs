//! How a run is carried out: threads, its end, and those who watch it.

use std::fmt;
use std::time::{Duration, Instant};

use super::progress::{Callback, Listener};
use crate::{Error, Result};

/// How a run is carried out. It changes no bit of a result but where the run ends.
#[derive(Default)]
#[allow(missing_debug_implementations)] // No user meets it.
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
    /// On these threads, watched by a callback.
    pub(crate) fn watched(threads: Option<usize>, progress: Option<Listener<'e>>) -> Self {
        Self {
            threads,
            progress: progress.map(|progress| Box::new(progress) as Callback<'e>),
            ..Self::default()
        }
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

/// Gives a runner with a field `execution` the setters that say how it is carried out. The text says what the result is of
/// a run that is stopped.
macro_rules! controls {
    ($lifetime:lifetime, $stopped:literal) => {
        /// Sets the number of threads; rayon's global pool unless set, or for `None`. Without the feature `rayon` there is
        /// one whatever is set.
        pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
            self.execution.threads = threads.into();
            self
        }

        /// Ends the run after this wall time.
        ///
        #[doc = $stopped]
        pub fn time_limit(mut self, time: std::time::Duration) -> Self {
            self.execution.time_limit = Some(time);
            self
        }

        /// Calls `progress` about a thousand times a run and ten times a second, as far as steps are that short,
        /// from whichever thread is at work. It returns nothing, or a
        /// [`ControlFlow`](std::ops::ControlFlow), of which `Break` stops the run at the end of the step.
        ///
        #[doc = $stopped]
        pub fn progress<V: $crate::work::Verdict>(
            mut self,
            progress: impl Fn($crate::work::Progress) -> V + Sync + $lifetime,
        ) -> Self {
            self.execution.progress = Some($crate::work::callback(progress));
            self
        }

        /// Stops the run at the end of a step when `asked` says so, as `Break` of a [progress](Self::progress)
        /// callback does: for a flag that a signal sets. It is asked after each step of a block.
        ///
        #[doc = $stopped]
        pub fn stop_when(mut self, asked: impl Fn() -> bool + Sync + $lifetime) -> Self {
            self.execution.stop_when = Some(Box::new(asked));
            self
        }

        /// Shows a progress bar while the run lasts: on a terminal (standard error) a bar, elsewhere a line now
        /// and then.
        #[cfg(feature = "progress")]
        pub fn progress_bar(self) -> Self {
            self.progress($crate::work::progress_bar())
        }
    };
}
pub(crate) use controls;
