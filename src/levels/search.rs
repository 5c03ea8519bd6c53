//! The first pass: a population that looks for levels, and for step sizes as it goes.

use super::island::Island;
use super::path::LevelAt;
use super::selection::Selection;
use super::settings::Settings;
use crate::Result;
use crate::ais::Meter;
use crate::kernel::{Invariant, StepSize, Workspace};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::log_add_exp;
use crate::pilot::robbins_monro;

/// How the step size of a kernel is tuned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning<K> {
    pub(super) resized: fn(&K, StepSize) -> K,
    /// The step size at the first level.
    pub(super) first: f64,
    /// The acceptance sought.
    pub(super) acceptance: f64,
}

/// What the first pass found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) levels: Vec<f64>,
    /// The step size at each level; none where it is not tuned.
    pub(super) sizes: Vec<f64>,
    /// The log weight of the shell below each level, and of the last one, above all.
    pub(super) shells: Vec<f64>,
    /// Where the levels end at the limit of their number: at most about this share of Z lies above.
    pub(super) unfinished: Option<f64>,
}

/// Raises the level of an island until what can lie above is small.
pub(super) fn search<'m, P, L, K>(
    island: &mut Island<'_, 'm, P, L, K::Workspace>,
    kernel: &K,
    tuning: Option<&Tuning<K>>,
    settings: &Settings,
    meter: &Meter<'_>,
) -> Result<Found>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    let mut found = Found::default();
    let mut log_size = tuning.map_or(0.0, |tuning| tuning.first.ln());
    let mut log_z = f64::NEG_INFINITY;
    while let Some(level) = next_level(island, settings.share) {
        let highest = island.log_likelihoods().last().unwrap_or(f64::NEG_INFINITY);
        let above = island.log_mass() + highest - log_z;
        if above < settings.precision.ln() {
            break;
        }
        if found.levels.len() == settings.max_levels {
            found.unfinished = Some(above.exp());
            break;
        }
        meter.foresee(settings.chain_steps_left(found.levels.len(), above));
        let shell = island
            .cut(level, &mut Selection::new(&[], 0.0))
            .log_likelihood
            .log_weight();
        log_z = log_add_exp(log_z, shell);
        found.shells.push(shell);
        found.levels.push(level);
        let beta = found.levels.len() as f64 / (settings.max_levels + 1) as f64;
        island.restart(level, beta)?;
        match tuning {
            Some(tuning) => {
                log_size = tune(island, kernel, tuning, log_size, settings.moves)?;
                found.sizes.push(log_size.exp());
            }
            None => (0..settings.moves).try_for_each(|_| island.advance(kernel))?,
        }
        island.sort();
    }
    let last = island
        .cut(f64::INFINITY, &mut Selection::new(&[], 0.0))
        .log_likelihood;
    found.shells.push(last.log_weight());
    Ok(found)
}

/// The largest log likelihood of the pool above which at least this share of it lies. Where a plateau stands in
/// the way, it is the lowest one of all; `None` where all are equal.
fn next_level<P, L, W>(island: &Island<'_, '_, P, L, W>, share: f64) -> Option<f64>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    W: Workspace,
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

/// Moves the chains of an island, each time with the step size that the moves before suggest. Returns the
/// logarithm of the one found.
fn tune<'m, P, L, K>(
    island: &mut Island<'_, 'm, P, L, K::Workspace>,
    kernel: &K,
    tuning: &Tuning<K>,
    log_size: f64,
    moves: usize,
) -> Result<f64>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
    K: Invariant<LevelAt<'m, P, L>> + Sync,
{
    let mut acceptance = |log_size: f64| {
        let kernel = (tuning.resized)(kernel, StepSize::constant(log_size.exp())?);
        let before = island.decisions();
        island.advance(&kernel)?;
        let acceptance = island.decisions().since(before).acceptance();
        Ok(acceptance.unwrap_or(tuning.acceptance))
    };
    let (log_size, _) = robbins_monro(tuning.acceptance, moves, log_size, &mut acceptance)?;
    Ok(log_size)
}
