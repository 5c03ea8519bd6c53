//! Simulated annealing of the configurations of one layer, whose marginal is known in closed form.

use rand::RngExt;

use crate::num::sigmoid;
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::rbm::enumerate::map_tasks;
use crate::rbm::mean_field::{Layer, MeanField};

/// Power gamma of the marginal `f(h)` at the last sweep. At power 1 chains would still wander around a mode.
const LAST_POWER: f64 = 2.0;

impl<L: Layer> MeanField<L> {
    /// Returns the final configurations of chains that start at fair coins and sample `f(h)^gamma` while gamma rises. Each
    /// chain takes this number of `sweeps`.
    ///
    /// The other layer is summed out. This removes barriers between v and h that would slow down block Gibbs sampling.
    /// Gamma rises geometrically. It starts at 1 over the root mean square change of `log f` by a flip of one unit.
    pub(super) fn cool(&self, chains: usize, sweeps: usize, seed: u64) -> Vec<Vec<bool>> {
        let first = stream(seed, Purpose::COOLING, 0);
        let streams: Vec<StreamRng> = successive(first).take(chains).collect();
        map_tasks(chains, |chain| {
            self.cool_one(sweeps, streams[chain].clone())
        })
    }

    fn cool_one(&self, sweeps: usize, mut rng: StreamRng) -> Vec<bool> {
        let coins = (0..self.hidden_bias.len()).map(|_| rng.random()).collect();
        let mut at = Position::new(self, coins);
        let squares: f64 = (0..at.units.len()).map(|j| at.gain(j).0.powi(2)).sum();
        // Without the bound gamma would fall if `log f` is nearly flat, and be infinite if no flip changes it.
        let first = (at.units.len() as f64 / squares).sqrt().min(LAST_POWER);
        for sweep in 0..sweeps {
            let part = sweep as f64 / (sweeps.max(2) - 1) as f64;
            let power = first * (LAST_POWER / first).powf(part);
            for j in 0..at.units.len() {
                let (gain, after) = at.gain(j);
                if rng.random::<f64>() < sigmoid(power * gain) {
                    at.flip(j, after);
                }
            }
        }
        at.units
    }
}

/// A configuration of the layer, with the fields (logits, for 0/1 units) that it gives to the units of the other layer.
struct Position<'m, L> {
    of: &'m MeanField<L>,
    units: Vec<bool>,
    fields: Vec<f64>,
    log_normalizer: f64,
}

impl<'m, L: Layer> Position<'m, L> {
    fn new(of: &'m MeanField<L>, units: Vec<bool>) -> Self {
        let fields = of.given(&units).1.as_slice().to_vec();
        let log_normalizer = of.layer.log_normalizer(&fields, 0.0, &fields);
        Self {
            of,
            units,
            fields,
            log_normalizer,
        }
    }

    fn sign(&self, j: usize) -> f64 {
        if self.units[j] { -1.0 } else { 1.0 }
    }

    /// Returns the change of `log f` by a flip of unit `j`, and the other layer's log normalizer after the flip.
    fn gain(&self, j: usize) -> (f64, f64) {
        let (sign, weights) = (self.sign(j), self.of.transposed.column(j));
        let layer = &self.of.layer;
        let after = layer.log_normalizer(&self.fields, sign, weights.as_slice());
        let gain = sign * self.of.hidden_bias[j] + after - self.log_normalizer;
        (gain, after)
    }

    fn flip(&mut self, j: usize, after: f64) {
        let sign = self.sign(j);
        let weights = self.of.transposed.column(j);
        (self.fields.iter_mut().zip(weights.iter())).for_each(|(x, w)| *x += sign * w);
        self.units[j] = !self.units[j];
        self.log_normalizer = after;
    }
}
