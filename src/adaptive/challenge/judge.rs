//! The judgement on a first result by a second one.

use std::borrow::Cow;
use std::fmt;

use crate::estimate::{LogZ, Warning, distinct, write_estimate, write_warnings};
use crate::num::exceeds;
use crate::{Error, Result};

/// The judgement on a [first](Judged) result for log Z, by a second result.
///
/// The first of these rules that applies gives the judgement. Numbers that differ by less than rounding, `1e-9` of their
/// size plus 1, count as equal. Intervals are at 95% unless the rule says otherwise. The
/// *confidence* is the argument of [`Judged::new`], and 99% in a [`Challenge`](super::Challenge) by default.
///
/// 1. `Contradicted`: the first interval lies below the [certified bound](LogZ::certified_lower_bound) of the second
///    result. If both results have such a bound, each bound gets half of the allowed probability of error.
/// 2. `Improved`: the second interval lies above the first interval.
/// 3. `Undecided`: the second result has a warning other than those that [`Confirmed`](Self::Confirmed) allows; or its
///    interval at the confidence lies below the first interval at the confidence; or its 95% interval lies below the
///    certified bound of the first result.
/// 4. `Improved`: the second interval lies above the first *estimate*, and its lower end is more than four standard
///    errors of the first result above that estimate, or it is at most half as wide as the first interval.
/// 5. `Confirmed`.
///
/// If the log normaliser of the second result's base could not be compared with samples of the base, the judgement is
/// `Undecided` instead of `Contradicted` or `Improved`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Judgement {
    /// The second result does not contradict the first. This is no proof. The second result may have the warnings
    /// [`DeadChains`](Warning::DeadChains), [`ConcentratedVariance`](Warning::ConcentratedVariance),
    /// [`ErrorNotReached`](Warning::ErrorNotReached), [`CheckpointNotWritten`](Warning::CheckpointNotWritten) and
    /// [`FirstRunTooLow`](Warning::FirstRunTooLow), but no other.
    Confirmed,
    /// The 95% interval of the first result is too low: it ends below a certified lower bound by the second result.
    Contradicted {
        /// The lower bound on log Z by the second result.
        bound: f64,
        /// Probability with which all bounds that were compared hold.
        confidence: f64,
    },
    /// The second result is better, but may still be too low. If rule 4 decides, the result keeps the warnings of both
    /// results.
    Improved {
        /// Estimate of log Z by the second result.
        log_z: f64,
        /// Lower end of the second result's 95% interval, and the larger of the upper ends of both results' intervals.
        interval: (f64, f64),
    },
    /// No decision is possible, and one of the two results is likely wrong. The warning
    /// [`ChallengeUndecided`](Warning::ChallengeUndecided) contains the second estimate.
    Undecided,
}

/// Two results for log Z of one target, with a judgement on the first result by the second.
///
/// Log Z, error, interval and warnings come from the second result if it contradicts the first or improves on it, and
/// otherwise from the first. [`Judgement`] states the rules. They assume that a forward run misses mass more often than
/// it finds too much.
///
/// ```
/// use annealed::adaptive::{Judged, Judgement};
/// use annealed::prelude::*;
///
/// let path = GeometricPath::new(Gaussian::standard(2)?, Gaussian::isotropic(DVector::zeros(2), 0.5)?);
/// let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5)?).schedule(Schedule::linear(50)?);
/// let first = ais.run()?;
/// let second = Rounds::new(&path, RandomWalkMetropolis::new(0.5)?).budget(50_000).run()?;
/// let both = Judged::new(&first, &second, 0.99)?;
/// println!("{both}");
/// assert!(matches!(both.judgement(), Judgement::Confirmed));
/// assert_eq!(both.log_z(), first.log_z());
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// If the second result improves on the first, but their intervals overlap, the reported interval ends at the larger
/// of their two upper ends, and the warnings of both results stay. Otherwise a better second result keeps one warning of
/// the first, [`MergedFamilies`](Warning::MergedFamilies): chains that do not follow the target make both too low.
#[must_use]
pub struct Judged<'r> {
    pub(super) first: &'r dyn LogZ,
    pub(super) second: &'r dyn LogZ,
    pub(super) judgement: Judgement,
    /// Whether samples of the second result's base confirm its log normaliser, or it is right by construction.
    pub(super) is_compared: bool,
    pub(super) warnings: Cow<'r, [Warning]>,
}

/// Default probability with which all bounds of a challenge hold together: at most one right first run in a hundred is
/// contradicted by chance.
pub(super) const CHALLENGE_CONFIDENCE: f64 = 0.99;
/// Largest width of the second interval, relative to the first, at which rule 4 finds an improvement. At one half the
/// second estimate has at least four times the precision (inverse variance) of the first.
const MOST_WIDTH: f64 = 0.5;
/// Distance from the first estimate, in its standard errors, beyond which it counts as wrong: the four errors by which
/// all pages define a wrong run. If its weights are skewed, the first interval may reach farther.
const WRONG_ERRORS: f64 = 4.0;

impl<'r> Judged<'r> {
    /// Judges `first` by `second`. All bounds that are compared hold together with probability `confidence`. Both
    /// results must use the correct log normaliser of their base, which is not checked here.
    ///
    /// # Errors
    /// A confidence outside (0, 1).
    pub fn new(first: &'r dyn LogZ, second: &'r dyn LogZ, confidence: f64) -> Result<Self> {
        Self::from_base(first, second, confidence, true)
    }

    /// Judges `first` by `second`. Unless `is_compared`, `second` can neither contradict `first` nor improve on it.
    pub(super) fn from_base(
        first: &'r dyn LogZ,
        second: &'r dyn LogZ,
        confidence: f64,
        is_compared: bool,
    ) -> Result<Self> {
        Error::check_inner_fraction("confidence", confidence)?;
        let [own, bound] = bounds(first, second, confidence)?;
        let [of_first, of_second] = [
            first.interval_at(confidence)?,
            second.interval_at(confidence)?,
        ];
        let lies_below = own.is_some_and(|own| exceeds(own, second.interval().1))
            || exceeds(of_first.0, of_second.1);
        let bound = bound.map(|bound| (bound, confidence));
        let judgement = match judgement(first, second, lies_below, bound) {
            Some(_) if !is_compared => Judgement::Undecided,
            Some(found) => found,
            None => Judgement::Confirmed,
        };
        let mut judged = Self {
            first,
            second,
            judgement,
            is_compared,
            warnings: Cow::Borrowed(&[]),
        };
        judged.warnings = Cow::Owned(judged.reasons());
        Ok(judged)
    }

    /// Returns the judgement.
    pub fn judgement(&self) -> Judgement {
        self.judgement
    }

    /// Returns whether the second result takes the place of the first.
    fn is_better(&self) -> bool {
        matches!(
            self.judgement,
            Judgement::Contradicted { .. } | Judgement::Improved { .. }
        )
    }

    fn chosen(&self) -> &'r dyn LogZ {
        match self.is_better() {
            true => self.second,
            false => self.first,
        }
    }

    /// Returns true if the second result is an improvement whose interval overlaps with the first. The larger upper end
    /// is then reported, since a second run that misses part of the mass has too narrow an interval.
    fn leaves_room(&self) -> bool {
        let first = self.first.interval();
        matches!(self.judgement, Judgement::Improved { interval, .. } if interval.0 <= first.1)
    }

    /// Returns the reasons to doubt the result.
    fn reasons(&self) -> Vec<Warning> {
        let (before, after) = (self.first.warnings(), self.second.warnings());
        let too_low = |bound| {
            let first = self.first.log_z();
            let told = Warning::FirstRunTooLow { first, bound };
            let shared = before.iter().filter(|warning| concerns_both(warning));
            distinct(after.iter().chain([&told]).chain(shared))
        };
        match self.judgement {
            Judgement::Confirmed => before.to_vec(),
            Judgement::Improved { .. } if self.leaves_room() => {
                distinct(before.iter().chain(after))
            }
            Judgement::Improved { .. } => too_low(None),
            Judgement::Contradicted { bound, confidence } => too_low(Some((bound, confidence))),
            Judgement::Undecided => {
                let undecided = Warning::ChallengeUndecided {
                    log_z: self.second.log_z(),
                    standard_error: self.second.standard_error(),
                    reason: self.why_undecided().to_owned(),
                };
                before.iter().cloned().chain([undecided]).collect()
            }
        }
    }

    fn why_undecided(&self) -> &'static str {
        // A second result that is not above the first could not have improved on it, whatever its normaliser.
        if !self.is_compared && self.second.log_z() > self.first.log_z() {
            "relies on a log normaliser of the base that could not be compared with its samples"
        } else if self.second.warnings().iter().any(is_doubt) {
            "has warnings"
        } else {
            "lies below the first"
        }
    }

    /// Writes the estimate, and which of the two runs it comes from.
    pub(super) fn write_estimate(&self, f: &mut fmt::Formatter<'_>, of: &dyn LogZ) -> fmt::Result {
        let whose = match self.is_better() {
            true => "of the second run",
            false => "of the first run",
        };
        write_estimate(f, of, "", whose)
    }

    /// Writes the judgement, such as `a second run, -2.310 +- 0.020, does not contradict it`.
    pub(super) fn write_judgement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = |of: &dyn LogZ| format!("{:.3} +- {:.3}", of.log_z(), of.standard_error());
        match self.judgement {
            Judgement::Confirmed => {
                let second = figures(self.second);
                write!(f, "a second run, {second}, does not contradict it")
            }
            Judgement::Contradicted { .. } => f.write_str("contradicts the first run"),
            Judgement::Improved { .. } => {
                write!(f, "improves on the first run, {}", figures(self.first))
            }
            Judgement::Undecided => {
                let (second, why) = (figures(self.second), self.why_undecided());
                write!(f, "undecided: a second run, {second}, {why}")
            }
        }
    }
}

/// Writes the estimate, the judgement and any warnings.
impl fmt::Display for Judged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_estimate(f, self)?;
        f.write_str("\nsecond run: ")?;
        self.write_judgement(f)?;
        write_warnings(f, self.warnings())
    }
}

impl fmt::Debug for Judged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judged")
            .field("judgement", &self.judgement)
            .field("first", &self.first.log_z())
            .field("second", &self.second.log_z())
            .finish_non_exhaustive()
    }
}

impl LogZ for Judged<'_> {
    fn log_z(&self) -> f64 {
        self.chosen().log_z()
    }

    fn standard_error(&self) -> f64 {
        self.chosen().standard_error()
    }

    /// Returns the confidence interval of log Z at `level` in (0, 1). If the second result is an improvement and the
    /// two 95% intervals overlap, the upper end is the larger of both intervals' upper ends.
    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        let (lower, upper) = self.chosen().interval_at(level)?;
        Ok(match self.leaves_room() {
            true => (lower, upper.max(self.first.interval_at(level)?.1)),
            false => (lower, upper),
        })
    }

    /// Returns the larger of the lower bounds on log Z by both results. With m bounds, each has the confidence
    /// `1 - (1 - confidence) / m`, so all hold with probability `confidence`.
    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        // The second bound relies on the log normaliser of the base, which could not be compared.
        if !self.is_compared {
            return self.first.certified_lower_bound(confidence);
        }
        let bounds = bounds(self.first, self.second, confidence)?;
        Ok(bounds.into_iter().flatten().reduce(f64::max))
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the number of density evaluations of both results.
    fn evaluations(&self) -> u64 {
        let first = self.first.evaluations();
        first.saturating_add(self.second.evaluations())
    }

    /// Returns the wall time of both results in seconds.
    fn seconds(&self) -> f64 {
        self.first.seconds() + self.second.seconds()
    }
}

/// Returns the judgement; `None` if the second result confirms the first. `lies_below` is true if the second lies below
/// the first. `bound` is the second's lower bound and its confidence.
fn judgement(
    first: &dyn LogZ,
    second: &dyn LogZ,
    lies_below: bool,
    bound: Option<(f64, f64)>,
) -> Option<Judgement> {
    let (old, interval) = (first.interval(), second.interval());
    if let Some((bound, confidence)) = bound.filter(|(bound, _)| exceeds(*bound, old.1)) {
        return Some(Judgement::Contradicted { bound, confidence });
    }
    let improved = Judgement::Improved {
        log_z: second.log_z(),
        interval: (interval.0, interval.1.max(old.1)),
    };
    if exceeds(interval.0, old.1) {
        return Some(improved);
    }
    if lies_below || second.warnings().iter().any(is_doubt) {
        return Some(Judgement::Undecided);
    }
    let is_narrow = interval.1 - interval.0 <= MOST_WIDTH * (old.1 - old.0);
    let above = interval.0 - first.log_z();
    let is_far = above > WRONG_ERRORS * first.standard_error();
    let is_above = exceeds(interval.0, first.log_z());
    (is_above && (is_far || is_narrow)).then_some(improved)
}

/// Returns true if `warning` disqualifies a second result. A new base may reach beyond the target's support, so dead
/// chains, and variance in the stage where they die, are harmless. The other three warnings listed do not make an
/// estimate wrong.
fn is_doubt(warning: &Warning) -> bool {
    let is_harmless = matches!(
        warning,
        Warning::DeadChains { .. }
            | Warning::ConcentratedVariance { .. }
            | Warning::FirstRunTooLow { .. }
            | Warning::ErrorNotReached { .. }
            | Warning::CheckpointNotWritten { .. }
    );
    !is_harmless
}

/// Returns true if a warning of the first result also concerns the second: its chains do not follow the target.
fn concerns_both(warning: &Warning) -> bool {
    matches!(warning, Warning::MergedFamilies { .. })
}

/// Returns the certified lower bounds on log Z of both results. All bounds that exist hold together with probability
/// `confidence`.
fn bounds(first: &dyn LogZ, second: &dyn LogZ, confidence: f64) -> Result<[Option<f64>; 2]> {
    let at = |level| -> Result<_> {
        Ok([
            first.certified_lower_bound(level)?,
            second.certified_lower_bound(level)?,
        ])
    };
    match at(confidence)? {
        [Some(_), Some(_)] => at(1.0 - (1.0 - confidence) / 2.0),
        alone => Ok(alone),
    }
}

#[cfg(test)]
mod tests;
