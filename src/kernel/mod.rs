//! Transition kernels: how a chain moves at a stage, and what the move adds to its log weight.

mod adaptive;
mod block_gibbs;
mod compose;
mod gibbs;
mod hamiltonian;
mod langevin;
mod metropolis;
mod perfect;
mod step_size;
mod tune;
pub mod variational;
mod vector;

pub use adaptive::{
    BumpFeatures, DriftModifiedLangevin, DriftModifiedWorkspace, DriftModifier, EnsembleModifier,
    Features, Maximum, ObjectiveTrace, QuadratureModifier, RidgeGibbs, RidgeWorkspace,
    SeparableModifier, ShiftMonitor,
};
pub use block_gibbs::{BlockGibbs, BlockGibbsWorkspace};

pub use compose::{Mixture, Repeat, Then};
pub use gibbs::CoordinateGibbs;
pub use hamiltonian::{Hmc, HmcWorkspace, PersistentHmc, PersistentHmcWorkspace};
pub use langevin::{LangevinWorkspace, Mala, UnadjustedLangevin};
pub use metropolis::{
    Metropolis, MetropolisWorkspace, RandomWalk, RandomWalkMetropolis, SymmetricProposal,
};
pub use perfect::PerfectTransitions;
pub use step_size::StepSize;
pub use tune::{Tunable, tune};

use rand::Rng;

use crate::ais::Block;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model::UnnormalizedModel;
use crate::path::Intermediate;
use crate::schedule::Schedule;

/// From the model that a step leaves to the model that it reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage<M> {
    /// Index k of the stage, 1 to K: from `beta_{k-1}` to `beta_k`.
    pub index: usize,
    /// `beta_k`, for parameters that vary along the path, as a step size.
    pub beta: f64,
    /// The model left, `f_{k-1}`.
    pub previous: M,
    /// The model reached, `f_k`: the one that the kernel works on.
    pub model: M,
}

impl<M: Clone> Stage<M> {
    /// One model at both ends, at `beta = 1`: a kernel run as plain MCMC on that model.
    pub fn stationary(model: M) -> Self {
        Self {
            index: 1,
            beta: 1.0,
            previous: model.clone(),
            model,
        }
    }
}

impl<M: Intermediate> Stage<M> {
    /// Stage `index` from one intermediate model to the next.
    pub fn new(index: usize, previous: M, model: M) -> Self {
        Self {
            index,
            beta: model.beta(),
            previous,
            model,
        }
    }

    /// `log f_k(x) - log f_{k-1}(x)`: the path's part of the log weight.
    pub fn log_ratio(&self, state: &M::State) -> f64 {
        self.model.log_ratio(&self.previous, state)
    }
}

/// What one application of a kernel has to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// `log f_k(x') - log f_k(x) + log B_k(x|x') - log F_k(x'|x)`; 0 where the kernel leaves
    /// `p_k` invariant and B is its reversal.
    pub correction: f64,
    /// Sum over the step's proposals of their acceptance probabilities.
    pub acceptance: f64,
    /// Number of accept-reject decisions in the step; 0 for a kernel that makes none.
    pub proposals: u32,
}

impl Step {
    /// A step of an invariant kernel without accept-reject decisions.
    pub const fn invariant() -> Self {
        Self::corrected(0.0)
    }

    /// A step of a kernel that is not invariant, with its correction.
    pub const fn corrected(correction: f64) -> Self {
        Self {
            correction,
            acceptance: 0.0,
            proposals: 0,
        }
    }

    /// A Metropolis-Hastings step whose proposal had this acceptance probability.
    pub const fn metropolis(acceptance: f64) -> Self {
        Self {
            correction: 0.0,
            acceptance,
            proposals: 1,
        }
    }

    /// This step followed by another at the same model: corrections and counts add.
    pub fn then(self, next: Self) -> Self {
        Self {
            correction: self.correction + next.correction,
            acceptance: self.acceptance + next.acceptance,
            proposals: self.proposals + next.proposals,
        }
    }
}

/// What one stage does to one chain: the path's part and the kernel's part of the log weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increment {
    /// `log f_k(x) - log f_{k-1}(x)` at the state before the move.
    pub log_ratio: f64,
    /// What is added to the log weight: `log_ratio + step.correction`, unless the kernel had to
    /// compute the whole at once (a support that shrinks makes it `-inf + inf`).
    pub log_weight: f64,
    /// What the kernel reported.
    pub step: Step,
}

impl Increment {
    /// The path's part and the kernel's correction, added.
    pub fn new(log_ratio: f64, step: Step) -> Self {
        Self {
            log_ratio,
            log_weight: log_ratio + step.correction,
            step,
        }
    }
}

/// A NaN or an infinity that a kernel met; the runner adds chain, stage and beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonFinite {
    /// What was being computed, as "log density of the proposal".
    pub quantity: &'static str,
    /// The value found.
    pub value: f64,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl NonFinite {
    /// Passes a log density on unless it is NaN or `+inf`.
    #[inline]
    pub fn check_log_density(quantity: &'static str, value: f64) -> Result<f64, Self> {
        if value < f64::INFINITY {
            Ok(value)
        } else {
            Err(Self {
                quantity,
                value,
                expected: "a number below +inf",
            })
        }
    }
}

impl NonFinite {
    /// The error that says where it was met.
    pub(crate) fn at(self, chain: usize, stage: usize, beta: f64) -> Error {
        Error::NonFinite {
            quantity: self.quantity,
            value: self.value,
            expected: self.expected,
            chain,
            stage,
            beta,
        }
    }
}

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
