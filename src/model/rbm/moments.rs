//! Moments of an RBM, exactly.

use nalgebra::{DMatrix, DVector};

use crate::error::Result;
use crate::model::rbm::elementwise::{add_scaled, logits_to_probabilities};
use crate::model::rbm::enumeration::Enumeration;
use crate::model::rbm::{Rbm, Scalar};

/// States below this log probability are passed over: all of the `2^25` at most together hold
/// less than 1e-18.
const NEGLIGIBLE: f64 = -60.0;

/// The moments of an RBM as an exponential family: the gradient of `log Z` in `b`, `a` and `W`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RbmMoments {
    /// `log Z`.
    pub log_normalizer: f64,
    /// `E[v]` (D).
    pub visible: DVector<f64>,
    /// `E[h]` (M).
    pub hidden: DVector<f64>,
    /// `E[h v^T]` (M x D).
    pub interaction: DMatrix<f64>,
}

/// Sums over states of `p(s) E[other | s]`, of `p(s) s` and of their products.
struct Sums {
    other: DVector<f64>,
    enumerated: DVector<f64>,
    /// A column for each enumerated unit.
    products: DMatrix<f64>,
    buffer: Vec<f64>,
}

impl Sums {
    fn zeros(enumeration: &Enumeration) -> Self {
        let (units, others) = (enumeration.units(), enumeration.other_units());
        Self {
            other: DVector::zeros(others),
            enumerated: DVector::zeros(units),
            products: DMatrix::zeros(others, units),
            buffer: vec![0.0; others],
        }
    }

    fn add(&mut self, state: usize, log_probability: f64, activation: &[f64]) {
        if log_probability < NEGLIGIBLE {
            return;
        }
        let p = log_probability.exp();
        self.buffer.copy_from_slice(activation);
        logits_to_probabilities(&mut self.buffer);
        add_scaled(self.other.as_mut_slice(), p, &self.buffer);
        for k in (0..self.enumerated.len()).filter(|k| state >> k & 1 == 1) {
            self.enumerated[k] += p;
            add_scaled(self.products.column_mut(k).as_mut_slice(), p, &self.buffer);
        }
    }

    fn merge(&mut self, part: &Self) {
        self.other += &part.other;
        self.enumerated += &part.enumerated;
        self.products += &part.products;
    }
}

impl<T: Scalar> Rbm<T> {
    /// `E[v]`, `E[h]` and `E[h v^T]`, exactly, by enumerating the smaller layer twice.
    ///
    /// # Errors
    /// As [`exact_log_normalizer`](Self::exact_log_normalizer).
    pub fn exact_moments(&self) -> Result<RbmMoments> {
        let enumeration = Enumeration::new(self)?;
        let log_normalizer = enumeration.log_normalizer()?;
        let parts = enumeration.fold(
            || Sums::zeros(&enumeration),
            |sums, state, log_f, x| sums.add(state, log_f - log_normalizer, x),
        );
        let mut total = Sums::zeros(&enumeration);
        for part in &parts {
            total.merge(part);
        }
        let (visible, hidden, interaction) = if enumeration.over_hidden {
            (total.other, total.enumerated, total.products.transpose())
        } else {
            (total.enumerated, total.other, total.products)
        };
        Ok(RbmMoments {
            log_normalizer,
            visible,
            hidden,
            interaction,
        })
    }
}
