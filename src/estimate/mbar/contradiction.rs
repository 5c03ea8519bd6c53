//! Draws that contradict their log densities.

use nalgebra::DMatrix;

use super::error::{Influence, Spread};
use super::{FEW_DRAWS, SOLVED};
use crate::estimate::Warning;
use crate::num::student_quantile;

/// Share of right data sets that would be doubted if the distances of all states were Student's.
const LEVEL: f64 = 1e-4;
/// Least effective number of draws by which a state and the others meet.
const MEETINGS: f64 = 20.0;

impl Influence<'_> {
    /// Returns [`DrawsContradict`](Warning::DrawsContradict) if the draws of a state are not draws of it, by the log
    /// densities of all states.
    ///
    /// Under the right log densities, the mean of `p_k` over the draws of state k and over all draws, weighted for k, are
    /// equal but for chance: `D_k = mean_k p_k - sum_n w_n p_k^2 / a_k`. The influence of a draw on it is its own part and
    /// its part in log Z, with `dD_k / dc_l = delta_kl mean_k p_k - mean_k p_k p_l`.
    pub(super) fn contradiction(&self, spread: &Spread) -> Option<Warning> {
        let data = self.mixture.data;
        let batches = self.batches(&spread.times);
        let squares = self.squares();
        let mut influences = self.of_distances(&batches.units, &squares);
        batches.scale(&mut influences);
        let slowest = spread.times.iter().copied().fold(1.0, f64::max);
        // Batches of short chains do not show the error.
        let loose = |state: &usize| match spread.times[*state] {
            time if time > 1.0 => FEW_DRAWS * time / data.counts[*state] as f64,
            _ => 1.0,
        };
        let loosest = data.drawn.iter().map(loose).fold(1.0, f64::max).sqrt();
        let sure = 1.0 - 0.5 * LEVEL / data.drawn.len() as f64;
        let (mut states, mut most) = (Vec::new(), 0.0);
        for &state in &data.drawn {
            let meetings = self.meetings(state, &squares) / slowest;
            let squares = influences.row(state).map(|x| x * x);
            let (square, fourth) = (squares.sum(), squares.norm_squared());
            let implied = self.products[(state, state)] / self.mixture.weights.shares[state];
            let distance = (self.means[(state, state)] - implied).abs();
            let error = SOLVED + loosest * square.sqrt();
            // A few large influences decide about the error if their fourth moment is large.
            let freedom = (2.0 * square * square / fourth).min(meetings);
            if meetings >= MEETINGS && distance > student_quantile(sure, freedom.max(1.0)) * error {
                states.push(state);
                most = f64::max(most, distance / error);
            }
        }
        (!states.is_empty()).then_some(Warning::DrawsContradict {
            states,
            errors: most,
        })
    }

    /// Returns the mean of `p_k^2` of each state (row) over the draws of each state (column).
    fn squares(&self) -> DMatrix<f64> {
        let (data, states) = (self.mixture.data, self.means.nrows());
        let mut squares = DMatrix::<f64>::zeros(states, states);
        self.mixture
            .for_chunks(0..data.labels.len(), &mut |draws, p, _| {
                for (at, &own) in data.labels[draws].iter().enumerate() {
                    let share = 1.0 / data.counts[own] as f64;
                    for &state in &data.drawn {
                        squares[(state, own)] += share * p[(at, state)].powi(2);
                    }
                }
            });
        squares
    }

    /// Returns the effective number of draws by which a state and the others meet: draws of the state with probabilities
    /// `1 - p_k`, or draws of others with probabilities `p_k`, where it is smaller. If few draws meet, chance decides how many
    /// do, and their spread does not show it.
    fn meetings(&self, state: usize, squares: &DMatrix<f64>) -> f64 {
        let (data, weights) = (self.mixture.data, self.mixture.weights);
        let (mean, square) = (self.means[(state, state)], squares[(state, state)]);
        let own = data.counts[state] as f64 * (1.0 - mean).powi(2) / (1.0 - 2.0 * mean + square);
        let (mut sum, mut its_square) = (0.0, 0.0);
        for &other in data.drawn.iter().filter(|other| **other != state) {
            let (n, weight) = (data.counts[other] as f64, weights.of_draw[other]);
            sum += n * weight * self.means[(state, other)];
            its_square += n * weight * weight * squares[(state, other)];
        }
        own.min(sum * sum / its_square)
    }

    /// Returns the influence of the draws of each group (column) on the distance of each state (row).
    fn of_distances(&self, groups: &[usize], squares: &DMatrix<f64>) -> DMatrix<f64> {
        let (data, weights) = (self.mixture.data, self.mixture.weights);
        let (draws, states) = (0..groups.len(), self.means.nrows());
        // The slope of the distance of each state (row) by log Z of each state (column).
        let mut slopes = DMatrix::<f64>::zeros(states, states);
        self.mixture.for_chunks(draws.clone(), &mut |draws, p, _| {
            for (at, &own) in data.labels[draws].iter().enumerate() {
                let share = p[(at, own)] / data.counts[own] as f64;
                for &state in &data.drawn {
                    slopes[(own, state)] -= share * p[(at, state)];
                }
            }
        });
        for &state in &data.drawn {
            slopes[(state, state)] += self.means[(state, state)];
        }
        let mut found = slopes * self.of_groups(groups);
        self.mixture.for_chunks(draws, &mut |draws, p, _| {
            for (at, draw) in draws.enumerate() {
                let (own, group) = (data.labels[draw], groups[draw]);
                let own_part = p[(at, own)] - self.means[(own, own)];
                found[(own, group)] += own_part / data.counts[own] as f64;
                for &state in &data.drawn {
                    let part = p[(at, state)].powi(2) - squares[(state, own)];
                    found[(state, group)] -= weights.of_draw[own] * part / weights.shares[state];
                }
            }
        });
        found
    }
}
