//! Training of a harmonium by contrastive divergence.

use crate::Result;
use crate::num::Simd;
use crate::random::{Purpose, StreamRng, stream};
use crate::rbm::ContrastiveDivergence;
use crate::rbm::harmonium::{Harmonium, VisibleUnits};
use crate::rbm::model::draw_all;
use crate::rbm::train::{ParameterSums, Trainee, judged_rows};

/// A trained harmonium with its learning curve.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct TrainedHarmonium<V: VisibleUnits> {
    /// The harmonium after the last epoch.
    pub harmonium: Harmonium<V>,
    /// For each epoch, the mean of `log p(v | h)` with `h` drawn given `v`, in nats per row, over at most 200 rows.
    pub curve: Vec<f64>,
    /// Approximate samples: the persistent chains after the last update, one per mini-batch row; `None` for CD.
    pub chains: Option<Vec<V::State>>,
}

impl ContrastiveDivergence {
    /// Trains weights and biases of a harmonium on the rows of `data`.
    ///
    /// The deviations of Gaussian units are not trained. Standardise the data, and choose deviations below 1, such as
    /// 0.5. If the units are as wide as the data, the hidden units learn nothing.
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
    /// If there are no data, a row is invalid, a setting is out of range, or a parameter
    /// [overflows](crate::Error::NotConverged).
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
        let settings = self.batch_size(self.batch_size.min(data.len()));
        let mut training = HarmoniumTraining::new(settings, harmonium);
        Ok(TrainedHarmonium {
            curve: settings.run(&mut training, data, |_, _| ())?,
            harmonium: training.harmonium,
            chains: self.persistent.then_some(training.chains),
        })
    }
}

/// The state of training: a machine, its last update, and the chains that estimate the model's moments.
struct HarmoniumTraining<V: VisibleUnits> {
    settings: ContrastiveDivergence,
    harmonium: Harmonium<V>,
    /// The last update of the parameters. The visible units have an entry for each statistic.
    update: ParameterSums<f64>,
    chains: Vec<V::State>,
    rng: StreamRng,
}

impl<V: VisibleUnits<State: Clone>> HarmoniumTraining<V> {
    fn new(settings: ContrastiveDivergence, harmonium: Harmonium<V>) -> Self {
        let mut rng = stream(settings.seed, Purpose::TRAINING, 0);
        let (hidden, visible) = (harmonium.hidden_units(), harmonium.visible());
        Self {
            chains: (0..settings.batch_size)
                .map(|_| visible.sample(&mut rng))
                .collect(),
            update: ParameterSums::zeros(hidden, visible.statistic_count()),
            settings,
            harmonium,
            rng,
        }
    }
}

impl ParameterSums<f64> {
    /// Adds `scale` times `h s(v)^T`, `h` and `s(v)`, with `P(h = 1 | v)` for `h`.
    fn add<V: VisibleUnits>(&mut self, machine: &Harmonium<V>, state: &V::State, scale: f64) {
        let expected = machine.hidden_probabilities(state);
        for (index, value) in machine.visible().statistics(state) {
            let mut column = self.weights.column_mut(index);
            column.axpy(scale * value, &expected, 1.0);
            self.visible_bias[index] += scale * value;
        }
        self.hidden_bias.axpy(scale, &expected, 1.0);
    }
}

impl<V: VisibleUnits<State: Clone>> Trainee for HarmoniumTraining<V> {
    type Row = V::State;
    type Judgement = f64;

    const REMEDY: &'static str =
        "a lower learning rate, more weight decay, or data that are standardised";

    fn rng(&mut self) -> &mut StreamRng {
        &mut self.rng
    }

    /// Adds `update = momentum * update + rate * (positive - negative - decay * W)` to the parameters.
    fn update<'a>(
        &mut self,
        rows: impl ExactSizeIterator<Item = &'a V::State> + Clone,
        learning_rate: f64,
    ) where
        V::State: 'a,
    {
        let settings = self.settings;
        if !settings.persistent {
            self.chains = rows.clone().cloned().collect();
        }
        for chain in &mut self.chains {
            (0..settings.sweeps).for_each(|_| self.harmonium.gibbs_sweep(chain, &mut self.rng));
        }
        let (machine, update) = (&mut self.harmonium, &mut self.update);
        let decay = learning_rate * settings.weight_decay;
        update.repeat(Simd::best(), settings.momentum, decay, &machine.weights);
        let scale = learning_rate / rows.len() as f64;
        rows.for_each(|row| update.add(machine, row, scale));
        let chains = self.chains.iter();
        chains.for_each(|chain| update.add(machine, chain, -scale));
        machine.weights += &update.weights;
        machine.hidden_bias += &update.hidden_bias;
        machine.visible = machine.visible.trained(&update.visible_bias);
    }

    fn is_finite(&self) -> bool {
        let machine = &self.harmonium;
        let hidden = machine.weights.iter().chain(&machine.hidden_bias);
        machine.visible.log_normalizer().is_finite()
            && hidden
                .chain(&self.update.visible_bias)
                .all(|x| x.is_finite())
    }

    fn judge(&mut self, _: usize, _: f64, data: &[V::State]) -> f64 {
        let rows = judged_rows(data);
        let count = rows.len() as f64;
        let score = |row| {
            let logits = self.harmonium.hidden_activation(row);
            let given = self
                .harmonium
                .visible_given(&draw_all(&logits, &mut self.rng));
            given.log_density(row) - given.log_normalizer()
        };
        rows.map(score).sum::<f64>() / count
    }
}
