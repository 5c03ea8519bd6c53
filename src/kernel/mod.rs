//! Transition kernels: how a chain moves at a stage, and what the move adds to its log weight.

mod compose;
mod gibbs;
mod hamiltonian;
mod langevin;
mod metropolis;
mod perfect;
mod step_size;
mod tunable;
pub(crate) mod vector;

pub use compose::{Mixture, Repeat, Then};
pub use gibbs::CoordinateGibbs;
pub use hamiltonian::{Hmc, HmcWorkspace, PersistentHmc, PersistentHmcWorkspace};
pub use langevin::{LangevinWorkspace, Mala, UnadjustedLangevin};
pub use metropolis::{
    Metropolis, MetropolisWorkspace, RandomWalk, RandomWalkMetropolis, SymmetricProposal,
};
pub use perfect::PerfectTransitions;
pub use step_size::StepSize;
pub use tunable::Tunable;
pub(crate) use vector::{evaluate, fill_normal, set_len};

use rand::Rng;

use crate::Result;
use crate::chain::{Block, Increment, NonFinite, Stage, Step};
use crate::model::UnnormalizedModel;
use crate::num::Engine;
use crate::path::Intermediate;
use crate::schedule::Schedule;

/// A forward kernel `F_k(x'|x)` paired with a backward kernel `B_k(x|x')`.
///
/// A kernel knows models, not paths: the same kernel runs on a plain model
/// ([`Stage::stationary`]). An author writes [`step`](Self::step); the other methods have
/// defaults that a kernel overrides where it must ([`increment`](Self::increment)) or can be
/// faster ([`advance`](Self::advance), [`step_block`](Self::step_block)).
pub trait TransitionKernel<M: UnnormalizedModel> {
    /// Buffers and per-chain memory (momenta), one value for a block of chains, made by
    /// `default()` and filled on first use; `()` for a kernel that needs none.
    type Workspace: Default + Send;

    /// Moves `state` at `stage.model` in place and reports the correction to the log weight.
    ///
    /// `chain` is the chain's index within its block, for kernels that keep memory per chain.
    ///
    /// # Errors
    /// A NaN or `+inf` met on the way; never a silent rejection.
    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite>;

    /// The whole stage for one chain: weight at the old state, then move.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    fn increment<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Increment, NonFinite>
    where
        M: Intermediate,
    {
        let log_ratio = NonFinite::check_log_density("log ratio", stage.log_ratio(state))?;
        let step = self.step(stage, chain, state, workspace, rng)?;
        Ok(Increment::new(log_ratio, step))
    }

    /// The whole stage for a block of chains, by default one [`increment`](Self::increment)
    /// after another. A chain of weight zero stays where it is.
    ///
    /// # Errors
    /// The first chain's [`Error::NonFinite`].
    fn advance(
        &self,
        stage: &Stage<M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()>
    where
        M: Intermediate,
    {
        advance_each(self, stage, block, workspace)
    }

    /// The move alone for a block of chains, by default one [`step`](Self::step) after another: what
    /// a kernel made of kernels asks of those that do not weigh. A chain of weight zero stays where
    /// it is.
    ///
    /// # Errors
    /// The first chain's [`Error::NonFinite`].
    fn step_block(
        &self,
        stage: &Stage<M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()>
    where
        M: Intermediate,
    {
        step_each(self, stage, block, workspace)
    }

    /// The engine that [`advance`](Self::advance) uses on this model, for the record; `None` for a
    /// kernel that has no choice of one.
    fn engine(&self, _model: &M) -> Option<Engine> {
        None
    }

    /// Refuses a schedule that the kernel cannot follow: one with parameters per stage checks
    /// its length here, before the run.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] that says which length it needs.
    fn check_schedule(&self, _schedule: &Schedule) -> Result<()> {
        Ok(())
    }
}

impl<M: UnnormalizedModel, K: TransitionKernel<M>> TransitionKernel<M> for &K {
    type Workspace = K::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        (**self).step(stage, chain, state, workspace, rng)
    }

    fn increment<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Increment, NonFinite>
    where
        M: Intermediate,
    {
        (**self).increment(stage, chain, state, workspace, rng)
    }

    fn advance(
        &self,
        stage: &Stage<M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()>
    where
        M: Intermediate,
    {
        (**self).advance(stage, block, workspace)
    }

    fn step_block(
        &self,
        stage: &Stage<M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()>
    where
        M: Intermediate,
    {
        (**self).step_block(stage, block, workspace)
    }

    fn engine(&self, model: &M) -> Option<Engine> {
        (**self).engine(model)
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        (**self).check_schedule(schedule)
    }
}

/// One chain of a block after another; those of weight zero stay where they are.
pub(crate) fn advance_each<M, K>(
    kernel: &K,
    stage: &Stage<M>,
    block: &mut Block<M::State>,
    workspace: &mut K::Workspace,
) -> Result<()>
where
    M: Intermediate,
    K: TransitionKernel<M> + ?Sized,
{
    for chain in 0..block.len() {
        if block.is_alive(chain) {
            let (state, rng) = block.chain_mut(chain);
            let increment = kernel.increment(stage, chain, state, workspace, rng);
            block.add(stage, chain, increment)?;
        }
    }
    Ok(())
}

/// One step of each chain of a block; those of weight zero stay where they are.
fn step_each<M, K>(
    kernel: &K,
    stage: &Stage<M>,
    block: &mut Block<M::State>,
    workspace: &mut K::Workspace,
) -> Result<()>
where
    M: Intermediate,
    K: TransitionKernel<M> + ?Sized,
{
    for chain in 0..block.len() {
        if block.is_alive(chain) {
            let (state, rng) = block.chain_mut(chain);
            let step = kernel.step(stage, chain, state, workspace, rng);
            block.add_step(stage, chain, step)?;
        }
    }
    Ok(())
}
