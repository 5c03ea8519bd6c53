//! Many data under one latent-variable model: states that carry the index of their datum.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::{Rng, RngExt};

use crate::model::{Differentiable, NormalizedModel, Sampleable, UnnormalizedModel};

/// The latent vector z of one datum, a state of [`LogLikelihoods`](crate::many::LogLikelihoods).
///
/// The state carries the index of its datum. Kernels move the vector, and never the index.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Latent {
    datum: usize,
    /// The vector z.
    pub vector: DVector<f64>,
}

impl Latent {
    /// Creates the latent vector of the datum with this index.
    pub fn new(datum: usize, vector: DVector<f64>) -> Self {
        Self { datum, vector }
    }

    /// Returns the index of the datum.
    pub fn datum(&self) -> usize {
        self.datum
    }
}

/// The log likelihood `log p(x_b | z)` of many data x_b, with its gradient in z, for Langevin and Hamiltonian kernels.
/// Both evaluate a row for each chain.
pub trait LatentGradient: UnnormalizedModel<State = Latent> {
    /// Adds `scale * d/dz log p(x_b | z)` of each row to `gradients`, and writes each `log p(x_b | z)`, unscaled. Row i
    /// of `latents` is a latent vector of the datum `data[i]`. Columns are coordinates.
    fn accumulate_gradients(
        &self,
        data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    );
}

/// The prior of the latent vectors of `data` data, each with `chains` chains. A single draw has a random datum.
#[derive(Debug, Clone)]
pub struct LatentPrior<P> {
    pub(crate) prior: P,
    pub(crate) data: usize,
    pub(crate) chains: usize,
}

impl<P: UnnormalizedModel<State = DVector<f64>>> UnnormalizedModel for LatentPrior<P> {
    type State = Latent;

    fn log_density(&self, state: &Latent) -> f64 {
        self.prior.log_density(&state.vector)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.prior.state_dimension()
    }
}

impl<P: NormalizedModel + UnnormalizedModel<State = DVector<f64>>> NormalizedModel
    for LatentPrior<P>
{
    fn log_normalizer(&self) -> f64 {
        self.prior.log_normalizer()
    }
}

impl<P: Sampleable + UnnormalizedModel<State = DVector<f64>>> Sampleable for LatentPrior<P> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Latent {
        let datum = rng.random_range(0..self.data);
        Latent::new(datum, self.prior.sample(rng))
    }

    /// Draws the start of a chain of the datum `chain / chains`.
    fn sample_chain<R: Rng + ?Sized>(&self, chain: usize, rng: &mut R) -> Latent {
        Latent::new(chain / self.chains % self.data, self.prior.sample(rng))
    }
}

/// A state with coordinates that kernels with a gradient move.
pub trait Coordinates: Clone {
    /// Returns the coordinates.
    fn coordinates(&self) -> &DVector<f64>;

    /// Returns the coordinates, to be changed.
    fn coordinates_mut(&mut self) -> &mut DVector<f64>;

    /// Returns the index of the state's datum; 0 for a vector alone.
    #[inline(always)]
    fn datum(&self) -> usize {
        0
    }

    /// Sets the index of the state's datum, if it has one.
    #[inline(always)]
    fn set_datum(&mut self, _datum: usize) {}
}

impl Coordinates for DVector<f64> {
    #[inline(always)]
    fn coordinates(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn coordinates_mut(&mut self) -> &mut Self {
        self
    }
}

impl Coordinates for Latent {
    fn coordinates(&self) -> &DVector<f64> {
        &self.vector
    }

    fn coordinates_mut(&mut self) -> &mut DVector<f64> {
        &mut self.vector
    }

    fn datum(&self) -> usize {
        self.datum
    }

    fn set_datum(&mut self, datum: usize) {
        self.datum = datum;
    }
}

/// A model whose gradient Langevin and Hamiltonian kernels use: any [`Differentiable`] model, or a path from the prior of
/// many data to their posteriors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no gradient",
    note = "a `FunctionModel` has one after `.with_gradient(..)`, a `GradientModel` always; on a path both ends need one",
    note = "with the feature `num-dual`, a `DualModel` differentiates a function of dual numbers"
)]
pub trait Gradients: UnnormalizedModel<State: Coordinates> {
    /// The model as a function of the coordinates alone.
    type Rows<'r>: Differentiable
    where
        Self: 'r;

    /// Returns the model at rows of coordinates, given the datum of each row. A single state is the first row.
    fn rows<'r>(&'r self, data: &'r [usize]) -> Self::Rows<'r>;
}

impl<M: Differentiable> Gradients for M {
    type Rows<'r>
        = &'r M
    where
        M: 'r;

    #[inline(always)]
    fn rows<'r>(&'r self, _data: &'r [usize]) -> &'r M {
        self
    }
}
