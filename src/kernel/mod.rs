//! Transition kernels: how a chain moves at a stage, and what the move adds to its log weight.
//!
//! ```
//! use annealed::kernel::{NonFinite, Stage, Step};
//! use annealed::path::Intermediate;
//! use annealed::prelude::*;
//! use rand::{Rng, RngExt};
//!
//! /// Proposes the mirror image of a state.
//! #[derive(Clone)]
//! struct Mirror;
//!
//! impl<M: Intermediate<State = DVector<f64>>> TransitionKernel<M> for Mirror {
//!     type Workspace = ();
//!
//!     fn step<R: Rng + ?Sized>(
//!         &self,
//!         stage: Stage<'_, M>,
//!         state: &mut DVector<f64>,
//!         _workspace: &mut (),
//!         rng: &mut R,
//!     ) -> Result<Step, NonFinite> {
//!         let image = -&*state;
//!         let log_ratio = stage.model.log_density(&image) - stage.model.log_density(state);
//!         let acceptance = log_ratio.exp().min(1.0);
//!         if rng.random::<f64>() < acceptance {
//!             *state = image;
//!         }
//!         Ok(Step::metropolis(acceptance))
//!     }
//! }
//!
//! let two = [-2.0, 2.0].map(|mean| Gaussian::isotropic(DVector::from_element(1, mean), 0.3));
//! let [left, right] = two;
//! let path = GeometricPath::new(Gaussian::standard(1)?, GaussianMixture::new([(0.2, left?), (0.8, right?)])?);
//! let kernel = Sequence(RandomWalkMetropolis::new(0.5)?, Mirror);
//! println!("{}", Ais::new(&path, kernel).schedule(Schedule::linear(50)?).run()?);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`RandomWalkMetropolis`], [`Metropolis`] and [`Slice`] need the density. [`LocalMetropolis`] needs its change, and
//! [`Mala`], [`UnadjustedLangevin`] and [`Hmc`] need its gradient. For vectors of bits, `Metropolis(`[`BitFlip`]`)` needs
//! the density, and [`GibbsWithGradients`] its gradient. [`CoordinateGibbs`] needs the full conditionals.
//! [`Sequence`], [`Repeat`], [`Mixture`] and [`Either`] combine kernels. Your own kernel implements
//! [`TransitionKernel::step`]: it moves a chain at a [`Stage`] and reports a [`Step`] or [`NonFinite`]. A [`Block`]
//! holds chains that pass the stages together.

mod bit_flip;
mod block;
mod compose;
mod end_gradients;
mod gibbs;
mod gibbs_with_gradients;
mod gradient_move;
mod hamiltonian;
mod known;
mod langevin;
mod local_metropolis;
mod metropolis;
mod preconditioner;
mod properties;
mod rest;
mod slice;
mod stage;
mod step_size;
mod trajectories;
mod trajectory_faults;
mod vector;
mod weighing;
mod workspace;

pub use bit_flip::BitFlip;
pub use block::Block;
#[cfg(feature = "checkpoint")]
pub(crate) use block::SavedBlock;
pub use compose::{Either, Mixture, Repeat, Sequence};
pub use gibbs::{CoordinateGibbs, PerfectTransitions};
pub use gibbs_with_gradients::GibbsWithGradients;
pub use hamiltonian::Hmc;
pub(crate) use known::KnownOfChain;
pub use langevin::{Mala, UnadjustedLangevin};
pub use local_metropolis::{LocalMetropolis, LocalProposal};
pub use metropolis::{Metropolis, RandomWalkMetropolis, SymmetricProposal};
pub use preconditioner::Preconditioner;
pub use properties::{Invariant, Reversal, Tunable};
pub(crate) use properties::{detailed_balance, own_reversal};
pub(crate) use rest::Rest;
pub use slice::Slice;
pub use stage::{Decisions, Increment, NonFinite, Stage, Step};
pub use step_size::StepSize;
pub(crate) use vector::{advance_vectors, diverges, evaluate, fill_normal, set_len};
pub(crate) use workspace::AnyWorkspace;

use rand::Rng;

use crate::path::Intermediate;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A forward kernel `F_k(x'|x)` paired with a backward kernel `B_k(x|x')`.
///
/// A kernel moves chains at any [`Intermediate`] model, or at a plain model inside of
/// [`Stationary`](crate::path::Stationary). Implement [`step`](Self::step). Override [`advance`](Self::advance) if
/// the kernel computes weight and move together, or moves a whole block faster.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kernel for the models of this path, `{M}`",
    note = "Langevin and Hamiltonian kernels need a gradient of both ends, coordinate Gibbs the full conditionals of every model of the path, block Gibbs an `RbmPath` or a `HarmoniumPath`",
    note = "amortised transitions become a kernel by `given(observation)`"
)]
pub trait TransitionKernel<M: Intermediate> {
    /// Buffers that the chains of a block share, such as `Vec<f64>`; `()` for none. A value that belongs to a chain,
    /// such as a momentum, is part of the state.
    type Workspace: Default + Send + 'static;

    /// Moves one chain at `stage.model` in place and reports the correction to its log weight.
    ///
    /// # Errors
    /// If a NaN or `+inf` occurs. A kernel must not reject it silently.
    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite>;

    /// Takes the active chains of a block through a stage. Adds the path's log ratio at a chain's old state to its log
    /// weight, then moves the chain. At [rest](Stage::is_at_rest) the chains only move.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for the first chain that meets a NaN or `+inf`.
    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        advance_each(self, stage, block, workspace)
    }

    /// Refuses a model that is wrong at these states, for example because its gradient is not the gradient of its
    /// density. Returns the number of evaluations. Pilot runs call this before they move chains. By default it accepts
    /// every model without an evaluation.
    ///
    /// # Errors
    /// [`Error::WrongGradient`].
    fn check_model(&self, _model: &M, _states: &[M::State]) -> Result<usize> {
        Ok(0)
    }

    /// Returns the number of stages that a schedule must have for this kernel; `None`, the default, for any number.
    fn stages(&self) -> Option<usize> {
        None
    }

    /// Returns the number of density evaluations of a chain in a stage, for budgets; by default 1, for the weight.
    /// A value with its gradient counts as one. Draws from full conditionals and the extra evaluation of a chain's first
    /// state are not counted. `dimension` is the base's [state
    /// dimension](crate::model::UnnormalizedModel::state_dimension), or 1 if that is `None`.
    fn evaluations(&self, _dimension: usize) -> usize {
        1
    }
}

/// Writes the methods of a kernel that forwards every call, for models `M`, to another kernel.
macro_rules! forward_kernel {
    ($this:ident => $kernel:expr) => {
        fn step<R: rand::Rng + ?Sized>(
            &$this,
            stage: $crate::kernel::Stage<'_, M>,
            state: &mut M::State,
            workspace: &mut Self::Workspace,
            rng: &mut R,
        ) -> Result<$crate::kernel::Step, $crate::kernel::NonFinite> {
            $kernel.step(stage, state, workspace, rng)
        }

        fn advance(
            &$this,
            stage: $crate::kernel::Stage<'_, M>,
            block: &mut $crate::kernel::Block<M::State>,
            workspace: &mut Self::Workspace,
        ) -> $crate::Result<()> {
            $kernel.advance(stage, block, workspace)
        }

        fn check_model(&$this, model: &M, states: &[M::State]) -> $crate::Result<usize> {
            $kernel.check_model(model, states)
        }

        fn stages(&$this) -> Option<usize> {
            $kernel.stages()
        }

        fn evaluations(&$this, dimension: usize) -> usize {
            $kernel.evaluations(dimension)
        }
    };
}
pub(crate) use forward_kernel;

impl<M: Intermediate, K: TransitionKernel<M>> TransitionKernel<M> for &K {
    type Workspace = K::Workspace;

    forward_kernel! { self => (**self) }
}

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
    block.each(stage, |block, chain| {
        let log_ratio = NonFinite::check_log_density("log ratio", block.log_ratio(stage, chain))?;
        let (state, rng) = block.chain_mut(chain);
        let step = kernel.step(stage, state, workspace, rng)?;
        Ok(Increment::new(log_ratio, step))
    })
}

/// Refuses a schedule whose number of stages is not the `demanded` one. `argument` names the schedule in the error.
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

/// Refuses a kernel that demands a fixed number of stages. Methods that find the schedule themselves call this.
pub(crate) fn refuse_stages(demanded: Option<usize>) -> Result<()> {
    let found = format!("one with parameters for {} stages", demanded.unwrap_or(0));
    let expected = "one that takes any number of stages";
    Error::check(demanded.is_none(), "kernel", found, expected)
}
