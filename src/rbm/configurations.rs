//! A search for the hidden configurations of a machine that hold most of its mass.

use std::collections::HashSet;

use nalgebra::DVector;

use crate::num::WeightSums;
use crate::rbm::enumerate::map_tasks;
use crate::rbm::mean_field::{Layer, MeanField};
use crate::rbm::model::masked_sum_of;

/// Configurations whose neighbours are evaluated side by side. Fixed, so that the result does not depend on the threads.
const WAVE: usize = 16;
/// The search ends when so many configurations are found, or when a wave adds less than this to the log of their sum.
const MOST: usize = 20_000;
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

impl<L: Layer> MeanField<L> {
    /// Distinct configurations by falling density: the first ones, those that differ in one unit from the heaviest of
    /// them, and so on.
    pub(super) fn search(&self, first: &[Vec<bool>]) -> Vec<Configuration> {
        let (mut met, mut sums) = (HashSet::new(), WeightSums::default());
        let (mut open, mut expanded) = (Vec::new(), Vec::new());
        let mut fresh = map_tasks(first.len(), |i| self.configuration(&first[i]));
        loop {
            let before = sums.log_sum();
            fresh.retain(|(_, units)| met.insert(units.clone()));
            fresh.iter().for_each(|(log_f, _)| sums.add(*log_f));
            open.append(&mut fresh);
            open.sort_by(falling);
            let grows = sums.log_sum() - before >= GAIN;
            if met.len() >= MOST || !grows {
                expanded.append(&mut open);
                expanded.sort_by(falling);
                return expanded;
            }
            let heaviest: Vec<Configuration> = open.drain(..WAVE.min(open.len())).collect();
            let neighbours = map_tasks(heaviest.len(), |i| self.neighbours(&heaviest[i].1));
            fresh.extend(neighbours.into_iter().flatten());
            expanded.extend(heaviest);
        }
    }

    fn configuration(&self, units: &[bool]) -> Configuration {
        let (linear, fields) = self.given(units);
        let log_f = linear + self.layer.log_normalizer(fields.iter().copied());
        (log_f, units.to_vec())
    }

    /// The configurations that differ in one unit.
    fn neighbours(&self, units: &[bool]) -> Vec<Configuration> {
        let (linear, fields) = self.given(units);
        let neighbour = |j: usize| {
            let sign = if units[j] { -1.0 } else { 1.0 };
            let weights = self.transposed.column(j);
            let fields = fields.iter().zip(&weights).map(|(x, w)| x + sign * w);
            let log_f = linear + sign * self.hidden_bias[j] + self.layer.log_normalizer(fields);
            let mut units = units.to_vec();
            units[j] = !units[j];
            (log_f, units)
        };
        (0..units.len()).map(neighbour).collect()
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
