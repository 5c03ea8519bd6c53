//! Kernels whose step size can be tuned.

use super::step_size::StepSize;

/// An accept-reject kernel whose step size can be replaced.
///
/// Kernels without an accept-reject test, such as
/// [`UnadjustedLangevin`](crate::kernel::UnadjustedLangevin), have no acceptance to tune by.
pub trait Tunable: Sized {
    /// The step size.
    fn step_size(&self) -> &StepSize;

    /// The same kernel with another step size.
    fn with_step_size(&self, step_size: StepSize) -> Self;

    /// The acceptance at which the kernel mixes best, by theory or by a rule of thumb.
    fn optimal_acceptance(&self) -> f64;
}
