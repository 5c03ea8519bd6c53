//! The path from a mixture, of a path's own base and other distributions, to the target of this path.

use std::sync::Arc;

use super::mixture_base::MixtureBase;
use crate::model::Sampleable;
use crate::path::{AnnealingPath, BlendAt, GeometricPath};

/// The model at one beta of the geometric path from a [`MixtureBase`] to the target of the path P. A beta above 1 gives
/// that power of the target alone, which a search uses for cooling.
pub type MixtureAt<P, L> = BlendAt<MixturePath<P, L>>;

/// The geometric path from a [`MixtureBase`] to the target of the path P.
pub(in crate::adaptive) type MixturePath<P, L> =
    Arc<GeometricPath<MixtureBase<P, L>, <P as AnnealingPath>::At>>;

/// Returns the path from `base` to the target of `path`.
pub(in crate::adaptive) fn from_base<P, L>(path: &P, base: MixtureBase<P, L>) -> MixturePath<P, L>
where
    P: AnnealingPath,
    L: Sampleable<State = P::State>,
{
    Arc::new(GeometricPath::new(base, path.at(1.0)))
}

/// A path from the target, at beta 0, to its power [`HIGHEST_POWER`], at beta 1. It breaks the promise that `at(0)` equals the
/// base, so chains must start at given states, not at draws.
pub(super) struct Cooled<P: AnnealingPath, L>(pub(super) MixturePath<P, L>);

impl<P: AnnealingPath, L> Clone for Cooled<P, L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Largest power of the target to which chains are cooled. There the deviations of a mode are 1/16 of those at power 1,
/// and chains in d dimensions lie about d / 512 nats below the top of the mode.
pub(super) const HIGHEST_POWER: f64 = 256.0;

impl<P, L> AnnealingPath for Cooled<P, L>
where
    P: AnnealingPath,
    L: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = MixtureBase<P, L>;
    type At = MixtureAt<P, L>;

    fn base(&self) -> &Self::Base {
        self.0.base()
    }

    fn at(&self, beta: f64) -> MixtureAt<P, L> {
        let path = Arc::clone(&self.0);
        let beta = HIGHEST_POWER.powf(beta);
        BlendAt { path, beta }
    }
}
