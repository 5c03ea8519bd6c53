//! A stage, and what a kernel says of its move.

use crate::path::Intermediate;
use crate::{Error, Result};

/// From the model that a step leaves to the model that it reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage<M> {
    /// Index k of the stage, 1 to K: from `beta_{k-1}` to `beta_k`.
    pub index: usize,
    /// `beta_k`, for parameters that vary along the path, as a step size.
    pub beta: f64,
    /// The model left, `f_{k-1}`.
    pub previous: M,
    /// The model reached, `f_k`: the one that the kernel works on.
    pub model: M,
}

impl<M: Clone> Stage<M> {
    /// One model at both ends, at `beta = 1`: a kernel run as plain MCMC on that model.
    pub fn stationary(model: M) -> Self {
        Self {
            index: 1,
            beta: 1.0,
            previous: model.clone(),
            model,
        }
    }
}

impl<M: Intermediate> Stage<M> {
    /// Stage `index` from one intermediate model to the next.
    pub fn new(index: usize, previous: M, model: M) -> Self {
        Self {
            index,
            beta: model.beta(),
            previous,
            model,
        }
    }

    /// `log f_k(x) - log f_{k-1}(x)`: the path's part of the log weight.
    pub fn log_ratio(&self, state: &M::State) -> f64 {
        self.model.log_ratio(&self.previous, state)
    }
}

/// What one application of a kernel has to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// `log f_k(x') - log f_k(x) + log B_k(x|x') - log F_k(x'|x)`; 0 where the kernel leaves
    /// `p_k` invariant and B is its reversal.
    pub correction: f64,
    /// Sum over the step's proposals of their acceptance probabilities.
    pub acceptance: f64,
    /// Number of accept-reject decisions in the step; 0 for a kernel that makes none.
    pub proposals: u32,
}

impl Step {
    /// A step of an invariant kernel without accept-reject decisions.
    pub const fn invariant() -> Self {
        Self::corrected(0.0)
    }

    /// A step of a kernel that is not invariant, with its correction.
    pub const fn corrected(correction: f64) -> Self {
        Self {
            correction,
            acceptance: 0.0,
            proposals: 0,
        }
    }

    /// A Metropolis-Hastings step whose proposal had this acceptance probability.
    pub const fn metropolis(acceptance: f64) -> Self {
        Self {
            correction: 0.0,
            acceptance,
            proposals: 1,
        }
    }

    /// This step followed by another at the same model: corrections and counts add.
    pub fn then(self, next: Self) -> Self {
        Self {
            correction: self.correction + next.correction,
            acceptance: self.acceptance + next.acceptance,
            proposals: self.proposals + next.proposals,
        }
    }
}

/// What one stage does to one chain: the path's part and the kernel's part of the log weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increment {
    /// `log f_k(x) - log f_{k-1}(x)` at the state before the move.
    pub log_ratio: f64,
    /// What is added to the log weight: `log_ratio + step.correction`, unless the kernel had to
    /// compute the whole at once (a support that shrinks makes it `-inf + inf`).
    pub log_weight: f64,
    /// What the kernel reported.
    pub step: Step,
}

impl Increment {
    /// The path's part and the kernel's correction, added.
    pub fn new(log_ratio: f64, step: Step) -> Self {
        Self {
            log_ratio,
            log_weight: log_ratio + step.correction,
            step,
        }
    }
}

/// A NaN or an infinity that a kernel met; the runner adds chain, stage and beta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonFinite {
    /// What was being computed, as "log density of the proposal".
    pub quantity: &'static str,
    /// The value found.
    pub value: f64,
    /// What would have been accepted.
    pub expected: &'static str,
}

impl NonFinite {
    /// Passes a log density on unless it is NaN or `+inf`.
    #[inline]
    pub fn check_log_density(quantity: &'static str, value: f64) -> Result<f64, Self> {
        if value < f64::INFINITY {
            Ok(value)
        } else {
            Err(Self {
                quantity,
                value,
                expected: "a number below +inf",
            })
        }
    }
}

impl NonFinite {
    /// The error that says where it was met.
    pub(crate) fn at(self, chain: usize, stage: usize, beta: f64) -> Error {
        Error::NonFinite {
            quantity: self.quantity,
            value: self.value,
            expected: self.expected,
            chain,
            stage,
            beta,
        }
    }
}
