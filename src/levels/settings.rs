//! What a user sets of a run over levels, apart from problem and kernel.

use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) islands: usize,
    pub(super) chains: usize,
    pub(super) moves: usize,
    pub(super) share: f64,
    pub(super) precision: f64,
    pub(super) max_levels: usize,
    pub(super) kept: usize,
    pub(super) seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            islands: 32,
            chains: 64,
            moves: 50,
            share: 0.3,
            precision: 1e-3,
            max_levels: 1_000,
            kept: 10_000,
            seed: 0,
        }
    }
}

impl Settings {
    pub(super) fn check(&self) -> Result<()> {
        Error::check_count("islands", self.islands, 1)?;
        Error::check_count("chains", self.chains, 1)?;
        Error::check_count("moves", self.moves, 1)?;
        let states = self.chains.saturating_mul(self.moves);
        Error::check_count("chains times moves", states, 2)?;
        let chains = self.islands.saturating_mul(self.chains);
        Error::check_count("islands times chains", chains, 1)?;
        Error::check_count("max_levels", self.max_levels, 1)?;
        Error::check_count("kept", self.kept, 0)?;
        Error::check_inner_fraction("share", self.share)?;
        Error::check_positive("precision", self.precision)
    }
}
