//! The moments of an RBM, and RBMs that have given moments.

mod exact;
mod moments;
mod sampled_moments;

pub use exact::{ExactMatching, PersistentMatching, RbmMatching};
pub use moments::RbmMoments;
pub use sampled_moments::MomentChains;
