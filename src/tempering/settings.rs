//! What a user sets of a tempered run, apart from path and kernel.

use std::ops::Range;

use crate::schedule::Schedule;
use crate::{Error, Result};

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
