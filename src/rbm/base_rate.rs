//! The base-rate model: the RBM without weights from which annealing starts.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::softplus;
use crate::rbm::model::{Rbm, check_finite, draw_all, masked_sum_of};
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// The base-rate model (Salakhutdinov and Murray 2008): an RBM with zero weights and zero hidden
/// biases.
///
/// Its D visible units are independent, with logits `b`. Its M hidden units are 0 or 1 with equal
/// probability; they are kept, so that every model of a path that starts here has the same units.
/// As a model its state is `v`, with
///
/// `log f(v) = b.v + M log 2` and `log Z = M log 2 + sum_i log(1 + e^(b_i))`.
#[derive(Debug, Clone, PartialEq)]
pub struct BaseRate<T: Scalar = f32> {
    hidden_units: usize,
    visible_bias: DVector<T>,
}

impl<T: Scalar> BaseRate<T> {
    /// From M and the visible biases (logits, D).
    ///
    /// # Errors
    /// Where either layer is empty or a bias is not finite.
    pub fn new(hidden_units: usize, visible_bias: DVector<T>) -> Result<Self> {
        check_shape(hidden_units, visible_bias.len())?;
        check_finite("visible_bias", visible_bias.iter())?;
        Ok(Self {
            hidden_units,
            visible_bias,
        })
    }

    /// The model of zero biases, in which all states are equally likely.
    ///
    /// # Errors
    /// Where either layer is empty.
    pub fn uniform(hidden_units: usize, visible_units: usize) -> Result<Self> {
        check_shape(hidden_units, visible_units)?;
        Self::new(hidden_units, DVector::zeros(visible_units))
    }

    /// The model whose visible units are on as often as in the data. The probability of unit i is
    /// `(n_i + s) / (N + 2 s)` where it is on in `n_i` of N rows. The `smoothing` s, for example 1,
    /// keeps the logit finite of a unit that is always on or never.
    ///
    /// # Errors
    /// Where there are no data, rows differ in length, a layer is empty, or `smoothing` is not
    /// finite and positive.
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

    /// Number of free hidden units, M.
    pub fn hidden_units(&self) -> usize {
        self.hidden_units
    }

    /// Number of visible units, D.
    pub fn visible_units(&self) -> usize {
        self.visible_bias.len()
    }

    /// The visible biases `b` (D).
    pub fn visible_bias(&self) -> &DVector<T> {
        &self.visible_bias
    }

    /// This model as an RBM in double precision, with zero weights and hidden biases.
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

/// The largest number of weights of an RBM. More would not fit into memory.
const MAX_WEIGHTS: usize = 1 << 31;

/// Refuses empty layers, and layers whose weights could not be held.
fn check_shape(hidden_units: usize, visible_units: usize) -> Result<()> {
    let weights = hidden_units.saturating_mul(visible_units);
    if (1..=MAX_WEIGHTS).contains(&weights) {
        return Ok(());
    }
    let shape = format!("{hidden_units} hidden, {visible_units} visible");
    let expected = format!("at least one of each and at most {MAX_WEIGHTS} pairs");
    Err(Error::invalid("units", shape, expected))
}

impl<T: Scalar> UnnormalizedModel for BaseRate<T> {
    type State = Vec<bool>;

    /// # Panics
    /// Where there is not one entry for each visible unit.
    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        demand_dimension("a state", visible.len(), self.visible_units());
        masked_sum_of(self.visible_bias.as_slice(), visible) + self.free_units()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.visible_units())
    }
}

impl<T: Scalar> NormalizedModel for BaseRate<T> {
    fn log_normalizer(&self) -> f64 {
        let terms = self.visible_bias.iter().map(|b| softplus(b.as_()));
        self.free_units() + terms.sum::<f64>()
    }
}

impl<T: Scalar> Sampleable for BaseRate<T> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<bool> {
        draw_all(&self.visible_bias.map(T::as_), rng)
    }
}

/// The common length of the rows of data.
pub(crate) fn check_data(data: &[Vec<bool>]) -> Result<usize> {
    Error::check_not_empty("data", data.len())?;
    for row in data {
        Error::check_dimension("row of data", row.len(), data[0].len())?;
    }
    Ok(data[0].len())
}
