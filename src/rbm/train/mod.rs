//! Training of an RBM on data, and the Gibbs chains of training.

mod sampler;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::num::{Simd, setters, softplus, vectorized};
use crate::random::{Lanes, Purpose, StandardNormal, StreamRng, stream};
use crate::rbm::base_rate::check_data;
use crate::rbm::engine::{add, softplus_gain};
use crate::rbm::model::{check_finite, draw_all};
use crate::rbm::{BaseRate, Rbm, Scalar};
use crate::{Error, Result};

pub(super) use sampler::{ParameterSums, Sampler, TrainingChains};

/// Largest number of rows on which an epoch is judged.
const JUDGED_ROWS: usize = 200;
/// Approximate number of units per row over which the pseudo log likelihood is summed.
const JUDGED_UNITS: usize = 128;

/// Contrastive divergence, CD-k (Hinton 2002), or persistent contrastive divergence, PCD (Tieleman 2008).
///
/// Defaults: 100 epochs, mini-batches of 20 rows, learning rate from 0.1 to 0, momentum 0.5, weight decay 1e-4, seed 0.
/// A seed gives slightly different parameters on another kind of processor.
///
/// ```
/// use annealed::rbm::{ContrastiveDivergence, Rbm};
///
/// let data = vec![vec![true, true, false], vec![false, false, true]];
/// let trained = ContrastiveDivergence::new(1)
///     .epochs(20)
///     .train(Rbm::<f32>::from_data(2, &data, 7)?, &data)?;
/// assert_eq!(trained.curve.len(), 20);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct ContrastiveDivergence {
    pub(super) sweeps: usize,
    pub(super) persistent: bool,
    epochs: usize,
    pub(super) batch_size: usize,
    learning_rate: f64,
    final_learning_rate: f64,
    pub(super) momentum: f64,
    pub(super) weight_decay: f64,
    pub(super) seed: u64,
}

impl ContrastiveDivergence {
    /// Creates CD-k with k = `sweeps` per update.
    pub fn new(sweeps: usize) -> Self {
        Self {
            sweeps,
            persistent: false,
            epochs: 100,
            batch_size: 20,
            learning_rate: 0.1,
            final_learning_rate: 0.0,
            momentum: 0.5,
            weight_decay: 1e-4,
            seed: 0,
        }
    }

    setters! {
        /// Sets whether sweeps continue from the last update's states (PCD) or start at the data (CD, the default).
        persistent: bool,

        /// Sets the number of passes over the data.
        epochs: usize,

        /// Sets the number of rows in a mini-batch, at most all rows. Each epoch shuffles the data and leaves out the
        /// rows that do not fill its last mini-batch.
        batch_size: usize,

        /// Sets the fraction of an update that is repeated in the next, in `[0, 1)`.
        momentum: f64,

        /// Sets the coefficient c of the penalty `c/2 ||W||^2` on the log likelihood of a row.
        weight_decay: f64,

        /// Sets the seed of all randomness in training.
        seed: u64,
    }

    /// Sets the learning rates of the `first` and `last` epoch. The rate is linear in between.
    pub fn learning_rate(self, first: f64, last: f64) -> Self {
        Self {
            learning_rate: first,
            final_learning_rate: last,
            ..self
        }
    }

    /// Trains `rbm` on the rows of `data`.
    ///
    /// # Errors
    /// If there are no data, the length of a row is not D, a setting is out of range, or a parameter overflows
    /// ([`Error::NotConverged`]).
    pub fn train<T: Scalar>(&self, rbm: Rbm<T>, data: &[Vec<bool>]) -> Result<TrainedRbm<T>> {
        self.train_with(rbm, data, |_, _| ())
    }

    /// Trains like [`train`](Self::train), and calls `progress` after each epoch with its point of the learning curve
    /// and the RBM. Copies of the RBM can serve as knots of [`RbmPath::through`](crate::rbm::RbmPath::through).
    ///
    /// ```
    /// use annealed::rbm::{ContrastiveDivergence, Rbm};
    ///
    /// let data = vec![vec![true, true, false], vec![false, false, true]];
    /// let start = Rbm::<f32>::from_data(2, &data, 7)?;
    /// let mut checkpoints = Vec::new();
    /// let training = ContrastiveDivergence::new(1).epochs(20);
    /// let trained = training.train_with(start, &data, |epoch, rbm| {
    ///     if epoch.index % 5 == 0 {
    ///         checkpoints.push(rbm.clone());
    ///     }
    /// })?;
    /// assert!(checkpoints.len() == 4 && checkpoints[3] != trained.rbm);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`train`](Self::train).
    pub fn train_with<T: Scalar>(
        &self,
        rbm: Rbm<T>,
        data: &[Vec<bool>],
        mut progress: impl FnMut(&Epoch, &Rbm<T>),
    ) -> Result<TrainedRbm<T>> {
        self.check()?;
        Error::check_dimension("row of data", check_data(data)?, rbm.visible_units())?;
        let settings = self.batch_size(self.batch_size.min(data.len()));
        let mut state = TrainingState::new(settings, rbm);
        let curve = settings.run(&mut state, data, |epoch, state| progress(epoch, &state.rbm))?;
        let chains = (self.persistent).then(|| state.negative.visible_states());
        Ok(TrainedRbm {
            rbm: state.rbm,
            curve,
            chains,
        })
    }

    pub(super) fn run<M: Trainee>(
        &self,
        machine: &mut M,
        data: &[M::Row],
        mut progress: impl FnMut(&M::Judgement, &M),
    ) -> Result<Vec<M::Judgement>> {
        let mut order: Vec<usize> = (0..data.len()).collect();
        let mut curve = Vec::new();
        for epoch in 0..self.epochs {
            order.shuffle(machine.rng());
            let t = epoch as f64 / (self.epochs - 1).max(1) as f64;
            let learning_rate = (1.0 - t) * self.learning_rate + t * self.final_learning_rate;
            for batch in order.chunks_exact(self.batch_size) {
                machine.update(batch.iter().map(|&row| &data[row]), learning_rate);
            }
            if !machine.is_finite() {
                let remedy = M::REMEDY;
                return Err(Error::NotConverged {
                    what: "contrastive divergence",
                    detail: format!("a parameter overflowed in epoch {epoch}; expected {remedy}"),
                });
            }
            let judgement = machine.judge(epoch, learning_rate, data);
            progress(&judgement, machine);
            curve.push(judgement);
        }
        Ok(curve)
    }

    pub(super) fn check(&self) -> Result<()> {
        Error::check_at_least("sweeps", self.sweeps, 1)?;
        Error::check_at_least("epochs", self.epochs, 1)?;
        Error::check_at_least("batch_size", self.batch_size, 1)?;
        Error::check_positive("learning_rate", self.learning_rate)?;
        let check_below = |limit: f64, argument, value: f64| {
            let within = (0.0..limit).contains(&value);
            Error::check(within, argument, value, format!("0 up to {limit}"))
        };
        check_below(
            f64::INFINITY,
            "last learning_rate",
            self.final_learning_rate,
        )?;
        check_below(1.0, "momentum", self.momentum)?;
        check_below(f64::INFINITY, "weight_decay", self.weight_decay)
    }
}

/// A machine in training.
pub(super) trait Trainee {
    type Row;
    type Judgement;

    /// Advice in the error of an overflow: a change of settings or data that may prevent it.
    const REMEDY: &'static str;

    fn rng(&mut self) -> &mut StreamRng;

    fn update<'a>(
        &mut self,
        rows: impl ExactSizeIterator<Item = &'a Self::Row> + Clone,
        learning_rate: f64,
    ) where
        Self::Row: 'a;

    fn is_finite(&self) -> bool;

    fn judge(&mut self, epoch: usize, learning_rate: f64, data: &[Self::Row]) -> Self::Judgement;
}

/// A point of the learning curve: means over at most 200 rows, spread evenly over the data.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Epoch {
    /// Index of the epoch, from 0.
    pub index: usize,
    /// Learning rate of the epoch.
    pub learning_rate: f64,
    /// Mean over rows and units of `(v_i - P(v_i = 1 | h))^2`, with `h` drawn given `v`.
    pub reconstruction_error: f64,
    /// Mean over rows of `sum_i log P(v_i | all other v)`, in nats. From 256 units on, a part of the units is used.
    pub pseudo_log_likelihood: f64,
}

/// A trained RBM with its learning curve.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct TrainedRbm<T: Scalar = f32> {
    /// The RBM after the last epoch.
    pub rbm: Rbm<T>,
    /// One entry per epoch.
    pub curve: Vec<Epoch>,
    /// Approximate samples: the persistent chains after the last update, one per mini-batch row; `None` for CD.
    pub chains: Option<Vec<Vec<bool>>>,
}

impl<T: Scalar> Rbm<T> {
    /// Creates an RBM to start training from (Hinton 2012, section 8): normal weights of standard deviation 0.01, zero
    /// hidden biases, and the visible biases of the base-rate model of the data.
    ///
    /// # Errors
    /// Same as [`BaseRate::from_data`].
    pub fn from_data(hidden_units: usize, data: &[Vec<bool>], seed: u64) -> Result<Self> {
        let base = BaseRate::from_data(hidden_units, data, 1.0)?;
        let mut rng = stream(seed, Purpose::RBM_WEIGHTS, 0);
        let mut weight = |_, _| T::nearest(0.01 * StandardNormal::get().draw(&mut rng));
        Self::new(
            DMatrix::from_fn(hidden_units, base.visible_units(), &mut weight),
            DVector::zeros(hidden_units),
            base.visible_bias().clone(),
        )
    }
}

/// The state of training, with the chains of the positive and the negative phase of a mini-batch.
struct TrainingState<T: Scalar> {
    settings: ContrastiveDivergence,
    rbm: Rbm<T>,
    sampler: Sampler<T>,
    /// The last update of the parameters.
    update: ParameterSums<T>,
    positive: TrainingChains<T>,
    negative: TrainingChains<T>,
    rng: StreamRng,
    lanes: Lanes,
}

impl<T: Scalar> TrainingState<T> {
    fn new(settings: ContrastiveDivergence, rbm: Rbm<T>) -> Self {
        let (hidden, visible) = (rbm.hidden_units(), rbm.visible_units());
        let mut rng = stream(settings.seed, Purpose::TRAINING, 0);
        let negative = TrainingChains::random(hidden, visible, settings.batch_size, &mut rng);
        Self {
            settings,
            update: ParameterSums::zeros(hidden, visible),
            positive: TrainingChains::zeros(hidden, visible, settings.batch_size),
            negative,
            lanes: Lanes::from_rng(&mut rng),
            rng,
            sampler: Sampler::new(&rbm),
            rbm,
        }
    }

    /// Adds `update = momentum * update + rate * (positive - negative - decay * W)` to the parameters.
    fn ascend(&mut self, learning_rate: f64) {
        let scale = T::nearest(learning_rate / self.settings.batch_size as f64);
        let momentum = T::nearest(self.settings.momentum);
        let decay = T::nearest(learning_rate * self.settings.weight_decay);
        let engine = self.sampler.engine;
        let (rbm, update) = (&mut self.rbm, &mut self.update);
        update.repeat(engine, momentum, decay, &rbm.weights);
        self.positive.accumulate(&self.sampler, scale, update);
        self.negative.accumulate(&self.sampler, -scale, update);
        let (weights, step) = (rbm.weights.as_mut_slice(), update.weights.as_slice());
        vectorized!(engine, FUSED, add(weights, step));
        rbm.hidden_bias += &update.hidden_bias;
        rbm.visible_bias += &update.visible_bias;
        self.sampler.set(rbm);
    }
}

impl<T: Scalar> Trainee for TrainingState<T> {
    type Row = Vec<bool>;
    type Judgement = Epoch;

    const REMEDY: &'static str = "a lower learning rate or more weight decay";

    fn rng(&mut self) -> &mut StreamRng {
        &mut self.rng
    }

    fn update<'a>(&mut self, rows: impl Iterator<Item = &'a Vec<bool>>, learning_rate: f64) {
        self.positive.start_at(rows);
        if !self.settings.persistent {
            self.negative.start_where(&self.positive);
        }
        for _ in 0..self.settings.sweeps {
            self.negative.sweep(&self.sampler, &mut self.lanes);
        }
        self.ascend(learning_rate);
    }

    fn is_finite(&self) -> bool {
        let biases = self.rbm.hidden_bias.iter().chain(&self.rbm.visible_bias);
        check_finite("parameters", biases.chain(&self.rbm.weights)).is_ok()
    }

    fn judge(&mut self, index: usize, learning_rate: f64, data: &[Vec<bool>]) -> Epoch {
        let mut epoch = Epoch {
            index,
            learning_rate,
            reconstruction_error: 0.0,
            pseudo_log_likelihood: 0.0,
        };
        let rows = judged_rows(data);
        let count = rows.len() as f64;
        for (row, place) in rows.zip(1..) {
            let error = reconstruction_error_of(&self.rbm, row, &mut self.rng);
            epoch.reconstruction_error += error / count;
            epoch.pseudo_log_likelihood += pseudo_log_likelihood_of(&self.rbm, row, place) / count;
        }
        epoch
    }
}

/// Returns the rows on which an epoch is judged, spread evenly over the data.
pub(crate) fn judged_rows<S>(data: &[S]) -> impl ExactSizeIterator<Item = &S> {
    let count = data.len().min(JUDGED_ROWS);
    (0..count).map(move |k| &data[k * data.len() / count])
}

fn reconstruction_error_of<T: Scalar, R: Rng>(rbm: &Rbm<T>, row: &[bool], rng: &mut R) -> f64 {
    let hidden = draw_all(&rbm.hidden_activation(row), rng);
    let expected = rbm.visible_probabilities(&hidden);
    let errors = expected
        .iter()
        .zip(row)
        .map(|(p, &on)| (p - f64::from(on)).powi(2));
    errors.sum::<f64>() / row.len() as f64
}

/// Sums `log P(v_i | all other v)` over [some](JUDGED_UNITS) units, chosen by `place`, and scales the sum to all units.
fn pseudo_log_likelihood_of<T: Scalar>(rbm: &Rbm<T>, row: &[bool], place: usize) -> f64 {
    let activation = rbm.hidden_activation(row).map(T::nearest);
    let stride = (row.len() / JUDGED_UNITS).max(1);
    // Each row starts at another unit, so that the rows together cover all units.
    let units = (place % stride..row.len()).step_by(stride);
    let share = units.len() as f64 / row.len() as f64;
    let terms = units.map(|unit| {
        let (column, on) = (rbm.weights.column(unit), row[unit]);
        let sign = if on { -1.0 } else { 1.0 };
        let (activation, weights) = (activation.as_slice(), column.as_slice());
        let gain = vectorized!(
            Simd::best(),
            FUSED,
            softplus_gain::<T, FUSED>(activation, T::nearest(sign), weights)
        );
        // log P(v_i | others) = -softplus(log f(flipped) - log f(v)).
        -softplus(sign * rbm.visible_bias[unit].as_() + gain)
    });
    terms.sum::<f64>() / share
}
