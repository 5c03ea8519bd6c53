//! An island: a pool of states above a level, which are cut at the next one and moved on.

use rand::{Rng, RngExt};

use super::path::{LevelAt, LevelPath};
use super::state::LevelState;
use crate::Result;
use crate::ais::Population;
use crate::chain::{Decisions, NonFinite};
use crate::kernel::{TransitionKernel, Workspace};
use crate::model::{Sampleable, UnnormalizedModel};
use crate::num::WeightedMean;
use crate::path::TemperedPath;
use crate::random::StreamRng;

/// The chains of a [`LevelPath`] that belong to one island.
pub(super) type Chains<'p, 'm, P, L, W> = Population<'p, LevelPath<'m, P, L>, W>;

/// States above a level `l_t`, all of one weight, sorted by their likelihood.
///
/// Each weighs `X / n`, with X the estimate of `X_t` so far and n their number. Their weighted sum of any
/// function is unbiased for its integral against the prior above the level: for a cut, since it leaves the
/// weights as they are; for a restart, since each state of the pool is chosen equally often in expectation and
/// the moves leave the prior above the level invariant.
pub(super) struct Island<'p, 'm, P, L, W>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    problem: &'m TemperedPath<P, L>,
    population: Chains<'p, 'm, P, L, W>,
    chains: usize,
    /// Number of samples of the prior.
    drawn: u64,
    /// With their log likelihoods.
    pool: Vec<(f64, LevelState<P::State>)>,
    log_mass: f64,
}

/// The states that a cut takes away: those of the shell between two levels.
pub(super) struct Shell<S> {
    /// Mean of `log L` under the weights `p L`.
    pub(super) log_likelihood: WeightedMean,
    /// Some of the states, with log weights that stand for all of them.
    pub(super) sample: Vec<(S, f64)>,
}

impl<'p, 'm, P, L, W> Island<'p, 'm, P, L, W>
where
    P: Sampleable<State: Clone>,
    L: UnnormalizedModel<State = P::State>,
    W: Workspace,
{
    /// `chains * moves` exact samples of the prior. The island's first chain has the index `first_chain` and
    /// the stream `first`.
    pub(super) fn start(
        problem: &'m TemperedPath<P, L>,
        path: &'p LevelPath<'m, P, L>,
        [chains, moves]: [usize; 2],
        first_chain: usize,
        first: StreamRng,
    ) -> Result<Self> {
        let population = Population::start(path, first_chain, chains, first)?;
        let mut island = Self {
            problem,
            population,
            chains,
            drawn: (chains * moves) as u64,
            pool: Vec::with_capacity(chains * moves),
            log_mass: 0.0,
        };
        island.gather()?;
        for _ in 1..moves {
            island.population.redraw();
            island.gather()?;
        }
        island.sort();
        Ok(island)
    }

    /// The log likelihoods of the pool, ascending.
    pub(super) fn log_likelihoods(&self) -> impl ExactSizeIterator<Item = f64> {
        self.pool.iter().map(|(log_likelihood, _)| *log_likelihood)
    }

    /// The log of the prior mass above the level reached; `-inf` where no state is left.
    pub(super) fn log_mass(&self) -> f64 {
        self.log_mass
    }

    pub(super) fn decisions(&self) -> Decisions {
        self.population.block().decisions()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Number of evaluations of the likelihood so far, at most: one for each sample of the prior and for each
    /// move.
    pub(super) fn evaluations(&self) -> u64 {
        let Decisions {
            proposals,
            undecided,
            ..
        } = self.decisions();
        self.drawn + proposals + undecided
    }

    pub(super) fn into_chains(self) -> Chains<'p, 'm, P, L, W> {
        self.population
    }

    /// Takes the states up to this level out of the pool, and at most `kept` of them along.
    pub(super) fn cut(&mut self, level: f64, kept: usize) -> Shell<P::State> {
        let below = self.pool.partition_point(|(value, _)| *value <= level);
        let log_each = self.log_weight();
        let mut log_likelihood = WeightedMean::default();
        for (value, _) in &self.pool[..below] {
            log_likelihood.add(log_each + value, *value);
        }
        let kept = kept.min(below);
        let log_share = (below as f64 / kept as f64).ln();
        let chosen = evenly(below, kept, self.population.block_mut().chain_mut(0).1);
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

    /// The log weight of each state of the pool; `-inf` where there is none.
    fn log_weight(&self) -> f64 {
        match self.pool.len() {
            0 => f64::NEG_INFINITY,
            states => self.log_mass - (states as f64).ln(),
        }
    }

    /// Starts the chains anew at states of the pool, which must have some, and empties it. All of them lie
    /// above `level`, where the chains stand from here on.
    pub(super) fn restart(&mut self, level: f64, beta: f64) {
        let rng = self.population.block_mut().chain_mut(0).1;
        let chosen = evenly(self.pool.len(), self.chains, rng);
        let ancestors = chosen.map(|i| self.pool[i].1.clone()).collect();
        self.pool.clear();
        self.population.replace_states(ancestors);
        self.population
            .place(LevelAt::new(self.problem, level, beta));
    }

    /// Moves all chains once, and adds the states reached to the pool.
    pub(super) fn advance<K>(&mut self, kernel: &K) -> Result<()>
    where
        K: TransitionKernel<LevelAt<'m, P, L>, Workspace = W>,
    {
        self.population.stay(kernel)?;
        self.gather()
    }

    /// Adds the states of the chains to the pool.
    fn gather(&mut self) -> Result<()> {
        let block = self.population.block();
        for (chain, state) in block.states().iter().enumerate() {
            let value = state.log_likelihood(self.problem.likelihood());
            let checked = NonFinite::check_log_density("log likelihood", value);
            let value = checked.map_err(|fault| {
                let stage = self.population.stage();
                fault.at(block.first_chain() + chain, stage.index, stage.beta)
            })?;
            self.pool.push((value, state.clone()));
        }
        Ok(())
    }

    /// Sorts the pool by likelihood, once it is full.
    pub(super) fn sort(&mut self) {
        self.pool.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// As many indices below `n` as asked for, in even distances from a random start, so that each index has the
/// same expected number of them.
fn evenly<R: Rng + ?Sized>(
    n: usize,
    count: usize,
    rng: &mut R,
) -> impl Iterator<Item = usize> + use<R> {
    let offset = rng.random::<f64>();
    let distance = n as f64 / count as f64;
    (0..count).map(move |i| (((i as f64 + offset) * distance) as usize).min(n - 1))
}
