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

mod categorical;
mod enumerate;
mod gaussian;
mod lower_bound;
mod model;
mod path;
mod train;

use nalgebra::DVector;

use crate::Result;
use crate::model::{NormalizedModel, Sampleable};

pub use categorical::CategoricalUnits;
pub use enumerate::EnumeratedHarmonium;
pub use gaussian::GaussianUnits;
pub use model::Harmonium;
pub use path::{HarmoniumAt, HarmoniumPath};
pub use train::TrainedHarmonium;

/// Independent visible units of one exponential family, the visible layer of a [`Harmonium`].
///
/// As a model they are the layer without hidden units, `log f(v) = log r(v)`: normalised and sampled exactly. Hidden units see
/// them through S statistics `s(v)` and act on them by a field, which multiplies r(v) by `exp(field . s(v))`. So given the
/// hidden units they are of the same kind ([`tilted`](Self::tilted)), as is what lies between two layers.
///
/// ```
/// use annealed::harmonium::{CategoricalUnits, VisibleUnits};
/// use annealed::model::{NormalizedModel, UnnormalizedModel};
/// use annealed::nalgebra::{DMatrix, dvector};
///
/// let units = CategoricalUnits::new(DMatrix::from_column_slice(2, 1, &[0.5, -0.5]))?;
/// let tilted = units.tilted(&dvector![1.0, 2.0]);
/// assert_eq!(tilted.log_density(&vec![1]), 1.5);
/// assert!((tilted.log_normalizer() - (2.0 * 1.5_f64.exp()).ln()).abs() < 1e-15);
/// # Ok::<(), annealed::Error>(())
/// ```
pub trait VisibleUnits: NormalizedModel + Sampleable + Clone + Send + Sync {
    /// Number of visible units, D.
    fn units(&self) -> usize;

    /// Number of statistics, S: the columns of the weights.
    fn statistic_count(&self) -> usize;

    /// The statistics `s(v)` that are not 0: their indices, below S, with their values.
    fn statistics(&self, state: &Self::State) -> impl Iterator<Item = (usize, f64)>;

    /// The means of the statistics, S of them: the gradient of the log normaliser of [`tilted`](Self::tilted) units in their
    /// field, at 0.
    fn mean_statistics(&self) -> DVector<f64>;

    /// The units with the density `r(v) exp(field . s(v))`, where the field has S entries.
    fn tilted(&self, field: &DVector<f64>) -> Self;

    /// The units with the density `r(v)^(1 - t) r'(v)^t`, constant included, with r' that of `other`, which has as many units
    /// and statistics, and t in `[0, 1]`.
    fn blended(&self, other: &Self, t: f64) -> Self;

    /// Refuses what is no state of these units.
    ///
    /// # Errors
    /// One that names the `argument`, what was found and what was expected.
    fn check_state(&self, argument: &'static str, state: &Self::State) -> Result<()>;

    /// The logarithm of the number of states; infinite where they are not countable.
    fn log_states(&self) -> f64 {
        f64::INFINITY
    }

    /// The units after a step of training: their law is that of [`tilted`](Self::tilted), and their constant is that of new
    /// units.
    fn trained(&self, step: &DVector<f64>) -> Self {
        self.tilted(step)
    }
}
