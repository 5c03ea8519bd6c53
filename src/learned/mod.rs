//! Learned transitions, trained by annealed variational objectives (Huang et al. 2018).
//!
//! ```
//! use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
//! use annealed::prelude::*;
//!
//! let target = Gaussian::isotropic(DVector::from_element(2, 1.0), 0.5)?;
//! let path = GeometricPath::new(Gaussian::standard(2)?, &target);
//! let schedule = Schedule::linear(3)?;
//! let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 3, 1)?;
//! let trained = Training::new(Objective::Annealed).iterations(100).train(flow, &path, &schedule)?;
//! let run = Ais::new(&path, &trained.flow).schedule(schedule).run()?; // unbiased, however good the training
//! assert!((run.log_z() - target.log_normalizer()).abs() < 4.0 * run.standard_error());
//! # Ok::<(), annealed::Error>(())
//! ```
//!
//! [`LearnedTransitions`] are a kernel with one transition for each stage. [`Training`] fits them to a path and a
//! schedule by an [`Objective`]. The weights of a run give an unbiased Z, however good the training was. For a
//! latent-variable model with a [`Decoder`], a [`Trainer`] trains [`AmortizedTransitions`].

mod amortized;
mod ascent;
mod auxiliary;
mod conditional;
mod coupling;
mod crossing;
mod flow;
mod imitation;
mod kernel;
mod minibatch;
mod mixture;
mod network;
mod noise;
mod objective;
mod spline;
mod training;
mod transition;

pub use amortized::{AmortizedTransitions, Decoder, Encoded, Likelihood, Trainer};
pub use auxiliary::{Auxiliary, AuxiliaryPath};
pub use conditional::{ConditionalGaussian, Mean};
pub use coupling::{Coupling, InvertibleMap};
pub use flow::{LearnedTransitions, mode_occupancy};
pub use mixture::ConditionalMixture;
pub use noise::Noise;
pub use objective::Objective;
pub use training::{TrainedTransitions, Training, TrainingError, TrainingPoint};
pub use transition::{Family, Transition};
