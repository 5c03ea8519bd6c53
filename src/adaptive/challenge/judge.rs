//! The result of a challenge, and how it is judged.

use std::fmt;

use crate::Result;
use crate::ais::Run;
use crate::estimate::{LogZ, Warning, log_z_by_methods};

/// The judgement of a [`Challenge`](super::Challenge) on a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Judgement {
    /// The second run has no warnings, and found nothing above the first. This is no proof: it tells how hard was tried.
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
    /// The second run is the better one: it has no warnings, and its 95% interval lies above that of the first, or is at
    /// most half as wide and lies above the first's estimate. It may be too low itself.
    Improved {
        /// Estimate of log Z by the second run.
        log_z: f64,
        /// Its 95% interval, lower and upper bound.
        interval: (f64, f64),
    },
    /// The second run has warnings of its own, so that it can neither confirm nor improve on the first.
    Undecided,
}

/// The result of a [`Challenge`](super::Challenge): its judgement and the second run.
///
/// Log Z, error, interval and warnings are those of the second run where it contradicts the first or improves on it, and
/// else those of the first.
#[must_use]
pub struct ChallengeRun<'c, S> {
    pub(super) first: &'c dyn LogZ,
    pub(super) second: Run<S>,
    pub(super) judgement: Judgement,
    pub(super) starts: usize,
    pub(super) modes: usize,
    /// Evaluations before the chains of the second run.
    pub(super) proposing: u64,
    pub(super) seconds: f64,
}

/// Largest width of the better interval, relative to the other.
const NARROWER: f64 = 0.5;

/// Efforts before a second run: starts, modes and evaluations.
pub(super) type Tried = (usize, usize, u64);

/// Judges a first run by a second, at a confidence that all bounds which are compared share.
pub(super) fn judge<S>(
    first: &dyn LogZ,
    second: &Run<S>,
    confidence: f64,
    (starts, modes, evaluations): Tried,
) -> Result<Judgement> {
    let [own, bound] = bounds(first, second, confidence)?;
    let (old, interval) = (first.interval(), second.interval());
    if bound.is_some_and(|bound| bound > old.1) {
        let bound = bound.unwrap_or(f64::NEG_INFINITY);
        return Ok(Judgement::Contradicted { bound, confidence });
    }
    // A new base may reach beyond the target's support.
    let is_doubt = |warning: &Warning| !matches!(warning, Warning::DeadChains { .. });
    if second.warnings().iter().any(is_doubt) || own.is_some_and(|own| own > interval.1) {
        return Ok(Judgement::Undecided);
    }
    let is_narrow = interval.1 - interval.0 <= NARROWER * (old.1 - old.0);
    let log_z = second.log_z();
    if interval.0 > first.log_z() && is_narrow || interval.0 > old.1 {
        return Ok(Judgement::Improved { log_z, interval });
    }
    let evaluations = evaluations.saturating_add(second.evaluations());
    Ok(Judgement::Confirmed {
        starts,
        modes,
        evaluations,
    })
}

/// Returns the lower bounds on log Z by both runs. All that there are hold with probability `confidence`.
fn bounds<S>(first: &dyn LogZ, second: &Run<S>, confidence: f64) -> Result<[Option<f64>; 2]> {
    let count = 1 + usize::from(first.certified_lower_bound(confidence)?.is_some());
    let each = 1.0 - (1.0 - confidence) / count as f64;
    Ok([
        first.certified_lower_bound(each)?,
        second.certified_lower_bound(each)?,
    ])
}

impl<S> ChallengeRun<'_, S> {
    /// Returns the judgement.
    pub fn judgement(&self) -> Judgement {
        self.judgement
    }

    /// Returns the second run, from the mixture of the old base and the new ones.
    pub fn second(&self) -> &Run<S> {
        &self.second
    }

    /// Returns the number of states that were cooled.
    pub fn starts(&self) -> usize {
        self.starts
    }

    /// Returns the number of modes that were found.
    pub fn modes(&self) -> usize {
        self.modes
    }

    fn chosen(&self) -> &dyn LogZ {
        match self.judgement {
            Judgement::Contradicted { .. } | Judgement::Improved { .. } => &self.second,
            _ => self.first,
        }
    }

    /// Returns the estimate of log Z, by the run that the [judgement](Self::judgement) favours.
    pub fn log_z(&self) -> f64 {
        self.chosen().log_z()
    }

    /// Returns the standard error of [`log_z`](Self::log_z).
    pub fn standard_error(&self) -> f64 {
        self.chosen().standard_error()
    }

    /// Returns the 95% confidence interval of log Z, lower and upper bound.
    pub fn interval(&self) -> (f64, f64) {
        self.chosen().interval()
    }

    /// Returns the confidence interval of log Z at another level in (0, 1).
    ///
    /// # Errors
    /// A level outside (0, 1).
    pub fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.chosen().interval_at(level)
    }

    /// Returns the larger of the lower bounds on log Z by both runs, each at the confidence `1 - (1 - confidence) / m`
    /// for m bounds, so that both hold with probability `confidence`.
    ///
    /// # Errors
    /// A confidence outside (0, 1).
    pub fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        let bounds = bounds(self.first, &self.second, confidence)?;
        Ok(bounds.into_iter().flatten().reduce(f64::max))
    }

    /// Returns reasons to doubt the value.
    pub fn warnings(&self) -> &[Warning] {
        self.chosen().warnings()
    }

    /// Returns the evaluations of the challenge, without those of the first run; a gradient is one more.
    pub fn evaluations(&self) -> u64 {
        self.proposing.saturating_add(self.second.evaluations())
    }

    /// Returns the wall time of the challenge in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl<S> fmt::Display for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.chosen())?;
        let (first, second) = (self.first.log_z(), self.second.log_z());
        match self.judgement {
            Judgement::Confirmed { .. } => write!(f, "confirmed by a second run, {second:.3}")?,
            Judgement::Contradicted { bound, confidence } => {
                let percent = 100.0 * confidence;
                write!(f, "contradicts the first run, {first:.3}: ")?;
                write!(f, "log Z is at least {bound:.3} ({percent}% confidence)")?;
            }
            Judgement::Improved { .. } => write!(f, "improves on the first run, {first:.3}")?,
            Judgement::Undecided => {
                write!(f, "undecided: a second run, {second:.3}, has warnings")?
            }
        }
        let (starts, modes) = (self.starts, self.modes);
        let evaluations = self.evaluations() as f64;
        write!(
            f,
            "; {starts} starts, {modes} modes, {evaluations:.3e} evaluations"
        )
    }
}

impl<S> fmt::Debug for ChallengeRun<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChallengeRun")
            .field("judgement", &self.judgement)
            .field("first", &self.first.log_z())
            .field("second", &self.second.log_z())
            .field("starts", &self.starts)
            .field("modes", &self.modes)
            .finish_non_exhaustive()
    }
}

log_z_by_methods! { [S] ChallengeRun<'_, S> }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ais::Ais;
    use crate::kernel::RandomWalkMetropolis;
    use crate::model::{Gaussian, NormalizedModel};
    use crate::path::GeometricPath;
    use crate::schedule::Schedule;
    use nalgebra::dvector;

    /// A result with an interval, and perhaps a bound.
    struct Fixed([f64; 2], Option<f64>);

    impl LogZ for Fixed {
        fn log_z(&self) -> f64 {
            0.5 * (self.0[0] + self.0[1])
        }

        fn standard_error(&self) -> f64 {
            0.25 * (self.0[1] - self.0[0])
        }

        fn interval_at(&self, _level: f64) -> Result<(f64, f64)> {
            Ok((self.0[0], self.0[1]))
        }

        fn certified_lower_bound(&self, _confidence: f64) -> Result<Option<f64>> {
            Ok(self.1)
        }

        fn warnings(&self) -> &[Warning] {
            &[]
        }

        fn evaluations(&self) -> u64 {
            1
        }

        fn seconds(&self) -> f64 {
            0.0
        }
    }

    impl fmt::Display for Fixed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    fn second() -> Run<nalgebra::DVector<f64>> {
        let target = Gaussian::isotropic(dvector![1.0], 0.5).unwrap();
        let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
        Ais::new(&path, RandomWalkMetropolis::new(0.7).unwrap())
            .schedule(Schedule::linear(50).unwrap())
            .chains(400)
            .run()
            .unwrap()
    }

    #[test]
    fn bounds_that_are_compared_share_the_level() {
        let second = second();
        let bound = |confidence| second.certified_lower_bound(confidence).unwrap().unwrap();
        // Between the bound of half the level and that of the whole.
        let upper = 0.5 * (bound(0.995) + bound(0.99));
        let judged = |own| {
            let first = Fixed([upper - 0.2, upper], own);
            judge(&first, &second, 0.99, (1, 1, 0)).unwrap()
        };
        let alone = judged(None);
        assert!(
            matches!(alone, Judgement::Contradicted { bound: found, .. } if found == bound(0.99)),
            "{alone:?}"
        );
        let with_another = judged(Some(upper - 10.0));
        assert!(
            !matches!(with_another, Judgement::Contradicted { .. }),
            "{with_another:?}"
        );
    }

    #[test]
    fn each_judgement_has_its_case() {
        let second = second();
        let (lower, upper) = second.interval();
        let log_z = Gaussian::isotropic(dvector![1.0], 0.5)
            .unwrap()
            .log_normalizer();
        assert!(lower < log_z && log_z < upper);
        let judged = |interval: [f64; 2], own| {
            judge(&Fixed(interval, own), &second, 0.99, (2, 3, 4)).unwrap()
        };
        let like = [lower, upper];
        let confirmed = judged(like, None);
        let evaluations = 4 + second.evaluations();
        assert_eq!(
            confirmed,
            Judgement::Confirmed {
                starts: 2,
                modes: 3,
                evaluations
            }
        );
        let low = judged([lower - 1.0, upper], None);
        assert!(matches!(low, Judgement::Improved { .. }), "{low:?}");
        // A narrower interval that lies lower is no improvement.
        let high = judged([lower, upper + 0.5], None);
        assert!(matches!(high, Judgement::Confirmed { .. }), "{high:?}");
        assert_eq!(
            judged([upper, upper + 1.0], Some(upper + 0.01)),
            Judgement::Undecided
        );
    }
}
