//! The mean-field equations of an RBM, and the base that they give, from its parameters alone.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::RngExt;

use crate::num::{Simd, exp_of_negative, sigmoid, vectorized};
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::rbm::enumerate::map_tasks;
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::{Error, Result};

/// Starts that move together, as the columns of a matrix. Fixed, so that the result does not depend on the threads.
pub(crate) const BLOCK: usize = 16;
/// The change in every probability at which the solution of a base is found.
const TOLERANCE: f64 = 1e-6;
/// Where rounding keeps a solution from being found.
const MAX_SWEEPS: usize = 10_000;

impl<T: Scalar> BaseRate<T> {
    /// Makes a base for `rbm` from its parameters alone, where there are no data (Mazzanti and Romero 2020).
    ///
    /// A solution of the mean-field equations `mu = sigmoid(a + W m)`, `m = sigmoid(b + W^T mu)` is a stationary point of the bound
    /// `b.m + a.mu + mu^T W m + H(m) + H(mu) <= log Z`, H the entropy, and describes one mode. The equations are applied in turn
    /// from `starts` states of fair coins; the base has the mean of the probabilities `m` that they lead to, and so covers several
    /// modes. What that gains: `docs/bases.md`.
    ///
    /// # Errors
    /// Where there is no start, or more than can be worked off.
    ///
    /// ```
    /// use annealed::rbm::{BaseRate, Rbm, RbmPath};
    /// use nalgebra::dmatrix;
    ///
    /// let weights = dmatrix![4.0, 4.0, -4.0; -2.0, 1.0, 0.0];
    /// let rbm = Rbm::<f64>::new(weights, vec![-2.0, 0.0].into(), vec![-1.0, -2.0, 2.0].into())?;
    /// let path = RbmPath::new(BaseRate::mean_field(&rbm, 64, 0)?, rbm)?;
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn mean_field(rbm: &Rbm<T>, starts: usize, seed: u64) -> Result<Self> {
        Error::check_count("starts", starts, 1)?;
        let equations = MeanField::new(rbm);
        let streams = streams(seed, starts);
        let blocks = map_tasks(streams.len(), |block| {
            let columns = BLOCK.min(starts - block * BLOCK);
            let start = coins(rbm.visible_units(), columns, streams[block].clone());
            let logits = equations.solve(start, TOLERANCE);
            let on = logits.map(sigmoid).column_sum();
            (on, logits.map(|x| sigmoid(-x)).column_sum())
        });
        let (on, off): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let sum = |parts: Vec<DVector<f64>>| {
            let zero = DVector::zeros(rbm.visible_units());
            parts.iter().fold(zero, |sum, part| sum + part)
        };
        // Probabilities that underflow count as the least that there is.
        let least = |x: f64| x.max(f64::MIN_POSITIVE);
        let logits = sum(on).zip_map(&sum(off), |on, off| {
            T::nearest((least(on) / least(off)).ln())
        });
        Self::new(rbm.hidden_units(), logits)
    }
}

/// The streams of the blocks of so many starts.
fn streams(seed: u64, starts: usize) -> Vec<StreamRng> {
    let first = stream(seed, Purpose::MeanField, 0);
    successive(first).take(starts.div_ceil(BLOCK)).collect()
}

/// Blocks of `starts` states of fair coins, as columns.
pub(crate) fn coin_blocks(
    units: usize,
    starts: usize,
    seed: u64,
) -> impl Iterator<Item = DMatrix<f64>> {
    let columns = move |block| BLOCK.min(starts - block * BLOCK);
    let streams = streams(seed, starts).into_iter().enumerate();
    streams.map(move |(block, rng)| coins(units, columns(block), rng))
}

/// A block of states of fair coins, as columns.
fn coins(units: usize, columns: usize, mut rng: StreamRng) -> DMatrix<f64> {
    DMatrix::from_fn(units, columns, |_, _| f64::from(rng.random::<bool>()))
}

/// A visible layer: independent units with the density `exp(x.s(v))`, x their fields.
pub(crate) trait Layer: Sync {
    /// The means of the statistics s, the gradient of the log normalizer.
    fn means(&self, fields: DVectorView<'_, f64>) -> DVector<f64>;

    /// The log of the sum or integral of the density at `fields + step * direction`; it is convex in the fields.
    fn log_normalizer(&self, fields: &[f64], step: f64, direction: &[f64]) -> f64;

    /// The size of a step of the means, which a tolerance is compared with.
    fn size(&self, step: DVector<f64>) -> f64;
}

/// Visible units of 0 and 1, whose fields are their logits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits(Simd);

impl Layer for Bits {
    fn means(&self, fields: DVectorView<'_, f64>) -> DVector<f64> {
        fields.map(sigmoid)
    }

    /// The sum of `log(1 + e^x)`, with the same bits on every engine.
    fn log_normalizer(&self, fields: &[f64], step: f64, direction: &[f64]) -> f64 {
        vectorized!(self.0, FUSED, sum_of_softplus(fields, step, direction))
    }

    /// The largest change of a probability.
    fn size(&self, step: DVector<f64>) -> f64 {
        step.amax()
    }
}

/// Sums that grow side by side.
const LANES: usize = 8;
/// Factors of a product of at most 2 each, which stays in range.
const FACTORS: usize = 512;

/// The sum of `log(1 + e^x)` over `x = field + step * slope`, by logarithms of products. The products are kept less 1, so
/// that small terms keep their digits.
#[inline(always)]
fn sum_of_softplus(fields: &[f64], step: f64, slopes: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let parts = fields
        .chunks(FACTORS * LANES)
        .zip(slopes.chunks(FACTORS * LANES));
    for (fields, slopes) in parts {
        let mut products = [0.0; LANES];
        for (fields, slopes) in fields.chunks(LANES).zip(slopes.chunks(LANES)) {
            let pairs = fields.iter().zip(slopes);
            for ((x, slope), (sum, product)) in pairs.zip(sums.iter_mut().zip(&mut products)) {
                let x = x + step * slope;
                *sum += x.max(0.0);
                *product += exp_of_negative(-x.abs()) * (1.0 + *product);
            }
        }
        let products = sums.iter_mut().zip(products);
        products.for_each(|(sum, product)| *sum += product.ln_1p());
    }
    sums.iter().sum()
}

/// The mean-field equations of a machine with this visible layer, in double precision.
pub(crate) struct MeanField<L = Bits> {
    weights: DMatrix<f64>,
    pub(super) transposed: DMatrix<f64>,
    pub(super) hidden_bias: DVector<f64>,
    pub(super) visible_bias: DVector<f64>,
    pub(super) layer: L,
}

impl MeanField {
    pub(super) fn new<T: Scalar>(rbm: &Rbm<T>) -> Self {
        let (a, b) = (
            rbm.hidden_bias().map(T::as_),
            rbm.visible_bias().map(T::as_),
        );
        Self::of(Bits(Simd::best()), rbm.weights().map(T::as_), a, b)
    }
}

impl<L: Layer> MeanField<L> {
    /// From weights (M x S), hidden biases (M), and the fields of the visible units without the hidden ones (S).
    pub(crate) fn of(
        layer: L,
        weights: DMatrix<f64>,
        hidden_bias: DVector<f64>,
        visible_bias: DVector<f64>,
    ) -> Self {
        Self {
            transposed: weights.transpose(),
            weights,
            hidden_bias,
            visible_bias,
            layer,
        }
    }

    /// The fields `b + W^T mu` of the solution to which each column of visible means leads, where the step of a sweep is
    /// smaller than `tolerance`.
    ///
    /// A sweep that changes a probability by d raises the bound by `2 d^2` or more, so that the sweeps end.
    pub(super) fn solve(&self, mut visible: DMatrix<f64>, tolerance: f64) -> DMatrix<f64> {
        let mut fields = visible.clone();
        let mut moving = Vec::from_iter(0..visible.ncols());
        for _ in 0..MAX_SWEEPS {
            let hidden = self.hidden_logits(&visible.select_columns(&moving));
            let swept = self.visible_fields(&hidden.map(sigmoid));
            let mut swept = swept.column_iter();
            moving.retain(|&column| {
                let swept = swept.next().expect("a column for each that moves");
                let next = self.layer.means(swept);
                let change = self.layer.size(&next - visible.column(column));
                fields.set_column(column, &swept);
                visible.set_column(column, &next);
                change >= tolerance
            });
            if moving.is_empty() {
                break;
            }
        }
        fields
    }

    /// The logits `a + W m` for each column of visible means.
    pub(super) fn hidden_logits(&self, visible: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.weights, visible, &self.hidden_bias)
    }

    /// The fields `b + W^T mu` for each column of hidden probabilities.
    pub(super) fn visible_fields(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.transposed, hidden, &self.visible_bias)
    }

    /// The visible means for each column of their fields.
    pub(super) fn means_of(&self, fields: &DMatrix<f64>) -> DMatrix<f64> {
        let columns = fields.column_iter().map(|column| self.layer.means(column));
        DMatrix::from_columns(&Vec::from_iter(columns))
    }

    /// The visible means for each column of hidden probabilities.
    pub(crate) fn visible_means(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        self.means_of(&self.visible_fields(hidden))
    }
}

/// The biases and what the weights add, for each column of units.
fn activations(
    weights: &DMatrix<f64>,
    units: &DMatrix<f64>,
    biases: &DVector<f64>,
) -> DMatrix<f64> {
    let mut sums = weights * units;
    for mut column in sums.column_iter_mut() {
        column += biases;
    }
    sums
}
