//! The schedule by friction, which spends more stages where the kernel mixes slowly.

use super::survey_run::Pilot;
use crate::Result;
use crate::num::setters;
use crate::pilot::metric::ScheduleMetric;
use crate::pilot::survey::{BINS, FLOOR, Survey};
use crate::schedule::Schedule;

/// The schedule of constant `beta'^2 zeta`, where zeta is the friction of linear response (Sivak and Crooks 2012).
///
/// A stage adds `dbeta^2 zeta` to the variance of log w, with `zeta = g (1 + 2 tau)` and tau the autocorrelation time
/// of `d/dbeta log f` in stages. A pilot estimates g by its unweighted chains, and over each of 8 bins of its stages
///
/// `1 + 2 tau = max(1, (growth of V) / (sum of dbeta^2 g))`,
///
/// with V the running maximum of the variance of log w. With perfect transitions it is the schedule of
/// [`VarOpt`](crate::pilot::VarOpt). It helps if mixing is slow on a part of the path. Collapsed weights do no harm.
/// No pilot detects mixing slower than its own length: see `docs/notes/friction.md`.
///
/// ```
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.3)?;
/// let friction = Friction::default().pilot(Pilot::new(100, 200).rounds(2));
/// let found = friction.optimize(&path, &kernel, 500, 1)?;
/// assert!(found.schedule.betas()[250] < 0.25); // half of the stages, where most happens
/// let run = Ais::new(&path, &kernel).schedule(found.schedule).chains(500).seed(1).run()?;
/// assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Friction {
    pilot: Pilot,
    bins: usize,
    floor: f64,
}

impl Default for Friction {
    fn default() -> Self {
        Self {
            pilot: Pilot::default(),
            bins: BINS,
            floor: FLOOR,
        }
    }
}

impl Friction {
    setters! {
        /// Sets the pilot run.
        pilot: Pilot,
        /// Sets the number of bins for the slowing `1 + 2 tau`; 8 by default, fewer if the pilot has under four stages
        /// per bin.
        bins: usize,
        /// Sets the least friction, as a fraction of its mean; 1e-3 by default. It limits the speed to
        /// `sqrt(1 / floor)` times the speed of the linear schedule.
        floor: f64,
    }

    /// Returns the schedule of `stages` stages for a survey, which may have any schedule.
    ///
    /// # Errors
    /// Settings out of range; a survey in which log w never varied.
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        self.metric(survey)?.schedule(stages)
    }

    /// Returns zeta along the path, at the survey's points.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn metric(&self, survey: &Survey) -> Result<ScheduleMetric> {
        survey.friction(self.bins, self.floor)
    }
}

super::optimize_by_survey! { Friction, warns by Survey::unweighted_warnings }
