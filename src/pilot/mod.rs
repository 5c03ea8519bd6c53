//! Pilots: cheap runs that explore a path, and the schedules chosen by them.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.3)?;
//! let path = GeometricPath::new(Gaussian::standard(2)?, &target);
//! let kernel = RandomWalkMetropolis::new(0.5)?;
//! let found = VarOpt::default().pilot(Pilot::new(100, 200)).optimize(&path, &kernel, 50, 1)?;
//! found.warnings.iter().for_each(|warning| println!("{warning}"));
//! println!("{}", Ais::new(&path, &kernel).schedule(found.schedule).run()?);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! A [`Pilot`] makes a [`Survey`] of a path. [`Friction`] and [`VarOpt`] choose a [`Schedule`] by a survey, and
//! [`BinnedSchedule`] by chains of its own. All three are [`ScheduleOptimizer`]s.

mod binned;
mod friction;
mod knot_chains;
mod metric;
mod next_stage;
mod survey;
mod survey_run;
mod varopt;

pub use binned::{BinnedSchedule, allocate_stages};
pub use friction::Friction;
pub use knot_chains::KnotChains;
pub use metric::ScheduleMetric;
pub(crate) use metric::interpolate;
pub(crate) use next_stage::{lost, next_stage, stages_left};
pub use survey::{DerivativeRecorder, Survey, SurveyPoint};
pub use survey_run::Pilot;
pub use varopt::VarOpt;

use crate::Result;
use crate::estimate::Warning;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::Execution;

/// A method that chooses a schedule for a path and a kernel.
///
/// ```
/// use annealed::prelude::*;
/// use annealed::pilot::Pilot;
/// use nalgebra::{dmatrix, dvector};
///
/// let target = Gaussian::new(dvector![1.0, -2.0], dmatrix![0.2, 0.05; 0.05, 0.1])?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.5)?;
/// let friction = Friction::default().pilot(Pilot::new(100, 200));
/// let found = friction.optimize(&path, &kernel, 500, 7)?;
/// assert!(found.warnings.is_empty(), "{:?}", found.warnings);
/// let run = Ais::new(&path, kernel).schedule(found.schedule).seed(7).run()?;
/// assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
pub trait ScheduleOptimizer<P: AnnealingPath, K> {
    /// Chooses a schedule of `stages` stages for annealing along `path` with `kernel`.
    ///
    /// The pilot draws from streams of its own, so that a run with the same seed stays unbiased.
    ///
    /// # Errors
    /// A pilot with too little information to choose by; constraints that cannot be met. Smaller doubts become
    /// `warnings`.
    fn optimize(&self, path: P, kernel: &K, stages: usize, seed: u64) -> Result<OptimizedSchedule>
    where
        P::At: Send + Sync,
        K: TransitionKernel<P::At>,
    {
        self.optimize_by(path, kernel, stages, seed, &Execution::new())
    }

    /// Chooses a schedule like [`optimize`](Self::optimize), with the threads and monitors of `by`.
    ///
    /// # Errors
    /// As [`optimize`](Self::optimize); [`Error::Stopped`](crate::Error::Stopped) if it is stopped.
    fn optimize_by(
        &self,
        path: P,
        kernel: &K,
        stages: usize,
        seed: u64,
        by: &Execution<'_>,
    ) -> Result<OptimizedSchedule>
    where
        P::At: Send + Sync,
        K: TransitionKernel<P::At>;
}

/// A schedule chosen by an optimizer, with the warnings and the cost of its pilot.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct OptimizedSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// Reasons to doubt the schedule, which may be far from the best. A run along it is unbiased all the same.
    pub warnings: Vec<Warning>,
    /// Evaluations of the density in the pilot; a value with its gradient counts as one.
    pub evaluations: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl OptimizedSchedule {
    /// Creates the result of your own optimizer, without warnings and costs. Set these in the public fields.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            warnings: Vec::new(),
            evaluations: 0,
            seconds: 0.0,
        }
    }
}

/// Implements [`ScheduleOptimizer`] for a type with a `pilot` and a method `schedule`. `$warnings` is a method of
/// [`Survey`].
macro_rules! optimize_by_survey {
    ($name:ident, warns by $warnings:path) => {
        impl<P, K> $crate::pilot::ScheduleOptimizer<P, K> for $name
        where
            P: $crate::path::AnnealingPath<State: Send> + Send + Sync,
            K: Sync,
        {
            fn optimize_by(
                &self,
                path: P,
                kernel: &K,
                stages: usize,
                seed: u64,
                by: &$crate::work::Execution<'_>,
            ) -> Result<$crate::pilot::OptimizedSchedule>
            where
                P::At: Send + Sync,
                K: $crate::kernel::TransitionKernel<P::At>,
            {
                let begun = std::time::Instant::now();
                let of_stage = kernel.evaluations($crate::path::dimension(&path));
                let survey = self.pilot.survey_by(path, kernel, seed, by)?;
                Ok($crate::pilot::OptimizedSchedule {
                    schedule: self.schedule(&survey, stages)?,
                    warnings: $warnings(&survey),
                    evaluations: self.pilot.evaluations(of_stage),
                    seconds: begun.elapsed().as_secs_f64(),
                })
            }
        }
    };
}
use optimize_by_survey;
