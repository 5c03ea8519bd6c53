//! The forward pass of a minibatch through one transition, and the backpropagation through the same transition.

use nalgebra::DMatrix;

use crate::learned::mixture;
use crate::learned::network::Pass;
use crate::learned::noise::Noise;
use crate::learned::transition::Transition;

/// A forward pass of a minibatch through one transition: the noise, a column for each trajectory, and the values that
/// the networks of the transition computed.
#[derive(Debug, Clone, Default)]
pub(super) struct Crossing {
    pub(super) noise: DMatrix<f64>,
    /// Values of the forward density, of each component of a forward mixture, or of each layer of a map.
    moves: Vec<Pass>,
    /// Values of the backward density.
    reverse: Pass,
}

/// Derivatives by the parameters of one transition: a list for each list in `Transition::parameters`.
pub(super) type TransitionGradient = Vec<Vec<f64>>;

impl Crossing {
    pub(super) fn new(transition: &Transition, size: usize) -> Self {
        Self {
            noise: DMatrix::zeros(transition.noises(), size),
            ..Self::default()
        }
    }

    /// Moves the states in `left` and writes them to the first d rows of `reached`. The rows below, which contain an
    /// observation, stay unchanged.
    pub(super) fn follow(
        &mut self,
        transition: &Transition,
        left: &DMatrix<f64>,
        reached: &mut DMatrix<f64>,
    ) {
        self.moves.resize_with(transition.moves(), Pass::default);
        match transition {
            Transition::Stochastic { forward, backward } => {
                let q = &mut self.moves[0];
                forward.forward(left, q);
                let d = q.means.nrows();
                for (k, mean) in q.means.iter().enumerate() {
                    reached[(k % d, k / d)] = mean + q.log_deviations[k].exp() * self.noise[k];
                }
                backward.forward(reached, &mut self.reverse);
            }
            Transition::Mixture { forward, backward } => {
                forward.forward(left, &self.noise, &mut self.moves, reached);
                backward.forward(reached, &mut self.reverse);
            }
            Transition::Invertible(map) => map.forward(left, reached, &mut self.moves),
        }
    }

    /// Returns `log r(left | reached) - log q(reached | left)` for one column. In both matrices an observation may
    /// stand below the states.
    pub(super) fn log_backward_over_forward(
        &self,
        transition: &Transition,
        column: usize,
        [left, reached]: [&DMatrix<f64>; 2],
        law: Noise,
    ) -> f64 {
        let forward = match transition {
            Transition::Stochastic { .. } => {
                let noise = self.noise.column(column);
                // The noise itself is exact. Computed back from the new state it would lose digits if sigma is small.
                law.log_density(noise.as_slice()) - self.moves[0].log_volume(column)
            }
            Transition::Mixture { .. } => {
                let reached = reached.column(column);
                mixture::log_density(&self.moves, column, law, reached.as_slice())
            }
            Transition::Invertible(_) => {
                let layers = self.moves.iter();
                return layers.map(|pass| pass.log_volume(column)).sum();
            }
        };
        let left = left.column(column);
        self.reverse.log_density(column, left.as_slice()) - forward
    }

    /// Differentiates `log r(left | reached)` times a weight for each column. Adds the parameters' derivatives to
    /// `gradient` and returns the derivatives by `left` and `reached`. For a map both derivatives are 0, because
    /// [`by_move`](Self::by_move) includes them.
    pub(super) fn by_reverse(
        &self,
        transition: &Transition,
        [left, reached]: [&DMatrix<f64>; 2],
        weights: &[f64],
        gradient: &mut TransitionGradient,
    ) -> [DMatrix<f64>; 2] {
        let d = transition.dimension();
        let (Transition::Stochastic { backward, .. } | Transition::Mixture { backward, .. }) =
            transition
        else {
            return std::array::from_fn(|_| DMatrix::zeros(d, left.ncols()));
        };
        let (pass, last) = (&self.reverse, gradient.len() - 1);
        let mut by_means = left.rows(0, d) - &pass.means;
        let mut by_log_deviations = by_means.clone();
        for (k, by_mean) in by_means.iter_mut().enumerate() {
            let (weight, precision) = (weights[k / d], (-2.0 * pass.log_deviations[k]).exp());
            by_log_deviations[k] = weight * (*by_mean * *by_mean * precision - 1.0);
            *by_mean *= weight * precision;
        }
        let gradient = &mut gradient[last];
        let by_reached = backward.backward(reached, pass, &by_means, &by_log_deviations, gradient);
        [-by_means, by_reached]
    }

    /// Backpropagates from the new states z', and from `-log q` or `log |det J|` with a weight for each column. Adds
    /// the parameters' derivatives to `gradient` and returns the derivatives by the old states z.
    pub(super) fn by_move(
        &self,
        transition: &Transition,
        states: [&DMatrix<f64>; 2],
        by_reached: DMatrix<f64>,
        (weights, law): (&[f64], Noise),
        gradient: &mut TransitionGradient,
    ) -> DMatrix<f64> {
        let moves = &self.moves;
        match transition {
            Transition::Stochastic { forward, .. } => {
                // `z' = mu + sigma eps`, so `-log q` is `sum log sigma` plus a function of the noise `eps` alone.
                let (pass, d) = (&moves[0], forward.dimension());
                let mut by_log_deviations = by_reached.component_mul(&self.noise);
                for (k, derivative) in by_log_deviations.iter_mut().enumerate() {
                    *derivative = *derivative * pass.log_deviations[k].exp() + weights[k / d];
                }
                let gradient = &mut gradient[0];
                forward.backward(states[0], pass, &by_reached, &by_log_deviations, gradient)
            }
            Transition::Mixture { forward, .. } => {
                let drawn = (&self.noise, moves.as_slice());
                forward.backward(states, drawn, by_reached, (weights, law), gradient)
            }
            Transition::Invertible(map) => {
                map.backward(states, moves, by_reached, weights, gradient)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Crossing {
        /// Returns the least distance of a `log sigma` from the ends of its clamp in this pass; infinite for a map.
        pub(in crate::learned) fn distance_from_clamp(&self, transition: &Transition) -> f64 {
            let (forward, backward) = match transition {
                Transition::Stochastic { forward, backward } => {
                    (std::slice::from_ref(forward), backward)
                }
                Transition::Mixture { forward, backward } => (forward.components(), backward),
                Transition::Invertible(_) => return f64::INFINITY,
            };
            let moves = forward.iter().zip(&self.moves);
            let of_moves = moves.map(|(q, pass)| q.distance_from_clamp(pass));
            of_moves.fold(backward.distance_from_clamp(&self.reverse), f64::min)
        }
    }
}
