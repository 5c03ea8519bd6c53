//! The base-rate model, from which annealing starts: an RBM without weights, or a mixture of several.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::softplus;
use crate::rbm::components::Components;
use crate::rbm::model::{check_finite, draw_all, masked_sum_of};
use crate::rbm::{Rbm, Scalar};
use crate::{Error, Result};

/// The base-rate model (Salakhutdinov and Murray 2008): an RBM with zero weights and zero hidden biases.
///
/// Its D visible units are independent, with logits `b`; its M hidden units are fair coins. As a model of `v`:
///
/// `log f(v) = b.v + M log 2` and `log Z = M log 2 + sum_i log(1 + e^(b_i))`.
///
/// A [`mixture`](Self::mixture) has components c with shares `pi_c` and logits `theta_c`:
///
/// `log f(v) = log sum_c pi_c prod_i e^(theta_ci v_i) / (1 + e^(theta_ci)) + M log 2` and `log Z = M log 2`.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseRate<T: Scalar = f32> {
    hidden_units: usize,
    /// Logits of the visible units; for a mixture, the logits of its mean probabilities.
    visible_bias: DVector<T>,
    /// Components of a mixture, at least two; `None` for a single model.
    components: Option<Components<T>>,
}

impl<T: Scalar> BaseRate<T> {
    /// Creates the model from the number of hidden units M and the visible biases (logits, D).
    ///
    /// # Errors
    /// If a layer is empty, there are more than 2^31 weights, or a bias is not finite.
    pub fn new(hidden_units: usize, visible_bias: DVector<T>) -> Result<Self> {
        check_shape(hidden_units, visible_bias.len())?;
        check_finite("visible_bias", visible_bias.iter())?;
        Ok(Self {
            hidden_units,
            visible_bias,
            components: None,
        })
    }

    /// Creates the model whose visible units are on with probabilities `rates` (D).
    ///
    /// # Errors
    /// If a layer is empty, there are more than 2^31 weights, or a rate is not inside (0, 1).
    pub fn from_rates(hidden_units: usize, rates: &DVector<f64>) -> Result<Self> {
        let places = rates.iter().copied().enumerate();
        let within = |p: f64| 0.0 < p && p < 1.0;
        Error::check_each("rates", "index", places, within, "numbers in (0, 1)")?;
        Self::new(
            hidden_units,
            rates.map(|p| T::nearest((p / (1.0 - p)).ln())),
        )
    }

    /// Creates a mixture of `models`, each with a mass. The shares `pi_c` are the masses over their sum.
    ///
    /// A mixture covers modes of an RBM that no single model covers. Mixtures among `models` are split into their
    /// components, and equal components are joined. A mixture of one component is that component.
    ///
    /// # Errors
    /// If `models` is empty, models differ in their numbers of units, a mass or the sum of the masses is not finite and
    /// positive, a share underflows, or the log density of a component overflows.
    ///
    /// ```
    /// use annealed::prelude::*;
    /// use nalgebra::{DMatrix, dvector};
    ///
    /// // All visible units on, or all off.
    /// let rbm = Rbm::<f64>::new(DMatrix::from_element(1, 4, 6.0), dvector![-12.0], DVector::zeros(4))?;
    /// let rates = |p: f64| BaseRate::from_rates(1, &DVector::repeat(4, p));
    /// let base = BaseRate::mixture([(0.5, rates(0.5)?), (0.25, rates(0.9)?), (0.25, rates(0.1)?)])?;
    /// let path = RbmPath::new(base, rbm.clone())?;
    /// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(50)?).seed(1).run()?;
    /// assert!((run.log_z() - rbm.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn mixture(models: impl IntoIterator<Item = (f64, Self)>) -> Result<Self> {
        let mut masses: Vec<f64> = Vec::new();
        let mut columns: Vec<DVectorView<'_, T>> = Vec::new();
        let mut models: Vec<(f64, Self)> = models.into_iter().collect();
        Error::check_not_empty("models of the mixture", models.len())?;
        let (hidden, visible) = (models[0].1.hidden_units, models[0].1.visible_units());
        for (mass, model) in &models {
            Error::check_positive("mass of a component", *mass)?;
            Error::check_dimension("hidden units of a component", model.hidden_units, hidden)?;
            Error::check_dimension(
                "visible units of a component",
                model.visible_units(),
                visible,
            )?;
            for (share, logits) in model.components() {
                match columns.iter().position(|column| *column == logits) {
                    Some(equal) => masses[equal] += mass * share,
                    None => {
                        masses.push(mass * share);
                        columns.push(logits);
                    }
                }
            }
        }
        if columns.len() == 1 {
            return Ok(models.remove(0).1);
        }
        let components = Components::new(&masses, DMatrix::from_columns(&columns))?;
        Ok(Self {
            hidden_units: hidden,
            visible_bias: components.mean_logits(),
            components: Some(components),
        })
    }

    #[cfg(feature = "serde")]
    fn restored(hidden_units: usize, shares: Vec<f64>, logits: Vec<Vec<T>>) -> Result<Self> {
        Error::check_not_empty("logits", logits.len())?;
        Error::check_dimension("shares", shares.len(), logits.len())?;
        let columns: Vec<DVector<T>> = logits.into_iter().map(DVector::from_vec).collect();
        for column in &columns {
            Error::check_dimension("logits of a component", column.len(), columns[0].len())?;
        }
        let sum: f64 = shares.iter().sum();
        Error::check((sum - 1.0).abs() < 1e-9, "sum of the shares", sum, "1")?;
        let first = Self::new(hidden_units, columns[0].clone())?;
        if columns.len() == 1 {
            return Ok(first);
        }
        // The shares are not divided by their sum again, so that a saved base is restored with the same bits.
        let components = Components::with_shares(shares, DMatrix::from_columns(&columns))?;
        Ok(Self {
            visible_bias: components.mean_logits(),
            components: Some(components),
            ..first
        })
    }

    /// Creates the model of zero biases, in which all states are equally likely.
    ///
    /// # Errors
    /// If a layer is empty, or there are more than 2^31 weights.
    pub fn uniform(hidden_units: usize, visible_units: usize) -> Result<Self> {
        check_shape(hidden_units, visible_units)?;
        Self::new(hidden_units, DVector::zeros(visible_units))
    }

    /// Creates the model whose visible units are on as often as in `data`.
    ///
    /// The probability of unit i is `(n_i + s) / (N + 2 s)`, where unit i is on in `n_i` of N rows. A positive
    /// `smoothing` s, for example 1, keeps all logits finite.
    ///
    /// # Errors
    /// If `data` is empty, rows differ in length, a layer is empty, there are more than 2^31 weights, or
    /// `smoothing` is not finite and positive.
    pub fn from_data(hidden_units: usize, data: &[Vec<bool>], smoothing: f64) -> Result<Self> {
        Error::check_positive("smoothing", smoothing)?;
        let visible_units = check_data(data)?;
        let logit = |i| {
            let on = data.iter().filter(|row| row[i]).count() as f64;
            T::nearest(((on + smoothing) / (data.len() as f64 - on + smoothing)).ln())
        };
        Self::new(
            hidden_units,
            DVector::from_fn(visible_units, |i, _| logit(i)),
        )
    }

    /// Returns the number of hidden units, M.
    pub fn hidden_units(&self) -> usize {
        self.hidden_units
    }

    /// Returns the number of visible units, D.
    pub fn visible_units(&self) -> usize {
        self.visible_bias.len()
    }

    /// Returns the visible biases `b` (D). For a mixture these are the logits of its mean probabilities.
    pub fn visible_bias(&self) -> &DVector<T> {
        &self.visible_bias
    }

    /// Returns the share `pi_c` and the logits `theta_c` (D) of each component; 1 and `b` for a single model.
    pub fn components(&self) -> impl ExactSizeIterator<Item = (f64, DVectorView<'_, T>)> {
        let count = self.components.as_ref().map_or(1, |c| c.shares.len());
        (0..count).map(|c| match &self.components {
            None => (1.0, self.visible_bias.column(0)),
            Some(components) => (components.shares[c], components.logits.column(c)),
        })
    }

    pub(crate) fn check_single(&self) -> Result<()> {
        let found = format!("a mixture of {} components", self.components().len());
        let expected = "one component, for an RBM at each beta";
        Error::check(self.components.is_none(), "base", found, expected)
    }

    pub(crate) fn as_mixture(&self) -> Option<&Components<T>> {
        self.components.as_ref()
    }

    pub(crate) fn to_rbm(&self) -> Result<Rbm<f64>> {
        Rbm::new(
            DMatrix::zeros(self.hidden_units, self.visible_units()),
            DVector::zeros(self.hidden_units),
            self.visible_bias.map(T::as_),
        )
    }

    fn free_units(&self) -> f64 {
        self.hidden_units as f64 * std::f64::consts::LN_2
    }
}

/// Largest number of weights that an RBM may have, so that they fit into memory.
const MAX_WEIGHTS: usize = 1 << 31;

fn check_shape(hidden_units: usize, visible_units: usize) -> Result<()> {
    let weights = hidden_units.saturating_mul(visible_units);
    let within = (1..=MAX_WEIGHTS).contains(&weights);
    let shape = format!("{hidden_units} hidden, {visible_units} visible");
    let expected = format!("at least one of each and at most {MAX_WEIGHTS} pairs");
    Error::check(within, "units", shape, expected)
}

impl<T: Scalar> UnnormalizedModel for BaseRate<T> {
    type State = Vec<bool>;

    /// # Panics
    /// If there is not one entry for each visible unit.
    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        demand_dimension("a state", visible.len(), self.visible_units());
        let visible_part = match &self.components {
            None => masked_sum_of(self.visible_bias.as_slice(), visible),
            Some(components) => components.log_density(visible),
        };
        visible_part + self.free_units()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.visible_units())
    }
}

impl<T: Scalar> NormalizedModel for BaseRate<T> {
    fn log_normalizer(&self) -> f64 {
        if self.components.is_some() {
            return self.free_units();
        }
        let terms = self.visible_bias.iter().map(|b| softplus(b.as_()));
        self.free_units() + terms.sum::<f64>()
    }

    fn has_certain_normalizer(&self) -> bool {
        true
    }
}

impl<T: Scalar> Sampleable for BaseRate<T> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        let logits = match &self.components {
            None => self.visible_bias.map(T::as_),
            Some(components) => components.draw(rng),
        };
        draw_all(&logits, rng)
    }
}

crate::num::serialize_as! {
    BaseRate<T: Scalar> as this {
        hidden_units: this.hidden_units,
        shares: Vec::from_iter(this.components().map(|(share, _)| share)),
        logits: Vec::from_iter(this.components().map(|(_, logits)| Vec::from_iter(logits.iter().copied()))),
    }
}

crate::num::deserialize_checked! {
    BaseRate<T: Scalar> {
        hidden_units: usize,
        shares: Vec<f64>,
        logits: Vec<Vec<T>>,
    } => Self::restored(hidden_units, shares, logits)
}

/// Returns the common length of the rows of `data`.
pub(crate) fn check_data(data: &[Vec<bool>]) -> Result<usize> {
    Error::check_not_empty("data", data.len())?;
    for row in data {
        Error::check_dimension("row of data", row.len(), data[0].len())?;
    }
    Ok(data[0].len())
}
