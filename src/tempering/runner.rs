//! The runner and its settings.

use std::ops::Range;

use crate::kernel::Invariant;
use crate::model::NormalizedModel;
use crate::num::setters;
use crate::path::AnnealingPath;
use crate::schedule::Schedule;
use crate::work::{Execution, controls};
#[cfg(feature = "checkpoint")]
use crate::work::{Named, named};
use crate::{Error, Result};

/// Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet 2022).
///
/// A *ladder* has a chain at each beta. In a scan every chain moves at its beta; the chain at beta = 0 draws a fresh
/// sample of the base. Then every second pair of neighbours may swap its states. Results come from the last round of
/// scans, and their errors from the differences between independent ladders.
///
/// ```
/// use annealed::estimate::{LogZ, WeightedSample};
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
///
/// A pair swaps its states x and y with probability
///
/// `min(1, exp(r(x) - r(y)))`, `r = log f_{j+1} - log f_j`.
///
/// Swaps alternate between the pairs (0, 1), (2, 3), .. and (1, 2), (3, 4), ... Rounds have 2, 4, 8, .. scans. After
/// each round the betas are placed anew, so that all pairs reject swaps at the same rate.
#[must_use]
#[doc(alias("PT", "parallel tempering", "replica exchange"))]
pub struct Tempering<'p, P: AnnealingPath, K> {
    pub(super) path: P,
    pub(super) kernel: K,
    pub(super) settings: TemperingSettings,
    pub(super) execution: Execution<'p>,
}

impl<'p, P: AnnealingPath, K: Invariant<P::At>> Tempering<'p, P, K> {
    /// Creates a run along `path`, whose base has a known normaliser, with `kernel` at each beta.
    pub fn new(path: P, kernel: K) -> Self
    where
        P::Base: NormalizedModel,
    {
        let log_z = path.base().log_normalizer();
        Self::with_base_log_z(path, kernel, log_z)
    }

    /// Creates a run whose base has the log normaliser `log_base_normalizer`; with 0 the result is `log(Z_K / Z_0)`.
    pub fn with_base_log_z(path: P, kernel: K, log_base_normalizer: f64) -> Self {
        Self {
            path,
            kernel,
            settings: TemperingSettings::new(log_base_normalizer),
            execution: Execution::default(),
        }
    }
}

impl<'p, P: AnnealingPath, K> Tempering<'p, P, K> {
    setters! {
        /// Sets the betas of the first round; 0, 1/20, .., 1 by default. Later rounds have the same
        /// number. Twice the [`barrier`](super::TemperingRun::barrier) is a good number.
        schedule of settings: Schedule,
        /// Sets the number of independent ladders, at least 2; 8 by default.
        ladders of settings: usize,
        /// Sets the number of ladders that move together; 1 by default. Some kernels move larger blocks faster.
        block_size of settings: usize,
        /// Sets the number of rounds, 1 to 30; 10 by default. Round i has `2^i` scans. `until_error` may stop earlier.
        rounds of settings: usize,
        /// Sets the largest number of samples kept in the last round; 1,000 by default. A ladder keeps at least one.
        samples of settings: usize,
        /// Sets the seed; 0 by default. The result does not depend on the number of threads.
        seed of settings: u64,
        /// Sets the standard error of log Z in nats at which the run ends, checked after each round from the fifth on.
        /// The result is the same as if [`rounds`](Self::rounds) had been set to the number of rounds made. A run that
        /// ends with a larger error [warns](crate::estimate::Warning::ErrorNotReached).
        until_error of execution in Some: f64,
    }

    controls! { 'p, "The result is that of the last round that was finished: of a run of so many rounds." }
}

crate::num::debug_by_fields! {
    Tempering for [P: AnnealingPath, K: std::fmt::Debug] Tempering<'_, P, K> { kernel, settings }
}

/// The settings that, with path and kernel, determine the result bit for bit.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TemperingSettings {
    /// Initial betas.
    pub(super) schedule: Schedule,
    pub(super) ladders: usize,
    pub(super) block_size: usize,
    pub(super) rounds: usize,
    pub(super) samples: usize,
    pub(super) seed: u64,
    pub(super) log_base_normalizer: f64,
}

impl TemperingSettings {
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

    /// Refuses a setting out of range. The other methods assume that all settings are in range.
    pub(super) fn check(&self) -> Result<()> {
        // A single ladder has no error estimate.
        Error::check_count("ladders", self.ladders, 2)?;
        Error::check_at_least("block_size", self.block_size, 1)?;
        // Round 30 has 2^30 scans, the largest count that any setting may have.
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

    pub(super) fn ladders_of(&self, block: usize) -> Range<usize> {
        let at = |block: usize| self.block_size.saturating_mul(block).min(self.ladders);
        at(block)..at(block + 1)
    }

    pub(super) fn scans(&self, round: usize) -> usize {
        1 << round
    }

    pub(super) fn scans_of_rounds(&self, rounds: usize) -> usize {
        (1..=rounds).map(|round| self.scans(round)).sum()
    }

    /// Returns all settings but schedule and rounds.
    #[cfg(feature = "checkpoint")]
    pub(super) fn named(&self) -> Named {
        // Destructured in full, so that no field is forgotten.
        let Self {
            schedule: _,
            ladders,
            block_size,
            rounds: _,
            samples,
            seed,
            log_base_normalizer,
        } = self;
        vec![
            named("seed", seed),
            named("ladders", ladders),
            named("block_size", block_size),
            named("samples", samples),
            named("log normalizer of the base", log_base_normalizer),
        ]
    }

    /// Returns the number of moves of all chains in `scans` scans.
    pub(super) fn chain_steps(&self, scans: usize) -> u64 {
        let chains = (self.schedule.betas().len() * self.ladders) as u64;
        chains.saturating_mul(scans as u64)
    }

    /// Returns the number of samples that all ladders keep.
    #[cfg(feature = "serde")]
    pub(super) fn states(&self) -> usize {
        self.scans(self.rounds) / self.stride(self.rounds) * self.ladders
    }

    /// Returns the number of scans from one kept sample to the next in `round`.
    pub(super) fn stride(&self, round: usize) -> usize {
        let samples_each = (self.samples / self.ladders).max(1);
        self.scans(round).div_ceil(samples_each)
    }
}
