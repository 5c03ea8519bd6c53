//! Harmoniums: restricted Boltzmann machines whose visible units are Gaussian, categorical or of a kind of your own.
//!
//! [`Harmonium`] is the model, with [`GaussianUnits`] or [`CategoricalUnits`] that meet hidden units of 0 and 1; a kind of
//! your own implements [`VisibleUnits`]. The visible units alone are the base that annealing starts from, [`HarmoniumPath`] is
//! the path between them, and [`BlockGibbs`](crate::rbm::BlockGibbs) the kernel that moves along it.
//! [`ContrastiveDivergence::train_harmonium`](crate::rbm::ContrastiveDivergence::train_harmonium) trains a machine on data.
//! With at most [`MAX_ENUMERATED_UNITS`](crate::rbm::MAX_ENUMERATED_UNITS) hidden units
//! [`Harmonium::exact_log_normalizer`] gives `log Z`, and [`EnumeratedHarmonium`] exact samples. With more of them
//! [`Harmonium::lower_bound`] is a bound on log Z that holds for certain.
//!
//! Where visible units are 0 or 1, too, [`Rbm`](crate::rbm::Rbm) does the same many times faster. The name is that of
//! Smolensky (1986); visible units of an exponential family are due to Welling, Rosen-Zvi and Hinton (2005).
//!
//! Hidden units are 0 or 1. Gaussian hidden units would make a Gaussian of Gaussian visible units, whose log Z is a
//! determinant, and it exists only where the weights are small; the same bound holds for rectified linear ones. Their states
//! cannot be enumerated either.

// Each file uses only those above it.
mod visible;

mod gaussian;

mod categorical;

mod model;

mod likelihood;

mod path;

mod gibbs;

mod enumerate;

mod lower_bound;

mod train;

pub use categorical::CategoricalUnits;
pub use enumerate::EnumeratedHarmonium;
pub use gaussian::GaussianUnits;
pub use model::Harmonium;
pub use path::{HarmoniumAt, HarmoniumPath};
pub use train::TrainedHarmonium;
pub use visible::VisibleUnits;
