//! The mean-field equations of an RBM, and the base made from their solutions.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::RngExt;

use crate::num::{Simd, exp_of_negative, sigmoid, vectorized};
use crate::random::{Purpose, stream, successive};
use crate::rbm::enumerate::map_tasks;
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::{Error, Result};

/// Number of starts that move together, as the columns of a matrix. It is fixed, so the number of threads does not
/// change the result.
pub(crate) const BLOCK: usize = 16;
/// Change of probabilities below which a mean-field solution for a base counts as found.
const TOLERANCE: f64 = 1e-6;
/// Largest number of sweeps, in case rounding keeps a solution from settling.
const MAX_SWEEPS: usize = 10_000;

impl<T: Scalar> BaseRate<T> {
    /// Creates a base for `rbm` from its parameters alone, without data (Mazzanti and Romero 2020).
    ///
    /// A solution of the mean-field equations `mu = sigmoid(a + W m)`, `m = sigmoid(b + W^T mu)` describes one mode.
    /// The equations are iterated from `starts` states of fair coins. The base has the mean of the resulting
    /// probabilities `m`, and so covers several modes. `docs/notes/bases.md` compares it with other bases.
    ///
    /// # Errors
    /// If `starts` is 0 or too large.
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
        let coins = Vec::from_iter(coin_blocks(rbm.visible_units(), starts, seed));
        let blocks = map_tasks(coins.len(), |block| {
            let logits = equations.solve(&coins[block], TOLERANCE);
            // Both sums are kept, because 1 - m would lose the digits of a probability that is near 1.
            let on = logits.map(sigmoid).column_sum();
            (on, logits.map(|x| sigmoid(-x)).column_sum())
        });
        let (on, off): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let sum = |parts: Vec<DVector<f64>>| {
            let zero = DVector::zeros(rbm.visible_units());
            parts.iter().fold(zero, |sum, part| sum + part)
        };
        // A probability that underflows is raised, but not to the least positive number: the ratio would overflow.
        let least = |x: f64| x.max(1e-300);
        let logits = sum(on).zip_map(&sum(off), |on, off| {
            T::nearest((least(on) / least(off)).ln())
        });
        Self::new(rbm.hidden_units(), logits)
    }
}

/// Draws `starts` states of fair coins, in blocks of columns.
pub(crate) fn coin_blocks(
    units: usize,
    starts: usize,
    seed: u64,
) -> impl Iterator<Item = DMatrix<f64>> {
    let streams = successive(stream(seed, Purpose::MEAN_FIELD, 0)).enumerate();
    let blocks = streams.take(starts.div_ceil(BLOCK));
    blocks.map(move |(block, mut rng)| {
        let columns = BLOCK.min(starts - block * BLOCK);
        DMatrix::from_fn(units, columns, |_, _| f64::from(rng.random::<bool>()))
    })
}

/// A visible layer: independent units with the density `exp(x.s(v))` at fields x.
pub(crate) trait Layer: Sync {
    /// Returns the means of the statistics s, the gradient of the log normalizer.
    fn means(&self, fields: DVectorView<'_, f64>) -> DVector<f64>;

    /// Returns the log normalizer at `fields + step * direction`. It is convex in the fields.
    fn log_normalizer(&self, fields: &[f64], step: f64, direction: &[f64]) -> f64;

    /// Returns the size of a change of the means, to compare with a tolerance.
    fn size(&self, step: DVector<f64>) -> f64;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BinaryLayer(Simd);

impl Layer for BinaryLayer {
    fn means(&self, fields: DVectorView<'_, f64>) -> DVector<f64> {
        fields.map(sigmoid)
    }

    /// Returns the sum of `log(1 + e^x)` over the fields x, with the same bits at every SIMD level.
    fn log_normalizer(&self, fields: &[f64], step: f64, direction: &[f64]) -> f64 {
        vectorized!(self.0, FUSED, sum_of_softplus(fields, step, direction))
    }

    fn size(&self, step: DVector<f64>) -> f64 {
        step.amax()
    }
}

const LANES: usize = 8;
/// Number of factors in a product. Each factor is at most 2, so the product stays in range.
const FACTORS: usize = 512;

/// Returns the sum of `log(1 + e^x)` over `x = field + step * slope`, by logarithms of products. Products are stored
/// minus 1, to keep the digits of small terms.
#[inline(always)]
fn sum_of_softplus(fields: &[f64], step: f64, slopes: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let length = FACTORS * LANES;
    let parts = fields.chunks(length).zip(slopes.chunks(length));
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

/// The mean-field equations of a machine with visible layer `L`, in double precision.
pub(crate) struct MeanField<L = BinaryLayer> {
    weights: DMatrix<f64>,
    pub(super) transposed: DMatrix<f64>,
    pub(super) hidden_bias: DVector<f64>,
    pub(super) visible_bias: DVector<f64>,
    pub(super) layer: L,
}

impl MeanField {
    pub(super) fn new<T: Scalar>(rbm: &Rbm<T>) -> Self {
        let [a, b] = [rbm.hidden_bias(), rbm.visible_bias()].map(|bias| bias.map(T::as_));
        Self::of(BinaryLayer(Simd::best()), rbm.weights().map(T::as_), a, b)
    }

    /// Returns the equations with the roles of the layers exchanged.
    pub(super) fn exchanged(self) -> Self {
        Self::of(
            self.layer,
            self.transposed,
            self.visible_bias,
            self.hidden_bias,
        )
    }
}

impl<L: Layer> MeanField<L> {
    /// Creates the equations from weights (M x S), hidden biases (M), and visible fields if no hidden unit is on (S).
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

    /// Iterates the equations from each column of visible means, and returns the fields `b + W^T mu` of the solutions.
    /// A column stops when its step is smaller than `tolerance`. The sweeps end, because a change d of a probability
    /// raises the bound by at least `2 d^2`.
    pub(super) fn solve(&self, visible: &DMatrix<f64>, tolerance: f64) -> DMatrix<f64> {
        let (mut visible, mut fields) = (visible.clone(), visible.clone());
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

    /// Returns the logits `a + W m` for each column of visible means.
    pub(super) fn hidden_logits(&self, visible: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.weights, visible, &self.hidden_bias)
    }

    /// Returns the fields `b + W^T mu` for each column of hidden probabilities.
    pub(super) fn visible_fields(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.transposed, hidden, &self.visible_bias)
    }

    pub(super) fn means_of(&self, fields: &DMatrix<f64>) -> DMatrix<f64> {
        let columns = fields.column_iter().map(|column| self.layer.means(column));
        DMatrix::from_columns(&Vec::from_iter(columns))
    }

    pub(crate) fn visible_means(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        self.means_of(&self.visible_fields(hidden))
    }
}

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
