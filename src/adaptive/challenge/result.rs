//! The result of a challenge.

use std::borrow::Cow;
use std::fmt;

use super::judge::{Judged, Judgement};
use crate::Result;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning, write_warnings};

/// The result of a [`Challenge`](super::Challenge): the second run, and its [judgement](Judged) on the first.
#[must_use]
pub struct ChallengeRun<'c, S> {
    pub(super) first: &'c dyn LogZ,
    pub(super) judgement: Judgement,
    /// The second run.
    pub(super) run: Run<S>,
    /// Reasons to doubt the result.
    pub(in crate::adaptive) warnings: Vec<Warning>,
    /// Whether the log normaliser of the base was compared with samples of the base, or is right by construction.
    pub(super) is_compared: bool,
    pub(super) starts: usize,
    pub(super) modes: usize,
    /// Number of evaluations before the second run itself.
    pub(super) searching: u64,
    pub(in crate::adaptive) seconds: f64,
}

impl<S> ChallengeRun<'_, S> {
    /// Returns the judgement.
    pub fn judgement(&self) -> Judgement {
        self.judgement
    }

    /// Returns the second run, from the mixture of the path's own base and distributions around the modes found.
    pub fn second(&self) -> &Run<S> {
        &self.run
    }

    /// Returns the number of states that the search cooled, from the target to high powers of the target.
    pub fn starts(&self) -> usize {
        self.starts
    }

    /// Returns the number of modes that were found.
    pub fn modes(&self) -> usize {
        self.modes
    }

    fn judged(&self) -> Judged<'_> {
        Judged {
            first: self.first,
            second: &self.run,
            judgement: self.judgement,
            is_compared: self.is_compared,
            warnings: Cow::Borrowed(&self.warnings),
        }
    }
}

/// Writes the estimate, the judgement and any warnings. The judgement is written such as
/// `challenge: a second run, -2.310 +- 0.020, does not contradict it, from 128 starts and 1 mode`.
impl<S> fmt::Display for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.judged().write_estimate(f, self)?;
        f.write_str("\nchallenge: ")?;
        self.judged().write_judgement(f)?;
        let (starts, modes) = (self.starts, self.modes);
        let of_modes = if modes == 1 { "mode" } else { "modes" };
        write!(f, ", from {starts} starts and {modes} {of_modes}")?;
        write_warnings(f, self.warnings())
    }
}

impl<S> fmt::Debug for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChallengeRun").field(&self.judged()).finish()
    }
}

impl<S> LogZ for ChallengeRun<'_, S> {
    fn log_z(&self) -> f64 {
        self.judged().log_z()
    }

    fn standard_error(&self) -> f64 {
        self.judged().standard_error()
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.judged().interval_at(level)
    }

    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        self.judged().certified_lower_bound(confidence)
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of evaluations of the target in the challenge alone. A value with its gradient counts as one.
    fn evaluations(&self) -> u64 {
        self.searching.saturating_add(self.run.evaluations())
    }

    /// Returns the wall time of the challenge in seconds.
    fn seconds(&self) -> f64 {
        self.seconds
    }
}
