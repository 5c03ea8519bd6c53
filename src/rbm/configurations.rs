//! A search for the hidden configurations of a machine that hold most of its mass.

use std::collections::HashSet;

use nalgebra::DVector;

use crate::num::WeightSums;
use crate::rbm::enumerate::map_tasks;
use crate::rbm::mean_field::{Layer, MeanField};
use crate::rbm::model::masked_sum_of;

/// Configurations whose neighbours are evaluated side by side. Fixed, so that the result does not depend on the threads.
const WAVE: usize = 16;
/// The largest number of configurations that a search finds.
pub(crate) const MOST: usize = 20_000;
/// The search ends when a wave adds less than this to the log of the configurations' sum.
const GAIN: f64 = 1e-3;

/// A hidden configuration h, after its `log f(h) = a.h + A(b + W^T h)`, A the log normalizer of the visible layer.
pub(crate) type Configuration = (f64, Vec<bool>);

/// `log sum f(h)` over configurations that stand by falling density. The smallest are added first, so that the sum
/// keeps its digits where it is about 1.
pub(super) fn log_sum(configurations: &[Configuration]) -> f64 {
    let largest = configurations[0].0;
    let others = configurations[1..].iter().rev();
    let others: f64 = others.map(|(log_f, _)| (log_f - largest).exp()).sum();
    largest + others.ln_1p()
}

/// The number of configurations that cost about a twentieth of a run of so many chain-steps.
pub(crate) fn most_configurations(chain_steps: u64, hidden_units: usize) -> usize {
    let cost = chain_steps.saturating_mul(hidden_units as u64) / 500;
    cost.clamp(WAVE as u64, MOST as u64) as usize
}

impl<L: Layer> MeanField<L> {
    /// Distinct configurations by falling density: the first ones, those that differ in one unit from the heaviest of
    /// them, and so on, until `most` of them are found.
    pub(super) fn search(&self, first: &[Vec<bool>], most: usize) -> Vec<Configuration> {
        let (mut met, mut sums) = (HashSet::new(), WeightSums::default());
        let (mut open, mut expanded) = (Vec::new(), Vec::new());
        let first = first.iter().filter(|units| met.insert(units.to_vec()));
        let first: Vec<&Vec<bool>> = first.collect();
        let mut fresh = map_tasks(first.len(), |i| self.configuration(first[i]));
        loop {
            let before = sums.log_sum();
            fresh.iter().for_each(|(log_f, _)| sums.add(*log_f));
            open.append(&mut fresh);
            open.sort_by(falling);
            let grows = sums.log_sum() - before >= GAIN;
            if met.len() >= most || !grows {
                expanded.append(&mut open);
                expanded.sort_by(falling);
                return expanded;
            }
            let heaviest: Vec<Configuration> = open.drain(..WAVE.min(open.len())).collect();
            let neighbours = heaviest
                .iter()
                .map(|(_, units)| neighbours(units, &mut met));
            let neighbours: Vec<_> = neighbours.collect();
            let evaluated = map_tasks(heaviest.len(), |i| {
                self.evaluate(&heaviest[i].1, &neighbours[i])
            });
            fresh.extend(evaluated.into_iter().flatten());
            expanded.extend(heaviest);
        }
    }

    fn configuration(&self, units: &[bool]) -> Configuration {
        let (linear, fields) = self.given(units);
        let fields = fields.as_slice();
        (
            linear + self.layer.log_normalizer(fields, 0.0, fields),
            units.to_vec(),
        )
    }

    /// Evaluates configurations that differ from `units` in the unit named.
    fn evaluate(&self, units: &[bool], neighbours: &[(usize, Vec<bool>)]) -> Vec<Configuration> {
        let (linear, fields) = self.given(units);
        let evaluate = |(j, neighbour): &(usize, Vec<bool>)| {
            let sign = if units[*j] { -1.0 } else { 1.0 };
            let weights = self.transposed.column(*j);
            let after = self
                .layer
                .log_normalizer(fields.as_slice(), sign, weights.as_slice());
            (
                linear + sign * self.hidden_bias[*j] + after,
                neighbour.clone(),
            )
        };
        neighbours.iter().map(evaluate).collect()
    }

    /// `a.h`, and the fields `b + W^T h`.
    fn given(&self, units: &[bool]) -> (f64, DVector<f64>) {
        let mut fields = self.visible_bias.clone();
        for (column, _) in self
            .transposed
            .column_iter()
            .zip(units)
            .filter(|(_, on)| **on)
        {
            fields += column;
        }
        (masked_sum_of(self.hidden_bias.as_slice(), units), fields)
    }
}

fn falling(one: &Configuration, other: &Configuration) -> std::cmp::Ordering {
    other.0.total_cmp(&one.0)
}

/// The configurations that differ from `units` in one unit and are not yet met, each with that unit.
fn neighbours(units: &[bool], met: &mut HashSet<Vec<bool>>) -> Vec<(usize, Vec<bool>)> {
    let flipped = (0..units.len()).map(|j| {
        let mut neighbour = units.to_vec();
        neighbour[j] = !neighbour[j];
        (j, neighbour)
    });
    flipped
        .filter(|(_, units)| met.insert(units.clone()))
        .collect()
}
