//! Kernels made of kernels: one after another, repeated, or chosen at random.

use std::num::NonZeroUsize;

use rand::{Rng, RngExt};

use crate::chain::Block;
use crate::chain::{Increment, NonFinite, Stage, Step};
use crate::kernel::TransitionKernel;
use crate::model::UnnormalizedModel;
use crate::num::Engine;
use crate::path::Intermediate;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// Kernel A, then kernel B, at the same model. Corrections add.
///
/// Only A sees the path's log ratio; B is a step at the model reached. A chain whose weight A
/// brought to 0 is not moved further. The chains of a block make A's move before any makes B's, so
/// that kernels which move blocks as a whole still do. More than two kernels nest: `Then(Then(a, b), c)`.
///
/// ```
/// use annealed::kernel::{CoordinateGibbs, Hmc, Then};
///
/// let kernel = Then(Hmc::new(0.2, 5)?, CoordinateGibbs::systematic());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Then<A, B>(pub A, pub B);

/// The same kernel several times a stage. Corrections add.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Repeat<K> {
    kernel: K,
    times: NonZeroUsize,
}

/// Kernel A with probability q, otherwise kernel B.
///
/// The choice belongs to the extended space: it does not depend on the state, and the backward
/// kernel makes the same one, so that q cancels and the correction is that of the kernel chosen.
/// Each chain makes its own, so that no block moves as a whole (block Gibbs of an RBM is slower).
/// More than two kernels nest.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Mixture<A, B> {
    probability: f64,
    first: A,
    second: B,
}

impl<K> Repeat<K> {
    /// The kernel applied `times` times.
    ///
    /// # Errors
    /// Where `times` is 0.
    pub fn new(kernel: K, times: usize) -> Result<Self> {
        let times = Error::check_nonzero("times", times)?;
        Ok(Self { kernel, times })
    }
}

impl<A, B> Mixture<A, B> {
    /// `first` with this probability, otherwise `second`.
    ///
    /// # Errors
    /// Where the probability lies outside of `[0, 1]`.
    pub fn new(probability: f64, first: A, second: B) -> Result<Self> {
        Error::check_fraction("probability", probability)?;
        Ok(Self {
            probability,
            first,
            second,
        })
    }
}

impl<M, A, B> TransitionKernel<M> for Then<A, B>
where
    M: UnnormalizedModel,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let first = self.0.step(stage, chain, state, &mut workspace.0, rng)?;
        if first.correction == f64::NEG_INFINITY {
            return Ok(first);
        }
        let second = self.1.step(stage, chain, state, &mut workspace.1, rng)?;
        Ok(first.then(second))
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
        let first = self
            .0
            .increment(stage, chain, state, &mut workspace.0, rng)?;
        if first.log_weight == f64::NEG_INFINITY {
            return Ok(first);
        }
        let second = self.1.step(stage, chain, state, &mut workspace.1, rng)?;
        Ok(followed_by(first, second))
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
        self.0.advance(stage, block, &mut workspace.0)?;
        self.1.step_block(stage, block, &mut workspace.1)
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
        self.0.step_block(stage, block, &mut workspace.0)?;
        self.1.step_block(stage, block, &mut workspace.1)
    }

    fn engine(&self, model: &M) -> Option<Engine> {
        self.0.engine(model).or_else(|| self.1.engine(model))
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        self.0.check_schedule(schedule)?;
        self.1.check_schedule(schedule)
    }
}

impl<M: UnnormalizedModel, K: TransitionKernel<M>> TransitionKernel<M> for Repeat<K> {
    type Workspace = K::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let mut total = self.kernel.step(stage, chain, state, workspace, rng)?;
        for _ in 1..self.times.get() {
            if total.correction == f64::NEG_INFINITY {
                break;
            }
            total = total.then(self.kernel.step(stage, chain, state, workspace, rng)?);
        }
        Ok(total)
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
        let mut total = self.kernel.increment(stage, chain, state, workspace, rng)?;
        for _ in 1..self.times.get() {
            if total.log_weight == f64::NEG_INFINITY {
                break;
            }
            let step = self.kernel.step(stage, chain, state, workspace, rng)?;
            total = followed_by(total, step);
        }
        Ok(total)
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
        self.kernel.advance(stage, block, workspace)?;
        for _ in 1..self.times.get() {
            self.kernel.step_block(stage, block, workspace)?;
        }
        Ok(())
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
        for _ in 0..self.times.get() {
            self.kernel.step_block(stage, block, workspace)?;
        }
        Ok(())
    }

    fn engine(&self, model: &M) -> Option<Engine> {
        self.kernel.engine(model)
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        self.kernel.check_schedule(schedule)
    }
}

impl<M, A, B> TransitionKernel<M> for Mixture<A, B>
where
    M: UnnormalizedModel,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: &Stage<M>,
        chain: usize,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        if rng.random::<f64>() < self.probability {
            self.first.step(stage, chain, state, &mut workspace.0, rng)
        } else {
            self.second.step(stage, chain, state, &mut workspace.1, rng)
        }
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
        if rng.random::<f64>() < self.probability {
            self.first
                .increment(stage, chain, state, &mut workspace.0, rng)
        } else {
            self.second
                .increment(stage, chain, state, &mut workspace.1, rng)
        }
    }

    fn check_schedule(&self, schedule: &Schedule) -> Result<()> {
        self.first.check_schedule(schedule)?;
        self.second.check_schedule(schedule)
    }
}

/// A stage's increment, extended by one more step at the model reached.
fn followed_by(increment: Increment, step: Step) -> Increment {
    Increment {
        log_ratio: increment.log_ratio,
        log_weight: increment.log_weight + step.correction,
        step: increment.step.then(step),
    }
}

crate::num::deserialize_checked! {
    Mixture<A, B> { probability: f64, first: A, second: B } =>
        Self::new(probability, first, second)
}
