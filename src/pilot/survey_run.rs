//! The pilot: a cheap annealed run that surveys a path.

use rand::Rng;

use crate::ais::Ais;
use crate::kernel::{TransitionKernel, check_stages};
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::pilot::survey::{BINS, DerivativeRecorder, FLOOR, Survey};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::work::{Execution, Job, StoppedBy};
use crate::{Error, Result};

/// A pilot run: 100 chains and 1,000 stages by default.
///
/// If fewer than `min(10, chains / 4)` chains stay on the support, the pilot is repeated with up to 100 times as many.
/// It costs `chains * stages * rounds` chain-steps, on at most one thread per [block](Self::block_size).
///
/// The run that follows must not use the chains or random numbers of the pilot, or `E[w] = Z_K / Z_0` fails. A pilot
/// draws from its own streams ([`Purpose::PILOT`](crate::random::Purpose::PILOT)).
///
/// ```
/// use annealed::prelude::*;
///
/// let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.1)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let kernel = RandomWalkMetropolis::new(0.3)?;
/// // Two rounds of 100 chains and 200 stages. One survey serves several methods.
/// let survey = Pilot::new(100, 200).rounds(2).survey(&path, &kernel, 1)?;
/// assert_eq!(survey.points().len(), 201);
/// let friction = Friction::default().schedule(&survey, 50)?;
/// let varopt = VarOpt::default().schedule(&survey, 50)?;
/// assert_eq!((friction.stages(), varopt.stages()), (50, 50));
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Pilot {
    chains: usize,
    stages: usize,
    rounds: usize,
    block_size: usize,
}

impl Default for Pilot {
    fn default() -> Self {
        Self::new(100, 1_000)
    }
}

impl Pilot {
    /// Creates a pilot with `chains` chains and `stages` stages.
    pub fn new(chains: usize, stages: usize) -> Self {
        Self {
            chains,
            stages,
            rounds: 1,
            block_size: BLOCK,
        }
    }

    setters! {
        /// Sets the number of rounds; 1 by default. Each later round uses the schedule that
        /// [`Friction`](super::Friction) chooses by the survey before it. The last survey is returned. Targets much
        /// narrower than the base need two or three rounds.
        rounds: usize,
        /// Sets the number of chains that move together, on one thread; 32 by default. A model that [evaluates
        /// batches](crate::model::UnnormalizedModel::evaluates_batches) gets one call per step if the block has all
        /// chains.
        block_size: usize,
    }

    /// Returns the number of chains.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Returns the number of stages.
    pub fn stages(&self) -> usize {
        self.stages
    }

    /// Returns the number of density evaluations in all rounds, if a chain takes `of_stage` in a stage.
    pub(super) fn evaluations(&self, of_stage: usize) -> u64 {
        let factors = [self.chains, self.stages, self.rounds, of_stage];
        let factors = factors.into_iter().map(|factor| factor as u64);
        factors.fold(1, u64::saturating_mul)
    }

    fn check(&self) -> Result<()> {
        Error::check_count("chains of the pilot", self.chains, 2)?;
        Error::check_count("stages of the pilot", self.stages, 1)?;
        Error::check_at_least("block_size of the pilot", self.block_size, 1)?;
        Error::check_at_least("rounds of the pilot", self.rounds, 1)
    }

    /// Surveys a path.
    ///
    /// # Errors
    /// Fewer than two chains, no stages or rounds; any error of the runs.
    pub fn survey<P, K>(&self, path: P, kernel: &K, seed: u64) -> Result<Survey>
    where
        P: AnnealingPath + Send + Sync,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        self.survey_by(path, kernel, seed, &Execution::new())
    }

    /// Surveys a path like [`survey`](Self::survey), with the threads and monitors of `by`.
    ///
    /// # Errors
    /// As [`survey`](Self::survey); [`Error::Stopped`] if it is stopped.
    pub fn survey_by<P, K>(
        &self,
        path: P,
        kernel: &K,
        seed: u64,
        by: &Execution<'_>,
    ) -> Result<Survey>
    where
        P: AnnealingPath + Send + Sync,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        self.check()?;
        let linear = Schedule::linear(self.stages)?;
        let mut job = Job::new(by)?.named("pilot");
        job.foresee(self.evaluations(1));
        let mut survey = self.counted(&path, kernel, linear, seed, &mut job)?;
        let mut later_seeds = stream(seed, Purpose::PILOT_ROUNDS, 0);
        for round in 1..self.rounds {
            job.foresee(self.rounds(self.rounds - round).evaluations(1));
            let schedule = survey.friction(BINS, FLOOR)?.schedule(self.stages)?;
            survey = self.counted(&path, kernel, schedule, later_seeds.next_u64(), &mut job)?;
        }
        Ok(survey)
    }

    /// Surveys a path in one round, with more chains if few stay on the support.
    fn counted<P, K>(
        &self,
        path: &P,
        kernel: &K,
        schedule: Schedule,
        seed: u64,
        job: &mut Job<'_>,
    ) -> Result<Survey>
    where
        P: AnnealingPath + Send + Sync,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        let mut pilot = *self;
        loop {
            let survey = pilot.single(path, kernel, schedule.clone(), seed, job);
            let living = match &survey {
                Ok(survey) => survey.living(),
                Err(Error::AllWeightsZero { .. }) => 0,
                Err(_) => return survey,
            };
            let most = self.chains.saturating_mul(MORE);
            // A variance needs two chains.
            if living >= LIVING.min(self.chains / 4).max(2) || pilot.chains == most {
                return survey;
            }
            // If the same share survives, about as many chains will live as the caller asked for.
            let factor = self.chains.div_ceil(living.max(1));
            pilot.chains = pilot.chains.saturating_mul(factor).min(most);
            job.foresee(pilot.evaluations(1));
        }
    }

    fn single<P, K>(
        &self,
        path: &P,
        kernel: &K,
        schedule: Schedule,
        seed: u64,
        job: &mut Job<'_>,
    ) -> Result<Survey>
    where
        P: AnnealingPath + Send + Sync,
        P::State: Send,
        K: TransitionKernel<P::At> + Sync,
    {
        check_stages("stages of the pilot", kernel.stages(), &schedule)?;
        // A survey needs no log Z, so 0 stands in for one that may be unknown. Surrogates would end in a weighing that
        // does not shrink with the number of stages, which spoils the variances.
        let ais = Ais::with_base_log_z(path.clone(), kernel, 0.0)
            .without_surrogates()
            .recorder(DerivativeRecorder::default())
            .recorded_stages(schedule.stages())
            .schedule(schedule)
            .chains(self.chains)
            .block_size(self.block_size)
            .seed(seed)
            .pilot();
        let run = ais.task()?.run_by(job)?.result()?;
        match run.stopped_by() {
            StoppedBy::Chains => Survey::from_run(&run),
            // A survey of some of the chains would not depend on the seed alone.
            by => Err(by.error(self.chains)),
        }
    }
}

/// Number of chains that must stay on the support, or a quarter of the chains if that is fewer.
const LIVING: usize = 10;
/// Largest factor by which the number of chains is raised. Chains of weight zero cost next to nothing.
const MORE: usize = 100;

/// Number of chains per block of a pilot unless set; few, so that small pilots occupy several threads.
pub(super) const BLOCK: usize = 32;
