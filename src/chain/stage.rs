//! A stage: the model that a chain leaves and the model that it reaches.

use crate::path::Intermediate;

/// One stage of a schedule, from the model that a chain leaves to the model that it reaches.
#[derive(Debug)]
pub struct Stage<'m, M> {
    /// Index k of the stage, 1 to K: from `beta_{k-1}` to `beta_k`.
    pub index: usize,
    /// `beta_k`, for parameters that vary along the path, such as a step size.
    pub beta: f64,
    /// The model left, `f_{k-1}`.
    pub previous: &'m M,
    /// The model reached, `f_k`: the one that the kernel works on.
    pub model: &'m M,
}

impl<M> Clone for Stage<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Stage<'_, M> {}

impl<'m, M: Intermediate> Stage<'m, M> {
    /// Stage `index` from one intermediate model to the next.
    pub fn new(index: usize, previous: &'m M, model: &'m M) -> Self {
        Self {
            index,
            beta: model.beta(),
            previous,
            model,
        }
    }

    /// The same stage for a chain that has reached the model already: it moves there once more and
    /// is not weighed again.
    #[must_use]
    pub fn rest(self) -> Self {
        Self {
            previous: self.model,
            ..self
        }
    }

    /// Whether the model is the same one at both ends.
    pub fn is_at_rest(&self) -> bool {
        std::ptr::eq(self.previous, self.model)
    }

    /// The path's part of the log weight, `log f_k(x) - log f_{k-1}(x)`. At rest it is 0, and no
    /// density is evaluated.
    pub fn log_ratio(&self, state: &M::State) -> f64 {
        if self.is_at_rest() {
            0.0
        } else {
            self.model.log_ratio(self.previous, state)
        }
    }
}
