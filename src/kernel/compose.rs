//! Kernels made of kernels: a sequence, a repetition, a random mixture, or one of two chosen at run time.

use std::num::NonZeroUsize;

use Either::{First, Second};
use rand::{Rng, RngExt};

use super::{Invariant, Reversal, TransitionKernel};
use crate::kernel::{Block, NonFinite, Stage, Step};
use crate::path::Intermediate;
use crate::{Error, Result};

/// Kernel A followed by kernel B at the same model. The correction is the sum of both corrections.
///
/// The path's log ratio is added once, before A's move. If A brings a chain's weight to 0, B does not move the chain.
/// A moves all chains of a block before B moves any. For more kernels nest them: `Sequence(Sequence(a, b), c)`.
///
/// ```
/// use annealed::kernel::{CoordinateGibbs, Hmc, Sequence};
///
/// let kernel = Sequence(Hmc::new(0.2, 5)?, CoordinateGibbs::systematic());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sequence<A, B>(pub A, pub B);

/// A kernel that is applied several times at each stage. The correction is the sum over the repetitions.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Repeat<K> {
    kernel: K,
    times: NonZeroUsize,
}

/// A random choice at each stage: kernel A with probability q, otherwise kernel B.
///
/// Each chain chooses independently of its state, and the backward kernel makes the same choice. So q cancels, and
/// the correction is the chosen kernel's. Chains with the same choice move together. For more kernels nest mixtures.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Mixture<A, B> {
    probability: f64,
    first: A,
    second: B,
}

impl<K> Repeat<K> {
    /// Creates a kernel that applies `kernel` `times` times.
    ///
    /// # Errors
    /// If `times` is 0.
    pub fn new(kernel: K, times: usize) -> Result<Self> {
        let times = Error::check_nonzero("times", times)?;
        Ok(Self { kernel, times })
    }
}

impl<A, B> Mixture<A, B> {
    /// Creates a kernel that applies `first` with this `probability`, otherwise `second`.
    ///
    /// # Errors
    /// If `probability` lies outside of `[0, 1]`.
    pub fn new(probability: f64, first: A, second: B) -> Result<Self> {
        Error::check_fraction("probability", probability)?;
        Ok(Self {
            probability,
            first,
            second,
        })
    }

    fn chooses_first<R: Rng + ?Sized>(&self, rng: &mut R) -> bool {
        rng.random::<f64>() < self.probability
    }
}

impl<M, A, B> TransitionKernel<M> for Sequence<A, B>
where
    M: Intermediate,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let first = self.0.step(stage, state, &mut workspace.0, rng)?;
        if first.correction == f64::NEG_INFINITY {
            return Ok(first);
        }
        let stage = stage.rest();
        let second = self.1.step(stage, state, &mut workspace.1, rng)?;
        Ok(first.then(second))
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        self.0.advance(stage, block, &mut workspace.0)?;
        self.1.advance(stage.rest(), block, &mut workspace.1)
    }

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<usize> {
        Ok(self.0.check_model(model, states)? + self.1.check_model(model, states)?)
    }

    fn stages(&self) -> Option<usize> {
        self.0.stages().max(self.1.stages())
    }

    fn evaluations(&self, dimension: usize) -> usize {
        self.0
            .evaluations(dimension)
            .saturating_add(self.1.evaluations(dimension))
    }
}

impl<M: Intermediate, K: TransitionKernel<M>> TransitionKernel<M> for Repeat<K> {
    type Workspace = K::Workspace;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let mut total = self.kernel.step(stage, state, workspace, rng)?;
        for _ in 1..self.times.get() {
            if total.correction == f64::NEG_INFINITY {
                break;
            }
            let next = self.kernel.step(stage.rest(), state, workspace, rng)?;
            total = total.then(next);
        }
        Ok(total)
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        workspace: &mut Self::Workspace,
    ) -> Result<()> {
        self.kernel.advance(stage, block, workspace)?;
        for _ in 1..self.times.get() {
            self.kernel.advance(stage.rest(), block, workspace)?;
        }
        Ok(())
    }

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<usize> {
        self.kernel.check_model(model, states)
    }

    fn stages(&self) -> Option<usize> {
        self.kernel.stages()
    }

    fn evaluations(&self, dimension: usize) -> usize {
        self.kernel
            .evaluations(dimension)
            .saturating_mul(self.times.get())
    }
}

impl<M, A, B> TransitionKernel<M> for Mixture<A, B>
where
    M: Intermediate,
    A: TransitionKernel<M>,
    B: TransitionKernel<M>,
{
    type Workspace = (A::Workspace, B::Workspace, Vec<bool>);

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut M::State,
        (first, second, _): &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        if self.chooses_first(rng) {
            self.first.step(stage, state, first, rng)
        } else {
            self.second.step(stage, state, second, rng)
        }
    }

    fn advance(
        &self,
        stage: Stage<'_, M>,
        block: &mut Block<M::State>,
        (first, second, chosen): &mut Self::Workspace,
    ) -> Result<()> {
        chosen.clear();
        for chain in 0..block.len() {
            let chooses = block.is_active(chain) && self.chooses_first(block.rng_mut(chain));
            chosen.push(chooses);
        }
        block.masked(chosen, |block| self.first.advance(stage, block, first))?;
        // The entries of inactive chains become true here, but `masked` leaves these chains out.
        chosen.iter_mut().for_each(|chosen| *chosen = !*chosen);
        block.masked(chosen, |block| self.second.advance(stage, block, second))
    }

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<usize> {
        Ok(self.first.check_model(model, states)? + self.second.check_model(model, states)?)
    }

    fn stages(&self) -> Option<usize> {
        self.first.stages().max(self.second.stages())
    }

    fn evaluations(&self, dimension: usize) -> usize {
        self.first
            .evaluations(dimension)
            .max(self.second.evaluations(dimension))
    }
}

impl<M: Intermediate, A: Invariant<M>, B: Invariant<M>> Invariant<M> for Sequence<A, B> {}
impl<M: Intermediate, K: Invariant<M>> Invariant<M> for Repeat<K> {}
impl<M: Intermediate, A: Invariant<M>, B: Invariant<M>> Invariant<M> for Mixture<A, B> {}

/// The reversal of B followed by the reversal of A.
impl<M: Intermediate, A: Reversal<M>, B: Reversal<M>> Reversal<M> for Sequence<A, B> {
    type Reversed<'k>
        = Sequence<B::Reversed<'k>, A::Reversed<'k>>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        Sequence(self.1.reversal(), self.0.reversal())
    }
}

impl<M: Intermediate, K: Reversal<M>> Reversal<M> for Repeat<K> {
    type Reversed<'k>
        = Repeat<K::Reversed<'k>>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        Repeat {
            kernel: self.kernel.reversal(),
            times: self.times,
        }
    }
}

/// The mixture of the reversals of A and B, with the same probability.
impl<M: Intermediate, A: Reversal<M>, B: Reversal<M>> Reversal<M> for Mixture<A, B> {
    type Reversed<'k>
        = Mixture<A::Reversed<'k>, B::Reversed<'k>>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        Mixture {
            probability: self.probability,
            first: self.first.reversal(),
            second: self.second.reversal(),
        }
    }
}

crate::num::deserialize_checked! {
    Mixture<A, B> { probability: f64, first: A, second: B } =>
        Self::new(probability, first, second)
}

/// One of two kernels, chosen at run time, which moves whole blocks. For three kernels nest an `Either` in another.
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
    /// The second kernel.
    Second(B),
}

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
        state: &mut M::State,
        (first, second): &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        match self {
            First(kernel) => kernel.step(stage, state, first, rng),
            Second(kernel) => kernel.step(stage, state, second, rng),
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

    fn check_model(&self, model: &M, states: &[M::State]) -> Result<usize> {
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
