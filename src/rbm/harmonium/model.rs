//! The harmonium as a model, and the log likelihood of data.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::UnnormalizedModel;
use crate::num::{sigmoid, softplus};
use crate::random::{Purpose, StandardNormal, stream};
use crate::rbm::LogLikelihood;
use crate::rbm::harmonium::VisibleUnits;
use crate::rbm::model::draw_all;
use crate::{Error, Result};

/// A restricted Boltzmann machine with visible units of the kind V and M hidden units of 0 and 1.
///
/// Its unnormalized joint density is `f(v, h) = r(v) exp(a.h + h^T W s(v))`, with weights `W` (M x S), hidden biases
/// `a` (M), and density r and S statistics s of the visible units. Its state is `v`, with the hidden units summed out:
/// `log f(v) = log r(v) + sum_j softplus(a_j + W_j s(v))`. Methods panic if the length of a state is not D.
///
/// ```
/// use annealed::harmonium::{GaussianUnits, Harmonium};
/// use annealed::model::UnnormalizedModel;
/// use annealed::nalgebra::{dmatrix, dvector};
///
/// let units = GaussianUnits::new(dvector![0.0, 1.0], dvector![1.0, 0.5])?;
/// let machine = Harmonium::new(dmatrix![1.0, -2.0], dvector![0.5], units)?;
/// let expected = -0.5 - 2.0 + (1.0 + (0.5 + 1.0 - 4.0_f64).exp()).ln();
/// assert!((machine.log_density(&dvector![1.0, 2.0]) - expected).abs() < 1e-14);
/// // A mixture of two Gaussians: where the hidden unit is on, the means move by sigma^2 W.
/// assert_eq!(machine.visible_given(&[true]).means(), &dvector![1.0, 0.5]);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Harmonium<V> {
    pub(crate) weights: DMatrix<f64>,
    pub(crate) hidden_bias: DVector<f64>,
    pub(crate) visible: V,
}

impl<V: VisibleUnits> Harmonium<V> {
    /// Creates a harmonium from weights (M x S), hidden biases (M) and visible units.
    ///
    /// # Errors
    /// If there are no hidden units, the sizes disagree, or a weight or hidden bias is not finite.
    pub fn new(weights: DMatrix<f64>, hidden_bias: DVector<f64>, visible: V) -> Result<Self> {
        Error::check_not_empty("hidden_bias", hidden_bias.len())?;
        Error::check_dimension("rows of weights", weights.nrows(), hidden_bias.len())?;
        let statistics = visible.statistic_count();
        Error::check_dimension("columns of weights", weights.ncols(), statistics)?;
        Error::check_finite("weights", weights.iter().copied())?;
        Error::check_finite("hidden_bias", hidden_bias.iter().copied())?;
        Ok(Self {
            weights,
            hidden_bias,
            visible,
        })
    }

    /// Creates a harmonium to train (Hinton 2012, section 8): normal weights of standard deviation 0.01, and hidden
    /// biases of 0.
    ///
    /// # Errors
    /// If there are no hidden units, or more than `2^30` weights.
    pub fn start(hidden_units: usize, visible: V, seed: u64) -> Result<Self> {
        let (statistics, most) = (visible.statistic_count(), 1 << 30);
        let within = (1..=most).contains(&hidden_units.saturating_mul(statistics));
        let expected = format!("at least 1, and at most {most} weights");
        Error::check(within, "hidden_units", hidden_units, expected)?;
        let mut rng = stream(seed, Purpose::RBM_WEIGHTS, 0);
        let mut weight = |_, _| 0.01 * StandardNormal::get().draw(&mut rng);
        let weights = DMatrix::from_fn(hidden_units, statistics, &mut weight);
        Self::new(weights, DVector::zeros(hidden_units), visible)
    }

    /// Returns the number of hidden units, M.
    pub fn hidden_units(&self) -> usize {
        self.hidden_bias.len()
    }

    /// Returns the weights `W` (M x S).
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// Returns the hidden biases `a` (M).
    pub fn hidden_bias(&self) -> &DVector<f64> {
        &self.hidden_bias
    }

    /// Returns the visible units without the hidden ones.
    pub fn visible(&self) -> &V {
        &self.visible
    }

    /// Returns the logits of the hidden units given `v`: `a + W s(v)`.
    ///
    /// # Panics
    /// If the state is invalid.
    pub fn hidden_activation(&self, visible: &V::State) -> DVector<f64> {
        let mut activation = self.hidden_bias.clone();
        for (index, value) in self.visible.statistics(visible) {
            activation.axpy(value, &self.weights.column(index), 1.0);
        }
        activation
    }

    /// Returns `P(h_j = 1 | v)` for each hidden unit (M).
    ///
    /// # Panics
    /// If the state is invalid.
    pub fn hidden_probabilities(&self, visible: &V::State) -> DVector<f64> {
        self.hidden_activation(visible).map(sigmoid)
    }

    /// Returns the visible units given `h`, with the density `r(v) exp(h^T W s(v))` and its log normalizer.
    ///
    /// # Panics
    /// If the number of entries is not M.
    pub fn visible_given(&self, hidden: &[bool]) -> V {
        self.visible.tilted(&self.field(hidden))
    }

    /// Returns `W^T h`.
    pub(crate) fn field(&self, hidden: &[bool]) -> DVector<f64> {
        demand_dimension("a hidden state", hidden.len(), self.hidden_units());
        let hidden = hidden.iter().map(|&on| f64::from(on));
        self.weights
            .tr_mul(&DVector::from_iterator(self.hidden_units(), hidden))
    }

    /// Runs one sweep of block Gibbs sampling, v -> h -> v, in place.
    ///
    /// # Panics
    /// If the state is invalid.
    pub fn gibbs_sweep<R: Rng + ?Sized>(&self, visible: &mut V::State, rng: &mut R) {
        let hidden = draw_all(&self.hidden_activation(visible), rng);
        *visible = self.visible_given(&hidden).sample(rng);
    }
}

impl<V: VisibleUnits> UnnormalizedModel for Harmonium<V> {
    type State = V::State;

    fn log_density(&self, visible: &V::State) -> f64 {
        let term = self.visible.log_density(visible);
        let activation = self.hidden_activation(visible);
        term + activation.iter().map(|&x| softplus(x)).sum::<f64>()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.visible.units())
    }
}

// The weights are written row by row, so that any format shows their shape.
crate::num::serialize_as! {
    Harmonium<V: VisibleUnits> as machine {
        weights: Vec::from_iter(machine.weights.row_iter().map(|row| Vec::from_iter(row.iter().copied()))),
        hidden_bias: machine.hidden_bias.as_slice(),
        visible: machine.visible,
    }
}
crate::num::deserialize_checked! {
    Harmonium<V: VisibleUnits> { weights: Vec<Vec<f64>>, hidden_bias: Vec<f64>, visible: V } =>
        crate::rbm::model::matrix_of(weights, visible.statistic_count())
            .and_then(|weights| Harmonium::new(weights, hidden_bias.into(), visible))
}

impl<V: VisibleUnits> Harmonium<V> {
    /// Returns the mean log likelihood of `data` under this model, given its `log_z`, and under the independent units
    /// `base`.
    ///
    /// ```
    /// use annealed::harmonium::{CategoricalUnits, Harmonium};
    /// use annealed::rbm::ContrastiveDivergence;
    ///
    /// // Two units of three categories, which are always in the same one.
    /// let data: Vec<Vec<usize>> = (0..300).map(|row| vec![row % 3; 2]).collect();
    /// let base = CategoricalUnits::from_data(3, &data, 1.0)?;
    /// let start = Harmonium::start(4, base.clone(), 1)?;
    /// let machine = ContrastiveDivergence::new(1).train_harmonium(start, &data)?.harmonium;
    /// let found = machine.log_likelihood(&data, machine.exact_log_normalizer()?, &base)?;
    /// assert!(found.mean > found.base_rate + 0.5);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are no data, a row is invalid, the base has another number of units, or `log_z` is not finite.
    pub fn log_likelihood(&self, data: &[V::State], log_z: f64, base: &V) -> Result<LogLikelihood> {
        Error::check_number("log_z", log_z)?;
        Error::check_dimension("base", base.units(), self.visible().units())?;
        self.check_data(data)?;
        let fair_coins = -self.visible().log_states();
        Ok(LogLikelihood::of(self, log_z, base, fair_coins, data))
    }

    pub(crate) fn check_data(&self, data: &[V::State]) -> Result<()> {
        Error::check_not_empty("data", data.len())?;
        data.iter()
            .try_for_each(|row| self.visible().check_state("row of data", row))
    }
}
