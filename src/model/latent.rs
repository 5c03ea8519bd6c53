//! Many data under one latent-variable model: states that carry the index of their datum.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::{Rng, RngExt};

use crate::Result;
use crate::error::Failure;
use crate::model::{
    Differentiable, NormalizedModel, Sampleable, UnnormalizedModel, check_gradient,
};

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

impl<L: LatentGradient + ?Sized> LatentGradient for &L {
    fn accumulate_gradients(
        &self,
        data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    ) {
        (**self).accumulate_gradients(data, latents, scale, gradients, log_likelihoods);
    }
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

    fn epsilon(&self) -> f64 {
        self.prior.epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.prior.failure()
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
    fn datum(&self) -> usize;
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

    #[inline(always)]
    fn datum(&self) -> usize {
        0
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
}

/// A model whose gradient Langevin and Hamiltonian kernels use: any [`Differentiable`] model, or a path from the prior
/// of many data to their posteriors. An `end` selects an end of the path; without one the model itself is evaluated.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no gradient",
    note = "a `FunctionModel` has one after `.with_gradient(..)`, a `GradientModel` always; on a path both ends need one",
    note = "with the feature `num-dual`, a `DualModel` differentiates a function of dual numbers"
)]
pub trait Gradients: UnnormalizedModel<State: Coordinates> {
    /// Adds the gradient at one position and returns the log density.
    fn add_gradient(
        &self,
        end: Option<usize>,
        datum: usize,
        position: &DVector<f64>,
        gradient: &mut DVector<f64>,
    ) -> f64;

    /// Adds the gradient at each row of `positions`, a state of the datum in `data`, and writes the log densities.
    fn add_gradients(
        &self,
        end: Option<usize>,
        data: &[usize],
        positions: DMatrixView<'_, f64>,
        gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    );

    /// Returns the factors of the gradients at the two ends, as [`Differentiable::end_weights`].
    fn weights_of_ends(&self) -> Option<[f64; 2]>;

    /// Compares gradients at these states with finite differences.
    ///
    /// # Errors
    /// [`Error::WrongGradient`](crate::Error::WrongGradient), [`Error::WrongValue`](crate::Error::WrongValue).
    fn check_gradients(&self, states: &[Self::State]) -> Result<()>;
}

impl<M: Differentiable> Gradients for M {
    #[inline]
    fn add_gradient(
        &self,
        end: Option<usize>,
        _datum: usize,
        position: &DVector<f64>,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let Some(end) = end else {
            return self.accumulate_gradient(position, 1.0, gradient);
        };
        let mut log_density = f64::NAN;
        self.with_end(end, &mut |model| {
            log_density = model.accumulate_gradient(position, 1.0, gradient);
        });
        log_density
    }

    #[inline]
    fn add_gradients(
        &self,
        end: Option<usize>,
        _data: &[usize],
        positions: DMatrixView<'_, f64>,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let Some(end) = end else {
            return self.accumulate_gradients(positions, 1.0, gradients, log_densities);
        };
        self.with_end(end, &mut |model| {
            model.accumulate_gradients(positions, 1.0, gradients.as_view_mut(), log_densities);
        });
    }

    fn weights_of_ends(&self) -> Option<[f64; 2]> {
        self.end_weights()
    }

    fn check_gradients(&self, states: &[DVector<f64>]) -> Result<()> {
        check_gradient(self, states)
    }
}

/// The model of one datum, at vectors alone.
pub(crate) struct OfDatum<'m, M> {
    pub(crate) model: &'m M,
    pub(crate) datum: usize,
}

impl<M: Gradients<State = Latent>> UnnormalizedModel for OfDatum<'_, M> {
    type State = DVector<f64>;

    fn log_density(&self, vector: &DVector<f64>) -> f64 {
        let state = Latent::new(self.datum, vector.clone());
        let mut log_density = [0.0];
        self.model.log_densities(&[state], &mut log_density);
        log_density[0]
    }

    fn epsilon(&self) -> f64 {
        self.model.epsilon()
    }
}

impl<M: Gradients<State = Latent>> Differentiable for OfDatum<'_, M> {
    fn accumulate_gradient(
        &self,
        vector: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut own = DVector::zeros(vector.len());
        let log_density = self.model.add_gradient(None, self.datum, vector, &mut own);
        gradient.axpy(scale, &own, 1.0);
        log_density
    }
}
