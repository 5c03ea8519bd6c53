//! Restricted Boltzmann machines.
//!
//! ```
//! use annealed::prelude::*;
//!
//! let images = annealed::data::digits().images;
//! let rbm = Rbm::<f32>::from_data(16, &images, 1)?;
//! let rbm = ContrastiveDivergence::new(1).epochs(2).train(rbm, &images)?.rbm;
//! let base = BaseRate::from_data(16, &images, 1.0)?;
//! let start = StartSearch::new(200).given(base.clone()).run(&rbm)?;
//! let path = start.path(rbm.clone())?;
//! let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(200)?).chains(256).run()?;
//! println!("{run}");
//! println!("mean log p = {:.2}", rbm.log_likelihood(&images, run.log_z(), &base)?.mean);
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`Rbm`] is the model and [`BaseRate`] the base. [`BlockGibbs`] moves chains along an [`RbmPath`] between them.
//! [`ContrastiveDivergence`] trains machines. A [`DeepBoltzmann`] machine becomes an RBM of the same log Z.
//! `RbmFile` and `BinaryData` of the crate `annealed-files` read files.
//! [`Rbm::exact_log_normalizer`], [`Rbm::exact_samples`] and [`EnumeratedRbm`] need a layer of at most
//! [`MAX_ENUMERATED_UNITS`] units. [`RbmMoments`] and [`RbmMatching`] make the knots of [`RbmPath::moment_spline`].

mod base_rate;
mod components;
mod cooling;
mod deep;
mod engine;
mod enumerate;
mod gibbs;
#[cfg(test)]
mod grid_tests;
#[doc(hidden)]
pub mod harmonium;
mod likelihood;
mod lower_bound;
mod matching;
mod mean_field;
mod model;
mod path;
mod scalar;
mod segment_end;
mod start;
mod train;

pub use crate::num::{sigmoid, softplus};
pub use base_rate::BaseRate;
pub use deep::{DeepBoltzmann, LikelihoodBound};
pub use enumerate::{EnumeratedRbm, MAX_ENUMERATED_UNITS};
pub use gibbs::BlockGibbs;
pub use likelihood::LogLikelihood;
pub use lower_bound::{LogZBound, MeanFieldMode};
pub use matching::{ExactMatching, MomentChains, PersistentMatching, RbmMatching, RbmMoments};
pub use model::Rbm;
pub use path::{RbmAt, RbmPath};
pub use scalar::Scalar;
pub use start::{Candidate, Start, StartSearch};
pub use train::{ContrastiveDivergence, Epoch, TrainedRbm};
