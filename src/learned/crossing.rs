//! A minibatch on its way through one transition.

use nalgebra::DMatrix;

use crate::learned::flow::Transition;
use crate::learned::noise::Noise;
use crate::learned::pass::Pass;

/// The noise of one transition for a minibatch, one column each, and the passes through both of its
/// densities.
#[derive(Debug, Clone, Default)]
pub(super) struct Crossing {
    pub(super) noise: DMatrix<f64>,
    pub(super) forward: Pass,
    pub(super) backward: Pass,
}

impl Crossing {
    /// Moves the states in `left` by the noise drawn and writes `z' = mu + sigma eps` to the first
    /// rows of `reached`. Further rows, which hold an observation, stay.
    pub(super) fn follow(
        &mut self,
        transition: &Transition,
        left: &DMatrix<f64>,
        reached: &mut DMatrix<f64>,
    ) {
        transition.forward.forward(left, &mut self.forward);
        let q = &self.forward;
        let d = q.means.nrows();
        for (k, mean) in q.means.iter().enumerate() {
            reached[(k % d, k / d)] = mean + q.log_deviations[k].exp() * self.noise[k];
        }
        transition.backward.forward(reached, &mut self.backward);
    }

    /// `log r(left | reached) - log q(reached | left)` for one column, whose state `left` may be
    /// followed by an observation.
    pub(super) fn log_backward_over_forward(&self, column: usize, left: &[f64], law: Noise) -> f64 {
        let noise = self.noise.column(column);
        self.backward.log_density(column, left)
            - self
                .forward
                .log_density_of_noise(column, law, noise.as_slice())
    }
}
