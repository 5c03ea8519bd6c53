//! Learned transitions that depend on an observation.

use nalgebra::DVector;

use crate::learned::flow::LearnedTransitions;
use crate::learned::noise::Noise;
use crate::learned::transition::Family;
#[cfg(feature = "serde")]
use crate::learned::transition::Transition;
use crate::{Error, Result};

/// An encoder for all observations x: transitions `q_t(z_t | z_{t-1}, x)` and
/// `r_t(z_{t-1} | z_t, x)` that take x as a further input. They become a kernel once x is fixed, by
/// [`given`](Self::given).
///
/// [`Training::train_autoencoder`](super::Training::train_autoencoder) trains them beside a decoder.
/// They are no kernel by themselves:
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
    /// Transitions whose densities take the observation as further inputs.
    pub(super) flow: LearnedTransitions,
}

impl AmortizedTransitions {
    /// Untrained transitions over `R^dimension` given an observation of length `context`, one for
    /// each of `stages` stages, with random weights from the seed.
    ///
    /// # Errors
    /// As [`LearnedTransitions::new`]; a length of 0.
    pub fn new(
        family: impl Into<Family>,
        dimension: usize,
        context: usize,
        stages: usize,
        seed: u64,
    ) -> Result<Self> {
        Self::from_flow(LearnedTransitions::untrained(
            family.into(),
            dimension,
            context,
            stages,
            seed,
        )?)
    }

    pub(super) fn from_flow(flow: LearnedTransitions) -> Result<Self> {
        Error::check_at_least("length of the observation", flow.context(), 1)?;
        Ok(Self { flow })
    }

    /// Replaces the law of the noise that stochastic transitions add; see [`Noise`].
    ///
    /// # Errors
    /// Degrees of freedom of 0.
    pub fn with_noise(self, noise: Noise) -> Result<Self> {
        let flow = self.flow.with_noise(noise)?;
        Ok(Self { flow })
    }

    /// The transitions to the posterior of z given this observation.
    ///
    /// # Errors
    /// An observation of another length, or that is not finite.
    pub fn given(&self, observation: &DVector<f64>) -> Result<LearnedTransitions> {
        Error::check_dimension("observation", observation.len(), self.context())?;
        Error::check_finite("observation", observation.iter().copied())?;
        Ok(self.flow.given(observation.as_slice()))
    }

    /// Dimension d of the states.
    pub fn dimension(&self) -> usize {
        self.flow.dimension()
    }

    /// Length of the observation.
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
