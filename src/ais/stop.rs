//! What ends a run.

use std::fmt;
use std::time::{Duration, Instant};

use crate::{Error, Result};

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
    /// The evaluations that [`Rounds`](crate::pilot::Rounds) may take were spent.
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

/// Whether a run has been asked to stop.
pub(crate) type Asked<'p> = Box<dyn Fn() -> bool + Sync + 'p>;

/// What may end a run before all of its chains are done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Budget {
    pub(crate) standard_error: Option<f64>,
    pub(crate) time: Option<Duration>,
}

/// Chains before the first look at the standard error.
const FIRST_LOOK: usize = 500;
/// Blocks before the first look where chains interact, so that errors come from islands.
const FIRST_ISLANDS: usize = 10;

impl Budget {
    pub(crate) fn check(&self) -> Result<()> {
        let error = self.standard_error.unwrap_or(1.0);
        let positive = error.is_finite() && error > 0.0;
        Error::check(positive, "until_error", error, "a positive number")
    }

    /// Whether the time is over of what began then.
    pub(crate) fn is_over(&self, begun: Instant) -> bool {
        self.time.is_some_and(|limit| begun.elapsed() >= limit)
    }
}

/// Whether the standard error is looked at after so many full blocks.
///
/// Looks are a tenth apart, the same ones for every run. So each costs little, and few looks mean little
/// choice of a moment when the error seems small by chance.
pub(super) fn is_look(blocks: usize, block_size: usize, interacting: bool) -> bool {
    let islands = if interacting { FIRST_ISLANDS } else { 1 };
    let mut look = FIRST_LOOK.div_ceil(block_size).max(islands);
    while look < blocks {
        look += look.div_ceil(10);
    }
    look == blocks
}
