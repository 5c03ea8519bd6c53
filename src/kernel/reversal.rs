//! Kernels whose reversal is known.

use super::TransitionKernel;
use crate::path::Intermediate;

/// A kernel that hands out its reversal, with which a run reads the path backward
/// ([`Ais::reverse`](crate::ais::Ais::reverse)).
///
/// The reversal of a kernel `F_k(x'|x)` with backward kernel `B_k(x|x')` moves by `B_k`, and `F_k` is its
/// backward kernel. For a kernel that leaves `p_k` invariant it is the time reversal,
/// `B_k(x|x') = p_k(x) F_k(x'|x) / p_k(x')`. A Metropolis kernel is its own reversal; that of a scan over
/// coordinates visits them in the opposite order. No kernel is assumed to be its own: for a kernel of
/// yours write
///
/// ```
/// # use annealed::chain::{NonFinite, Stage, Step};
/// # use annealed::kernel::{Reversal, TransitionKernel};
/// # use annealed::path::Intermediate;
/// # use rand::Rng;
/// # struct Mine;
/// # impl<M: Intermediate> TransitionKernel<M> for Mine {
/// #     type Workspace = ();
/// #     fn step<R: Rng + ?Sized>(
/// #         &self, _: Stage<'_, M>, _: usize, _: &mut M::State, _: &mut (), _: &mut R,
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
    note = "a path is read backward by kernels that implement `Reversal`: Metropolis, MALA, HMC, unadjusted Langevin, Gibbs, and what `Then`, `Repeat` and `Mixture` make of them"
)]
pub trait Reversal<M: Intermediate>: TransitionKernel<M> {
    /// The reversal: `&'k Self` for a kernel that is its own.
    type Reversed<'k>: TransitionKernel<M>
    where
        Self: 'k;

    /// The kernel that moves by `B_k` and has `F_k` as its backward kernel.
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

/// Says that a kernel is its own reversal.
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
