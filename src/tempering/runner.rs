//! The runner, and what a user sets of it.

use std::ops::Range;

use crate::kernel::Invariant;
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Execution, controls};
use crate::{Error, Result};

/// Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet 2022).
///
/// A *ladder* has a chain at each beta. In a scan every chain moves at its beta, the one at beta = 0 to a
/// fresh sample of the base; then the chains of each second pair of neighbours exchange their states
/// x and y with probability
///
/// `min(1, exp(r(x) - r(y)))`, `r = log f_{j+1} - log f_j`,
///
/// the pairs (0, 1), (2, 3), .. in one scan and (1, 2), (3, 4), .. in the next. So states travel from the base
/// to the target and back, and bring modes along that no chain would reach at beta = 1.
///
/// Rounds of 2, 4, 8, .. scans follow one another. After each the betas are placed anew, such that all pairs
/// reject alike. The last round is the one that counts. Independent ladders run side by side, and the
/// error of all results comes from the differences between them.
///
/// ```
/// use annealed::kernel::RandomWalkMetropolis;
/// use annealed::model::{Gaussian, GaussianMixture};
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use annealed::tempering::Tempering;
/// use nalgebra::dvector;
///
/// # fn main() -> annealed::Result<()> {
/// let mode = |x: f64| Gaussian::isotropic(dvector![x], 0.3);
/// let target = GaussianMixture::new([(0.8, mode(-2.0)?), (0.2, mode(2.0)?)])?;
/// let path = GeometricPath::new(Gaussian::isotropic(dvector![0.0], 2.0)?, target);
/// let run = Tempering::new(&path, RandomWalkMetropolis::new(0.5)?)
///     .schedule(Schedule::linear(5)?)
///     .rounds(8)
///     .seed(7)
///     .run()?;
/// assert!(run.log_z().abs() < 4.0 * run.standard_error());
/// let (share, error) = run.expectation(|x| f64::from(x[0] > 0.0));
/// assert!((share - 0.2).abs() < 4.0 * error);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Tempering<'p, P: AnnealingPath, K> {
    pub(super) path: &'p P,
    pub(super) kernel: K,
    pub(super) settings: Settings,
    pub(super) execution: Execution<'p>,
}

impl<'p, P: AnnealingPath, K: Invariant<P::At<'p>>> Tempering<'p, P, K> {
    /// Ladders along `path`, whose base has a known normaliser, with `kernel` at each beta.
    pub fn new(path: &'p P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        Self::with_base_log_z(path, kernel, path.base().log_normalizer())
    }

    /// Ladders from a base that can be sampled and whose `log Z_0` the caller states: 0 to count log Z
    /// from the base.
    pub fn with_base_log_z(path: &'p P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            settings: Settings::new(log_base_normalizer),
            execution: Execution::default(),
        }
    }
}

impl<'p, P: AnnealingPath, K> Tempering<'p, P, K> {
    setters! {
        /// The betas of the first round, one for each chain of a ladder; 0, 1/20, .., 1 unless set. Their
        /// number stays. Twice the barrier ([`barrier`](super::TemperingRun::barrier)) is a good one.
        schedule of settings: Schedule,
        /// Number of independent ladders, at least 2; 8 unless set. The error has one degree of freedom
        /// less.
        ladders of settings: usize,
        /// Number of ladders that move together, and the unit of work that threads share; 1 unless set.
        /// Kernels that move chains as a block are faster with more.
        block_size of settings: usize,
        /// Number of rounds, 1 to 30, or the most where the run may end before; 10 unless set. Round i has
        /// `2^i` scans, so that each further one doubles the cost.
        rounds of settings: usize,
        /// Bound on the number of states at beta = 1 that are kept; 1,000 unless set. They are evenly
        /// spaced over the last round; a ladder keeps at least one.
        samples of settings: usize,
        /// The seed; 0 unless set. One seed gives the same bits for any number of threads.
        seed of settings: u64,
    }

    controls! { 'p, "The result is that of the last round that was finished: of a run of so many rounds." }

    /// Ends the run after the round, from the fifth on, in which its standard error is so small, in nats;
    /// [`rounds`](Self::rounds) is the most that it may have. The result is that of a run of so many rounds. A run that
    /// ends before it is that small [warns](crate::estimate::Warning::ErrorNotReached).
    pub fn until_error(mut self, standard_error: f64) -> Self {
        self.execution.until_error = Some(standard_error);
        self
    }
}

impl<P: AnnealingPath, K: std::fmt::Debug> std::fmt::Debug for Tempering<'_, P, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tempering")
            .field("kernel", &self.kernel)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What fixes the bits of a run besides path and kernel.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Settings {
    /// The betas at the start.
    pub(super) schedule: Schedule,
    pub(super) ladders: usize,
    pub(super) block_size: usize,
    pub(super) rounds: usize,
    pub(super) samples: usize,
    pub(super) seed: u64,
    pub(super) log_base_normalizer: f64,
}

impl Settings {
    pub(super) fn new(log_base_normalizer: f64) -> Self {
        Self {
            schedule: Schedule::linear(20).expect("20 stages are a schedule"),
            ladders: 8,
            block_size: 1,
            rounds: 10,
            samples: 1_000,
            seed: 0,
            log_base_normalizer,
        }
    }

    /// Refuses a setting out of range. The other methods may assume that there is none.
    pub(super) fn check(&self) -> Result<()> {
        // A single ladder says nothing about its error.
        Error::check_count("ladders", self.ladders, 2)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        let rounds = (1..=30).contains(&self.rounds);
        Error::check(rounds, "rounds", self.rounds, "1 to 30")?;
        Error::check_count("samples", self.samples, 1)?;
        let states = self.ladders.saturating_mul(self.schedule.betas().len());
        Error::check_count("states of all ladders", states, 1)?;
        Error::check_number("log normalizer of the base", self.log_base_normalizer)
    }

    pub(super) fn blocks(&self) -> usize {
        self.ladders.div_ceil(self.block_size)
    }

    /// The ladders of a block.
    pub(super) fn ladders_of(&self, block: usize) -> Range<usize> {
        let at = |block: usize| self.block_size.saturating_mul(block).min(self.ladders);
        at(block)..at(block + 1)
    }

    /// Number of scans of a round, from 1.
    pub(super) fn scans(&self, round: usize) -> usize {
        1 << round
    }

    /// Number of scans of all rounds.
    pub(super) fn scans_of_all_rounds(&self) -> usize {
        self.scans_of_rounds(self.rounds)
    }

    /// Number of scans of the first rounds.
    pub(super) fn scans_of_rounds(&self, rounds: usize) -> usize {
        (1..=rounds).map(|round| self.scans(round)).sum()
    }

    /// Refuses the settings of a checkpoint that are not these, the number of rounds aside, and names the first.
    #[cfg(feature = "checkpoint")]
    pub(super) fn check_found(&self, found: &Self) -> Result<()> {
        // All of them are taken apart, so that none is forgotten.
        let Self {
            schedule,
            ladders,
            block_size,
            rounds: _,
            samples,
            seed,
            log_base_normalizer,
        } = found;
        self.schedule.check_found(schedule)?;
        Error::check_found("seed", seed, &self.seed)?;
        Error::check_found("ladders", ladders, &self.ladders)?;
        Error::check_found("block_size", block_size, &self.block_size)?;
        Error::check_found("samples", samples, &self.samples)?;
        let normalizer = &self.log_base_normalizer;
        Error::check_found(
            "log normalizer of the base",
            log_base_normalizer,
            normalizer,
        )
    }

    /// Number of moves of all chains in so many scans.
    pub(super) fn chain_steps(&self, scans: usize) -> u64 {
        let chains = (self.schedule.betas().len() * self.ladders) as u64;
        chains.saturating_mul(scans as u64)
    }

    /// Number of states that are kept, those of all ladders.
    #[cfg(feature = "serde")]
    pub(super) fn states(&self) -> usize {
        self.scans(self.rounds) / self.stride(self.rounds) * self.ladders
    }

    /// Of so many scans of a round, one gives a sample.
    pub(super) fn stride(&self, round: usize) -> usize {
        let samples_each = (self.samples / self.ladders).max(1);
        self.scans(round).div_ceil(samples_each)
    }
}
