//! The next stage of a schedule whose stages have equal distance, `sqrt(N / CESS - 1)` by the conditional ESS.

use std::collections::BTreeMap;

use crate::error::short;
use crate::kernel::{Block, Stage};
use crate::num::WeightSums;
use crate::path::{AnnealingPath, Intermediate};
use crate::population::{DatumOf, Populations};
use crate::{Error, Result};

/// Returns the number of stages of this `length` in beta from `beta` to 1.
pub(crate) fn stages_left(beta: f64, length: f64) -> usize {
    ((1.0 - beta) / length).ceil() as usize
}

/// Number of guesses before bisection. They take the distance as proportional to the stage's length in beta.
const PROPORTIONAL: usize = 10;
/// Relative error at which the search for a stage's length ends. At the default ESS share of .5 a stage leaves .45 to
/// .55. It needs no more, since the stage counts with the distance that it has, not with the one asked for.
const PRECISION: f64 = 0.1;
/// Number of guesses after which a stage counts as too long: a hundred cross the range of f64, and some sixty bisect what is
/// left to its last digit.
const MOST_TRIALS: usize = 200;
/// Factor between later guesses, as long as all are too long or all are too short. A hundred of them cross the range of
/// f64.
const LEAP: f64 = 1024.0;

pub(crate) struct NextStage {
    pub(crate) beta: f64,
    pub(crate) distance: f64,
    /// Density evaluations of each chain. On a path without [ends](Intermediate::ends): one for each beta tried and one
    /// for the weight. On other paths: one if log densities at the ends were unknown.
    pub(crate) evaluations: usize,
}

/// Returns the next stage. It has the given `distance` up to a relative [`PRECISION`], or ends at beta 1 if 1 is nearer.
/// It bisects lengths, or their orders of magnitude if it knows no more. The first guesses take the distance as
/// proportional to the stage's length in beta.
pub(crate) fn next_stage<P>(
    populations: &mut Populations<P>,
    guess: f64,
    distance: f64,
    datum_of: Option<DatumOf<P::State>>,
) -> Result<NextStage>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send + Sync,
{
    let (path, beta) = (populations.path().clone(), populations.beta());
    let learned = populations.learn()?;
    let (here, all) = (path.at(beta), 1.0 - beta);
    // `high` is the shortest stage known to be too long.
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut step = guess.min(all);
    for trials in 1..=MOST_TRIALS {
        let found = distance_to(populations, (&here, &path.at(beta + step)), datum_of)?;
        let is_last = found <= distance && step == all;
        if is_last || (found / distance - 1.0).abs() < PRECISION {
            return Ok(NextStage {
                beta: if is_last { 1.0 } else { beta + step },
                distance: found,
                evaluations: learned.map_or(trials + 1, usize::from),
            });
        }
        match found <= distance {
            true => low = step,
            false => high = step,
        }
        let proportional = step * distance / found;
        // If few chains carry the weight, the distance may grow like a high power of the stage.
        let trusted = trials <= PROPORTIONAL && low < proportional && proportional < high;
        step = match trusted {
            true => proportional.min(all),
            false => between(low, high).min(all),
        };
        if beta + step <= beta {
            break;
        }
    }
    Err(too_long(
        populations,
        &here,
        &path.at(beta + high.min(all)),
    )?)
}

/// Returns a length between `low`, the longest that is not too long (0 if none is known), and `high`, the shortest that
/// is too long (infinite if none is known).
fn between(low: f64, high: f64) -> f64 {
    // A likelihood that nearly overflows needs a first stage of 1e-300, and a second one that is orders of magnitude
    // longer.
    match high {
        f64::INFINITY => LEAP * low,
        _ if low == 0.0 => high / LEAP,
        _ if high > 16.0 * low => low.sqrt() * high.sqrt(),
        _ => 0.5 * (low + high),
    }
}

/// Returns the error for a stage that is too long and cannot be shortened. It leads from `here` to `there`.
fn too_long<P>(populations: &mut Populations<P>, here: &P::At, there: &P::At) -> Result<Error>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send + Sync,
{
    let (beta, next) = (short(here.beta()), short(there.beta()));
    let lost = populations.map(&|population| Ok(lost(population.block(), here, there)))?;
    let detail = match lost.into_iter().sum() {
        0_usize => format!(
            "no step from beta = {beta} is short enough: the target may have no finite integral (an improper prior, a \
             likelihood without an upper bound, a density that does not fall), or the path jumps there"
        ),
        lost => format!(
            "{lost} of {} chains at beta = {beta} are off the support of beta = {next}, however short the step; expected a \
             base within the support of the target, NestedSmc, or for Ais the schedule Friction or VarOpt, which needs no \
             common support",
            populations.alive()
        ),
    };
    Ok(Error::NotConverged {
        what: "annealing from the base to the target",
        detail,
    })
}

pub(crate) fn lost<M: Intermediate>(block: &Block<M::State>, here: &M, there: &M) -> usize {
    let stage = Stage::new(0, here, there);
    let lost = block
        .alive()
        .filter(|&chain| block.log_ratio(stage, chain) == f64::NEG_INFINITY);
    lost.count()
}

/// Share of the data that a stage may not be too long for.
const WORSE: f64 = 0.9;

/// Returns the distance of a stage. With many data, it is the distance that a share of [`WORSE`] of the data stays below,
/// but never that of the worst of three or more, since a single outlying datum would hold up the others.
fn distance_to<P>(
    populations: &mut Populations<P>,
    (here, there): (&P::At, &P::At),
    datum_of: Option<DatumOf<P::State>>,
) -> Result<f64>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send + Sync,
{
    let parts =
        populations.map(&|population| Ok(sums(population.block(), (here, there), datum_of)))?;
    let mut all = BTreeMap::<usize, [WeightSums; 3]>::new();
    for (datum, part) in parts.into_iter().flatten() {
        let sums = all.entry(datum).or_default();
        sums.iter_mut()
            .zip(&part)
            .for_each(|(sum, part)| sum.merge(part));
    }
    let mut distances: Vec<f64> = all.into_values().map(distance).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let last = distances.len().saturating_sub(1);
    let most = if last < 2 { last } else { last - 1 };
    let worse = (WORSE * last as f64).round() as usize;
    // Without living chains: infinitely far.
    Ok(distances
        .get(worse.min(most))
        .copied()
        .unwrap_or(f64::INFINITY))
}

/// Returns `sqrt(N / CESS - 1)`, with its square multiplied by `1 / (1 - 1/ESS)`. Without this factor the distance
/// would vanish when the weights collapse.
fn distance([before, after, squares]: [WeightSums; 3]) -> f64 {
    let inverse = (before.log_sum() + squares.log_sum() - 2.0 * after.log_sum()).exp();
    let ess = before.effective_sample_size();
    let length = ((inverse - 1.0).max(0.0) / (1.0 - 1.0 / ess)).sqrt();
    // Off the support, or too far for the sums: infinitely far.
    match length.is_nan() {
        true => f64::INFINITY,
        false => length,
    }
}

/// Returns the sums of `w`, `w u` and `w u^2` over the living chains of each datum, with the density ratio u of `there`
/// to `here`.
fn sums<M: Intermediate>(
    block: &Block<M::State>,
    (here, there): (&M, &M),
    datum_of: Option<DatumOf<M::State>>,
) -> BTreeMap<usize, [WeightSums; 3]> {
    let mut all = BTreeMap::<usize, [WeightSums; 3]>::new();
    let stage = Stage::new(0, here, there);
    for chain in block.alive() {
        let log_weight = block.log_weights()[chain];
        let ratio = block.log_ratio(stage, chain);
        let terms = [log_weight, log_weight + ratio, log_weight + 2.0 * ratio];
        let datum = datum_of.map_or(0, |datum_of| datum_of(&block.states()[chain]));
        let sums = all.entry(datum).or_default().iter_mut();
        sums.zip(terms).for_each(|(sum, term)| sum.add(term));
    }
    all
}
