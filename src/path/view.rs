//! A path seen at one beta.

use crate::model::UnnormalizedModel;

/// The model at one beta of a path that computes its densities from what it holds: a reference to
/// the path, with beta.
#[derive(Debug, PartialEq)]
pub struct PathAt<'a, P> {
    pub(crate) path: &'a P,
    pub(crate) beta: f64,
}

impl<P> Clone for PathAt<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for PathAt<'_, P> {}

impl<'a, P> PathAt<'a, P> {
    /// The path.
    pub fn path(&self) -> &'a P {
        self.path
    }
}

/// `log f(x) - log f'(x)`, with f' the density of `previous`; `-inf` where f excludes x, whatever f'
/// says of it.
pub(super) fn log_difference<M>(model: &M, previous: &M, state: &M::State) -> f64
where
    M: UnnormalizedModel + ?Sized,
{
    let here = model.log_density(state);
    if here == f64::NEG_INFINITY {
        here
    } else {
        here - previous.log_density(state)
    }
}
