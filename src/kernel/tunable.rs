//! Kernels whose step size and shape can be tuned.

use super::preconditioner::Preconditioner;
use super::step_size::StepSize;

/// An accept-reject kernel whose step size and [`Preconditioner`] can be replaced.
///
/// Kernels without an accept-reject test, such as
/// [`UnadjustedLangevin`](crate::kernel::UnadjustedLangevin), have no acceptance to tune by.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no step size to tune",
    note = "a random walk, MALA and HMC have; run any other kernel as it is by `Rounds::fixed`, `Adaptation::fixed` or `Ais::new`"
)]
pub trait Tunable: Sized {
    /// The step size.
    fn step_size(&self) -> &StepSize;

    /// The same kernel with another step size. It keeps the preconditioner.
    fn with_step_size(&self, step_size: StepSize) -> Self;

    /// The same kernel, moving in the coordinates of a [`Preconditioner`] with the same step size, which
    /// counts in these coordinates. It replaces an earlier preconditioner.
    ///
    /// A run with states of another dimension ends in
    /// [`Error::DimensionMismatch`](crate::Error::DimensionMismatch).
    ///
    /// # Panics
    /// `step`, called by hand, where the state has another dimension; in a run `advance` refuses it first.
    fn preconditioned(&self, preconditioner: Preconditioner) -> Self;

    /// The step size beyond which longer steps lead back, in the coordinates of a preconditioner in which the
    /// target is about standard normal. Infinite unless the kernel says otherwise.
    fn longest_step_size(&self) -> f64 {
        f64::INFINITY
    }

    /// The acceptance at which the kernel mixes best, by theory or by a rule of thumb.
    fn optimal_acceptance(&self) -> f64;
}
