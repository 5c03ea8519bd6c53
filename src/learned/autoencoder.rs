//! Training an encoder and a decoder together, as a variational autoencoder.

use nalgebra::DVector;

use crate::learned::adam::{Adam, clip};
use crate::learned::amortized::AmortizedTransitions;
use crate::learned::ascent::Ascent;
use crate::learned::latent::{Likelihood, TrainableDecoder};
use crate::learned::training::{Training, TrainingError, TrainingPoint};
use crate::model::Gaussian;
use crate::path::TemperedPath;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// The result of training an encoder and a decoder together.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct TrainedAutoencoder<D> {
    /// Transitions from the prior to the posterior of z, for every observation x.
    /// [`given`](AmortizedTransitions::given) makes a kernel of them for one x.
    pub encoder: AmortizedTransitions,
    /// The decoder.
    pub decoder: D,
    /// At most 1,000 points, evenly spaced; the objective is a mean over observations.
    pub curve: Vec<TrainingPoint>,
    /// Gradients of `log f_t` in z evaluated in all.
    pub target_gradients: u64,
}

impl Training {
    /// Trains a variational autoencoder.
    ///
    /// The encoder carries the prior `N(0, I)` of z to the posterior of z given x, through
    /// `f_t(z) = p(z) p(x|z)^beta_t`, for x drawn from the data. It follows the
    /// [`Objective`](super::Objective). The decoder `p(x|z)` follows the gradient of
    /// `E log p(x|z_T)` in its parameters, scaled by alpha where the objective tempers the energy.
    ///
    /// Each sample of a minibatch is one observation. The decoder has the rate, decay and clipping
    /// of the transitions. For a single observation and a fixed decoder use [`train`](Self::train)
    /// on the path of its [`Likelihood`].
    ///
    /// # Errors
    /// As [`train`](Self::train); no data, or data that does not fit encoder and decoder.
    pub fn train_autoencoder<D: TrainableDecoder>(
        &self,
        encoder: AmortizedTransitions,
        mut decoder: D,
        data: &[DVector<f64>],
        schedule: &Schedule,
    ) -> Result<TrainedAutoencoder<D>, TrainingError<AmortizedTransitions>> {
        check_shapes(&encoder, &decoder, data)?;
        let prior = Gaussian::standard(decoder.latent_dimension())?;
        let mut ascent = Ascent::new(*self, encoder.flow, schedule)?;
        let mut optimizer = Adam::new(decoder.parameters().len());
        for iteration in 0..self.iterations {
            let observations = ascent.observe(data);
            let path = |x| Ok(TemperedPath::new(&prior, Likelihood::new(&decoder, x)?));
            let paths = observations.iter().copied().map(path);
            let paths = paths.collect::<Result<Vec<_>>>()?;
            let (_, gradients) = ascent.judge(&paths).map_err(of_encoder)?;
            let mut gradient =
                decoder_gradient(&ascent, &decoder, &observations).map_err(of_encoder)?;
            ascent.update(gradients);
            clip(std::slice::from_mut(&mut gradient), self.clip);
            let rate = self.learning_rate_at(iteration);
            optimizer.ascend(decoder.parameters_mut(), &gradient, rate);
        }
        let trained = ascent.trained;
        Ok(TrainedAutoencoder {
            encoder: AmortizedTransitions { flow: trained.flow },
            decoder,
            curve: trained.curve,
            target_gradients: trained.target_gradients,
        })
    }
}

/// Derivatives of the minibatch's mean of `alpha log p(x|z_T)` in the decoder's parameters, each
/// trajectory by its share.
fn decoder_gradient<D: TrainableDecoder>(
    ascent: &Ascent<'_>,
    decoder: &D,
    observations: &[&DVector<f64>],
) -> Result<Vec<f64>, TrainingError> {
    let mut gradient = vec![0.0; decoder.parameters().len()];
    let scale = ascent.weights().energy / observations.len() as f64;
    let reached = ascent.reached().zip(&ascent.shares);
    for (x, (z, share)) in observations.iter().zip(reached) {
        decoder.accumulate_parameter_gradient(x, &z, scale * share, &mut gradient);
    }
    match gradient.iter().find(|x| !x.is_finite()) {
        None => Ok(gradient),
        Some(&value) => {
            let last = ascent.trained.flow.transitions.len() - 1;
            Err(ascent.diverged(last, "gradient of the decoder at the states", value))
        }
    }
}

/// The same error, with the transitions as those of an encoder.
fn of_encoder(error: TrainingError) -> TrainingError<AmortizedTransitions> {
    match error {
        TrainingError::Invalid(error) => TrainingError::Invalid(error),
        TrainingError::Diverged {
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

fn check_shapes<D: TrainableDecoder>(
    encoder: &AmortizedTransitions,
    decoder: &D,
    data: &[DVector<f64>],
) -> Result<()> {
    let (found, expected) = (encoder.dimension(), decoder.latent_dimension());
    Error::check_dimension("state of the encoder", found, expected)?;
    let (found, expected) = (encoder.context(), decoder.observed_dimension());
    Error::check_dimension("observation of the encoder", found, expected)?;
    Error::check_not_empty("data", data.len())?;
    for x in data {
        Likelihood::new(decoder, x)?;
    }
    Ok(())
}
