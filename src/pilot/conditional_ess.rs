//! Adaptive schedules with a constant conditional ESS.

use std::ops::Range;
use std::time::Instant;

use super::survey_run::Pilot;
use crate::estimate::Warning;
use crate::kernel::{TransitionKernel, refuse_stages};
use crate::num::{WeightSums, setters};
use crate::path::{AnnealingPath, dimension};
use crate::pilot::metric::{interpolate, nothing_changes};
use crate::pilot::next_stage::{next_stage, stages_left};
use crate::pilot::survey::{COLLAPSED, Survey, dead_chains, few_chains, near_collapse};
use crate::pilot::{OptimizedSchedule, ScheduleOptimizer};
use crate::population::Populations;
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Execution, Halt, Job, Pulse, Single, Stepped, Task};
use crate::{Error, Result};

/// The schedule of a constant conditional effective sample size, CESS (Zhou, Johansen and Aston 2016).
///
/// A population of N weighted chains goes along the path. Each next beta is chosen so that
///
/// `CESS / N = (sum_i W_i u_i)^2 / sum_i W_i u_i^2`, `u_i = f_beta(x_i) / f_{k-1}(x_i)`,
///
/// is the same at every stage, with W the normalised weights before the stage. Repeated passes find the CESS for the
/// pilot's number of stages. The schedule then takes equal shares of the distance, the sum of `sqrt(N / CESS - 1)`. For
/// short stages it equals the schedule of [`VarOpt`](crate::pilot::VarOpt). It needs no derivative and no grid.
///
/// ```
/// use annealed::path::GaussianPath;
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::zeros(2), 0.1)?;
/// let path = GaussianPath::new(Gaussian::standard(2)?, target)?;
/// let (kernel, cess) = (CoordinateGibbs::systematic(), ConstantConditionalEss::default());
/// let found = cess.optimize(&path, &kernel, 100, 1)?;
/// assert!(found.schedule.betas()[50] < 0.2); // half of the stages, where most happens
/// let coarse = cess.stages_at(&path, &kernel, 0.9, 1)?; // as many stages as a CESS of 0.9 N takes
/// assert!((8..30).contains(&coarse.stages()));
/// # Ok::<(), annealed::Error>(())
/// ```
#[doc(alias = "CESS")]
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct ConstantConditionalEss {
    pilot: Pilot,
}

impl Default for ConstantConditionalEss {
    /// 100 chains and 200 stages: a stage takes several evaluations per chain, and there are several passes.
    fn default() -> Self {
        Self {
            pilot: Pilot::new(100, 200),
        }
    }
}

/// Maximum number of passes until the number of stages is about right.
const PASSES: usize = 8;
/// Relative tolerance of a stage's distance `sqrt(N / CESS - 1)`.
const PRECISION: f64 = 1e-2;

impl ConstantConditionalEss {
    setters! {
        /// Sets the pilot. Each pass has the pilot's number of chains and about its number of stages. There are mostly
        /// two to four passes, and at most eight; the pilot's number of rounds is not used.
        pilot: Pilot,
    }

    /// Returns the schedule of `stages` stages for a survey, in the limit of short stages: `N / CESS - 1 = dbeta^2 g`
    /// is constant. The survey's g is neither smoothed nor floored.
    ///
    /// # Errors
    /// [`Error::PilotCollapsed`]; a survey whose g is 0 somewhere, where the schedule would leap.
    pub fn schedule(&self, survey: &Survey, stages: usize) -> Result<Schedule> {
        survey.metric()?.schedule(stages)
    }

    /// Returns the schedule of one pass in which each stage has `CESS / N = target`; the last stage may have more.
    ///
    /// # Errors
    /// A pilot without stages or with fewer than two chains; a `target` outside (0, 1); [`Error::PilotCollapsed`];
    /// [`Error::NotConverged`] if the path jumps, its support shrinks, or a million stages do not reach the end.
    pub fn stages_at<P, K>(&self, path: P, kernel: &K, target: f64, seed: u64) -> Result<Schedule>
    where
        P: AnnealingPath<State: Send> + Send + Sync,
        P::At: Send + Sync,
        K: TransitionKernel<P::At> + Sync,
    {
        Error::check_inner_fraction("target of CESS / N", target)?;
        self.pilot.check()?;
        let distance = (1.0 / target - 1.0).sqrt();
        let execution = Execution::new();
        let pass = PassTask {
            path: &path,
            kernel,
            pilot: self.pilot,
            distance,
            limit: 1_000_000,
            seed,
        };
        Schedule::new(pass.pass(&mut Job::new(&execution)?)?.betas)
    }
}

impl ConstantConditionalEss {
    /// Repeats passes until one has about the pilot's number of stages. Returns this pass, and the evaluations per
    /// chain in all passes.
    fn search<P, K>(
        &self,
        (path, kernel): (&P, &K),
        stages: usize,
        seed: u64,
        job: &mut Job<'_>,
    ) -> Result<(EssPass, usize)>
    where
        P: AnnealingPath<State: Send> + Send + Sync,
        P::At: Send + Sync,
        K: TransitionKernel<P::At> + Sync,
    {
        let wanted = self.pilot.stages().min(stages).max(1);
        let limit = 10 * wanted.max(100);
        // At this distance the log weights of the wanted stages have a total variance of 1.
        let mut distance = (wanted as f64).sqrt().recip();
        let mut evaluations = 0_usize;
        let mut failure = None;
        for _ in 0..PASSES {
            let pass = PassTask {
                path,
                kernel,
                pilot: self.pilot,
                distance,
                limit,
                seed,
            };
            match pass.pass(job) {
                Err(error @ Error::PilotCollapsed { .. }) => {
                    failure = Some(error);
                    distance *= 0.5;
                }
                Err(error) => return Err(error),
                Ok(pass) => {
                    evaluations = evaluations.saturating_add(pass.evaluations);
                    let covered = pass.distances[pass.stages()];
                    match pass.stages().abs_diff(wanted) <= 1 + wanted / 20 {
                        // The pass ended at the limit, so its stages are far too short.
                        _ if !pass.arrived() => distance *= 4.0,
                        _ if covered == 0.0 => return Err(nothing_changes()),
                        true => return Ok((pass, evaluations)),
                        false => distance = covered / wanted as f64,
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::NotConverged {
            what: "the constant conditional ESS",
            detail: format!("not about {wanted} stages after {PASSES} passes"),
        }))
    }
}

impl<P, K> ScheduleOptimizer<P, K> for ConstantConditionalEss
where
    P: AnnealingPath<State: Send> + Send + Sync,
    K: Sync,
{
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
        K: TransitionKernel<P::At>,
    {
        let begun = Instant::now();
        Error::check_count("stages", stages, 1)?;
        self.pilot.check()?;
        let mut job = Job::new(by)?.named("pilot");
        let (pass, evaluations) = self.search((&path, kernel), stages, seed, &mut job)?;
        let schedule = interpolate(&pass.betas, &pass.distances, stages)?;
        Ok(OptimizedSchedule {
            schedule,
            warnings: pass.warnings,
            evaluations: (evaluations as u64).saturating_mul(self.pilot.chains() as u64),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }
}

struct EssPass {
    betas: Vec<f64>,
    /// Distance from the base to each beta.
    distances: Vec<f64>,
    /// Warnings of weights near collapse, and of few or dead chains.
    warnings: Vec<Warning>,
    /// Evaluations per chain.
    evaluations: usize,
}

/// One pass of a population along the path, with at most `limit` stages that all have the same `distance`. There is one
/// block, because each next beta depends on all chains.
struct PassTask<'s, P, K> {
    path: &'s P,
    kernel: &'s K,
    pilot: Pilot,
    distance: f64,
    limit: usize,
    seed: u64,
}

impl<P, K> PassTask<'_, P, K>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    fn pass(&self, job: &mut Job<'_>) -> Result<EssPass> {
        refuse_stages(self.kernel.stages())?;
        let Single(pass) = job.complete(self)?.whole(self.pilot.chains())?;
        Ok(pass)
    }
}

impl<P, K> Task for PassTask<'_, P, K>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    type Output = Single<EssPass>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.pilot.chains()
    }

    /// Takes the population through stages of equal distance, until it reaches the target or the limit on stages.
    fn run(&self, _block: usize, pulse: &mut dyn Pulse) -> Result<Self::Output, Halt> {
        let (path, kernel, chains) = (self.path, self.kernel, self.pilot.chains());
        let first = stream(self.seed, Purpose::ConditionalEss, 0);
        let size = self.pilot.block_size;
        let mut populations = Populations::start(path.clone(), 0..chains, size, first)?;
        let mut pass = EssPass {
            betas: vec![0.0],
            distances: vec![0.0],
            warnings: Vec::new(),
            evaluations: 0,
        };
        // Length of the last stage in beta, and the first warning of weights near collapse.
        let (mut length, mut collapse) = (1.0, None);
        let mut is_last = false;
        while !is_last {
            let (stages, beta) = (pass.stages(), pass.betas[pass.stages()]);
            pulse.at((0..chains, stages, beta));
            let found = next_stage(&mut populations, length, self.distance, PRECISION)?;
            let next = found.beta;
            populations.map(&|population| population.advance_to(kernel, next))?;
            let of_moves = kernel.evaluations(dimension(path));
            let evaluations = found.evaluations.saturating_add(of_moves);
            pass.evaluations = pass.evaluations.saturating_add(evaluations);
            // The distance saturates once few chains carry the weight: such a stage is a leap.
            let warning = check_weights(&populations.weights(), chains, next)?;
            collapse = collapse.or(warning);
            pass.distances.push(pass.distances[stages] + found.distance);
            pass.betas.push(next);
            length = next - beta;
            is_last = next >= 1.0 || pass.stages() >= self.limit;
            let left = stages_left(next, length).min(self.limit);
            pulse.pass(Stepped {
                left: Some((chains * left) as u64),
                ..Stepped::of(chains, is_last)
            })?;
        }
        let alive = populations.alive();
        let dead = dead_chains(chains - alive, chains);
        let warnings = [collapse, few_chains(alive), dead];
        pass.warnings = warnings.into_iter().flatten().collect();
        Ok(Single(pass))
    }

    fn width(&self) -> usize {
        self.pilot.blocks()
    }
}

impl EssPass {
    fn stages(&self) -> usize {
        self.betas.len() - 1
    }

    /// Returns whether the pass reached the path's target within the limit on stages.
    fn arrived(&self) -> bool {
        self.betas[self.stages()] == 1.0
    }
}

/// Refuses weights if one chain carries nearly all of the weight, and warns of a low effective sample size.
fn check_weights(weights: &WeightSums, chains: usize, beta: f64) -> Result<Option<Warning>> {
    match weights.effective_sample_size() {
        effective_sample_size if effective_sample_size < COLLAPSED => Err(Error::PilotCollapsed {
            effective_sample_size,
            chains,
            beta,
        }),
        ess => Ok(near_collapse(ess, chains, beta)),
    }
}
