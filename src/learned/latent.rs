//! Latent-variable models: decoders, and the likelihood of one observation.

use nalgebra::DVector;

use crate::error::demand_dimension;
use crate::model::{Differentiable, UnnormalizedModel};
use crate::{Error, Result};

/// A decoder: the density `p(x|z)` of an observation x given a latent z.
///
/// With a prior over z its evidence `log p(x) = log int p(x|z) p(z) dz` is the log Z of a
/// [`TemperedPath`](crate::path::TemperedPath) from the prior to the posterior of z, with the
/// [`Likelihood`] of x:
///
/// ```
/// use annealed::kernel::Hmc;
/// use annealed::learned::{BernoulliDecoder, Likelihood};
/// use annealed::model::Gaussian;
/// use annealed::ais::Ais;
/// use annealed::path::TemperedPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::dvector;
///
/// let decoder = BernoulliDecoder::new(2, 8, 3, 1)?;
/// let x = dvector![1.0, 0.0, 1.0];
/// let path = TemperedPath::new(Gaussian::standard(2)?, Likelihood::new(&decoder, &x)?);
/// let run = Ais::new(&path, Hmc::new(0.5, 3)?).schedule(Schedule::linear(20)?).run()?;
/// println!("log p(x) = {}", run.log_z());
/// # Ok::<(), annealed::Error>(())
/// ```
pub trait Decoder {
    /// Length of z.
    fn latent_dimension(&self) -> usize;

    /// Length of x.
    fn observed_dimension(&self) -> usize;

    /// `log p(x|z)`, normalised over x.
    fn log_likelihood(&self, x: &DVector<f64>, z: &DVector<f64>) -> f64;

    /// Adds `scale * d/dz log p(x|z)` to `gradient` and returns `log p(x|z)`, unscaled.
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64;
}

/// A decoder with parameters theta that can be trained.
pub trait TrainableDecoder: Decoder {
    /// The parameters theta.
    fn parameters(&self) -> &[f64];

    /// The parameters theta, for an optimizer to change.
    fn parameters_mut(&mut self) -> &mut [f64];

    /// Adds `scale * d/dtheta log p(x|z)` to `gradient`, which is as long as theta.
    fn accumulate_parameter_gradient(
        &self,
        x: &DVector<f64>,
        z: &DVector<f64>,
        scale: f64,
        gradient: &mut [f64],
    );
}

/// The likelihood of one observation x as a model over z, with the log density `log p(x|z)`.
///
/// Its methods panic where z has another length than the decoder's latent dimension.
#[derive(Debug)]
pub struct Likelihood<'a, D> {
    decoder: &'a D,
    observation: &'a DVector<f64>,
}

impl<'a, D: Decoder> Likelihood<'a, D> {
    /// The likelihood of the observation x under a decoder.
    ///
    /// # Errors
    /// An observation that is not finite or not of the decoder's dimension.
    pub fn new(decoder: &'a D, observation: &'a DVector<f64>) -> Result<Self> {
        let (found, expected) = (observation.len(), decoder.observed_dimension());
        Error::check_dimension("observation", found, expected)?;
        Error::check_finite("observation", observation.iter().copied())?;
        Ok(Self {
            decoder,
            observation,
        })
    }

    fn check(&self, latent: &DVector<f64>) {
        let expected = self.decoder.latent_dimension();
        demand_dimension("a latent state", latent.len(), expected);
    }
}

impl<D> Clone for Likelihood<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Likelihood<'_, D> {}

impl<D: Decoder> UnnormalizedModel for Likelihood<'_, D> {
    type State = DVector<f64>;

    fn log_density(&self, latent: &DVector<f64>) -> f64 {
        self.check(latent);
        self.decoder.log_likelihood(self.observation, latent)
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.decoder.latent_dimension())
    }
}

impl<D: Decoder> Differentiable for Likelihood<'_, D> {
    fn accumulate_gradient(
        &self,
        latent: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.check(latent);
        self.decoder
            .accumulate_gradient(self.observation, latent, scale, gradient)
    }
}
