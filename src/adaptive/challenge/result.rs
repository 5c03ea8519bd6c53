//! The result of a challenge.

use std::fmt;

use super::judge::{Judgement, Second};
use crate::Result;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning, write_estimate, write_warnings};

/// The result of a [`Challenge`](super::Challenge): its judgement and the second run.
///
/// Log Z, error, interval and warnings are those of the second run where it contradicts the first or improves on it, and
/// else those of the first. After an improvement that does not lie above the first run's interval, the interval ends at
/// the larger one of both upper ends, and the warnings are those of both runs.
#[must_use]
pub struct ChallengeRun<'c, S> {
    pub(in crate::adaptive) first: &'c dyn LogZ,
    pub(in crate::adaptive) second: Second<S>,
}

impl<S> ChallengeRun<'_, S> {
    /// Returns the judgement.
    pub fn judgement(&self) -> Judgement {
        self.second.judgement
    }

    /// Returns the second run, from the mixture of the old base and the new ones.
    pub fn second(&self) -> &Run<S> {
        &self.second.run
    }

    /// Returns the number of states that were cooled.
    pub fn starts(&self) -> usize {
        self.second.starts
    }

    /// Returns the number of modes that were found.
    pub fn modes(&self) -> usize {
        self.second.modes
    }

    fn chosen(&self) -> &dyn LogZ {
        self.second.better().map_or(self.first, |run| run)
    }
}

/// Writes the estimate, what came of the challenge, and any warnings.
impl<S> fmt::Display for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.second.better() {
            Some(_) => "of the second run",
            None => "of the first run",
        };
        write_estimate(f, self, "", whose)?;
        write!(f, "\nchallenge: {}", self.second)?;
        write_warnings(f, self.warnings())
    }
}

impl<S> fmt::Debug for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChallengeRun")
            .field("judgement", &self.second.judgement)
            .field("first", &self.first.log_z())
            .field("second", &self.second.run.log_z())
            .finish_non_exhaustive()
    }
}

impl<S> LogZ for ChallengeRun<'_, S> {
    /// Returns the estimate of log Z, by the run that the [judgement](Self::judgement) favours.
    fn log_z(&self) -> f64 {
        self.chosen().log_z()
    }

    fn standard_error(&self) -> f64 {
        self.chosen().standard_error()
    }

    /// Returns the confidence interval of log Z at another level in (0, 1). If the second run is an improvement and does
    /// not lie above the first run's interval, the upper bound is the larger one of both runs.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.second.interval_at(self.first, level)
    }

    /// Returns the larger of the lower bounds on log Z by both runs, each at the confidence `1 - (1 - confidence) / m`
    /// for m bounds, so that both hold with probability `confidence`.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        let first = |level| self.first.certified_lower_bound(level);
        self.second.bound(&first, confidence)
    }

    fn warnings(&self) -> &[Warning] {
        &self.second.warnings
    }

    /// Returns the number of density evaluations of the challenge, without those of the first run; a gradient is one more.
    fn evaluations(&self) -> u64 {
        self.second.evaluations()
    }

    /// Returns the wall time of the challenge in seconds.
    fn seconds(&self) -> f64 {
        self.second.seconds
    }
}
