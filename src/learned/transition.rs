//! One learned transition: a pair of conditional densities, or an invertible map.

use rand::Rng;

use crate::learned::conditional::{ConditionalGaussian, Mean};
use crate::learned::coupling::{Coupling, InvertibleMap};
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
    /// A map, whose inverse is its reverse: `log r_t - log q_t = log |det J|`.
    Invertible(InvertibleMap),
}

/// The form of untrained transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// Pairs of [`ConditionalGaussian`].
    Stochastic(Mean),
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
        let largest = match self {
            Self::Stochastic(mean) => mean.network(dimension, context)?,
            Self::Invertible(coupling) => coupling.networks(dimension, context)?[0],
        };
        largest.check_size(stages.saturating_mul(2))
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

    pub(super) fn check(&self) -> Result<()> {
        let Self::Stochastic { forward, backward } = self else {
            return Ok(());
        };
        let (found, expected) = (backward.dimension(), forward.dimension());
        Error::check_dimension("backward density", found, expected)?;
        let (found, expected) = (backward.context(), forward.context());
        Error::check_dimension("observation of the backward density", found, expected)
    }

    pub(super) fn dimension(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.dimension(),
            Self::Invertible(map) => map.dimension(),
        }
    }

    pub(super) fn context(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.context(),
            Self::Invertible(map) => map.context(),
        }
    }

    /// Returns the number of random coordinates of a move.
    pub(super) fn noises(&self) -> usize {
        match self {
            Self::Stochastic { forward, .. } => forward.dimension(),
            Self::Invertible(_) => 0,
        }
    }

    /// Returns the parameters of both densities, forward first, or of both layers of a map.
    pub(super) fn parameters(&self) -> [&[f64]; 2] {
        match self {
            Self::Stochastic { forward, backward } => [forward.parameters(), backward.parameters()],
            Self::Invertible(map) => map.parameters(),
        }
    }

    pub(super) fn parameters_mut(&mut self) -> [&mut [f64]; 2] {
        match self {
            Self::Stochastic { forward, backward } => {
                [forward.parameters_mut(), backward.parameters_mut()]
            }
            Self::Invertible(map) => map.parameters_mut(),
        }
    }

    pub(super) fn given(&self, observation: &[f64]) -> Self {
        match self {
            Self::Stochastic { forward, backward } => Self::Stochastic {
                forward: forward.given(observation),
                backward: backward.given(observation),
            },
            Self::Invertible(map) => Self::Invertible(map.given(observation)),
        }
    }
}
