//! The path of a challenge: from a mixture of a path's base and of rival bases to the same target.

use std::sync::Arc;

use super::base::RivalBase;
use crate::model::Sampleable;
use crate::path::{AnnealingPath, BlendAt, GeometricPath};

/// The model at one beta of the geometric path from a [`RivalBase`] to the target of the path P. A beta above 1 is a power
/// of the target alone: a challenge cools it.
pub type RivalAt<P, B> = BlendAt<RivalPath<P, B>>;

/// The geometric path from a [`RivalBase`] to the target of the path P.
pub(in crate::adaptive) type RivalPath<P, B> =
    Arc<GeometricPath<RivalBase<P, B>, <P as AnnealingPath>::At>>;

/// Returns the path from another base to the target of `path`.
pub(in crate::adaptive) fn from_base<P, B>(path: &P, base: RivalBase<P, B>) -> RivalPath<P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    Arc::new(GeometricPath::new(base, path.at(1.0)))
}

/// The target at powers from 1, at 0, to [`COLDEST`], at 1. It is sampled by chains that are placed there.
pub(super) struct Cooled<P: AnnealingPath, B>(pub(super) RivalPath<P, B>);

impl<P: AnnealingPath, B> Clone for Cooled<P, B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Largest power of the target.
pub(super) const COLDEST: f64 = 256.0;

impl<P, B> AnnealingPath for Cooled<P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = RivalBase<P, B>;
    type At = RivalAt<P, B>;

    fn base(&self) -> &Self::Base {
        self.0.base()
    }

    fn at(&self, beta: f64) -> RivalAt<P, B> {
        let path = Arc::clone(&self.0);
        let beta = COLDEST.powf(beta);
        BlendAt { path, beta }
    }
}
