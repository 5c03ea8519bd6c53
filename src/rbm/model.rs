//! The restricted Boltzmann machine as a model.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};

use crate::error::demand_dimension;
use crate::model::UnnormalizedModel;
use crate::num::{sigmoid, softplus};
use crate::rbm::Scalar;
use crate::{Error, Result};

/// A restricted Boltzmann machine with M hidden and D visible units, which are 0 or 1.
///
/// Its unnormalized joint density is `f(v, h) = exp(b.v + a.h + h^T W v)`. The weights are `W` (M x D), the hidden
/// biases `a` (M) and the visible biases `b` (D). As a model its state is `v`, with the hidden units summed out:
///
/// `log f(v) = b.v + sum_j softplus(a_j + W_j v)`.
///
/// The letters follow Kiwaki (2015); Grosse et al. (2013) swap `a` and `b`. Methods panic if `v` is not of length D.
///
/// ```
/// use annealed::model::UnnormalizedModel;
/// use annealed::rbm::Rbm;
/// use nalgebra::DMatrix;
///
/// let rbm = Rbm::new(
///     DMatrix::from_row_slice(2, 3, &[1.0, -1.0, 0.5, -0.5, 1.0, 2.0]),
///     vec![0.2, -0.3].into(),
///     vec![0.1, -0.2, 0.3].into(),
/// )?;
/// let expected = 0.1 + 0.3 + (1.0 + 1.7_f64.exp()).ln() + (1.0 + 1.2_f64.exp()).ln();
/// assert!((rbm.log_density(&vec![true, false, true]) - expected).abs() < 1e-14);
/// assert!((rbm.exact_log_normalizer()?.exp() - 154.3417906539138).abs() < 1e-10);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rbm<T: Scalar = f32> {
    pub(crate) weights: DMatrix<T>,
    pub(crate) hidden_bias: DVector<T>,
    pub(crate) visible_bias: DVector<T>,
}

impl<T: Scalar> Rbm<T> {
    /// Creates a machine from weights (M x D), hidden biases (M) and visible biases (D).
    ///
    /// # Errors
    /// If a layer is empty, the sizes disagree, or a parameter is not finite.
    pub fn new(
        weights: DMatrix<T>,
        hidden_bias: DVector<T>,
        visible_bias: DVector<T>,
    ) -> Result<Self> {
        if weights.is_empty() {
            let shape = format!("{} x {}", weights.nrows(), weights.ncols());
            return Err(Error::invalid("weights", shape, "at least 1 x 1"));
        }
        Error::check_dimension("hidden_bias", hidden_bias.len(), weights.nrows())?;
        Error::check_dimension("visible_bias", visible_bias.len(), weights.ncols())?;
        check_finite("weights", weights.as_slice())?;
        check_finite("hidden_bias", hidden_bias.as_slice())?;
        check_finite("visible_bias", visible_bias.as_slice())?;
        Ok(Self {
            weights,
            hidden_bias,
            visible_bias,
        })
    }

    /// Returns the number of hidden units, M.
    pub fn hidden_units(&self) -> usize {
        self.weights.nrows()
    }

    /// Returns the number of visible units, D.
    pub fn visible_units(&self) -> usize {
        self.weights.ncols()
    }

    /// Returns the weights `W` (M x D).
    pub fn weights(&self) -> &DMatrix<T> {
        &self.weights
    }

    /// Returns the hidden biases `a` (M).
    pub fn hidden_bias(&self) -> &DVector<T> {
        &self.hidden_bias
    }

    /// Returns the visible biases `b` (D).
    pub fn visible_bias(&self) -> &DVector<T> {
        &self.visible_bias
    }

    /// Returns the same machine with its parameters in precision `U`.
    ///
    /// # Errors
    /// If a parameter overflows `U`.
    pub fn cast<U: Scalar>(&self) -> Result<Rbm<U>> {
        let cast = |x: T| U::nearest(x.as_());
        Rbm::new(
            self.weights.map(cast),
            self.hidden_bias.map(cast),
            self.visible_bias.map(cast),
        )
    }

    /// Returns the energy `-(b.v + a.h + h^T W v)` of a joint state.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn energy(&self, visible: &[bool], hidden: &[bool]) -> f64 {
        let activation = self.hidden_activation(visible);
        demand_dimension("a hidden state", hidden.len(), activation.len());
        -(self.visible_term(visible) + masked_sum_of(activation.as_slice(), hidden))
    }

    /// Returns the logits of the hidden units given `v`: `a + W v`.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn hidden_activation(&self, visible: &[bool]) -> DVector<f64> {
        demand_dimension("a state", visible.len(), self.visible_units());
        let mut activation = self.hidden_bias.map(T::as_);
        let columns = self.weights.column_iter().zip(visible);
        for (column, _) in columns.filter(|(_, on)| **on) {
            activation.zip_apply(&column, |sum, w| *sum += w.as_());
        }
        activation
    }

    /// Returns the logits of the visible units given `h`: `b + W^T h`.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn visible_activation(&self, hidden: &[bool]) -> DVector<f64> {
        demand_dimension("a hidden state", hidden.len(), self.hidden_units());
        let columns = self.weights.column_iter().zip(&self.visible_bias);
        let logit = |column: &[T], bias: T| bias.as_() + masked_sum_of(column, hidden);
        DVector::from_iterator(
            self.visible_units(),
            columns.map(|(column, bias)| logit(column.as_slice(), *bias)),
        )
    }

    /// Returns `P(h_j = 1 | v)` for each hidden unit j.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn hidden_probabilities(&self, visible: &[bool]) -> DVector<f64> {
        self.hidden_activation(visible).map(sigmoid)
    }

    /// Returns `P(v_i = 1 | h)` for each visible unit i.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn visible_probabilities(&self, hidden: &[bool]) -> DVector<f64> {
        self.visible_activation(hidden).map(sigmoid)
    }

    /// Runs one sweep of block Gibbs sampling in place: v -> h -> v.
    ///
    /// # Panics
    /// If there is not one entry for each unit.
    pub fn gibbs_sweep<R: Rng + ?Sized>(&self, visible: &mut [bool], rng: &mut R) {
        let hidden = draw_all(&self.hidden_activation(visible), rng);
        draw_into(&self.visible_activation(&hidden), visible, rng);
    }

    /// Returns true if the hidden layer has at most as many units as the visible one. Its configurations are then searched
    /// or enumerated, and the visible layer is summed out. Otherwise the roles are exchanged.
    pub(super) fn is_narrow(&self) -> bool {
        self.hidden_units() <= self.visible_units()
    }

    /// Returns the sum over hidden units of the squared upper bound on `|activation|`.
    pub(crate) fn squared_activations(&self) -> f64 {
        let units = self.weights.row_iter().zip(&self.hidden_bias);
        let largest = units.map(|(weights, bias)| bias.as_().abs() + largest_sum(weights));
        largest.map(|x| x * x).sum()
    }

    /// Returns `b.v`.
    pub(crate) fn visible_term(&self, visible: &[bool]) -> f64 {
        masked_sum_of(self.visible_bias.as_slice(), visible)
    }
}

impl<T: Scalar> UnnormalizedModel for Rbm<T> {
    type State = Vec<bool>;

    /// Returns `b.v + sum_j softplus(a_j + W_j v)`.
    ///
    /// # Panics
    /// If there is not one entry for each visible unit.
    fn log_density(&self, visible: &Vec<bool>) -> f64 {
        let activation = self.hidden_activation(visible);
        self.visible_term(visible) + activation.iter().map(|&x| softplus(x)).sum::<f64>()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.visible_units())
    }

    fn epsilon(&self) -> f64 {
        T::epsilon().as_()
    }
}

/// Returns the sum of the entries of `values` whose unit is on.
pub(crate) fn masked_sum_of<T: Scalar>(values: &[T], units: &[bool]) -> f64 {
    let on = values.iter().zip(units).filter(|(_, on)| **on);
    on.map(|(x, _)| x.as_()).sum()
}

/// Returns the largest absolute sum that a subset of `values` can have.
pub(crate) fn largest_sum<'a, T: Scalar>(values: impl IntoIterator<Item = &'a T>) -> f64 {
    let (mut positive, mut negative) = (0.0, 0.0);
    for value in values {
        let value: f64 = value.as_();
        positive += value.max(0.0);
        negative -= value.min(0.0);
    }
    positive.max(negative)
}

pub(crate) fn draw_all<R: Rng + ?Sized>(logits: &DVector<f64>, rng: &mut R) -> Vec<bool> {
    let mut units = vec![false; logits.len()];
    draw_into(logits, &mut units, rng);
    units
}

pub(crate) fn draw_into<R: Rng + ?Sized>(logits: &DVector<f64>, units: &mut [bool], rng: &mut R) {
    for (unit, &logit) in units.iter_mut().zip(logits) {
        *unit = rng.random::<f64>() < sigmoid(logit);
    }
}

pub(crate) fn check_finite<'a, T: Scalar>(
    argument: &'static str,
    values: impl IntoIterator<Item = &'a T, IntoIter: Clone>,
) -> Result<()> {
    let values = values.into_iter().map(|x| x.as_());
    // A fold without early exit is vectorized. The slow check below only builds the error.
    if values.clone().fold(true, |all, x| all & x.is_finite()) {
        return Ok(());
    }
    Error::check_finite(argument, values)
}

// Weights are written row by row, so that the format shows their shape.
crate::num::serialize_as! {
    Rbm<T: Scalar> as rbm {
        weights: Vec::from_iter(rbm.weights.row_iter().map(|row| Vec::from_iter(row.iter().copied()))),
        hidden_bias: rbm.hidden_bias.as_slice(),
        visible_bias: rbm.visible_bias.as_slice(),
    }
}
crate::num::deserialize_checked! {
    Rbm<T: Scalar> { weights: Vec<Vec<T>>, hidden_bias: Vec<T>, visible_bias: Vec<T> } =>
        matrix_of(weights, visible_bias.len())
            .and_then(|weights| Rbm::new(weights, hidden_bias.into(), visible_bias.into()))
}

#[cfg(feature = "serde")]
pub(crate) fn matrix_of<T: Scalar>(rows: Vec<Vec<T>>, columns: usize) -> Result<DMatrix<T>> {
    for row in &rows {
        Error::check_dimension("row of weights", row.len(), columns)?;
    }
    let (count, entries) = (rows.len(), rows.into_iter().flatten());
    Ok(DMatrix::from_row_iterator(count, columns, entries))
}
