//! The first pass: a population that finds the levels and tunes step sizes on its way.

use std::ops::Range;

use super::island::{Island, IslandSelection};
use super::path::{LevelAt, LevelPath};
use super::settings::NestedSettings;
use crate::adaptive::RobbinsMonro;
use crate::kernel::{Invariant, StepSize};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::log_add_exp;
use crate::random::{Purpose, stream};
use crate::work::{Halt, Pulse, Single, Stepped, Task};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub(super) struct KernelTuning<K> {
    pub(super) resized: fn(&K, StepSize) -> K,
    /// Step size at the first level.
    pub(super) first: f64,
    pub(super) acceptance: f64,
}

/// The result of the first pass.
#[derive(Debug, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct FoundShells {
    pub(super) levels: Vec<f64>,
    /// Step size at each level; empty without tuning.
    pub(super) sizes: Vec<f64>,
    /// Log of each shell's part of Z. Shell k has the states between level k - 1 and level k; the last shell has the
    /// states above all levels.
    pub(super) shells: Vec<f64>,
    /// Bound on the share of Z above the last level, if the largest number of levels was reached.
    pub(super) unfinished: Option<f64>,
}

impl FoundShells {
    /// Refuses lists read from a file if their lengths or values contradict each other.
    pub(super) fn check(&self) -> Result<()> {
        let levels = self.levels.len();
        let tuned = if self.sizes.is_empty() { 0 } else { levels };
        Error::check_dimension("step sizes", self.sizes.len(), tuned)?;
        Error::check_dimension("shells", self.shells.len(), levels + 1)
    }
}

/// The first pass: one island, whose level rises until only a small share of Z can lie above the level.
pub(super) struct ShellSearch<'s, 'm, P: Sampleable, L: UnnormalizedModel<State = P::State>, K> {
    /// The path without levels, which is the prior alone.
    pub(super) path: &'s LevelPath<'m, P, L>,
    pub(super) kernel: &'s K,
    pub(super) tuning: Option<&'s KernelTuning<K>>,
    pub(super) settings: &'s NestedSettings,
}

/// Largest number of chains in a block. Kernels move chains above a level one by one, so small blocks cost nothing.
const BLOCK: usize = 8;

struct Climb<'m, P: Sampleable, L: UnnormalizedModel<State = P::State>> {
    island: Island<'m, P, L>,
    found: FoundShells,
    log_size: f64,
    log_z: f64,
}

impl<'s, 'm, P, L, K> ShellSearch<'s, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    /// Moves the chains at a level, and tunes the step size if `tuning` is set.
    fn moves(&self, at: &mut Climb<'m, P, L>) -> Result<()> {
        let Some(tuning) = self.tuning else {
            return (0..self.settings.moves).try_for_each(|_| at.island.advance(self.kernel));
        };
        let mut search = RobbinsMonro::new(tuning.acceptance, self.settings.moves, at.log_size);
        while !search.is_done() {
            let size = StepSize::constant(search.log_size().exp())?;
            let before = at.island.decisions();
            at.island.advance(&(tuning.resized)(self.kernel, size))?;
            let acceptance = at.island.decisions().since(before).acceptance();
            // Moves without proposals leave the step size as it is.
            search.update(acceptance.unwrap_or(tuning.acceptance));
        }
        at.log_size = search.mean_log_size();
        at.found.sizes.push(at.log_size.exp());
        Ok(())
    }

    /// Returns the next level, and the log of the share of Z that may lie above it; `None` if the search is over.
    fn next(&self, at: &mut Climb<'m, P, L>) -> Option<(f64, f64)> {
        let level = next_level(&at.island, self.settings.share)?;
        let highest = at
            .island
            .log_likelihoods()
            .last()
            .unwrap_or(f64::NEG_INFINITY);
        let above = at.island.log_mass() + highest - at.log_z;
        if above < self.settings.precision.ln() {
            return None;
        }
        if at.found.levels.len() == self.settings.max_levels {
            at.found.unfinished = Some(above.exp());
            return None;
        }
        Some((level, above))
    }
}

impl<'s, 'm, P, L, K> Task for ShellSearch<'s, 'm, P, L, K>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    /// The result of the first pass, and the number of evaluations.
    type Output = Single<(FoundShells, u64)>;

    fn chains(&self, _block: usize) -> Range<usize> {
        0..self.settings.chains
    }

    /// Raises the level, and moves the chains above it, until only a small share of Z can lie above the level.
    fn run(&self, block: usize, pulse: &mut Pulse<'_>) -> Result<Self::Output, Halt> {
        let first = stream(self.settings.seed, Purpose::NESTED_SMC, 0);
        let (chains, moves) = (self.chains(block), self.settings.moves);
        let mut at = Climb {
            island: Island::start(self.path, chains, BLOCK, moves, first)?,
            found: FoundShells::default(),
            log_size: self.tuning.map_or(0.0, |tuning| tuning.first.ln()),
            log_z: f64::NEG_INFINITY,
        };
        let cut = |island: &mut Island<'m, P, L>, level| {
            // This selection keeps no states, because all weighted states of the result come from the second pass.
            let shell = island.cut(level, &mut IslandSelection::new(Vec::new(), 0.0));
            shell.log_likelihood.log_weight()
        };
        while let Some((level, above)) = self.next(&mut at) {
            let left = self.settings.chain_steps_left(at.found.levels.len(), above);
            let shell = cut(&mut at.island, level);
            at.log_z = log_add_exp(at.log_z, shell);
            at.found.shells.push(shell);
            at.found.levels.push(level);
            // The number of levels is not known yet, so the betas are spaced for the largest number allowed.
            let beta = at.found.levels.len() as f64 / (self.settings.max_levels + 1) as f64;
            at.island.restart(level, beta)?;
            self.moves(&mut at)?;
            at.island.sort();
            let cost = self.settings.chain_steps(1);
            pulse.pass(Stepped {
                cost,
                is_last: false,
                left: Some(left.saturating_sub(cost)),
            })?;
        }
        at.found.shells.push(cut(&mut at.island, f64::INFINITY));
        Ok(Single((at.found, at.island.evaluations())))
    }

    fn width(&self) -> usize {
        self.settings.chains.div_ceil(BLOCK)
    }
}

/// Returns the largest log likelihood above which at least a fraction `share` of the pool's states lies. If too many
/// states have the lowest value, returns this value; `None` if all values are equal.
fn next_level<P, L>(island: &Island<'_, P, L>, share: f64) -> Option<f64>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
{
    let values: Vec<f64> = island.log_likelihoods().collect();
    let (lowest, highest) = (*values.first()?, *values.last()?);
    let above = (share * values.len() as f64).ceil() as usize;
    let least = values[values.len() - above.clamp(1, values.len())];
    let below = values.partition_point(|&value| value < least);
    let level = match below {
        0 => lowest,
        _ => values[below - 1],
    };
    (level < highest).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_another_search_are_refused() {
        let mut found = FoundShells {
            levels: vec![0.0, 1.0],
            shells: vec![0.0; 3],
            ..FoundShells::default()
        };
        assert!(found.check().is_ok());
        found.sizes.push(1.0);
        assert!(found.check().is_err());
        found.sizes.push(1.0);
        assert!(found.check().is_ok());
        found.shells.pop();
        assert!(found.check().is_err());
    }
}
