//! The mean-field equations of an RBM, and the base that they give, from its parameters alone.

use nalgebra::{DMatrix, DVector};
use rand::RngExt;

use crate::num::{Available, sigmoid};
use crate::random::{Purpose, StreamRng, stream, successive};
use crate::rbm::base_rate::BaseRate;
use crate::rbm::enumerate::map_tasks;
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// Starts that move together, as the columns of a matrix. Fixed, so that the result does not depend on the threads.
pub(super) const BLOCK: usize = 16;
/// The change in every probability at which the solution of a base is found.
const TOLERANCE: f64 = 1e-6;
/// Where rounding keeps a solution from being found.
const MAX_SWEEPS: usize = 10_000;

impl<T: Scalar> BaseRate<T> {
    /// A base for `rbm` from its parameters alone, where there are no data.
    ///
    /// A solution of the mean-field equations
    ///
    /// `mu = sigmoid(a + W m)`, `m = sigmoid(b + W^T mu)`
    ///
    /// holds a probability for each hidden and each visible unit. It is a stationary point of the bound
    /// `b.m + a.mu + mu^T W m + H(m) + H(mu) <= log Z`, H the entropy, and describes one mode of the machine. The
    /// equations are applied in turn, which never lowers the bound, from so many `starts`: states of fair coins.
    /// The base has the mean of the probabilities `m` that they lead to, each solution as often as it is found. So it
    /// covers several modes, where one solution, even that of the highest bound, may be a worse base than fair coins.
    ///
    /// The use of such bases is due to Mazzanti and Romero (2020). What they gain: `docs/bases.md`.
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
pub(super) fn streams(seed: u64, starts: usize) -> Vec<StreamRng> {
    let first = stream(seed, Purpose::MeanField, 0);
    successive(first).take(starts.div_ceil(BLOCK)).collect()
}

/// A block of states of fair coins, as columns.
pub(super) fn coins(units: usize, columns: usize, mut rng: StreamRng) -> DMatrix<f64> {
    DMatrix::from_fn(units, columns, |_, _| f64::from(rng.random::<bool>()))
}

/// The mean-field equations, in double precision.
pub(super) struct MeanField {
    weights: DMatrix<f64>,
    pub(super) transposed: DMatrix<f64>,
    pub(super) hidden_bias: DVector<f64>,
    pub(super) visible_bias: DVector<f64>,
    pub(super) engine: Available,
}

impl MeanField {
    pub(super) fn new<T: Scalar>(rbm: &Rbm<T>) -> Self {
        let weights = rbm.weights().map(T::as_);
        Self {
            transposed: weights.transpose(),
            weights,
            hidden_bias: rbm.hidden_bias().map(T::as_),
            visible_bias: rbm.visible_bias().map(T::as_),
            engine: Available::best(),
        }
    }

    /// The logits `b + W^T mu` of the solution to which each column of probabilities leads, where a sweep changes none of
    /// them by `tolerance`.
    ///
    /// A sweep that changes a probability by d raises the bound by `2 d^2` or more, so that the sweeps end.
    pub(super) fn solve(&self, mut visible: DMatrix<f64>, tolerance: f64) -> DMatrix<f64> {
        let mut logits = visible.clone();
        let mut moving = Vec::from_iter(0..visible.ncols());
        for _ in 0..MAX_SWEEPS {
            let hidden = self.hidden_logits(&visible.select_columns(&moving));
            let swept = self.visible_logits(&hidden.map(sigmoid));
            let mut swept = swept.column_iter();
            moving.retain(|&column| {
                let swept = swept.next().expect("a column for each that moves");
                let next = swept.map(sigmoid);
                let change = (&next - visible.column(column)).amax();
                logits.set_column(column, &swept);
                visible.set_column(column, &next);
                change >= tolerance
            });
            if moving.is_empty() {
                break;
            }
        }
        logits
    }

    /// The logits `a + W m` for each column of visible probabilities.
    pub(super) fn hidden_logits(&self, visible: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.weights, visible, &self.hidden_bias)
    }

    /// The logits `b + W^T mu` for each column of hidden probabilities.
    pub(super) fn visible_logits(&self, hidden: &DMatrix<f64>) -> DMatrix<f64> {
        activations(&self.transposed, hidden, &self.visible_bias)
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
