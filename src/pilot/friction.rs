//! The schedule by friction, which spends more stages where the kernel mixes slowly.

use super::survey_run::Pilot;
use crate::num::setters;
use crate::pilot::metric::ScheduleMetric;
use crate::pilot::survey::{Survey, SurveyPoint};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// The schedule of constant `beta'^2 zeta`, where zeta is the friction of linear response (Sivak and Crooks 2012).
///
/// A stage adds `dbeta^2 zeta` to the variance of log w, with `zeta = g (1 + 2 tau)` and tau the autocorrelation time
/// of `d/dbeta log f` in stages. A pilot estimates g by its unweighted chains, and over each of 8 bins of its stages
///
/// `1 + 2 tau = max(1, (growth of V) / (sum of dbeta^2 g))`,
///
/// with V the running maximum of the variance of log w. With perfect transitions it is the schedule of
/// [`VarOpt`](crate::pilot::VarOpt). Collapsed weights do no harm. No pilot detects mixing slower than its own length:
/// see `docs/notes/friction.md`.
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
        /// Sets the pilot run.
        pilot: Pilot,
        /// Sets the number of bins for the slowing `1 + 2 tau`; 8 by default, fewer where the pilot has under four
        /// stages per bin.
        bins: usize,
        /// Sets the least friction, as a fraction of its mean; 1e-3 by default. It limits the speed to
        /// `sqrt(1 / floor)` times that of the linear schedule.
        floor: f64,
    }

    /// Returns the schedule of `stages` stages for a survey of any schedule.
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

/// Returns `1 + 2 tau` over a bin: the growth of the variance of log w relative to that of independent stages; 1 at
/// least.
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

/// Returns the running maximum of the variance of log w, so that no decrease counts as growth.
fn running_maximum(points: &[SurveyPoint]) -> Vec<f64> {
    let mut highest = 0.0;
    let rise = |point: &SurveyPoint| {
        highest = f64::max(highest, point.var_log_weight);
        highest
    };
    points.iter().map(rise).collect()
}

super::optimize_by_survey! { Friction, warns by Survey::unweighted_warnings }
