//! One of two kernels, chosen when the program runs.

use rand::Rng;

use super::{Invariant, Reversal, TransitionKernel};
use crate::Result;
use crate::chain::{Block, NonFinite, Stage, Step};
use crate::path::Intermediate;

/// One of two kernels, chosen when the program runs. It moves whole blocks as that kernel does. Three are an `Either`
/// within an `Either`.
///
/// ```
/// use annealed::kernel::Either;
/// use annealed::prelude::*;
///
/// let path = GeometricPath::new(Gaussian::standard(2)?, Gaussian::isotropic(DVector::zeros(2), 0.5)?);
/// for name in ["hmc", "walk"] {
///     let kernel = match name {
///         "hmc" => Either::First(Hmc::new(0.3, 3)?),
///         _ => Either::Second(RandomWalkMetropolis::new(0.5)?),
///     };
///     println!("{name}: {}", Ais::new(&path, kernel).schedule(Schedule::linear(10)?).run()?);
/// }
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Either<A, B> {
    /// The first kernel.
    First(A),
    /// The second one.
    Second(B),
}

use Either::{First, Second};

impl<M, A, B> TransitionKernel<M> for Either<A, B>
where
    M: Intermediate,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        chain: usize,
        state: &mut M::State,
        (first, second): &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        match self {
            First(kernel) => kernel.step(stage, chain, state, first, rng),
            Second(kernel) => kernel.step(stage, chain, state, second, rng),
        }
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        (first, second): &mut Self::Workspace,
    ) -> Result<()> {
        match self {
            First(kernel) => kernel.advance(stage, block, first),
            Second(kernel) => kernel.advance(stage, block, second),
        }
    }

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<()> {
        match self {
            First(kernel) => kernel.check_model(model, states),
            Second(kernel) => kernel.check_model(model, states),
        }
    }

    fn stages(&self) -> Option<usize> {
        match self {
            First(kernel) => kernel.stages(),
            Second(kernel) => kernel.stages(),
        }
    }

    fn evaluations(&self, dimension: usize) -> usize {
        match self {
            First(kernel) => kernel.evaluations(dimension),
            Second(kernel) => kernel.evaluations(dimension),
        }
    }
}

impl<M: Intermediate, A: Invariant<M>, B: Invariant<M>> Invariant<M> for Either<A, B> {}

/// The reversal of the kernel that was chosen.
impl<M: Intermediate, A: Reversal<M>, B: Reversal<M>> Reversal<M> for Either<A, B> {
    type Reversed<'k>
        = Either<A::Reversed<'k>, B::Reversed<'k>>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        match self {
            First(kernel) => First(kernel.reversal()),
            Second(kernel) => Second(kernel.reversal()),
        }
    }
}
