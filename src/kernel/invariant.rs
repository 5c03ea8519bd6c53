//! Kernels that leave the model at hand invariant.

use super::TransitionKernel;
use crate::path::Intermediate;

/// Says that a kernel leaves `p_k` invariant: a chain distributed as `p_k` is so after a move, and every
/// correction is 0.
///
/// Methods that move a chain several times at one model need it: waste-free sequential Monte Carlo, tempering
/// and tempered transitions. Annealed runs do not, since a correction keeps their weights unbiased. Nothing
/// can tell a kernel that says so wrongly: check yours by [`testing::unbiasedness`](crate::testing::unbiasedness)
/// at a few stages. A kernel of yours says so by
///
/// ```
/// # use annealed::chain::{NonFinite, Stage, Step};
/// # use annealed::kernel::{Invariant, TransitionKernel};
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
/// impl<M: Intermediate> Invariant<M> for Mine {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to leave the models of this path invariant",
    note = "Metropolis, MALA, HMC and Gibbs kernels do, and what `Then`, `Repeat` and `Mixture` make of them; unadjusted Langevin, drift-modified and learned kernels do not",
    note = "a kernel of yours says so by `impl<M: Intermediate> Invariant<M> for ..`"
)]
pub trait Invariant<M: Intermediate>: TransitionKernel<M> {}

impl<M: Intermediate, K: Invariant<M>> Invariant<M> for &K {}
