//! VAROPT: the schedule of least variance under perfect transitions.

use super::survey_run::Pilot;
use crate::num::setters;
use crate::pilot::metric::ScheduleMetric;
use crate::pilot::survey::Survey;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// VAROPT (Kiwaki 2015): the schedule of least variance of log w under perfect transitions.
///
/// It minimises `J = int beta'^2 g(beta) dt` with `g = Var[d/dbeta log f]` (Equation 8). At the minimum `beta'^2 g` is
/// constant (Equation 9), so that `t(beta) = int_0^beta sqrt(g) / int_0^1 sqrt(g)`. A pilot estimates g. Limit the
/// speed with [`Schedule::with_step_limit`] or [`Schedule::with_speed_limit`]. J is twice the expected bias of log w,
/// which [`BinnedSchedule`](crate::pilot::BinnedSchedule) minimises. The schedule's stages have about the same
/// conditional effective sample size.
///
/// It helps if the kernel mixes within a few stages and the base is far from the target. If mixing is slow, J does not
/// predict the variance: on five RBMs `K Var[log w]` was more than 40 times J. Then use
/// [`Friction`](crate::pilot::Friction), or place more stages where the kernel is slow
/// ([when](crate::guide::schedules#when-an-objective-of-variance-helps)).
///
/// ```
/// use annealed::path::GaussianPath;
/// use annealed::prelude::*;
///
/// // The deviation falls from 1 to 0.1, most of it near the base.
/// let target = Gaussian::isotropic(DVector::zeros(2), 0.1)?;
/// let path = GaussianPath::new(Gaussian::standard(2)?, target)?;
/// let survey = Pilot::new(100, 200).survey(&path, &CoordinateGibbs::systematic(), 1)?;
/// let varopt = VarOpt::default();
/// let schedule = varopt.schedule(&survey, 100)?;
/// let g = varopt.metric(&survey)?;
/// assert!(g.action(&schedule) < 0.5 * g.action(&Schedule::linear(100)?)); // J
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias(
    "VAROPT",
    "VAROPT-AIS",
    "conditional ESS",
    "CESS",
    "ConstantConditionalEss"
))]
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct VarOpt {
    pilot: Pilot,
    window: f64,
    floor: f64,
}

impl Default for VarOpt {
    fn default() -> Self {
        Self {
            pilot: Pilot::default(),
            // Of the windows tried on pilots of 1,000 stages, 1% was best; 20% raised the action by a quarter or more.
            window: 0.01,
            floor: 1e-3,
        }
    }
}

impl VarOpt {
    setters! {
        /// Sets the pilot that estimates g.
        pilot: Pilot,
        /// Sets the width of the smoothing window, as a fraction of the survey's points; 0.01 by default.
        window: f64,
        /// Sets the least value of g, as a fraction of its mean; 1e-3 by default. It limits the speed to
        /// `sqrt(1 / floor)` times the speed of the linear schedule.
        floor: f64,
    }

    /// Returns the schedule of `stages` stages for a survey.
    ///
    /// # Errors
    /// [`Error::PilotCollapsed`]; a survey in which nothing varies; settings out of range.
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        self.metric(survey)?.schedule(stages)
    }

    /// Returns the survey's g, smoothed and floored.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn metric(&self, survey: &Survey) -> Result<ScheduleMetric> {
        Error::check_fraction("window", self.window)?;
        let width = (self.window * survey.points().len() as f64).round() as usize;
        survey.metric()?.smoothed(width).floored(self.floor)
    }
}

super::optimize_by_survey! { VarOpt, warns by Survey::warnings }
