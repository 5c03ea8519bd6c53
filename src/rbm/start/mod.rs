//! The search for a base from which annealing to an RBM finds its mass.

mod candidate;
mod fit;
mod pool;
mod result;
mod search;

pub use candidate::Candidate;
pub use result::Start;
pub use search::StartSearch;
