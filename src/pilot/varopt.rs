//! VAROPT: the schedule of least variance under perfect transitions.

use super::survey_run::Pilot;
use crate::num::setters;
use crate::pilot::metric::ScheduleMetric;
use crate::pilot::survey::Survey;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// VAROPT (Kiwaki 2015): the schedule of least variance of log w under perfect transitions.
///
/// It minimises `J = int beta'^2 g(beta) dt` with `g = Var[d/dbeta log f]` (Equation 8); in the solution
/// `beta'^2 g` is constant (Equation 9), so that `t(beta) = int_0^beta sqrt(g) / int_0^1 sqrt(g)`, by the trapezoid rule on
/// the survey's grid. A pilot estimates g, which is averaged over a window (1%
/// of the pilot's stages unless set) and floored (at 1e-3 of its mean unless set). The speed can be
/// limited afterwards: [`Schedule::with_step_limit`], [`Schedule::with_speed_limit`].
///
/// J is also twice the expected bias of log w, the cost of Grosse, Maddison and Salakhutdinov
/// (2013). [`BinnedSchedule`](crate::pilot::BinnedSchedule) therefore differs from VAROPT only by
/// its coarse knots. Neither takes account of how fast the kernel mixes, as
/// [`Friction`](crate::pilot::Friction) does.
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
            window: 0.01,
            floor: 1e-3,
        }
    }
}

impl VarOpt {
    setters! {
        /// The pilot run that estimates g.
        pilot: Pilot,
        /// Width of the smoothing window, a fraction of the survey's points; .01 unless set.
        window: f64,
        /// The least value of g, a fraction of its mean; 1e-3 unless set. The schedule is then at
        /// most `sqrt(1 / floor)` times faster than the linear one.
        floor: f64,
    }

    /// The schedule of `stages` stages for a survey.
    ///
    /// # Errors
    /// [`Error::PilotCollapsed`]; a survey in which nothing varies; settings out of range.
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        self.metric(survey)?.schedule(stages)
    }

    /// g as the schedule sees it, smoothed and floored.
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
