//! Properties of kernels: invariant, reversible along the path, tunable.

use super::{Preconditioner, StepSize, TransitionKernel};
use crate::path::Intermediate;

/// A kernel that leaves `p_k` invariant: a chain distributed as `p_k` stays so, and every correction is 0.
///
/// Waste-free sequential Monte Carlo and tempering need it; annealed runs do not. No run
/// checks the claim, and no result shows that it is false. Test your kernel by
/// [`testing::invariances`](crate::testing::invariances) first, then by
/// [`testing::unbiasedness`](crate::testing::unbiasedness). Then write
///
/// ```
/// # use annealed::kernel::{NonFinite, Stage, Step};
/// # use annealed::kernel::{Invariant, TransitionKernel};
/// # use annealed::path::Intermediate;
/// # use rand::Rng;
/// # struct Mine;
/// # impl<M: Intermediate> TransitionKernel<M> for Mine {
/// #     type Workspace = ();
/// #     fn step<R: Rng + ?Sized>(
/// #         &self, _: Stage<'_, M>, _: &mut M::State, _: &mut (), _: &mut R,
/// #     ) -> Result<Step, NonFinite> {
/// #         Ok(Step::invariant())
/// #     }
/// # }
/// impl<M: Intermediate> Invariant<M> for Mine {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to leave the models of this path invariant",
    note = "Metropolis, MALA, HMC and Gibbs kernels do, and what `Sequence`, `Repeat` and `Mixture` make of them; unadjusted Langevin, drift-modified and learned kernels do not",
    note = "a kernel of yours says so by `impl<M: Intermediate> Invariant<M> for ..`"
)]
pub trait Invariant<M: Intermediate>: TransitionKernel<M> {}

impl<M: Intermediate, K: Invariant<M>> Invariant<M> for &K {}

/// A kernel with a known reversal, for runs that take the path backward ([`Ais::reverse`](crate::ais::Ais::reverse)).
///
/// The reversal of a kernel `F_k(x'|x)` with backward kernel `B_k(x|x')` moves by `B_k`, and has `F_k` as its backward
/// kernel. If the kernel leaves `p_k` invariant it is the time reversal, `B_k(x|x') = p_k(x) F_k(x'|x) / p_k(x')`.
/// Metropolis kernels are their own reversal; the reversal of a coordinate scan has the opposite order. If your kernel
/// is its own reversal, write
///
/// ```
/// # use annealed::kernel::{NonFinite, Stage, Step};
/// # use annealed::kernel::{Reversal, TransitionKernel};
/// # use annealed::path::Intermediate;
/// # use rand::Rng;
/// # struct Mine;
/// # impl<M: Intermediate> TransitionKernel<M> for Mine {
/// #     type Workspace = ();
/// #     fn step<R: Rng + ?Sized>(
/// #         &self, _: Stage<'_, M>, _: &mut M::State, _: &mut (), _: &mut R,
/// #     ) -> Result<Step, NonFinite> {
/// #         Ok(Step::invariant())
/// #     }
/// # }
/// impl<M: Intermediate> Reversal<M> for Mine {
///     type Reversed<'k> = &'k Self;
///     fn reversal(&self) -> &Self {
///         self
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the reversal of `{Self}` is not known",
    note = "a path is read backward by kernels that implement `Reversal`: Metropolis, MALA, HMC, unadjusted Langevin, Gibbs, and what `Sequence`, `Repeat` and `Mixture` make of them",
    note = "a kernel that satisfies detailed balance is its own reversal, by `annealed::kernel::Reversal` with the bounds of its `TransitionKernel`:\nimpl<M: Intermediate> Reversal<M> for {Self} {{\n    type Reversed<'k> = &'k Self;\n    fn reversal(&self) -> &Self {{ self }}\n}}"
)]
pub trait Reversal<M: Intermediate>: TransitionKernel<M> {
    /// The type of the reversal: `&'k Self` for a kernel that is its own reversal.
    type Reversed<'k>: TransitionKernel<M>
    where
        Self: 'k;

    /// Returns the kernel that moves by `B_k` and has `F_k` as its backward kernel.
    fn reversal(&self) -> Self::Reversed<'_>;
}

impl<M: Intermediate, K: Reversal<M>> Reversal<M> for &K {
    type Reversed<'k>
        = K::Reversed<'k>
    where
        Self: 'k;

    fn reversal(&self) -> Self::Reversed<'_> {
        (**self).reversal()
    }
}

/// Implements [`Reversal`] for a kernel that is its own reversal.
macro_rules! own_reversal {
    ([$($generics:tt)*] $kernel:ty, $model:ty) => {
        impl<$($generics)*> $crate::kernel::Reversal<$model> for $kernel {
            type Reversed<'k>
                = &'k Self
            where
                Self: 'k;

            fn reversal(&self) -> &Self {
                self
            }
        }
    };
}

pub(crate) use own_reversal;

/// Implements [`Invariant`] and [`Reversal`] for a kernel that satisfies detailed balance.
macro_rules! detailed_balance {
    ([$($generics:tt)*] $kernel:ty, $model:ty) => {
        impl<$($generics)*> $crate::kernel::Invariant<$model> for $kernel {}
        $crate::kernel::own_reversal! { [$($generics)*] $kernel, $model }
    };
}

pub(crate) use detailed_balance;

/// An accept-reject kernel whose step size and [`Preconditioner`] can be replaced. Kernels without an accept-reject
/// test, such as [`UnadjustedLangevin`](crate::kernel::UnadjustedLangevin), have no acceptance to tune by.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no step size to tune",
    note = "a random walk, MALA and HMC have; run any other kernel as it is by `Rounds::fixed`, `FirstPass::fixed` or `Ais::new`"
)]
pub trait Tunable: Sized {
    /// Returns the step size.
    fn step_size(&self) -> &StepSize;

    /// Returns the same kernel with another step size. The preconditioner stays.
    fn with_step_size(&self, step_size: StepSize) -> Self;

    /// Returns the same kernel in the coordinates of a [`Preconditioner`], which replaces an earlier one. The step size
    /// stays, and is now measured in these coordinates. A run with states of another dimension ends in
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch).
    ///
    /// # Panics
    /// If `step` is called directly with a state of another dimension.
    fn preconditioned(&self, preconditioner: Preconditioner) -> Self;

    /// Returns the step size above which a trajectory turns back, for a target that is about standard normal in the
    /// preconditioned coordinates. Infinite by default.
    fn longest_step_size(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns the acceptance at which the kernel mixes best, by theory or by a rule of thumb.
    fn optimal_acceptance(&self) -> f64;
}
