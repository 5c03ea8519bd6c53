//! The judgement of a challenge: its second run beside the first.

use std::fmt;

use crate::Result;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning, distinct};

/// The judgement of a [`Challenge`](super::Challenge) on a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Judgement {
    /// The second run has no warnings that matter here, and found nothing above the first. This is no proof: it tells how
    /// hard was tried.
    Confirmed {
        /// Number of states that were cooled.
        starts: usize,
        /// Number of modes found.
        modes: usize,
        /// Evaluations of the challenge.
        evaluations: u64,
    },
    /// The 95% interval of the first run is too low: it ends below a certified lower bound.
    Contradicted {
        /// The lower bound on log Z by the second run.
        bound: f64,
        /// Probability with which all bounds that were compared hold.
        confidence: f64,
    },
    /// The second run is the better one: its 95% interval lies above that of the first; or it has no warnings that matter here,
    /// and its interval lies above the first's estimate, by more than four of the first's standard errors or at most half as wide.
    /// It may be too low itself. Unless it lies above the first run's interval, the first run's warnings stay.
    Improved {
        /// Estimate of log Z by the second run.
        log_z: f64,
        /// The 95% interval of the result, lower and upper bound. The upper bound is the larger one of both runs.
        interval: (f64, f64),
    },
    /// The second run does not lie above the first, and has warnings of its own; or its interval at the challenge's
    /// [confidence](super::Challenge::confidence) lies below that of the first, or its 95% interval below a certified lower bound
    /// of the first; or it lies above the first, but the log normaliser of the base could not be compared with the base's samples.
    /// One of both runs is likely wrong. The warning [`ChallengeUndecided`](Warning::ChallengeUndecided) has the value of
    /// the second run, and [`second`](super::ChallengeRun::second) the run.
    Undecided,
}

/// The second run of a challenge, with its judgement on a first.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(in crate::adaptive) struct Second<S> {
    pub(in crate::adaptive) judgement: Judgement,
    pub(in crate::adaptive) run: Run<S>,
    /// Reasons to doubt the result.
    pub(in crate::adaptive) warnings: Vec<Warning>,
    /// Whether the log normaliser of the base was compared with its samples, or is right by construction.
    is_compared: bool,
    /// Estimate of log Z by the first run, and its standard error.
    first: (f64, f64),
    pub(super) starts: usize,
    pub(super) modes: usize,
    /// Evaluations before the chains of the run.
    proposing: u64,
    pub(in crate::adaptive) seconds: f64,
}

/// Largest width of the better interval, relative to the other.
const NARROWER: f64 = 0.5;
/// Standard errors of a first run beyond which it is off. Where its weights are skewed its interval reaches farther.
const FAR: f64 = 4.0;

/// Efforts before a second run: starts, modes and evaluations.
pub(super) type Tried = (usize, usize, u64);

/// Judges a first run by a second, at a confidence that all bounds which are compared share. A second run above the
/// interval of the first warns of it. Where the log normaliser of the base was not compared, a second run proves nothing.
pub(super) fn judge<S>(
    first: &dyn LogZ,
    mut run: Run<S>,
    (confidence, is_compared): (f64, bool),
    (starts, modes, proposing): Tried,
) -> Result<Second<S>> {
    let [own, bound] = bounds(
        &|level| first.certified_lower_bound(level),
        &run,
        confidence,
    )?;
    let evaluations = proposing.saturating_add(run.evaluations());
    let lies_below = own.is_some_and(|own| own > run.interval().1)
        || run.interval_at(confidence)?.1 < first.interval_at(confidence)?.0;
    let bound = bound.map(|bound| (bound, confidence));
    let judgement = match judged(first, &run, lies_below, bound) {
        Some(_) if !is_compared => Judgement::Undecided,
        Some(found) => found,
        None => Judgement::Confirmed {
            starts,
            modes,
            evaluations,
        },
    };
    run.warn(judgement.warning(first));
    let mut second = Second {
        judgement,
        run,
        warnings: Vec::new(),
        is_compared,
        first: (first.log_z(), first.standard_error()),
        starts,
        modes,
        proposing,
        seconds: 0.0,
    };
    second.warnings = second.of_result(first);
    Ok(second)
}

/// Returns the judgement unless it confirms, given whether the second run lies below the first, and its bound with its
/// confidence.
fn judged<S>(
    first: &dyn LogZ,
    second: &Run<S>,
    lies_below: bool,
    bound: Option<(f64, f64)>,
) -> Option<Judgement> {
    let (old, interval) = (first.interval(), second.interval());
    if let Some((bound, confidence)) = bound.filter(|(bound, _)| *bound > old.1) {
        return Some(Judgement::Contradicted { bound, confidence });
    }
    let improved = Judgement::Improved {
        log_z: second.log_z(),
        interval: (interval.0, interval.1.max(old.1)),
    };
    if interval.0 > old.1 {
        return Some(improved);
    }
    if lies_below || second.warnings().iter().any(is_doubt) {
        return Some(Judgement::Undecided);
    }
    let is_narrow = interval.1 - interval.0 <= NARROWER * (old.1 - old.0);
    let above = interval.0 - first.log_z();
    let is_far = above > FAR * first.standard_error();
    (is_far || above > 0.0 && is_narrow).then_some(improved)
}

/// Returns whether a warning of a second run leaves it without a say. A new base may reach beyond the target's support, and
/// most of the variance may well come where its chains leave it.
fn is_doubt(warning: &Warning) -> bool {
    let is_harmless = matches!(
        warning,
        Warning::DeadChains { .. } | Warning::ConcentratedVariance { .. }
    );
    !is_harmless
}

/// Returns the lower bounds on log Z by a first run and a second. All that there are hold with probability `confidence`.
fn bounds<S>(
    first: &dyn Fn(f64) -> Result<Option<f64>>,
    second: &Run<S>,
    confidence: f64,
) -> Result<[Option<f64>; 2]> {
    let count = 1 + usize::from(first(confidence)?.is_some());
    let each = 1.0 - (1.0 - confidence) / count as f64;
    Ok([first(each)?, second.certified_lower_bound(each)?])
}

impl Judgement {
    /// Returns the warning where the first run's interval is too low.
    fn warning(self, first: &dyn LogZ) -> Option<Warning> {
        let bound = match self {
            Self::Contradicted { bound, confidence } => Some((bound, confidence)),
            Self::Improved { interval, .. } if interval.0 > first.interval().1 => None,
            _ => return None,
        };
        let first = first.log_z();
        Some(Warning::FirstRunTooLow { first, bound })
    }
}

impl<S> Second<S> {
    /// Returns the reasons to doubt the result, given the first run.
    fn of_result(&self, first: &dyn LogZ) -> Vec<Warning> {
        let (before, after) = (first.warnings(), self.run.warnings());
        match self.judgement {
            Judgement::Confirmed { .. } => before.to_vec(),
            Judgement::Improved { .. } if self.leaves_room() => {
                distinct(before.iter().chain(after))
            }
            Judgement::Contradicted { .. } | Judgement::Improved { .. } => after.to_vec(),
            Judgement::Undecided => {
                let undecided = Warning::ChallengeUndecided {
                    log_z: self.run.log_z(),
                    standard_error: self.run.standard_error(),
                    reason: self.why_undecided().to_owned(),
                };
                before.iter().cloned().chain([undecided]).collect()
            }
        }
    }

    /// Returns whether an improvement may lie within the first run's interval, whose upper end then counts: a second run
    /// that lacks part of the mass is narrow for this very reason.
    fn leaves_room(&self) -> bool {
        let is_warned = |warning| matches!(warning, &Warning::FirstRunTooLow { .. });
        matches!(self.judgement, Judgement::Improved { .. })
            && !self.run.warnings().iter().any(is_warned)
    }

    fn why_undecided(&self) -> &'static str {
        if self.run.warnings().iter().any(is_doubt) {
            "has warnings"
        } else if !self.is_compared {
            "counts on a log normaliser of the base that could not be compared with its samples"
        } else {
            "lies below the first"
        }
    }

    /// Returns the confidence interval of the result, given the first run.
    pub(in crate::adaptive) fn interval_at(
        &self,
        first: &dyn LogZ,
        level: f64,
    ) -> Result<(f64, f64)> {
        let Some(better) = self.better() else {
            return first.interval_at(level);
        };
        let (lower, upper) = better.interval_at(level)?;
        Ok(match self.leaves_room() {
            true => (lower, upper.max(first.interval_at(level)?.1)),
            false => (lower, upper),
        })
    }

    /// Returns the run where it takes the place of the first.
    pub(in crate::adaptive) fn better(&self) -> Option<&Run<S>> {
        match self.judgement {
            Judgement::Contradicted { .. } | Judgement::Improved { .. } => Some(&self.run),
            Judgement::Confirmed { .. } | Judgement::Undecided => None,
        }
    }

    pub(in crate::adaptive) fn evaluations(&self) -> u64 {
        self.proposing.saturating_add(self.run.evaluations())
    }

    /// Returns the larger of the bounds by both runs, which share the level; `first` gives that of the first run. The bound
    /// of the second run holds if the log normaliser of the base is right.
    pub(in crate::adaptive) fn bound(
        &self,
        first: &dyn Fn(f64) -> Result<Option<f64>>,
        confidence: f64,
    ) -> Result<Option<f64>> {
        if !self.is_compared {
            return first(confidence);
        }
        let bounds = bounds(first, &self.run, confidence)?;
        Ok(bounds.into_iter().flatten().reduce(f64::max))
    }
}

/// Writes what came of the challenge, such as `a second run, -2.310 +- 0.020, does not contradict it, from 128 starts
/// and 1 mode`.
impl<S> fmt::Display for Second<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (log_z, error) = (self.run.log_z(), self.run.standard_error());
        match self.judgement {
            Judgement::Confirmed { .. } => {
                write!(
                    f,
                    "a second run, {log_z:.3} +- {error:.3}, does not contradict it,"
                )?;
            }
            Judgement::Contradicted { .. } => f.write_str("contradicts the first run")?,
            Judgement::Improved { .. } => {
                let (log_z, error) = self.first;
                write!(f, "improves on the first run, {log_z:.3} +- {error:.3},")?;
            }
            Judgement::Undecided => {
                let why = self.why_undecided();
                write!(
                    f,
                    "undecided: a second run, {log_z:.3} +- {error:.3}, {why},"
                )?;
            }
        }
        let (starts, modes) = (self.starts, self.modes);
        let of_modes = if modes == 1 { "mode" } else { "modes" };
        write!(f, " from {starts} starts and {modes} {of_modes}")
    }
}

#[cfg(test)]
mod tests;
