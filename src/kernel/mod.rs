//! Transition kernels: how a chain moves at a stage, and what the move adds to its log weight.
//!
//! [`RandomWalkMetropolis`], [`Metropolis`] and [`Slice`] need the density alone, [`LocalMetropolis`]
//! what a change of a part does to it, [`Mala`], [`UnadjustedLangevin`] and [`Hmc`] its gradient,
//! [`CoordinateGibbs`] the conditionals of single coordinates. [`Sequence`], [`Repeat`] and [`Mixture`] make one
//! kernel of several, [`Either`] is one of two that is chosen when the program runs, and [`TemperedTransitions`] take a
//! kernel across modes. A kernel of your own is one method, [`TransitionKernel::step`].
//!
//! A [`Stage`] holds the models at its two ends. A kernel moves a chain at a stage and reports a [`Step`], or that a number
//! was not finite ([`NonFinite`]). A [`Block`] holds chains that pass the stages together: recorders see it, and so do
//! kernels that move many chains at once.

mod block;
mod compose;
mod gibbs;
mod hamiltonian;
mod langevin;
mod leapfrog;
mod local_metropolis;
mod metropolis;
mod preconditioner;
mod properties;
mod slice;
mod stage;
mod step_size;
mod tempered_transitions;
mod trajectories;
mod vector;
mod workspace;

pub use block::Block;
#[cfg(feature = "checkpoint")]
pub(crate) use block::SavedBlock;
pub use compose::{Either, Mixture, Repeat, Sequence};
pub use gibbs::{CoordinateGibbs, PerfectTransitions};
pub use hamiltonian::{Hmc, PersistentHmc};
pub use langevin::{Mala, UnadjustedLangevin};
pub use local_metropolis::{LocalMetropolis, LocalProposal};
pub use metropolis::{Metropolis, RandomWalk, RandomWalkMetropolis, SymmetricProposal};
pub use preconditioner::Preconditioner;
pub(crate) use properties::own_reversal;
pub use properties::{Invariant, Reversal, Tunable};
pub use slice::Slice;
pub use stage::{Decisions, Increment, NonFinite, Stage, Step};
pub use step_size::StepSize;
pub use tempered_transitions::TemperedTransitions;
pub(crate) use vector::{advance_vectors, diverges, evaluate, fill_normal, set_len};
pub use workspace::{PerChain, Scratch, Workspace};

use rand::Rng;

use crate::path::Intermediate;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A forward kernel `F_k(x'|x)` paired with a backward kernel `B_k(x|x')`.
///
/// A kernel knows models, not paths: the same kernel moves chains at any
/// [`Intermediate`] model, and on a plain model inside of
/// [`Stationary`](crate::path::Stationary). An author writes [`step`](Self::step);
/// [`advance`](Self::advance) has a default, to be overridden by a kernel that must compute weight
/// and move together or moves a block of chains faster as a whole.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kernel for the models of this path, `{M}`",
    note = "Langevin and Hamiltonian kernels need a gradient of both ends, coordinate Gibbs the full conditionals of every model of the path, block Gibbs an `RbmPath` or a `HarmoniumPath`",
    note = "amortised transitions become a kernel by `given(observation)`"
)]
pub trait TransitionKernel<M: Intermediate> {
    /// The values that the kernel keeps for a block of chains from one step to the next: `()` for nothing,
    /// [`Scratch`] for buffers, [`PerChain`] for memory that belongs to a chain.
    type Workspace: Workspace;

    /// Moves one chain at `stage.model` in place and reports the correction to its log weight.
    ///
    /// `chain` is the chain's index within its block, for kernels that keep memory of it.
    ///
    /// # Errors
    /// A NaN or `+inf` met on the way; never a silent rejection.
    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite>;

    /// Takes the active chains of a block through a stage: weighs each by the path's log ratio at
    /// its old state, then moves it. At [rest](Stage::is_at_rest) it moves them alone.
    ///
    /// # Errors
    /// The first chain's [`Error::NonFinite`].
    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        advance_each(self, stage, block, workspace)
    }

    /// Refuses a model that is wrong in what the kernel takes from it, as some states show: pilots ask before they
    /// move chains, and do not count the few hundred evaluations that it takes. Langevin and Hamiltonian kernels
    /// refuse a gradient that is not that of the density. Takes all unless the kernel says otherwise.
    ///
    /// # Errors
    /// [`Error::WrongGradient`].
    fn check_model(&self, _model: &M, _states: &[M::State]) -> Result<()> {
        Ok(())
    }

    /// Returns the number of stages that a schedule must have for this kernel, which has parameters of its own
    /// for each; `None` if any number will do.
    fn stages(&self) -> Option<usize> {
        None
    }

    /// Returns the number of evaluations of the density in a stage, the one for the weight included, which
    /// budgets count. A gradient is one more, and a sweep by full conditionals is one. 1 unless the kernel says
    /// otherwise. States have so many coordinates, as far as the base of the path
    /// [knows](crate::model::UnnormalizedModel::state_dimension); 1 is passed where it does not.
    fn evaluations(&self, _dimension: usize) -> usize {
        1
    }
}

impl<M: Intermediate, K: TransitionKernel<M>> TransitionKernel<M> for &K {
    type Workspace = K::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        (**self).step(stage, chain, state, workspace, rng)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        (**self).advance(stage, block, workspace)
    }

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<()> {
        (**self).check_model(model, states)
    }

    fn stages(&self) -> Option<usize> {
        (**self).stages()
    }

    fn evaluations(&self, dimension: usize) -> usize {
        (**self).evaluations(dimension)
    }
}

/// Weighs and moves one active chain of a block after another.
pub(crate) fn advance_each<M, K>(
    kernel: &K,
    stage: Stage<'_, M>,
    block: &mut Block<M::State>,
    workspace: &mut K::Workspace,
) -> Result<()>
where
    M: Intermediate,
    K: TransitionKernel<M> + ?Sized,
{
    block.for_each(stage, |chain, state, rng| {
        let log_ratio = NonFinite::check_log_density("log ratio", stage.log_ratio(state))?;
        let step = kernel.step(stage, chain, state, workspace, rng)?;
        Ok(Increment::new(log_ratio, step))
    })
}

/// Refuses a schedule of another number of stages than the kernel demands. `argument` says whose
/// steps they are.
pub(crate) fn check_stages(
    argument: &'static str,
    demanded: Option<usize>,
    schedule: &Schedule,
) -> Result<()> {
    let Some(stages) = demanded else {
        return Ok(());
    };
    let steps = schedule.stages();
    let expected = format!("{stages}, the number of stages that the kernel has");
    Error::check(steps == stages, argument, steps, expected)
}

/// Refuses a kernel that demands a number of stages where their number is yet to be found.
pub(crate) fn refuse_stages(demanded: Option<usize>) -> Result<()> {
    let found = format!("one with parameters for {} stages", demanded.unwrap_or(0));
    let expected = "one that takes any number of stages";
    Error::check(demanded.is_none(), "kernel", found, expected)
}
