//! Training a harmonium by contrastive divergence.

use nalgebra::{DMatrix, DVector};
use rand::seq::SliceRandom;

use crate::random::{Purpose, StreamRng, stream};
use crate::rbm::ContrastiveDivergence;
use crate::rbm::harmonium::VisibleUnits;
use crate::rbm::harmonium::model::{Harmonium, draw_units};
use crate::rbm::train::judged_rows;
use crate::{Error, Result};

/// A trained harmonium with its learning curve.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct TrainedHarmonium<V: VisibleUnits> {
    /// The machine after the last epoch.
    pub harmonium: Harmonium<V>,
    /// For each epoch the mean over at most 200 rows, spread evenly over the data, of `log p(v | h)` with `h` drawn given
    /// `v`, in nats a row.
    pub curve: Vec<f64>,
    /// The persistent chains after the last update: samples of about the machine's law, as many as a mini-batch has rows.
    /// `None` where the sweeps started at the data.
    pub chains: Option<Vec<V::State>>,
}

impl ContrastiveDivergence {
    /// Trains weights and biases of a harmonium on the rows of `data`.
    ///
    /// The deviations of Gaussian units stay as they are, since they would grow to those of the data before the weights have
    /// left their start near 0. Standardise the data (means 0, deviations 1), and take deviations that are smaller, such as
    /// 0.5: beside units as wide as the data the hidden ones learn nothing. Of several choices the likelihood of held-out data
    /// tells the best.
    ///
    /// ```
    /// use annealed::harmonium::{GaussianUnits, Harmonium};
    /// use annealed::rbm::ContrastiveDivergence;
    /// use annealed::nalgebra::dvector;
    ///
    /// let data: Vec<_> = (0..40).map(|i| dvector![1.0, -1.0] * f64::from(i % 2 * 2 - 1)).collect();
    /// let start = Harmonium::start(2, GaussianUnits::new(dvector![0.0, 0.0], dvector![0.5, 0.5])?, 1)?;
    /// let settings = ContrastiveDivergence::new(1).epochs(50);
    /// let trained = settings.train_harmonium(start, &data)?;
    /// assert!(trained.curve[49] > trained.curve[0]);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where there are no data, a row is no state of the visible units, a setting is out of its range, or a parameter overflows
    /// ([`Error::NotConverged`]).
    pub fn train_harmonium<V>(
        &self,
        harmonium: Harmonium<V>,
        data: &[V::State],
    ) -> Result<TrainedHarmonium<V>>
    where
        V: VisibleUnits<State: Clone>,
    {
        self.check()?;
        harmonium.check_data(data)?;
        let batch_size = self.batch_size.min(data.len());
        let mut order: Vec<usize> = (0..data.len()).collect();
        let mut training = Training::new(self.batch_size(batch_size), harmonium);
        let mut curve = Vec::new();
        for epoch in 0..self.epochs {
            order.shuffle(&mut training.rng);
            for batch in order.chunks_exact(batch_size) {
                let rows: Vec<&V::State> = batch.iter().map(|&row| &data[row]).collect();
                training.update(&rows, self.learning_rate_at(epoch));
            }
            training.check_finite(epoch)?;
            curve.push(training.judge(data));
        }
        Ok(TrainedHarmonium {
            harmonium: training.harmonium,
            curve,
            chains: self.persistent.then_some(training.chains),
        })
    }
}

/// A machine in training, with its last update and the chains of the model's moments.
struct Training<V: VisibleUnits> {
    settings: ContrastiveDivergence,
    harmonium: Harmonium<V>,
    weights: DMatrix<f64>,
    hidden_bias: DVector<f64>,
    visible: DVector<f64>,
    chains: Vec<V::State>,
    rng: StreamRng,
}

impl<V: VisibleUnits<State: Clone>> Training<V> {
    /// The chains start at independent visible units.
    fn new(settings: ContrastiveDivergence, harmonium: Harmonium<V>) -> Self {
        let mut rng = stream(settings.seed, Purpose::Training, 0);
        let (hidden, visible) = (harmonium.hidden_units(), harmonium.visible());
        Self {
            chains: (0..settings.batch_size)
                .map(|_| visible.sample(&mut rng))
                .collect(),
            weights: DMatrix::zeros(hidden, visible.statistic_count()),
            hidden_bias: DVector::zeros(hidden),
            visible: DVector::zeros(visible.statistic_count()),
            settings,
            harmonium,
            rng,
        }
    }

    /// Trains on one mini-batch: `update = momentum * update + rate * (positive - negative - decay * W)`, then adds it.
    fn update(&mut self, rows: &[&V::State], learning_rate: f64) {
        let settings = self.settings;
        if !settings.persistent {
            self.chains = rows.iter().map(|&row| row.clone()).collect();
        }
        for chain in &mut self.chains {
            (0..settings.sweeps).for_each(|_| self.harmonium.gibbs_sweep(chain, &mut self.rng));
        }
        let (momentum, decay) = (settings.momentum, learning_rate * settings.weight_decay);
        self.weights
            .zip_apply(&self.harmonium.weights, |update, w| {
                *update = momentum * *update - decay * w;
            });
        self.hidden_bias *= momentum;
        self.visible *= momentum;
        let scale = learning_rate / rows.len() as f64;
        for row in rows {
            self.accumulate(row, scale);
        }
        let chains = std::mem::take(&mut self.chains);
        for chain in &chains {
            self.accumulate(chain, -scale);
        }
        self.chains = chains;
        self.harmonium.weights += &self.weights;
        self.harmonium.hidden_bias += &self.hidden_bias;
        self.harmonium.visible = self.harmonium.visible.trained(&self.visible);
    }

    /// Adds `scale` times `h s(v)^T`, `h` and `s(v)`, with `P(h = 1 | v)` for `h`.
    fn accumulate(&mut self, state: &V::State, scale: f64) {
        let visible = self.harmonium.visible();
        let expected = self.harmonium.hidden_probabilities(state);
        for (index, value) in visible.statistics(state) {
            self.weights
                .column_mut(index)
                .axpy(scale * value, &expected, 1.0);
            self.visible[index] += scale * value;
        }
        self.hidden_bias.axpy(scale, &expected, 1.0);
    }

    fn check_finite(&self, epoch: usize) -> Result<()> {
        let Harmonium {
            weights,
            hidden_bias,
            visible,
        } = &self.harmonium;
        let mut parameters = weights.iter().chain(hidden_bias).chain(&self.visible);
        if visible.log_normalizer().is_finite() && parameters.all(|x| x.is_finite()) {
            return Ok(());
        }
        Err(Error::NotConverged {
            what: "contrastive divergence",
            detail: format!(
                "a parameter overflowed in epoch {epoch}; expected a lower learning rate, more weight decay, or data \
                 that are standardised"
            ),
        })
    }

    /// The mean of `log p(v | h)` over some rows.
    fn judge(&mut self, data: &[V::State]) -> f64 {
        let rows = judged_rows(data);
        let count = rows.len() as f64;
        let score = |row| {
            let logits = self.harmonium.hidden_activation(row);
            let given = self
                .harmonium
                .visible_given(&draw_units(&logits, 1.0, &mut self.rng));
            given.log_density(row) - given.log_normalizer()
        };
        rows.map(score).sum::<f64>() / count
    }
}
