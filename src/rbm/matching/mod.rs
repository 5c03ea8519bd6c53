//! The moments of an RBM, and RBMs that have given moments.

mod base_rate;
mod centred;
mod exact;
mod joint_costs;
mod moments;
mod persistent;
mod sampled_moments;
mod spline;

pub use exact::ExactMatching;
pub use moments::RbmMoments;
pub use persistent::PersistentMatching;
pub use sampled_moments::MomentChains;

use crate::Result;
use crate::rbm::model::Rbm;

/// A way to find the RBM that has given moments, which each knot of a moment-averaging spline needs.
pub trait RbmMatching {
    /// The RBM with these moments, sought from `start`.
    ///
    /// # Errors
    /// Where the moments are of another shape or of no distribution, or the search does not
    /// converge.
    fn match_moments(&self, start: &Rbm<f64>, moments: &RbmMoments) -> Result<Rbm<f64>>;
}
