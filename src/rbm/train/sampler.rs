//! Block Gibbs sampling of one RBM by many chains.

use nalgebra::{DMatrix, DMatrixView, DVector};
use rand::{Rng, RngExt};

use crate::num::{Available, vectorized};
use crate::random::Lanes;
use crate::rbm::Rbm;
use crate::rbm::engine::Layer;
use crate::rbm::engine::Row;
use crate::rbm::engine::Words;
use crate::rbm::engine::{Inputs, ProductBuffers, Weights};
use crate::rbm::engine::{draw_units, logits_to_probabilities};
use crate::rbm::scalar::Scalar;

/// An RBM in the form that sampling wants it in.
#[derive(Debug)]
pub(crate) struct Sampler<T> {
    engine: Available,
    up: Weights<T>,
    down: Weights<T>,
    hidden_bias: Vec<Row<T>>,
    visible_bias: Vec<Row<T>>,
}

impl<T: Scalar> Sampler<T> {
    /// With the best engine but for tiles, which take long to fill with new weights.
    pub(crate) fn new(rbm: &Rbm<T>) -> Self {
        let engine = Available::best().without_tiles();
        Self {
            engine,
            up: Weights::new(engine, rbm.weights()),
            down: Weights::transposed(engine, rbm.weights()),
            hidden_bias: Row::panels(rbm.hidden_bias().as_slice()),
            visible_bias: Row::panels(rbm.visible_bias().as_slice()),
        }
    }

    /// Takes other parameters of the same shape.
    pub(crate) fn set(&mut self, rbm: &Rbm<T>) {
        self.up.set(rbm.weights());
        self.down.set_transposed(rbm.weights());
        self.hidden_bias = Row::panels(rbm.hidden_bias().as_slice());
        self.visible_bias = Row::panels(rbm.visible_bias().as_slice());
    }
}

/// The states of a number of chains, and buffers.
#[derive(Debug, Clone)]
pub(crate) struct Chains<T: Scalar> {
    visible: Layer,
    hidden: Layer,
    /// `P(h = 1 | v)` (M x chains), where asked for.
    expected: DMatrix<T>,
    /// The visible units (D x chains), where asked for.
    values: DMatrix<T>,
    sums: Vec<Row<T>>,
    words: Words,
    scratch: ProductBuffers<T>,
}

/// Sums over chains of `h v^T`, `h` and `v`.
#[derive(Debug)]
pub(crate) struct ParameterSums<T: Scalar> {
    pub(crate) weights: DMatrix<T>,
    pub(crate) hidden_bias: DVector<T>,
    pub(crate) visible_bias: DVector<T>,
}

impl<T: Scalar> Chains<T> {
    pub(crate) fn zeros(hidden: usize, visible: usize, chains: usize) -> Self {
        Self {
            visible: Layer::zeros(visible, chains),
            hidden: Layer::zeros(hidden, chains),
            expected: DMatrix::zeros(hidden, chains),
            values: DMatrix::zeros(visible, chains),
            sums: vec![Row::zero(); chains],
            words: Words::for_chains::<T>(chains),
            scratch: ProductBuffers::default(),
        }
    }

    /// Visible units on with probability 1/2.
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

    /// Puts the chains at rows of data, one each.
    pub(crate) fn start_at<'a>(&mut self, rows: impl Iterator<Item = &'a Vec<bool>>) {
        for (chain, row) in rows.enumerate() {
            self.visible.load(chain, row);
        }
    }

    /// Puts the chains where the others are.
    pub(crate) fn start_where(&mut self, other: &Self) {
        self.visible.clone_from(&other.visible);
    }

    /// Number of chains.
    pub(crate) fn len(&self) -> usize {
        self.sums.len()
    }

    /// v -> h -> v.
    pub(crate) fn sweep(&mut self, sampler: &Sampler<T>, lanes: &mut Lanes) {
        let Self {
            visible,
            hidden,
            sums,
            words,
            scratch,
            ..
        } = self;
        let layers = [
            (&sampler.up, &sampler.hidden_bias),
            (&sampler.down, &sampler.visible_bias),
        ];
        let engine = sampler.engine;
        let (mut from, mut to) = (visible, hidden);
        for (weights, biases) in layers {
            let mut inputs = Inputs::new(engine, from, scratch);
            for (panel, bias) in biases.iter().enumerate() {
                weights.multiply(panel, &mut inputs, sums);
                let words = words.draw::<T>(engine, lanes);
                let drawn = sums.iter().zip(words).zip(to.panel_mut(panel));
                vectorized!(engine, FUSED, {
                    for ((sums, words), units) in drawn {
                        draw_units::<T, FUSED>(&sums.plus(bias), words, units);
                    }
                });
            }
            (from, to) = (to, from);
        }
    }

    /// Computes `P(h = 1 | v)`.
    pub(crate) fn expect_hidden(&mut self, sampler: &Sampler<T>) {
        let engine = sampler.engine;
        let hidden = self.expected.nrows();
        let mut inputs = Inputs::new(engine, &self.visible, &mut self.scratch);
        for (panel, bias) in sampler.hidden_bias.iter().enumerate() {
            sampler.up.multiply(panel, &mut inputs, &mut self.sums);
            let expected = self.expected.as_mut_slice().chunks_exact_mut(hidden);
            vectorized!(engine, FUSED, {
                for (sums, expected) in self.sums.iter().zip(expected) {
                    let mut logits = sums.plus(bias);
                    logits_to_probabilities::<T, FUSED>(&mut logits);
                    logits.write(panel, expected);
                }
            });
        }
    }

    /// Adds `scale` times the sum over chains of `h v^T`, `h` and `v`, with what is expected of h.
    pub(crate) fn accumulate(&mut self, scale: T, gradient: &mut ParameterSums<T>) {
        let units = self.visible.units();
        let columns = self.values.as_mut_slice().chunks_exact_mut(units);
        for (chain, values) in columns.enumerate() {
            let lines = self.visible.chain(chain).iter().flat_map(|line| &line.0);
            for (value, &unit) in values.iter_mut().zip(lines) {
                *value = T::from_unit(unit);
            }
        }
        // Transposed, only as a right factor: as a left one, where a size is 5 or less, nalgebra 0.35
        // writes past its end.
        let values = self.values.as_slice();
        let transposed = DMatrixView::from_slice_with_strides(values, self.len(), units, units, 1);
        gradient
            .weights
            .gemm(scale, &self.expected, &transposed, T::one());
        for (h, v) in self.expected.column_iter().zip(self.values.column_iter()) {
            gradient.hidden_bias.axpy(scale, &h, T::one());
            gradient.visible_bias.axpy(scale, &v, T::one());
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
}
