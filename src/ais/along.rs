//! A path and the kernel that moves chains along it, their types forgotten.

use std::ops::Range;
use std::sync::Arc;

use super::recorder::Recorder;
use crate::Result;
use crate::kernel::{Block, TransitionKernel};
use crate::model::UnnormalizedModel;
use crate::path::{AnnealingPath, dimension};
use crate::population::{Chains, CopyState, Population};
use crate::random::StreamRng;
use crate::work::Place;
#[cfg(feature = "checkpoint")]
use crate::{
    kernel::{SavedBlock, Workspace},
    work::store::{decode, encode},
};

/// What moves the chains of a run: a path and a kernel whose types are forgotten, so that the rest of a run is compiled
/// once a type of states `S` and of recorders `R`.
pub(crate) trait Annealing<'t, S, R>: Send + Sync {
    /// Starts chains at exact samples of the base; the first has the stream `first`, each further one that after.
    fn start(
        self: Arc<Self>,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Box<dyn Watched<S, R> + 't>>;

    /// Starts chains at states that stand at the target.
    fn start_at_target(
        self: Arc<Self>,
        first_chain: usize,
        states: Vec<S>,
        rngs: Vec<StreamRng>,
    ) -> Result<Box<dyn Watched<S, R> + 't>>;

    /// Reads chains that were saved at the stage of this index and beta.
    #[cfg(feature = "checkpoint")]
    fn restore(
        self: Arc<Self>,
        stage: (usize, f64),
        chains: &Range<usize>,
        saved: SavedChains<S>,
    ) -> Result<Box<dyn Watched<S, R> + 't>>;

    /// Gives a recorder that was read from a checkpoint what serde does not write.
    #[cfg(feature = "checkpoint")]
    fn resume(&self, recorder: &mut R, new: &R);

    /// Returns the number of stages that the kernel demands.
    fn stages(&self) -> Option<usize>;

    /// Returns the evaluations of the density by a chain at a stage, as the kernel counts them.
    fn evaluations(&self) -> u64;

    /// Returns the path's lower bound on log Z from these states, as
    /// [`AnnealingPath::lower_bound`].
    fn lower_bound(&self, states: &[&S], chain_steps: u64) -> Option<f64>;

    /// Returns the log density of the base.
    fn base_log_density(&self, state: &S) -> f64;

    /// Returns the log density of each state under the model at `beta`.
    fn log_densities(&self, beta: f64, states: &[S]) -> Vec<f64>;
}

/// Chains of a run, which a recorder can watch.
pub(crate) trait Watched<S, R>: Chains<S> {
    /// Shows the chains and their last stage to a recorder.
    fn show(&self, recorder: &mut R);

    /// Writes what the kernel keeps of the chains.
    #[cfg(feature = "checkpoint")]
    fn memories(&self) -> Result<Vec<u8>>;
}

/// The block of chains, and what a kernel keeps of them as bytes.
#[cfg(feature = "checkpoint")]
pub(crate) type SavedChains<S> = (SavedBlock<S>, Vec<u8>);

/// A path and a kernel.
pub(crate) struct Along<'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> {
    path: &'p P,
    kernel: K,
    #[cfg(feature = "checkpoint")]
    memories: Option<Memories<K::Workspace>>,
}

/// How the memories of a workspace's first chains are written and read.
#[cfg(feature = "checkpoint")]
struct Memories<W: Workspace> {
    write: fn(&[W::Memory]) -> Result<Vec<u8>>,
    read: fn(&[u8]) -> Result<Vec<W::Memory>>,
}

impl<'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> Along<'p, P, K> {
    /// Keeps memories to itself.
    pub(crate) fn new(path: &'p P, kernel: K) -> Self {
        Self {
            path,
            kernel,
            #[cfg(feature = "checkpoint")]
            memories: None,
        }
    }

    /// Writes and reads memories.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn kept(path: &'p P, kernel: K) -> Self
    where
        <K::Workspace as Workspace>::Memory: serde::Serialize + serde::de::DeserializeOwned,
    {
        let memories = Some(Memories {
            write: |memories| encode("memories of the kernel", &memories),
            read: |bytes| decode("memories of the kernel", bytes),
        });
        Self {
            path,
            kernel,
            memories,
        }
    }

    fn moves<'t, R>(
        self: Arc<Self>,
        population: Population<'p, P, K::Workspace>,
    ) -> Box<dyn Watched<P::State, R> + 't>
    where
        Self: 't,
        R: Recorder<P::At<'p>>,
    {
        Box::new(Moved {
            population,
            along: self,
        })
    }
}

/// Returns the evaluations of the density by a chain at a stage, as a kernel counts them.
pub(crate) fn evaluations<'p, P: AnnealingPath>(
    path: &'p P,
    kernel: &impl TransitionKernel<P::At<'p>>,
) -> u64 {
    kernel.evaluations(dimension(path)).max(1) as u64
}

impl<'t, 'p: 't, P, K, R> Annealing<'t, P::State, R> for Along<'p, P, K>
where
    P: AnnealingPath + Sync,
    K: TransitionKernel<P::At<'p>> + Send + Sync + 't,
    R: Recorder<P::At<'p>>,
{
    fn start(
        self: Arc<Self>,
        chains: Range<usize>,
        first: StreamRng,
    ) -> Result<Box<dyn Watched<P::State, R> + 't>> {
        let population = Population::start(self.path, chains.start, chains.len(), first)?;
        Ok(self.moves(population))
    }

    fn start_at_target(
        self: Arc<Self>,
        first_chain: usize,
        states: Vec<P::State>,
        rngs: Vec<StreamRng>,
    ) -> Result<Box<dyn Watched<P::State, R> + 't>> {
        let population = Population::from_states(self.path, 1.0, first_chain, states, rngs)?;
        Ok(self.moves(population))
    }

    #[cfg(feature = "checkpoint")]
    fn restore(
        self: Arc<Self>,
        (stage, beta): (usize, f64),
        chains: &Range<usize>,
        (block, memories): SavedChains<P::State>,
    ) -> Result<Box<dyn Watched<P::State, R> + 't>> {
        let memories = match &self.memories {
            Some(kept) => (kept.read)(&memories)?,
            None => Vec::new(),
        };
        let population = Population::restored(self.path, beta, chains, (block, memories))?;
        Ok(self.moves(population.at_stage(stage)))
    }

    #[cfg(feature = "checkpoint")]
    fn resume(&self, recorder: &mut R, new: &R) {
        recorder.resume_as(new);
    }

    fn stages(&self) -> Option<usize> {
        self.kernel.stages()
    }

    fn evaluations(&self) -> u64 {
        evaluations(self.path, &self.kernel)
    }

    fn lower_bound(&self, states: &[&P::State], chain_steps: u64) -> Option<f64> {
        self.path.lower_bound(states, chain_steps)
    }

    fn base_log_density(&self, state: &P::State) -> f64 {
        self.path.base().log_density(state)
    }

    fn log_densities(&self, beta: f64, states: &[P::State]) -> Vec<f64> {
        let model = self.path.at(beta);
        states.iter().map(|x| model.log_density(x)).collect()
    }
}

/// A population, and what moves it.
struct Moved<'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> {
    population: Population<'p, P, K::Workspace>,
    along: Arc<Along<'p, P, K>>,
}

impl<'p, P: AnnealingPath, K: TransitionKernel<P::At<'p>>> Chains<P::State> for Moved<'p, P, K> {
    fn block(&self) -> &Block<P::State> {
        self.population.block()
    }

    fn block_mut(&mut self) -> &mut Block<P::State> {
        self.population.block_mut()
    }

    fn advance_to(&mut self, beta: f64) -> Result<()> {
        self.population.advance_to(&self.along.kernel, beta)
    }

    fn weigh_to(&mut self, beta: f64) -> Result<()> {
        self.population.weigh_to(beta)
    }

    fn stay(&mut self) -> Result<()> {
        self.population.stay(&self.along.kernel)
    }

    fn stay_masked(&mut self, mask: &mut Vec<bool>) -> Result<()> {
        self.population.stay_masked(&self.along.kernel, mask)
    }

    fn copy_chain(&mut self, from: usize, to: usize, copy: CopyState<P::State>) {
        self.population.copy_chain(from, to, copy);
    }

    fn gather(&mut self, ancestors: &[usize], copy: CopyState<P::State>) {
        self.population.gather(ancestors, copy);
    }

    fn place(&self) -> Place {
        self.population.place_at_hand()
    }
}

impl<'p, P, K, R> Watched<P::State, R> for Moved<'p, P, K>
where
    P: AnnealingPath,
    K: TransitionKernel<P::At<'p>>,
    R: Recorder<P::At<'p>>,
{
    fn show(&self, recorder: &mut R) {
        recorder.record(self.population.stage(), self.population.block());
    }

    #[cfg(feature = "checkpoint")]
    fn memories(&self) -> Result<Vec<u8>> {
        let Some(kept) = &self.along.memories else {
            return Ok(Vec::new());
        };
        (kept.write)(&Vec::from_iter(self.population.memories()))
    }
}
