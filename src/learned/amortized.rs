//! Latent-variable models: decoders, and transitions that depend on an observation.

use nalgebra::DVector;

use crate::error::demand_dimension;
use crate::learned::ascent::Ascent;
use crate::learned::flow::LearnedTransitions;
use crate::learned::noise::Noise;
use crate::learned::training::{TrainedTransitions, Training, TrainingError};
use crate::learned::transition::Family;
#[cfg(feature = "serde")]
use crate::learned::transition::Transition;
use crate::model::{Differentiable, Gaussian, UnnormalizedModel};
use crate::path::TemperedPath;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A decoder: the density `p(x|z)` of an observation x given a latent state z.
///
/// With a prior over z the evidence is `log p(x) = log int p(x|z) p(z) dz`. It is the log Z of a [`TemperedPath`] from
/// the prior with the [`Likelihood`] of x:
///
/// ```
/// use annealed::learned::{Decoder, Likelihood};
/// use annealed::prelude::*;
/// use annealed::rbm::{sigmoid, softplus};
/// use nalgebra::dvector;
///
/// /// One bit, whose logit is twice the latent number.
/// struct Bit;
///
/// impl Decoder for Bit {
///     fn latent_dimension(&self) -> usize {
///         1
///     }
///     fn observed_dimension(&self) -> usize {
///         1
///     }
///     fn log_likelihood(&self, x: &DVector<f64>, z: &DVector<f64>) -> f64 {
///         2.0 * x[0] * z[0] - softplus(2.0 * z[0])
///     }
///     fn accumulate_gradient(
///         &self,
///         x: &DVector<f64>,
///         z: &DVector<f64>,
///         scale: f64,
///         gradient: &mut DVector<f64>,
///     ) -> f64 {
///         gradient[0] += scale * 2.0 * (x[0] - sigmoid(2.0 * z[0]));
///         self.log_likelihood(x, z)
///     }
/// }
///
/// let x = dvector![1.0];
/// let path = TemperedPath::new(Gaussian::standard(1)?, Likelihood::new(&Bit, &x)?);
/// let run = Ais::new(&path, Hmc::new(0.5, 3)?).schedule(Schedule::linear(20)?).run()?;
/// assert!((run.log_z() - 0.5_f64.ln()).abs() < 5.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
pub trait Decoder {
    /// Returns the length of z.
    fn latent_dimension(&self) -> usize;

    /// Returns the length of x.
    fn observed_dimension(&self) -> usize;

    /// Returns `log p(x|z)`, normalised over x.
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

/// The likelihood of one observation x as a model over z, with the log density `log p(x|z)`. Its methods panic if z
/// does not have the decoder's latent dimension.
#[derive(Debug)]
pub struct Likelihood<'a, D> {
    decoder: &'a D,
    observation: &'a DVector<f64>,
}

impl<'a, D: Decoder> Likelihood<'a, D> {
    /// Creates the likelihood of `observation` under `decoder`.
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

crate::num::copy! { for ['a, D] Likelihood<'a, D> }

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

/// An encoder: transitions `q_t(z_t | z_{t-1}, x)` and `r_t(z_{t-1} | z_t, x)` that take an observation x as input. A
/// [`Trainer`] trains them. They become a kernel when [`given`](Self::given) fixes x, so this does not compile:
///
/// ```compile_fail,E0277
/// use annealed::ais::Ais;
/// use annealed::learned::{AmortizedTransitions, Mean};
/// use annealed::model::Gaussian;
/// use annealed::path::GeometricPath;
///
/// let path = GeometricPath::new(Gaussian::standard(2).unwrap(), Gaussian::standard(2).unwrap());
/// let encoder = AmortizedTransitions::new(Mean::Affine, 2, 3, 4, 1).unwrap();
/// let run = Ais::new(&path, encoder).run(); // encoder.given(&dvector![1.0, 0.0, 1.0]).unwrap()
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AmortizedTransitions {
    pub(super) flow: LearnedTransitions,
}

impl AmortizedTransitions {
    /// Creates untrained transitions over `R^dimension`, one for each of `stages` stages, for observations of length
    /// `context`. Their weights are random, from `seed`.
    ///
    /// # Errors
    /// As [`LearnedTransitions::new`]; a `context` of 0.
    pub fn new(
        family: impl Into<Family>,
        dimension: usize,
        context: usize,
        stages: usize,
        seed: u64,
    ) -> Result<Self> {
        let family = family.into();
        let flow = LearnedTransitions::untrained(family, dimension, context, stages, seed)?;
        Self::from_flow(flow)
    }

    pub(super) fn from_flow(flow: LearnedTransitions) -> Result<Self> {
        Error::check_at_least("length of the observation", flow.context(), 1)?;
        Ok(Self { flow })
    }

    /// Sets the distribution of the noise that stochastic transitions add.
    ///
    /// # Errors
    /// Degrees of freedom of 0.
    pub fn with_noise(self, noise: Noise) -> Result<Self> {
        let flow = self.flow.with_noise(noise)?;
        Ok(Self { flow })
    }

    /// Returns the transitions to the posterior of z given `observation`.
    ///
    /// # Errors
    /// An observation of another length, or one that is not finite.
    pub fn given(&self, observation: &DVector<f64>) -> Result<LearnedTransitions> {
        self.check(observation)?;
        Ok(self.flow.given(observation.as_slice()))
    }

    fn check(&self, observation: &DVector<f64>) -> Result<()> {
        Error::check_dimension("observation", observation.len(), self.context())?;
        Error::check_finite("observation", observation.iter().copied())
    }

    /// Returns the dimension d of the states.
    pub fn dimension(&self) -> usize {
        self.flow.dimension()
    }

    /// Returns the length of the observation.
    pub fn context(&self) -> usize {
        self.flow.context()
    }
}

crate::num::serialize_as! {
    AmortizedTransitions as encoder { noise: encoder.flow.noise, transitions: encoder.flow.transitions }
}
crate::num::deserialize_checked! {
    AmortizedTransitions { noise: Noise, transitions: Vec<Transition> } => {
        let flow = LearnedTransitions::of_one_shape(transitions).and_then(Self::from_flow);
        flow.and_then(|encoder| encoder.with_noise(noise))
    }
}

/// A trainer of an encoder. The caller may change the [`Decoder`] between updates, to train a variational autoencoder,
/// as the program `digits_autoencoder` in `measurements` does. The encoder carries the prior `N(0, I)` of z to the
/// posterior given x, along `f_t(z) = p(z) p(x|z)^beta_t`.
pub struct Trainer<'s> {
    ascent: Ascent<'s>,
    data: &'s [DVector<f64>],
    prior: Gaussian,
}

/// One trajectory of a [`Trainer`]'s minibatch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Encoded<'s> {
    /// The observation x, drawn from the data.
    pub observation: &'s DVector<f64>,
    /// The last state `z_T`.
    pub latent: DVector<f64>,
    /// Factor of `log p(x|z_T)` in the objective, which is a sum over the minibatch.
    pub weight: f64,
}

impl<'s> Trainer<'s> {
    /// Creates a trainer with the settings of `training`.
    ///
    /// # Errors
    /// A setting out of its range; no data; a schedule or an observation that does not fit the encoder; an observation
    /// that is not finite.
    pub fn new(
        training: Training,
        encoder: AmortizedTransitions,
        data: &'s [DVector<f64>],
        schedule: &'s Schedule,
    ) -> Result<Self> {
        let prior = Gaussian::standard(encoder.dimension())?;
        Error::check_not_empty("data", data.len())?;
        data.iter().try_for_each(|x| encoder.check(x))?;
        let ascent = Ascent::new(training, encoder.flow, schedule)?;
        Ok(Self {
            ascent,
            data,
            prior,
        })
    }

    /// Returns the learning rate of the next update, or `None` when all iterations are done.
    pub fn learning_rate(&self) -> Option<f64> {
        self.ascent.learning_rate()
    }

    /// Updates the encoder by the objective's gradient on a new minibatch, and returns the minibatch.
    ///
    /// # Errors
    /// A decoder that does not fit the encoder; a NaN, an infinity or an exploding objective.
    pub fn step<D: Decoder>(
        &mut self,
        decoder: &D,
    ) -> Result<Vec<Encoded<'s>>, TrainingError<AmortizedTransitions>> {
        let (found, expected) = (decoder.latent_dimension(), self.prior.dimension());
        Error::check_dimension("latent state of the decoder", found, expected)?;
        let observations = self.ascent.observe(self.data);
        let likelihoods = observations.iter().map(|x| Likelihood::new(decoder, x));
        let path = |likelihood: Result<_>| Ok(TemperedPath::new(&self.prior, likelihood?));
        let paths = likelihoods.map(path).collect::<Result<Vec<_>>>()?;
        let (_, gradients) = self
            .ascent
            .judge(&Vec::from_iter(&paths))
            .map_err(TrainingError::of_encoder)?;
        // Computed before `update`, which moves on to the next iteration and its weights.
        let scale = self.ascent.weights().energy / observations.len() as f64;
        let reached = self.ascent.reached().zip(&self.ascent.shares);
        let encoded = observations.into_iter().zip(reached);
        let encoded = encoded.map(|(observation, (latent, share))| Encoded {
            observation,
            latent,
            weight: scale * share,
        });
        let encoded = encoded.collect();
        self.ascent.update(gradients);
        Ok(encoded)
    }

    /// Returns the encoder and its training curve.
    pub fn finish(self) -> TrainedTransitions<AmortizedTransitions> {
        let trained = self.ascent.trained;
        TrainedTransitions {
            flow: AmortizedTransitions { flow: trained.flow },
            curve: trained.curve,
            target_gradients: trained.target_gradients,
        }
    }
}

impl std::fmt::Debug for Trainer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Trainer");
        shown.field("learning_rate", &self.learning_rate());
        shown.finish_non_exhaustive()
    }
}

impl TrainingError {
    fn of_encoder(self) -> TrainingError<AmortizedTransitions> {
        match self {
            Self::Invalid(error) => TrainingError::Invalid(error),
            Self::Diverged {
                iteration,
                transition,
                quantity,
                value,
                last_good,
            } => TrainingError::Diverged {
                iteration,
                transition,
                quantity,
                value,
                last_good: Box::new(AmortizedTransitions { flow: *last_good }),
            },
        }
    }
}
