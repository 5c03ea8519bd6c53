//! One learned transition: a pair of conditional densities, one of them perhaps a mixture, or an invertible map.

use rand::{Rng, RngExt};

use crate::learned::conditional::{ConditionalGaussian, Mean};
use crate::learned::coupling::{Coupling, InvertibleMap};
use crate::learned::mixture::ConditionalMixture;
use crate::learned::noise::Noise;
use crate::{Error, Result};

/// One learned transition from `z_{t-1}` to `z_t`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Transition {
    /// A random move and a model of its reverse, made by [`Transition::new`].
    #[non_exhaustive]
    Stochastic {
        /// `q_t(z_t | z_{t-1})`.
        forward: ConditionalGaussian,
        /// `r_t(z_{t-1} | z_t)`.
        backward: ConditionalGaussian,
    },
    /// A random move by one of several densities, made by [`Transition::mixture`].
    #[non_exhaustive]
    Mixture {
        /// `q_t(z_t | z_{t-1})`.
        forward: ConditionalMixture,
        /// `r_t(z_{t-1} | z_t)`.
        backward: ConditionalGaussian,
    },
    /// A map, whose inverse is its reverse: `log r_t - log q_t = log |det J|`.
    Invertible(InvertibleMap),
}

/// The form of untrained transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// Pairs of [`ConditionalGaussian`].
    Stochastic(Mean),
    /// Pairs of a [`ConditionalMixture`] and a [`ConditionalGaussian`] of the same form.
    Mixture {
        /// The form of all densities.
        mean: Mean,
        /// Number of components.
        components: usize,
    },
    /// Maps, each an [`InvertibleMap`].
    Invertible(Coupling),
}

impl From<Mean> for Family {
    fn from(mean: Mean) -> Self {
        Self::Stochastic(mean)
    }
}

impl From<Coupling> for Family {
    fn from(coupling: Coupling) -> Self {
        Self::Invertible(coupling)
    }
}

impl Family {
    pub(super) fn check_size(self, dimension: usize, context: usize, stages: usize) -> Result<()> {
        let (largest, networks) = match self {
            Self::Stochastic(mean) => (mean.sizes(dimension, context)?, 2),
            Self::Mixture { mean, components } => {
                Error::check_at_least("components", components, 1)?;
                (
                    mean.sizes(dimension, context)?,
                    components.saturating_add(1),
                )
            }
            // The first network moves at least as many coordinates as the second, so it is the larger one.
            Self::Invertible(coupling) => (coupling.sizes(dimension, context)?[0], 2),
        };
        largest.check_size(stages.saturating_mul(networks))
    }

    pub(super) fn untrained<R: Rng + ?Sized>(
        self,
        dimension: usize,
        context: usize,
        rng: &mut R,
    ) -> Result<Transition> {
        match self {
            Self::Stochastic(mean) => {
                let mut density =
                    || ConditionalGaussian::with_context(mean, dimension, context, rng);
                Transition::new(density()?, density()?)
            }
            Self::Mixture { mean, components } => {
                let forward =
                    ConditionalMixture::with_context(mean, components, dimension, context, rng)?;
                let backward = ConditionalGaussian::with_context(mean, dimension, context, rng)?;
                Transition::mixture(forward, backward)
            }
            Self::Invertible(coupling) => {
                let map = InvertibleMap::with_context(coupling, dimension, context, rng)?;
                Ok(Transition::Invertible(map))
            }
        }
    }
}

impl Transition {
    /// Creates a transition from a forward and a backward density.
    ///
    /// # Errors
    /// Dimensions that differ.
    pub fn new(forward: ConditionalGaussian, backward: ConditionalGaussian) -> Result<Self> {
        let transition = Self::Stochastic { forward, backward };
        transition.check()?;
        Ok(transition)
    }

    /// Creates a transition from a forward mixture and a backward density.
    ///
    /// # Errors
    /// Dimensions that differ.
    pub fn mixture(forward: ConditionalMixture, backward: ConditionalGaussian) -> Result<Self> {
        let transition = Self::Mixture { forward, backward };
        transition.check()?;
        Ok(transition)
    }

    pub(super) fn check(&self) -> Result<()> {
        let (Self::Stochastic { backward, .. } | Self::Mixture { backward, .. }) = self else {
            return Ok(());
        };
        let (found, expected) = (backward.dimension(), self.dimension());
        Error::check_dimension("backward density", found, expected)?;
        let (found, expected) = (backward.context(), self.context());
        Error::check_dimension("observation of the backward density", found, expected)
    }

    pub(super) fn dimension(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.dimension(),
            Self::Mixture { forward, .. } => forward.dimension(),
            Self::Invertible(map) => map.dimension(),
        }
    }

    pub(super) fn context(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.context(),
            Self::Mixture { forward, .. } => forward.context(),
            Self::Invertible(map) => map.context(),
        }
    }

    /// Returns how many random numbers a move needs. For a mixture, the last one is the index of the component.
    pub(super) fn noises(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.dimension(),
            Self::Mixture { forward, .. } => forward.dimension() + 1,
            Self::Invertible(_) => 0,
        }
    }

    /// Returns the number of forward densities, or of a map's layers.
    pub(super) fn moves(&self) -> usize {
        match self {
            Self::Stochastic { .. } => 1,
            Self::Mixture { forward, .. } => forward.components().len(),
            Self::Invertible(map) => map.parameters().len(),
        }
    }

    /// Draws the random numbers of a move.
    pub(super) fn fill<R: Rng + ?Sized>(&self, noise: &mut [f64], law: Noise, rng: &mut R) {
        match (self, noise) {
            (Self::Mixture { forward, .. }, [eps @ .., index]) => {
                law.fill(eps, rng);
                *index = rng.random_range(0..forward.components().len()) as f64;
            }
            (_, noise) => law.fill(noise, rng),
        }
    }

    /// Returns the parameters of the forward components and the backward density, or of both layers of a map.
    pub(super) fn parameters(&self) -> Vec<&[f64]> {
        match self {
            Self::Stochastic { forward, backward } => {
                vec![forward.parameters(), backward.parameters()]
            }
            Self::Mixture { forward, backward } => {
                let forward = forward.components().iter();
                let parts = forward.chain([backward]);
                parts.map(ConditionalGaussian::parameters).collect()
            }
            Self::Invertible(map) => map.parameters().to_vec(),
        }
    }

    pub(super) fn parameters_mut(&mut self) -> Vec<&mut [f64]> {
        match self {
            Self::Stochastic { forward, backward } => {
                vec![forward.parameters_mut(), backward.parameters_mut()]
            }
            Self::Mixture { forward, backward } => {
                let parts = forward.parameters_mut();
                parts.chain([backward.parameters_mut()]).collect()
            }
            Self::Invertible(map) => map.parameters_mut().into(),
        }
    }

    pub(super) fn given(&self, observation: &[f64]) -> Self {
        match self {
            Self::Stochastic { forward, backward } => Self::Stochastic {
                forward: forward.given(observation),
                backward: backward.given(observation),
            },
            Self::Mixture { forward, backward } => Self::Mixture {
                forward: forward.given(observation),
                backward: backward.given(observation),
            },
            Self::Invertible(map) => Self::Invertible(map.given(observation)),
        }
    }
}
