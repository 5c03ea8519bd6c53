//! Blocks of chains that threads move, and decisions about all chains between the moves.

use std::ops::Range;
use std::sync::Mutex;

use super::population::{Moves, Population};
use super::resampling::Resampling;
use super::selection::CopyState;
use crate::kernel::{Block, Decisions, TransitionKernel};
use crate::num::{WeightSums, log_mean_exp};
use crate::path::AnnealingPath;
use crate::random::{StreamRng, successive};
use crate::work::{caught, join};
use crate::{Error, Result};

/// Chains in blocks that threads share, with decisions about all chains together. Each call works on all blocks and
/// returns results in their order, so that decisions have the same bits for any number of threads.
pub(crate) struct Populations<P: AnnealingPath> {
    path: P,
    blocks: Vec<Population<P>>,
}

impl<P> Populations<P>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send,
{
    /// Creates chains at exact samples of the base, in blocks of about equal size and at most `largest` chains. The
    /// first chain has the stream `first`; each further chain has the stream one jump ahead.
    pub(crate) fn start(
        path: P,
        chains: Range<usize>,
        largest: usize,
        first: StreamRng,
    ) -> Result<Self> {
        Error::check_count("chains", chains.len(), 1)?;
        let mut streams = successive(first);
        let ranges = Vec::from_iter(ranges(chains, largest));
        let starts = Vec::from_iter(ranges.iter().map(|mine| {
            let stream = streams.next().expect("streams have no end");
            // The streams of the other chains are skipped here, and made again by the thread that starts the block.
            (1..mine.len()).for_each(|_| _ = streams.next());
            stream
        }));
        let mut blocks = Vec::new();
        blocks.resize_with(starts.len(), || None);
        on_each(&mut blocks, 0, &|index, block| {
            let mine = &ranges[index];
            let mut start =
                || Population::start(path.clone(), mine.start, mine.len(), starts[index].clone());
            let panicked = |message| Error::panicked(message, mine.clone());
            *block = Some(caught(&mut start).map_err(panicked)??);
            Ok(())
        })?;
        let blocks = blocks.into_iter().flatten().collect();
        Ok(Self { path, blocks })
    }

    /// Runs `work` on each block. Returns the error or panic of the leftmost block that failed.
    pub(crate) fn map<T: Send>(
        &mut self,
        work: &(dyn Fn(&mut Population<P>) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        let mut done = Vec::new();
        done.resize_with(self.blocks.len(), || None);
        let values = Mutex::new(&mut done);
        self.each(&|index, population| {
            let value = work(population)?;
            values.lock().expect("no panic while locked")[index] = Some(value);
            Ok(())
        })?;
        Ok(done.into_iter().flatten().collect())
    }

    /// Runs `work` on each block and its index, as [`map`](Self::map) does. It is compiled once, whatever `work` finds.
    fn each(&mut self, work: &On<'_, Population<P>>) -> Result<()> {
        on_each(&mut self.blocks, 0, &|index, population| {
            let done = caught(&mut || work(index, population));
            done.unwrap_or_else(|message| Err(population.panicked(message)))
        })
    }

    /// Evaluates the ends of the path (base and target) at states for which their values are not cached. Returns
    /// whether there were such states, and `None` for a path without ends.
    pub(crate) fn learn(&mut self) -> Result<Option<bool>> {
        let learned = self.map(&|population| population.learn())?;
        Ok(learned.into_iter().reduce(|a, b| Some(a? | b?)).flatten())
    }

    /// Returns whether the last kernel that moved the chains keeps gradients.
    pub(crate) fn keep_gradients(&self) -> bool {
        self.blocks().any(Block::keeps_gradients)
    }

    /// Moves all chains once at their current model, and returns the accept-reject decisions.
    pub(crate) fn stay(&mut self, kernel: &(dyn Moves<P::At> + Sync)) -> Result<Decisions> {
        let parts = self.map(&|population| {
            let before = population.block().decisions();
            population.stay_by(kernel)?;
            Ok(population.block().decisions().since(before))
        })?;
        let mut decisions = Decisions::default();
        parts.into_iter().for_each(|part| decisions += part);
        Ok(decisions)
    }

    /// Lets the kernel check the path's models at `betas`, with the states of the first block. Returns the number of
    /// evaluations at betas above 0.
    pub(crate) fn check_model<K>(&self, kernel: &K, betas: &[f64]) -> Result<usize>
    where
        K: TransitionKernel<P::At>,
    {
        let first = &self.blocks[0];
        let states = first.block().states();
        let check = |&beta: &f64| {
            let spent = kernel.check_model(&self.path.at(beta), states)?;
            Ok(if beta > 0.0 { spent } else { 0 })
        };
        let checked = caught(&mut || betas.iter().map(check).sum());
        checked.unwrap_or_else(|message| Err(first.panicked(message)))
    }

    /// Returns the stream of the first chain, used for decisions on all chains.
    pub(crate) fn rng(&mut self) -> &mut StreamRng {
        self.blocks[0].block_mut().rng_mut(0)
    }

    /// Replaces the states, one per chain, and sets all weights to 1. The random streams stay.
    pub(crate) fn replace_states(&mut self, states: Vec<P::State>) {
        let mut states = states.into_iter();
        for population in &mut self.blocks {
            let chains = population.block().len();
            let states = states.by_ref().take(chains).collect();
            population.block_mut().replace_states(states);
        }
    }

    pub(crate) fn path(&self) -> &P {
        &self.path
    }

    pub(crate) fn beta(&self) -> f64 {
        self.blocks[0].stage().beta
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block<P::State>> {
        self.blocks.iter().map(Population::block)
    }

    pub(crate) fn chains(&self) -> usize {
        self.blocks().map(Block::len).sum()
    }

    pub(crate) fn alive(&self) -> usize {
        self.blocks().map(|block| block.alive().count()).sum()
    }

    pub(crate) fn weights(&self) -> WeightSums {
        WeightSums::of(self.log_weights())
    }

    fn log_weights(&self) -> Vec<f64> {
        let blocks = self.blocks().map(Block::log_weights);
        blocks.collect::<Vec<_>>().concat()
    }

    pub(crate) fn decisions(&self) -> Decisions {
        let mut decisions = Decisions::default();
        self.blocks()
            .for_each(|block| decisions += block.decisions());
        decisions
    }

    /// Resamples the living chains (at least one) across all blocks, with random numbers of the first chain. Chains of
    /// different data are resampled apart, each datum with the stream of its first chain.
    ///
    /// # Errors
    /// A datum without a living chain.
    pub(crate) fn resample(
        &mut self,
        resampling: &Resampling,
        copy: CopyState<P::State>,
        datum_of: Option<DatumOf<P::State>>,
    ) -> Result<()> {
        let (log_weights, places) = (self.log_weights(), self.places());
        let datum_of = |state: &P::State| datum_of.map_or(0, |datum_of| datum_of(state));
        let data: Vec<usize> = self
            .blocks()
            .flat_map(Block::states)
            .map(datum_of)
            .collect();
        let mut first = 0;
        for mine in data.chunk_by(|one, other| one == other) {
            let of_datum = &log_weights[first..first + mine.len()];
            check_alive(of_datum, mine[0])?;
            let (block, chain) = places[first];
            let rng = self.blocks[block].block_mut().rng_mut(chain);
            let ancestors = resampling.ancestors(of_datum, rng);
            // An ancestor keeps its place, so that none is overwritten before it is copied.
            for (chain, &ancestor) in ancestors.iter().enumerate() {
                if ancestor != chain {
                    self.copy(places[first + ancestor], places[first + chain], copy);
                }
            }
            first += mine.len();
        }
        let log_mean = log_mean_exp(&log_weights);
        for population in &mut self.blocks {
            population.block_mut().level_weights_to(log_mean);
        }
        Ok(())
    }

    fn places(&self) -> Vec<(usize, usize)> {
        let blocks = self.blocks().map(Block::len).enumerate();
        blocks
            .flat_map(|(block, chains)| (0..chains).map(move |chain| (block, chain)))
            .collect()
    }

    fn copy(&mut self, from: (usize, usize), to: (usize, usize), copy: fn(&P::State) -> P::State) {
        let copied = self.blocks[from.0].block().copy_of(from.1, copy);
        self.blocks[to.0].block_mut().set(to.1, copied);
    }
}

/// A function that returns the index of a state's datum.
pub(crate) type DatumOf<S> = fn(&S) -> usize;

/// Refuses a datum whose chains all have weight zero.
pub(crate) fn check_alive(log_weights: &[f64], datum: usize) -> Result<()> {
    let alive = log_weights.iter().any(|&x| x > f64::NEG_INFINITY);
    let found = format!("likelihood 0 at all chains of datum {datum}");
    let expected = "a likelihood above 0 where the prior has mass";
    Error::check(alive, "data", found, expected)
}

fn ranges(chains: Range<usize>, largest: usize) -> impl Iterator<Item = Range<usize>> {
    let (first, chains) = (chains.start, chains.len());
    let blocks = chains.div_ceil(largest) as u64;
    let start = move |block: u64| first + (block * chains as u64 / blocks) as usize;
    (0..blocks).map(move |block| start(block)..start(block + 1))
}

/// Work on an item, given with its index.
type On<'a, T> = dyn Fn(usize, &mut T) -> Result<()> + Sync + 'a;

/// Runs `work` on each item, in parallel if threads of the job's pool are free (`Task::width`). The items have the indices from `first` on. Returns the
/// error of the leftmost item that failed.
fn on_each<T: Send>(items: &mut [T], first: usize, work: &On<'_, T>) -> Result<()> {
    match items {
        [] => Ok(()),
        [item] => work(first, item),
        _ => {
            let half = items.len() / 2;
            let (left, right) = items.split_at_mut(half);
            let (mut of_left, mut of_right) = (Ok(()), Ok(()));
            join(&mut || of_left = on_each(left, first, work), &mut || {
                of_right = on_each(right, first + half, work)
            });
            of_left.and(of_right)
        }
    }
}
