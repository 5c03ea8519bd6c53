//! Block Gibbs sampling of one RBM by many chains at once.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};

use crate::num::{Simd, vectorized};
use crate::random::Lanes;
use crate::rbm::engine::{
    ActiveUnits, Layer, PanelRow, Panels, Row, WeightMatrix, Words, draw_units,
    logits_to_probabilities,
};
use crate::rbm::{Rbm, Scalar};

/// An RBM in the form that sampling needs.
#[derive(Debug)]
pub(crate) struct Sampler<T> {
    pub(super) engine: Simd,
    up: Panels<Row<T>>,
    down: Panels<Row<T>>,
    hidden_bias: Vec<Row<T>>,
    visible_bias: Vec<Row<T>>,
}

impl<T: Scalar> Sampler<T> {
    /// Creates a sampler that uses the best SIMD level of the processor.
    pub(crate) fn new(rbm: &Rbm<T>) -> Self {
        let mut sampler = Self {
            engine: Simd::best(),
            up: Panels::default(),
            down: Panels::default(),
            hidden_bias: Vec::new(),
            visible_bias: Vec::new(),
        };
        sampler.set(rbm);
        sampler
    }

    pub(crate) fn set(&mut self, rbm: &Rbm<T>) {
        self.up.set(WeightMatrix::Upright(rbm.weights()));
        self.down.set(WeightMatrix::Transposed(rbm.weights()));
        self.hidden_bias = Row::panels(rbm.hidden_bias().as_slice());
        self.visible_bias = Row::panels(rbm.visible_bias().as_slice());
    }
}

/// The states of a population of chains, with buffers.
#[derive(Debug)]
pub(crate) struct TrainingChains<T: Scalar> {
    visible: Layer,
    hidden: Layer,
    /// `P(h = 1 | v)` (M x chains).
    expected: DMatrix<T>,
    /// The transposed visible units: a chain per visible unit, with a unit per chain.
    turned: Layer,
    /// For each chain, its products with the weights of one panel of units.
    products: Vec<Row<T>>,
    /// For each visible unit, the sums over chains of its products with one panel of hidden units.
    moments: Vec<Row<T>>,
    words: Words,
    active: ActiveUnits,
}

/// A number per parameter of a machine: the sums over chains of `h v^T`, `h` and `v`, or an update by them.
#[derive(Debug)]
pub(crate) struct ParameterSums<T: Scalar> {
    pub(crate) weights: DMatrix<T>,
    pub(crate) hidden_bias: DVector<T>,
    pub(crate) visible_bias: DVector<T>,
}

impl<T: Scalar> TrainingChains<T> {
    pub(crate) fn zeros(hidden: usize, visible: usize, chains: usize) -> Self {
        Self {
            visible: Layer::zeros(visible, chains),
            hidden: Layer::zeros(hidden, chains),
            expected: DMatrix::zeros(hidden, chains),
            turned: Layer::zeros(chains, visible),
            products: vec![Row::zero(); chains],
            moments: vec![Row::zero(); visible],
            words: Words::default(),
            active: ActiveUnits::default(),
        }
    }

    /// Creates chains whose visible units are on with probability 1/2.
    pub(crate) fn random<R: Rng>(
        hidden: usize,
        visible: usize,
        chains: usize,
        rng: &mut R,
    ) -> Self {
        let mut found = Self::zeros(hidden, visible, chains);
        for chain in 0..chains {
            let start: Vec<bool> = (0..visible).map(|_| rng.random()).collect();
            found.visible.load(chain, &start);
        }
        found
    }

    pub(crate) fn start_at<'a>(&mut self, rows: impl Iterator<Item = &'a Vec<bool>>) {
        for (chain, row) in rows.enumerate() {
            self.visible.load(chain, row);
        }
    }

    pub(crate) fn start_where(&mut self, other: &Self) {
        self.visible.clone_from(&other.visible);
    }

    pub(crate) fn visible_states(&self) -> Vec<Vec<bool>> {
        let state = |chain| {
            let mut state = vec![false; self.visible.units()];
            self.visible.store(chain, &mut state);
            state
        };
        (0..self.visible.chains()).map(state).collect()
    }

    /// Runs one sweep of every chain, v -> h -> v.
    pub(crate) fn sweep(&mut self, sampler: &Sampler<T>, lanes: &mut Lanes) {
        let layers = [
            (&sampler.up, &sampler.hidden_bias),
            (&sampler.down, &sampler.visible_bias),
        ];
        let (mut from, mut to) = (&mut self.visible, &mut self.hidden);
        for (weights, biases) in layers {
            self.active.read(sampler.engine, from);
            for (panel, bias) in biases.iter().enumerate() {
                weights.multiply(sampler.engine, panel, &self.active, &mut self.products);
                let words = self
                    .words
                    .draw::<T>(sampler.engine, lanes, self.products.len());
                let drawn = self.products.iter().zip(words).zip(to.panel_mut(panel));
                vectorized!(sampler.engine, FUSED, {
                    for ((products, words), units) in drawn {
                        let logits = products.plus(bias);
                        let (sums, zero) = (logits.0.each_ref(), Row::zero());
                        draw_units::<T, Row<T>, FUSED>(sums, T::LOG2_E(), &zero, words, units);
                    }
                });
            }
            (from, to) = (to, from);
        }
    }

    /// Adds `scale` times the sums over chains of `h v^T`, `h` and `v` to `sums`, with `P(h = 1 | v)` for `h`.
    pub(crate) fn accumulate(
        &mut self,
        sampler: &Sampler<T>,
        scale: T,
        sums: &mut ParameterSums<T>,
    ) {
        self.expect_hidden(sampler);
        // The sum over chains of `h v_i` is a product too: chains are the inputs, and a chain is on if its `v_i` is.
        self.turned.set_transposed(&self.visible);
        let engine = sampler.engine;
        let expected: Panels<Row<T>> = Panels::new(WeightMatrix::Upright(&self.expected));
        self.active.read(engine, &self.turned);
        let hidden = self.expected.nrows();
        for panel in 0..sampler.hidden_bias.len() {
            expected.multiply(engine, panel, &self.active, &mut self.moments);
            let columns = sums.weights.as_mut_slice().chunks_exact_mut(hidden);
            vectorized!(engine, FUSED, {
                for (moments, column) in self.moments.iter().zip(columns) {
                    moments.add_scaled(panel, scale, column);
                }
            });
        }
        for h in self.expected.column_iter() {
            sums.hidden_bias.axpy(scale, &h, T::one());
        }
        for (unit, sum) in sums.visible_bias.iter_mut().enumerate() {
            let lines = self.turned.chain(unit).iter();
            let on: u32 = lines.flat_map(|line| line.0).map(u32::from).sum();
            *sum += scale * T::nearest(on.into());
        }
    }

    pub(crate) fn sums(&mut self, sampler: &Sampler<T>, scale: T) -> ParameterSums<T> {
        let mut sums = ParameterSums::zeros(self.hidden.units(), self.visible.units());
        self.accumulate(sampler, scale, &mut sums);
        sums
    }

    /// Computes `P(h = 1 | v)`.
    fn expect_hidden(&mut self, sampler: &Sampler<T>) {
        let engine = sampler.engine;
        let hidden = self.expected.nrows();
        self.active.read(engine, &self.visible);
        for (panel, bias) in sampler.hidden_bias.iter().enumerate() {
            sampler
                .up
                .multiply(engine, panel, &self.active, &mut self.products);
            let expected = self.expected.as_mut_slice().chunks_exact_mut(hidden);
            vectorized!(engine, FUSED, {
                for (products, expected) in self.products.iter().zip(expected) {
                    let mut logits = products.plus(bias);
                    logits_to_probabilities::<T, FUSED>(&mut logits);
                    logits.write(panel, expected);
                }
            });
        }
    }
}

impl<T: Scalar> ParameterSums<T> {
    pub(crate) fn zeros(hidden: usize, visible: usize) -> Self {
        Self {
            weights: DMatrix::zeros(hidden, visible),
            hidden_bias: DVector::zeros(hidden),
            visible_bias: DVector::zeros(visible),
        }
    }

    /// Begins the next update from this one: `momentum` times this update, less `decay` times the `weights`.
    pub(crate) fn repeat(&mut self, engine: Simd, momentum: T, decay: T, weights: &DMatrix<T>) {
        let (step, weights) = (self.weights.as_mut_slice(), weights.as_slice());
        vectorized!(engine, FUSED, {
            for (step, weight) in step.iter_mut().zip(weights) {
                *step = momentum * *step - decay * *weight;
            }
        });
        self.hidden_bias *= momentum;
        self.visible_bias *= momentum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests sizes around 5, up to which nalgebra's product would write past the end of a matrix with a row stride.
    #[test]
    fn sums_of_moments_are_right_at_small_sizes() {
        const SIZES: [usize; 6] = [1, 2, 4, 5, 6, 8];
        let pairs = SIZES.into_iter().flat_map(|m| SIZES.map(|d| (m, d)));
        for (hidden, visible) in pairs {
            let weights = DMatrix::from_fn(hidden, visible, |j, i| j as f64 - 0.5 * i as f64);
            let biases = DVector::from_fn(hidden, |j, _| 0.25 * j as f64);
            let rbm = Rbm::new(weights, biases, DVector::zeros(visible)).unwrap();
            for chains in SIZES {
                let rows: Vec<Vec<bool>> = (0..chains)
                    .map(|c| (0..visible).map(|i| (c + i) % 3 == 0).collect())
                    .collect();
                let mut found = TrainingChains::zeros(hidden, visible, chains);
                found.start_at(rows.iter());
                let sums = found.sums(&Sampler::new(&rbm), 0.5);
                let expected = |j: usize, i: usize| -> f64 {
                    let on = rows.iter().filter(|row| row[i]);
                    0.5 * on.map(|row| probability(&rbm, j, row)).sum::<f64>()
                };
                let weights = DMatrix::from_fn(hidden, visible, expected);
                let error = (&sums.weights - weights).amax();
                assert!(error < 1e-12, "{hidden} x {visible}, {chains}: {error:e}");
            }
        }
    }

    fn probability(rbm: &Rbm<f64>, unit: usize, row: &[bool]) -> f64 {
        let weights = rbm.weights().row(unit);
        let on = weights.iter().zip(row).filter(|(_, on)| **on);
        let logit = rbm.hidden_bias()[unit] + on.map(|(w, _)| w).sum::<f64>();
        1.0 / (1.0 + (-logit).exp())
    }
}
