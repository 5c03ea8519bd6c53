//! The schedule by friction, which spends more stages where the kernel mixes slowly.

use super::survey_run::Pilot;
use crate::num::setters;
use crate::pilot::metric::ScheduleMetric;
use crate::pilot::survey::{Survey, SurveyPoint};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// The schedule of constant `beta'^2 zeta`, where zeta is the friction of linear response (Sivak
/// and Crooks 2012).
///
/// Where the kernel mixes slowly, the increments of log w are correlated, and a stage adds more to
/// the variance of log w than `dbeta^2 g`: it adds `dbeta^2 zeta` with `zeta = g (1 + 2 tau)`, tau
/// being the autocorrelation time of `d/dbeta log f` in stages. A pilot estimates both factors. Its
/// g at each point is the variance over the chains as they are. Over each of 8 bins of its stages,
///
/// `1 + 2 tau = max(1, (growth of V) / (sum of dbeta^2 g))`,
///
/// with V the running maximum of the variance of log w. Where transitions are perfect the schedule
/// is that of [`VarOpt`](crate::pilot::VarOpt).
///
/// No weights are used, so that a pilot whose weights collapsed is good enough. A pilot cannot detect
/// that the kernel mixes more slowly than the pilot itself lasts: see `docs/friction.md`.
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
            bins: 8,
            floor: 1e-3,
        }
    }
}

impl Friction {
    setters! {
        /// The pilot run.
        pilot: Pilot,
        /// Number of bins for the slowing `1 + 2 tau`; 8 unless set. There are fewer where the pilot
        /// has fewer than four stages for each.
        bins: usize,
        /// The least friction, a fraction of its mean; 1e-3 unless set. The schedule is then at most
        /// `sqrt(1 / floor)` times faster than the linear one.
        floor: f64,
    }

    /// The schedule of `stages` stages for a survey, whatever the schedule of its pilot.
    ///
    /// # Errors
    /// Settings out of range; a survey in which log w never varied.
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        self.metric(survey)?.schedule(stages)
    }

    /// zeta along the path, at the survey's points.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn metric(&self, survey: &Survey) -> Result<ScheduleMetric> {
        Error::check_at_least("bins", self.bins, 1)?;
        let points = survey.points();
        let stages = points.len() - 1;
        let bins = self.bins.min(stages / 4).max(1);
        let highest = running_maximum(points);
        let mut zeta = Vec::with_capacity(points.len());
        for bin in 0..bins {
            let (a, b) = (bin * stages / bins, (bin + 1) * stages / bins);
            let factor = slowing(&points[a + 1..=b], highest[b] - highest[a]);
            let of_point = |point: &SurveyPoint| factor * point.unweighted_variance;
            // The base's point belongs to the first bin, but no stage ends there.
            let first = if bin == 0 { 0 } else { a + 1 };
            zeta.extend(points[first..=b].iter().map(of_point));
        }
        let betas = points.iter().map(|point| point.beta).collect();
        let width = (WINDOW * points.len() as f64).round() as usize;
        ScheduleMetric::new(betas, zeta)?
            .smoothed(width)
            .floored(self.floor)
    }
}

/// Share of the survey's points over which zeta is averaged.
const WINDOW: f64 = 0.01;

/// `1 + 2 tau` over a bin: the growth of the variance of log w over what the stages would have
/// added had they been independent, and no less than 1.
fn slowing(bin: &[SurveyPoint], growth: f64) -> f64 {
    let independent: f64 = bin
        .iter()
        .map(|point| point.squared_steps * point.unweighted_variance)
        .sum();
    if independent > 0.0 {
        (growth / independent).max(1.0)
    } else {
        1.0
    }
}

/// The running maximum of the variance of log w, of which no decrease counts as growth.
fn running_maximum(points: &[SurveyPoint]) -> Vec<f64> {
    let mut highest = 0.0;
    let rise = |point: &SurveyPoint| {
        highest = f64::max(highest, point.var_log_weight);
        highest
    };
    points.iter().map(rise).collect()
}

super::optimize_by_survey! { Friction, warns by Survey::unweighted_warnings }
