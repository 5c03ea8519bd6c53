//! The settings of a training, its result and its errors.

use std::fmt;

use crate::learned::flow::LearnedTransitions;
use crate::learned::objective::Objective;
use crate::num::setters;
use crate::{Error, Result};

/// Settings of a training of [`LearnedTransitions`]: stochastic gradient ascent on an [`Objective`] by Adam.
///
/// ```
/// use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
/// use annealed::model::Gaussian;
/// use annealed::path::GeometricPath;
/// use annealed::schedule::Schedule;
/// use nalgebra::dvector;
///
/// let target = Gaussian::isotropic(dvector![1.0, -1.0], 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, target);
/// let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 3, 1)?;
/// let trained = Training::new(Objective::Annealed)
///     .iterations(100)
///     .train(flow, &path, &Schedule::linear(3)?)?;
/// assert_eq!(trained.target_gradients, 100 * 256 * 3);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct Training {
    pub(super) objective: Objective,
    pub(super) iterations: usize,
    pub(super) batch_size: usize,
    learning_rate: f64,
    decay: f64,
    decay_after: f64,
    pub(super) clip: f64,
    pub(super) seed: u64,
}

/// One point of the training curve.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TrainingPoint {
    /// Index of the iteration, from 0.
    pub iteration: usize,
    /// Mean log weight of the minibatch: the evidence lower bound less `log Z_0`. If the objective is tempered, so is
    /// this number. For the importance-weighted objective it is the mean bound.
    pub objective: f64,
    /// Number of gradients of log densities evaluated so far, including this iteration.
    pub target_gradients: u64,
}

/// The result of a training.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[must_use]
pub struct TrainedTransitions<F = LearnedTransitions> {
    /// The trained transitions, or the encoder of a [`Trainer`](super::Trainer).
    pub flow: F,
    /// The training curve: at most 1,000 points, evenly spaced.
    pub curve: Vec<TrainingPoint>,
    /// Number of gradients of log densities evaluated in all.
    pub target_gradients: u64,
}

fn remedy(iteration: usize) -> &'static str {
    match iteration {
        0 => {
            "nothing was updated yet: the path's log densities and gradients must be finite on all of R^d"
        }
        _ => "try a smaller learning rate",
    }
}

/// The reason why a training ended early. `Debug` prints the same as `Display`.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError<F = LearnedTransitions> {
    /// A setting or a shape that cannot be used.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// A NaN, an infinity or an exploding objective.
    #[error(
        "{quantity} of transition {transition} is {value} at iteration {iteration}, expected \
         a finite number that does not explode: {}",
        remedy(*iteration)
    )]
    Diverged {
        /// Index of the iteration, from 0.
        iteration: usize,
        /// Index of the transition, from 1.
        transition: usize,
        /// Name of the quantity.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// The transitions at the last iteration whose objective and gradient were good.
        last_good: Box<F>,
    },
}

impl<F> fmt::Debug for TrainingError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<F> From<TrainingError<F>> for Error {
    fn from(error: TrainingError<F>) -> Self {
        match error {
            TrainingError::Invalid(error) => error,
            diverged => Self::NotConverged {
                what: "learned transitions",
                detail: diverged.to_string(),
            },
        }
    }
}

impl Training {
    /// Creates a training on `objective` with the default settings.
    pub fn new(objective: Objective) -> Self {
        Self {
            objective,
            iterations: 1_500,
            batch_size: 256,
            learning_rate: 3e-3,
            decay: 0.1,
            decay_after: 0.7,
            clip: 10.0,
            seed: 0,
        }
    }

    setters! {
        /// Sets the number of updates; 1,500 by default.
        iterations: usize,
        /// Sets the number of samples for each update; 256 by default.
        batch_size: usize,
        /// Sets the learning rate of Adam before it decays; 3e-3 by default.
        learning_rate: f64,
        /// Sets the bound on the Euclidean norm of the gradient by one transition's parameters; 10 by default.
        clip: f64,
        /// Sets the seed of all randomness in training; 0 by default.
        seed: u64,
    }

    /// Multiplies the learning rate by `factor` after a fraction `after` of the iterations; by default 0.1 after 0.7.
    pub fn decay(self, factor: f64, after: f64) -> Self {
        Self {
            decay: factor,
            decay_after: after,
            ..self
        }
    }

    pub(super) fn progress_at(&self, iteration: usize) -> f64 {
        iteration as f64 / self.iterations as f64
    }

    pub(super) fn learning_rate_at(&self, iteration: usize) -> f64 {
        if self.progress_at(iteration) < self.decay_after {
            self.learning_rate
        } else {
            self.learning_rate * self.decay
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        Error::check_at_least("iterations", self.iterations, 1)?;
        Error::check_count("batch_size", self.batch_size, 1)?;
        self.objective.check(self.batch_size)?;
        Error::check_positive("learning_rate", self.learning_rate)?;
        Error::check_positive("clip", self.clip)?;
        Error::check_fraction("factor of the decay", self.decay)?;
        Error::check_fraction("start of the decay", self.decay_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_prints_the_message() {
        let error = TrainingError::<LearnedTransitions>::from(Error::invalid(
            "iterations",
            0,
            "at least 1",
        ));
        assert_eq!(
            format!("{error:?}"),
            "invalid iterations: got 0, expected at least 1"
        );
    }
}
