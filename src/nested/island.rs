//! An island: a pool of states above a level, from which the states below the next level are cut.

use std::ops::Range;

use rand::{Rng, RngExt};

use super::path::{LevelAt, LevelPath, LevelState};
use crate::Result;
use crate::kernel::{Decisions, NonFinite, TransitionKernel};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::{WeightSums, WeightedMean};
use crate::path::TemperedPath;
use crate::population::{Population, Populations};
use crate::random::StreamRng;

type Work<'w, T> = &'w (dyn Fn(&mut T) -> Result<()> + Sync);

type Valued<S> = Vec<(f64, LevelState<S>)>;

/// The n states above a level `l_t`, sorted by likelihood, each of weight `X / n`, with X the estimate of the prior
/// mass above `l_t`. Weighted sums are unbiased for integrals against the prior above the level. A cut keeps the
/// weights. A restart chooses every state equally often in expectation, and moves leave the prior above the level
/// invariant.
pub(super) struct Island<'m, P, L>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    problem: &'m TemperedPath<P, L>,
    populations: Populations<LevelPath<'m, P, L>>,
    /// Number of samples of the prior.
    drawn: u64,
    pool: Valued<P::State>,
    log_mass: f64,
}

/// The states that a cut removes: the shell between two levels.
pub(super) struct Shell<S> {
    /// Mean of `log L` over the shell. Each state is weighted by its prior weight times its likelihood L.
    pub(super) log_likelihood: WeightedMean,
    /// Some states of the shell, with log weights that make them represent all its states.
    pub(super) sample: Vec<(S, f64)>,
}

impl<'m, P, L> Island<'m, P, L>
where
    P: Sampleable<State: Clone + Send> + Sync,
    L: UnnormalizedModel<State = P::State> + Sync,
{
    /// Draws `moves` prior samples for each chain, in blocks of at most `largest` chains. The first chain has the
    /// stream `first`.
    pub(super) fn start(
        path: &LevelPath<'m, P, L>,
        chains: Range<usize>,
        largest: usize,
        moves: usize,
        first: StreamRng,
    ) -> Result<Self> {
        let states = chains.len() * moves;
        let mut island = Self {
            problem: path.problem,
            populations: Populations::start(path.clone(), chains, largest, first)?,
            drawn: states as u64,
            pool: Vec::with_capacity(states),
            log_mass: 0.0,
        };
        island.gather(&|_| Ok(()))?;
        for _ in 1..moves {
            island.gather(&|population| {
                population.redraw();
                Ok(())
            })?;
        }
        island.sort();
        Ok(island)
    }

    /// Returns the log likelihoods of the pool, ascending.
    pub(super) fn log_likelihoods(&self) -> impl ExactSizeIterator<Item = f64> {
        self.pool.iter().map(|(log_likelihood, _)| *log_likelihood)
    }

    /// Returns the log of the prior mass above the level reached; `-inf` if no state is left.
    pub(super) fn log_mass(&self) -> f64 {
        self.log_mass
    }

    pub(super) fn decisions(&self) -> Decisions {
        self.populations.decisions()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Returns the largest possible number of evaluations of the likelihood: one for each prior sample and each move.
    pub(super) fn evaluations(&self) -> u64 {
        let decisions = self.decisions();
        self.drawn + decisions.proposals + decisions.undecided
    }

    /// Removes the states with a log likelihood of at most `level` from the pool, and returns their shell.
    pub(super) fn cut(&mut self, level: f64, selection: &mut IslandSelection) -> Shell<P::State> {
        let below = self.pool.partition_point(|(value, _)| *value <= level);
        let log_each = self.log_weight();
        let mut log_likelihood = WeightedMean::default();
        for (value, _) in &self.pool[..below] {
            log_likelihood.add(log_each + value, *value);
        }
        let (kept, stands_for) = selection.next(below);
        let log_share = stands_for.ln();
        let chosen = evenly(below, kept, self.populations.rng());
        let sample = chosen.map(|i| {
            let (value, state) = &self.pool[i];
            ((**state).clone(), log_each + log_share + value)
        });
        let sample = sample.collect();
        self.pool.drain(..below);
        self.log_mass = log_each + (self.pool.len() as f64).ln();
        Shell {
            log_likelihood,
            sample,
        }
    }

    /// Returns the log weight that each state of the pool has; `-inf` for an empty pool.
    fn log_weight(&self) -> f64 {
        match self.pool.len() {
            0 => f64::NEG_INFINITY,
            states => self.log_mass - (states as f64).ln(),
        }
    }

    /// Restarts the chains above `level` at states of the pool, which must not be empty. Clears the pool.
    pub(super) fn restart(&mut self, level: f64, beta: f64) -> Result<()> {
        let chains = self.populations.chains();
        // The pool is sorted by likelihood, so even distances also stratify the choice by likelihood.
        let chosen = evenly(self.pool.len(), chains, self.populations.rng());
        let ancestors = chosen.map(|i| self.pool[i].1.clone()).collect();
        self.pool.clear();
        self.populations.replace_states(ancestors);
        let problem = self.problem;
        let place = |population: &mut Population<LevelPath<'m, P, L>>| {
            population.place(LevelAt::new(problem, level, beta));
            Ok(())
        };
        self.populations.map(&place).map(drop)
    }

    /// Moves all chains once, and adds their states to the pool.
    pub(super) fn advance<K>(&mut self, kernel: &K) -> Result<()>
    where
        K: TransitionKernel<LevelAt<'m, P, L>> + Sync,
    {
        self.gather(&|population| population.stay(kernel))
    }

    /// Calls `work` on each population, and adds the population's states to the pool.
    fn gather(&mut self, work: Work<'_, Population<LevelPath<'m, P, L>>>) -> Result<()> {
        let likelihood = self.problem.likelihood();
        let parts = self.populations.map(&|population| {
            work(population)?;
            valued(population, likelihood)
        })?;
        self.pool.extend(parts.into_iter().flatten());
        Ok(())
    }

    pub(super) fn sort(&mut self) {
        self.pool.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

fn valued<P, L>(
    population: &Population<LevelPath<'_, P, L>>,
    likelihood: &L,
) -> Result<Valued<P::State>>
where
    P: Sampleable<State: Clone>,
    L: UnnormalizedModel<State = P::State>,
{
    let block = population.block();
    let valued = |(chain, state): (usize, &LevelState<P::State>)| {
        let value = state.log_likelihood(likelihood);
        let checked = NonFinite::check_log_density("log likelihood", value);
        let value = checked.map_err(|fault| {
            let stage = population.stage();
            let chain = block.first_chain() + chain;
            fault.of_model(
                likelihood,
                (chain, stage.index, stage.beta),
                chain..chain + 1,
            )
        })?;
        Ok((value, state.clone()))
    };
    block.states().iter().enumerate().map(valued).collect()
}

/// Returns `count` indices below `n`, evenly spaced from a random start. Each index has the same expected count.
fn evenly<R: Rng + ?Sized>(
    n: usize,
    count: usize,
    rng: &mut R,
) -> impl Iterator<Item = usize> + use<R> {
    let offset = rng.random::<f64>();
    let distance = n as f64 / count as f64;
    // Rounding may bring the last index to n.
    (0..count).map(move |i| (((i as f64 + offset) * distance) as usize).min(n - 1))
}

/// A choice of the number of states that each shell of an island keeps, by systematic sampling. The expected numbers,
/// which need not be whole, are summed from a random [`offset`]; each time the sum passes a whole number, a state is
/// kept. Its weight is the number of states in the shell over the expected number, so that weighted sums are unbiased.
pub(super) struct IslandSelection {
    /// Expected numbers of states of the remaining shells.
    expected: std::vec::IntoIter<f64>,
    /// Fractional part of the sum of expected numbers so far.
    beyond: f64,
}

impl IslandSelection {
    /// Creates a selection whose sum of expected numbers starts at `beyond`.
    pub(super) fn new(expected: Vec<f64>, beyond: f64) -> Self {
        Self {
            expected: expected.into_iter(),
            beyond,
        }
    }

    /// Returns the number of states kept of the next shell, and the number of states that each represents.
    pub(super) fn next(&mut self, states: usize) -> (usize, f64) {
        let most = states as f64;
        let expected = self.expected.next().map_or(0.0, |share| share.min(most));
        let sum = self.beyond + expected;
        self.beyond = sum.fract();
        // If 0 states are expected, none is kept, and the quotient is not used.
        ((sum as usize).min(states), most / expected)
    }
}

/// Returns the number at which an island's [`IslandSelection`] starts its sum. Multiples of the golden ratio are spread
/// evenly, so the islands together keep about the expected number of states in each shell.
pub(super) fn offset(first: f64, island: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    (first + GOLDEN * island as f64).fract()
}

/// Returns the expected numbers of states that an island's shells keep, `kept` in all. One half is in proportion to the
/// weights of the shells from the first pass. The other half is the same for all shells, in case a weight is too low.
pub(super) fn expected(kept: f64, log_weights: &[f64]) -> Vec<f64> {
    let weights = WeightSums::of(log_weights);
    let even = 1.0 / log_weights.len() as f64;
    let by_weight = |&log_weight: &f64| match weights.log_sum() {
        f64::NEG_INFINITY => even,
        _ => weights.share(log_weight),
    };
    let shares = log_weights.iter().map(by_weight);
    shares.map(|share| kept * 0.5 * (share + even)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn islands_together_keep_what_is_expected() {
        for (islands, kept) in [
            (32, 10_000),
            (7, 5),
            (30_000, 10_000),
            (20_000, 10_000),
            (1, 3),
        ] {
            let shares = [f64::NEG_INFINITY, -3.0, 2.0, 0.0, -900.0];
            let each = f64::from(kept) / f64::from(islands);
            let expected = expected(each, &shares);
            assert!((expected.iter().sum::<f64>() - each).abs() < 1e-9 * each);
            let mut numbers = [0; 5];
            for island in 0..islands {
                let mut selection =
                    IslandSelection::new(expected.clone(), offset(0.4, island as usize));
                for number in &mut numbers {
                    let (count, stands_for) = selection.next(1_000);
                    assert!(stands_for >= 1.0);
                    *number += count;
                }
            }
            assert!(numbers.iter().sum::<usize>().abs_diff(kept as usize) <= 2);
            for (number, expected) in numbers.iter().zip(expected) {
                let expected = expected * f64::from(islands);
                assert!((*number as f64 - expected).abs() <= 2.0);
            }
        }
    }

    #[test]
    fn a_shell_of_few_states_gives_no_more_than_these() {
        let mut selection = IslandSelection::new(vec![7.5, 7.5, 0.0], 0.999_999_999_999_999_9);
        assert_eq!(selection.next(5), (5, 1.0));
        assert_eq!(selection.next(0).0, 0);
        assert_eq!(selection.next(10).0, 0);
    }
}
