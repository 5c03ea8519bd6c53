//! Learned transitions, trained by annealed variational objectives (Huang et al. 2018).
//!
//! [`LearnedTransitions`] is a kernel: one Gaussian transition `q_t(z_t | z_{t-1})` and its reverse
//! model `r_t(z_{t-1} | z_t)` for each stage. [`Training`] fits it to a path and a schedule by an
//! [`Objective`]; whatever that achieves, a run's weights give an unbiased Z.

mod adam;
mod amortized;
mod ascent;
mod autoencoder;
mod conditional;
mod decoder;
mod evaluation;
mod flow;
mod imitation;
mod kernel;
mod latent;
mod minibatch;
mod network;
mod noise;
mod objective;
mod pass;
mod training;

pub use amortized::AmortizedTransitions;
pub use autoencoder::TrainedAutoencoder;
pub use conditional::{ConditionalGaussian, Mean};
pub use decoder::BernoulliDecoder;
pub use evaluation::mode_occupancy;
pub use flow::{LearnedTransitions, Transition};
pub use latent::{Decoder, Likelihood, TrainableDecoder};
pub use noise::Noise;
pub use objective::Objective;
pub use training::{TrainedTransitions, Training, TrainingError, TrainingPoint};
