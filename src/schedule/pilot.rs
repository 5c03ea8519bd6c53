//! The pilot run: a cheap annealed run that surveys a path.

use crate::ais::Ais;
use crate::error::Result;
use crate::kernel::TransitionKernel;
use crate::path::AnnealingPath;
use crate::schedule::{DerivativeRecorder, Schedule, Survey};

/// Settings of a pilot run; 100 chains and 1,000 steps unless set.
///
/// The run that follows must not go on with the pilot's chains, nor repeat their random numbers:
/// a schedule chosen by looking at chains depends on their weights, and over such chains
/// `E[w] = Z_K / Z_0` no longer holds. A pilot therefore draws from streams of its own
/// ([`Purpose::Pilot`](crate::ais::Purpose::Pilot)), apart from those of any run with its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pilot {
    chains: usize,
    steps: usize,
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
            threads: None,
        }
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

    /// Surveys a path by a linear schedule.
    ///
    /// # Errors
    /// No chains or no steps; whatever the run meets.
    pub fn survey<'p, P, K>(&self, path: &'p P, kernel: &K, seed: u64) -> Result<Survey>
    where
        P: AnnealingPath + Sync,
        P::State: Send,
        K: TransitionKernel<P::At<'p>> + Sync,
    {
        self.survey_along(path, kernel, Schedule::linear(self.steps)?, seed)
    }

    /// Surveys a path by a given schedule.
    ///
    /// # Errors
    /// No chains; whatever the run meets.
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
