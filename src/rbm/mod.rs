//! Restricted Boltzmann machines.
//!
//! [`Rbm`] is the model, [`BaseRate`] the machine without weights that annealing starts from, [`RbmPath`] the path
//! between them and [`BlockGibbs`] the kernel that moves along it. [`ContrastiveDivergence`] trains a machine on data.
//! With the feature `npz`, `RbmFile` reads machines and `BinaryData` reads data from files. For a machine of at most
//! [`MAX_ENUMERATED_UNITS`] units in its smaller layer, [`Rbm::exact_log_normalizer`] gives `log Z`, and
//! [`Rbm::exact_samples`] and [`EnumeratedRbm`] exact samples. [`RbmMoments`] and [`RbmMatching`] make the knots of a
//! moment-averaging spline ([`RbmPath::moment_spline`]).

mod base_rate;
mod engine;
mod enumerate;
#[cfg(feature = "npz")]
mod file;
mod gibbs;
#[doc(hidden)]
pub mod harmonium;
mod likelihood;
mod lower_bound;
mod matching;
mod mean_field;
mod model;
mod path;
mod scalar;
mod start;
mod train;

pub use crate::num::{sigmoid, softplus};
pub use base_rate::BaseRate;
pub use enumerate::{EnumeratedRbm, MAX_ENUMERATED_UNITS};
#[cfg(feature = "npz")]
pub use file::{Binarization, BinaryData, DataLayout, RbmFile, RbmLayout};
pub use gibbs::BlockGibbs;
pub use likelihood::LogLikelihood;
pub use lower_bound::{LogZBound, MeanFieldMode};
pub use matching::{ExactMatching, MomentChains, PersistentMatching, RbmMatching, RbmMoments};
pub use model::Rbm;
pub use path::{RbmAt, RbmPath};
pub use scalar::Scalar;
pub use start::{Candidate, Start, StartSearch};
pub use train::{ContrastiveDivergence, Epoch, TrainedRbm};
