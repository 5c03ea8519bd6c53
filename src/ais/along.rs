//! A path and a kernel behind one trait object, `Annealing`.

use std::sync::Arc;

use super::recorder::Recorder;
use crate::Result;
use crate::estimate::Warning;
use crate::kernel::{Block, TransitionKernel};
use crate::model::{UnnormalizedModel, log_densities_of};
use crate::path::{AnnealingPath, dimension};
use crate::population::{Chains, CopyState, Moves, Population, sample_base};
use crate::random::StreamRng;
use crate::work::Place;
#[cfg(feature = "checkpoint")]
use crate::{
    kernel::Workspace,
    work::store::{decode_list, encode},
};

/// A path and a kernel as a trait object. A run is compiled once per type of states `S` and recorders `R`.
pub(crate) trait Annealing<'t, S, R>: Send + Sync {
    /// Draws exact samples of the base, one for each stream.
    fn sample(&self, first_chain: usize, rngs: &mut [StreamRng]) -> Result<Vec<S>>;

    /// Places a block of chains at a stage, given as index and beta.
    fn place(
        self: Arc<Self>,
        stage: (usize, f64),
        block: Block<S>,
    ) -> Result<Box<dyn Watched<S, R> + 't>>;

    /// Restores in a recorder read from a checkpoint what serde does not write.
    #[cfg(feature = "checkpoint")]
    fn resume(&self, recorder: &mut R, new: &R);

    fn stages(&self) -> Option<usize>;

    fn evaluations(&self) -> u64;

    /// Returns the path's [`AnnealingPath::doubts`].
    fn doubts(&self, states: &[&S], chain_steps: u64, interval: (f64, f64)) -> Vec<Warning>;

    fn base_log_density(&self, state: &S) -> f64;

    fn log_densities(&self, beta: f64, states: &[S]) -> Vec<f64>;
}

/// Chains of a run that a recorder can watch.
pub(crate) trait Watched<S, R>: Chains<S> {
    fn show(&self, recorder: &mut R);

    /// Writes the kernel's memories of the chains, if they are to be kept.
    #[cfg(feature = "checkpoint")]
    fn memories(&self) -> Result<Vec<u8>>;

    #[cfg(feature = "checkpoint")]
    fn set_memories(&mut self, bytes: &[u8]) -> Result<()>;
}

pub(crate) struct Along<'t, P: AnnealingPath> {
    path: P,
    kernel: Box<dyn Moves<P::At> + Send + Sync + 't>,
    stages: Option<usize>,
    evaluations: u64,
    #[cfg(feature = "checkpoint")]
    memories: Option<Memories<P>>,
}

#[cfg(feature = "checkpoint")]
struct Memories<P: AnnealingPath> {
    write: fn(&Population<P>) -> Result<Vec<u8>>,
    read: fn(&mut Population<P>, &[u8]) -> Result<()>,
}

impl<'t, P: AnnealingPath> Along<'t, P> {
    pub(crate) fn new(path: P, kernel: impl TransitionKernel<P::At> + Send + Sync + 't) -> Self {
        Self {
            stages: kernel.stages(),
            evaluations: evaluations(&path, &kernel),
            path,
            kernel: Box::new(kernel),
            #[cfg(feature = "checkpoint")]
            memories: None,
        }
    }

    /// Creates one that writes and reads memories.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn kept<K>(path: P, kernel: K) -> Self
    where
        K: TransitionKernel<P::At> + Send + Sync + 't,
        <K::Workspace as Workspace>::Memory: serde::Serialize + serde::de::DeserializeOwned,
    {
        let memories = Memories {
            write: |population| {
                encode(
                    "memories of the kernel",
                    &population.memories::<K::Workspace>(),
                )
            },
            read: |population, bytes| {
                let chains = population.block().len();
                let memories = decode_list("memories of the kernel", bytes, chains)?;
                population.set_memories::<K::Workspace>(memories);
                Ok(())
            },
        };
        Self {
            memories: Some(memories),
            ..Self::new(path, kernel)
        }
    }
}

/// Returns the density evaluations per chain and stage that the kernel counts, at least 1.
pub(crate) fn evaluations<P: AnnealingPath>(
    path: &P,
    kernel: &impl TransitionKernel<P::At>,
) -> u64 {
    kernel.evaluations(dimension(path)).max(1) as u64
}

impl<'t, P, R> Annealing<'t, P::State, R> for Along<'t, P>
where
    P: AnnealingPath + Send + Sync + 't,
    R: Recorder<P::At>,
{
    fn sample(&self, first_chain: usize, rngs: &mut [StreamRng]) -> Result<Vec<P::State>> {
        sample_base(&self.path, first_chain, rngs)
    }

    fn place(
        self: Arc<Self>,
        (stage, beta): (usize, f64),
        block: Block<P::State>,
    ) -> Result<Box<dyn Watched<P::State, R> + 't>> {
        let population = Population::from_block(self.path.clone(), beta, block)?.at_stage(stage);
        Ok(Box::new(Moved {
            population,
            along: self,
        }))
    }

    #[cfg(feature = "checkpoint")]
    fn resume(&self, recorder: &mut R, new: &R) {
        recorder.resume_as(new);
    }

    fn stages(&self) -> Option<usize> {
        self.stages
    }

    fn evaluations(&self) -> u64 {
        self.evaluations
    }

    fn doubts(&self, states: &[&P::State], chain_steps: u64, interval: (f64, f64)) -> Vec<Warning> {
        self.path.doubts(states, chain_steps, interval)
    }

    fn base_log_density(&self, state: &P::State) -> f64 {
        self.path.base().log_density(state)
    }

    fn log_densities(&self, beta: f64, states: &[P::State]) -> Vec<f64> {
        log_densities_of(&self.path.at(beta), states)
    }
}

struct Moved<'t, P: AnnealingPath> {
    population: Population<P>,
    along: Arc<Along<'t, P>>,
}

impl<P: AnnealingPath> Chains<P::State> for Moved<'_, P> {
    fn block(&self) -> &Block<P::State> {
        self.population.block()
    }

    fn block_mut(&mut self) -> &mut Block<P::State> {
        self.population.block_mut()
    }

    fn advance_to(&mut self, beta: f64) -> Result<()> {
        self.population.advance_by(self.along.kernel.as_ref(), beta)
    }

    fn weigh_to(&mut self, beta: f64) -> Result<()> {
        self.population.weigh_to(beta)
    }

    fn stay(&mut self) -> Result<()> {
        self.population.stay_by(self.along.kernel.as_ref())
    }

    fn stay_masked(&mut self, mask: &mut Vec<bool>) -> Result<()> {
        self.population
            .stay_masked(self.along.kernel.as_ref(), mask)
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

impl<P: AnnealingPath, R: Recorder<P::At>> Watched<P::State, R> for Moved<'_, P> {
    fn show(&self, recorder: &mut R) {
        recorder.record(self.population.stage(), self.population.block());
    }

    #[cfg(feature = "checkpoint")]
    fn memories(&self) -> Result<Vec<u8>> {
        let kept = self.along.memories.as_ref();
        kept.map_or(Ok(Vec::new()), |kept| (kept.write)(&self.population))
    }

    #[cfg(feature = "checkpoint")]
    fn set_memories(&mut self, bytes: &[u8]) -> Result<()> {
        let kept = self.along.memories.as_ref();
        kept.map_or(Ok(()), |kept| (kept.read)(&mut self.population, bytes))
    }
}
