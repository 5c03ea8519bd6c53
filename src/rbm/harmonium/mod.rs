//! Harmoniums: restricted Boltzmann machines with Gaussian, categorical or other visible units.
//!
//! [`Harmonium`] has hidden units of 0 and 1, and visible units [`GaussianUnits`], [`CategoricalUnits`] or your own
//! [`VisibleUnits`]. [`HarmoniumPath`] leads to it from the visible units alone; [`BlockGibbs`](crate::rbm::BlockGibbs)
//! is the kernel, and [`ContrastiveDivergence`](crate::rbm::ContrastiveDivergence::train_harmonium) trains.
//! [`EnumeratedHarmonium`] is exact, for at most 25 hidden units. For visible units of 0 and 1,
//! [`Rbm`](crate::rbm::Rbm) is many times faster. Source: Smolensky (1986); Welling, Rosen-Zvi and Hinton (2005).

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
pub use path::HarmoniumPath;
pub use train::TrainedHarmonium;

/// Independent visible units of one exponential family, the visible layer of a [`Harmonium`].
///
/// As a model they are the layer without hidden units, `log f(v) = log r(v)`, normalised and sampled exactly. The
/// hidden units depend on v through S statistics `s(v)`, and a hidden state multiplies r(v) by `exp(field . s(v))`. The
/// units given a hidden state are therefore of the same kind ([`tilted`](Self::tilted)).
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
    /// Returns the number of visible units, D.
    fn units(&self) -> usize;

    /// Returns the number of statistics, S: the columns of the weights.
    fn statistic_count(&self) -> usize;

    /// Returns the nonzero statistics `s(v)`: indices below S with their values.
    fn statistics(&self, state: &Self::State) -> impl Iterator<Item = (usize, f64)>;

    /// Returns the means of the S statistics. They are the gradient of the log normalizer of [`tilted`](Self::tilted)
    /// units with respect to the field, at field 0.
    fn mean_statistics(&self) -> DVector<f64>;

    /// Returns the units with density `r(v) exp(field . s(v))`; `field` has S entries.
    fn tilted(&self, field: &DVector<f64>) -> Self;

    /// Returns the units with density `r(v)^(1 - t) r'(v)^t`, constant included, where r' is the density of `other`
    /// and t is in `[0, 1]`.
    fn blended(&self, other: &Self, t: f64) -> Self;

    /// Returns an error if these units cannot have this `state`.
    ///
    /// # Errors
    /// The error names the `argument`, what was found and what was expected.
    fn check_state(&self, argument: &'static str, state: &Self::State) -> Result<()>;

    /// Returns the logarithm of the number of states; infinite if they are not countable.
    fn log_states(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns the units after a training step: [`tilted`](Self::tilted) by `step`, but with the same constant in the
    /// log density as newly created units.
    fn trained(&self, step: &DVector<f64>) -> Self {
        self.tilted(step)
    }
}
