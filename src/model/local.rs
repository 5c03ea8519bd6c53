//! Models that know what a small change of a state does to their density.

use super::UnnormalizedModel;

/// A model that knows what a change of a state does to its log density, for less than a density costs: the
/// flip of a spin touches the bonds of that spin alone.
///
/// C says what changes, as the index of a spin; a [`LocalProposal`](crate::kernel::LocalProposal) makes the
/// change. The models of a [`GeometricPath`](crate::path::GeometricPath) and of a
/// [`TemperedPath`](crate::path::TemperedPath) have it where both ends have it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know what a change `{C}` does to its log density",
    note = "on a path both ends need to implement `LocalDensity<{C}>`"
)]
pub trait LocalDensity<C>: UnnormalizedModel {
    /// `log f(x') - log f(x)`, with x' the state after the change; `-inf` where x' is off the support, never
    /// NaN.
    fn log_density_change(&self, state: &Self::State, change: &C) -> f64;
}

impl<C, M: LocalDensity<C> + ?Sized> LocalDensity<C> for &M {
    #[inline]
    fn log_density_change(&self, state: &Self::State, change: &C) -> f64 {
        (**self).log_density_change(state, change)
    }
}
