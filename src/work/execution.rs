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
