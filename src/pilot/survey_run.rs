//! The pilot run: a cheap annealed run that surveys a path.

use rand::Rng;

use crate::ais::Ais;
use crate::kernel::{TransitionKernel, check_stages};
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::pilot::friction::Friction;
use crate::pilot::survey::{DerivativeRecorder, Survey};
use crate::random::{Purpose, stream};
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A pilot run, given by its settings: 100 chains and 1,000 steps unless set.
///
/// The run that follows must not go on with the pilot's chains, nor repeat their random numbers:
/// a schedule chosen by looking at chains depends on their weights, and over such chains
/// `E[w] = Z_K / Z_0` no longer holds. A pilot therefore draws from streams of its own
/// ([`Purpose::Pilot`](crate::random::Purpose::Pilot)), apart from those of any run with its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Pilot {
    chains: usize,
    steps: usize,
    rounds: usize,
    threads: Option<usize>,
}

impl Default for Pilot {
    fn default() -> Self {
        Self::new(100, 1_000)
    }
}

impl Pilot {
    /// A pilot of that many chains and steps.
    pub fn new(chains: usize, steps: usize) -> Self {
        Self {
            chains,
            steps,
            rounds: 1,
            threads: None,
        }
    }

    setters! {
        /// Number of pilots, 1 unless set. The first takes the linear schedule, each further one the
        /// schedule that [`Friction`] chooses by the one before. The last one's survey counts.
        ///
        /// Where the target is much narrower than the base, a linear pilot leaps over the beginning
        /// of the path, where everything happens; two or three rounds find it.
        rounds: usize,
    }

    /// Number of threads; rayon's global pool unless set.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Number of chains.
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Refuses fewer than two chains, which have no variance, and a pilot without steps or rounds.
    pub(crate) fn check(&self) -> Result<()> {
        Error::check_count("chains of the pilot", self.chains, 2)?;
        Error::check_count("steps of the pilot", self.steps, 1)?;
        Error::check_at_least("rounds of the pilot", self.rounds, 1)
    }

    /// Surveys a path.
    ///
    /// # Errors
    /// Fewer than two chains, no steps or rounds; whatever the runs meet.
    pub fn survey<'p, P, K>(&self, path: &'p P, kernel: &K, seed: u64) -> Result<Survey>
    where
        P: AnnealingPath + Sync,
        P::State: Send,
        K: TransitionKernel<P::At<'p>> + Sync,
    {
        self.check()?;
        let linear = Schedule::linear(self.steps)?;
        let mut survey = self.survey_along(path, kernel, linear, seed)?;
        let mut later_seeds = stream(seed, Purpose::PilotRounds, 0);
        for _ in 1..self.rounds {
            let schedule = Friction::default().schedule(&survey, self.steps)?;
            survey = self.survey_along(path, kernel, schedule, later_seeds.next_u64())?;
        }
        Ok(survey)
    }

    /// Surveys a path in one round, by a given schedule.
    ///
    /// # Errors
    /// As [`survey`](Self::survey).
    pub fn survey_along<'p, P, K>(
        &self,
        path: &'p P,
        kernel: &K,
        schedule: Schedule,
        seed: u64,
    ) -> Result<Survey>
    where
        P: AnnealingPath + Sync,
        P::State: Send,
        K: TransitionKernel<P::At<'p>> + Sync,
    {
        self.check()?;
        check_stages("steps of the pilot", kernel.stages(), &schedule)?;
        let mut ais = Ais::with_base_log_z(path, kernel, 0.0)
            .recorder(DerivativeRecorder::default())
            .recorded_stages(schedule.steps())
            .schedule(schedule)
            .chains(self.chains)
            .block_size(BLOCK)
            .seed(seed)
            .pilot();
        if let Some(threads) = self.threads {
            ais = ais.threads(threads);
        }
        Survey::from_run(&ais.run()?)
    }
}

/// Chains a block: few, so that a small pilot still occupies several threads.
const BLOCK: usize = 32;
