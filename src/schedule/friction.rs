//! The schedule that prices mixing in.

use crate::error::{Error, Result};
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::schedule::{
    Metric, OptimizedSchedule, Pilot, Schedule, ScheduleOptimizer, Survey, SurveyPoint,
};

/// Chooses a schedule by the friction that the chains meet, and not only by how much there is to
/// change.
///
/// Where the kernel mixes slowly, the increments of log w are correlated, and the variance of
/// log w grows faster than `dbeta^2 g` a stage: by `dbeta^2 zeta`, `zeta = g (1 + 2 tau)` with
/// the autocorrelation time tau of `d/dbeta log f` in steps. zeta is the friction of linear
/// response (Sivak and Crooks 2012), and it is read off a pilot as the growth of the variance V of
/// the running log w,
///
/// `zeta = (growth of V) / (sum of dbeta^2)`
///
/// over each of 25 bins of the pilot's stages, after a running maximum and with a floor at 5% of
/// the mean. The schedule has `beta'^2 zeta` constant.
///
/// No weights are used, so that a pilot whose weights collapsed still serves. What the pilot
/// cannot see is mixing slower than itself: see `docs/schedules.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Friction {
    pilot: Pilot,
    bins: usize,
    floor: f64,
}

impl Default for Friction {
    fn default() -> Self {
        Self {
            pilot: Pilot::default(),
            bins: 25,
            floor: 0.05,
        }
    }
}

impl Friction {
    /// The pilot run.
    pub fn pilot(mut self, pilot: Pilot) -> Self {
        self.pilot = pilot;
        self
    }

    /// Number of bins; 25 unless set. A pilot of fewer stages than four a bin has fewer.
    pub fn bins(mut self, bins: usize) -> Self {
        self.bins = bins;
        self
    }

    /// The least friction, a fraction of its mean; .05 unless set. The schedule is then at most
    /// `sqrt(1 / floor)` times faster than the linear one.
    pub fn floor(mut self, fraction: f64) -> Self {
        self.floor = fraction;
        self
    }

    /// The schedule of `steps` stages for a survey, whatever the schedule of its pilot.
    ///
    /// # Errors
    /// Settings out of range; a survey in which log w never varied.
    pub fn schedule(&self, survey: &Survey, steps: usize) -> Result<Schedule> {
        self.metric(survey)?.schedule(steps)
    }

    /// zeta along the path: a value for each bin, placed at the bin's middle.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub fn metric(&self, survey: &Survey) -> Result<Metric> {
        let points = survey.points();
        let stages = points.len() - 1;
        let bins = self.bins.min(stages / 4).max(1);
        if self.bins == 0 {
            return Err(Error::invalid("bins", 0, "at least 1"));
        }
        let highest = running_maximum(points);
        let (mut betas, mut values) = (vec![0.0], Vec::new());
        for bin in 0..bins {
            let (a, b) = (bin * stages / bins, (bin + 1) * stages / bins);
            let squares: f64 = points[a + 1..=b].iter().map(|p| p.squared_steps).sum();
            betas.push(0.5 * (points[a].beta + points[b].beta));
            values.push((highest[b] - highest[a]) / squares);
        }
        betas.push(1.0);
        values.insert(0, values[0]);
        values.push(values[bins]);
        Metric::new(betas, values)?.floored(self.floor)
    }
}

/// The variance of the running log w, which noise and recovery must not let fall.
fn running_maximum(points: &[SurveyPoint]) -> Vec<f64> {
    let mut highest = 0.0;
    let rise = |point: &SurveyPoint| {
        highest = f64::max(highest, point.var_log_weight);
        highest
    };
    points.iter().map(rise).collect()
}

impl<P, K> ScheduleOptimizer<P, K> for Friction
where
    P: AnnealingPath + Sync,
    P::State: Send,
    K: Sync,
{
    fn optimize<'p>(
        &self,
        path: &'p P,
        kernel: &K,
        steps: usize,
        seed: u64,
    ) -> Result<OptimizedSchedule>
    where
        K: TransitionKernel<P::At<'p>>,
    {
        let survey = self.pilot.survey(path, kernel, seed)?;
        Ok(OptimizedSchedule {
            schedule: self.schedule(&survey, steps)?,
            warnings: survey.warnings(),
        })
    }
}
