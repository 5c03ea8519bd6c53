//! The settings of nested sampling, and the work that they ask for.

#[cfg(feature = "checkpoint")]
use crate::work::{Named, named};
use crate::{Error, Result};

#[derive(Debug, Clone)]
pub struct NestedSettings {
    pub(super) islands: usize,
    pub(super) chains: usize,
    pub(super) moves: usize,
    pub(super) share: f64,
    pub(super) precision: f64,
    pub(super) max_levels: usize,
    pub(super) kept: usize,
    pub(super) seed: u64,
}

impl Default for NestedSettings {
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

impl NestedSettings {
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

    #[cfg(feature = "checkpoint")]
    pub(super) fn named(&self) -> Named {
        let Self {
            islands,
            chains,
            moves,
            share,
            precision,
            max_levels,
            kept,
            seed,
        } = self;
        vec![
            named("seed", seed),
            named("islands", islands),
            named("chains", chains),
            named("moves", moves),
            named("share", share),
            named("precision", precision),
            named("max_levels", max_levels),
            named("kept", kept),
        ]
    }

    pub(super) fn chain_steps(&self, levels: usize) -> u64 {
        (self.chains * self.moves) as u64 * levels as u64
    }

    /// Forecasts the chain-steps left in both passes. `above` is the log of the share of Z above the last of `levels`
    /// levels; each further level multiplies that share of Z by the setting `share`.
    pub(super) fn chain_steps_left(&self, levels: usize, above: f64) -> u64 {
        let left = (above - self.precision.ln()) / -self.share.ln();
        let left = (left.ceil() as usize).clamp(1, self.max_levels - levels);
        let islands = self.islands as u64;
        let second = self.chain_steps(levels + left).saturating_mul(islands);
        self.chain_steps(left).saturating_add(second)
    }
}
