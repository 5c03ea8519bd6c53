//! The result of a challenge.

use std::fmt;

use super::judge::{Judged, Judgement};
use super::second::Second;
use crate::Result;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning, write_warnings};

/// The result of a [`Challenge`](super::Challenge): the second run, and its [judgement](Judged) on the first.
#[must_use]
pub struct ChallengeRun<'c, S> {
    pub(super) first: &'c dyn LogZ,
    pub(in crate::adaptive) second: Second<S>,
}

impl<S> ChallengeRun<'_, S> {
    /// Returns the judgement.
    pub fn judgement(&self) -> Judgement {
        self.second.judgement
    }

    /// Returns the second run, from the mixture of the path's own base and distributions around the modes found.
    pub fn second(&self) -> &Run<S> {
        &self.second.run
    }

    /// Returns the number of states that the search cooled, from the target to high powers of the target.
    pub fn starts(&self) -> usize {
        self.second.starts
    }

    /// Returns the number of modes that were found.
    pub fn modes(&self) -> usize {
        self.second.modes
    }

    fn judged(&self) -> Judged<'_> {
        self.second.beside(self.first)
    }
}

/// Writes the estimate, the judgement and any warnings.
impl<S> fmt::Display for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.judged().write_estimate(f, self)?;
        self.second.write(f, self.first)?;
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
        &self.second.warnings
    }

    /// Returns the number of evaluations of the target in the challenge alone. A value with its gradient counts as one.
    fn evaluations(&self) -> u64 {
        self.second.evaluations()
    }

    /// Returns the wall time of the challenge in seconds.
    fn seconds(&self) -> f64 {
        self.second.seconds
    }
}
