//! Categorical visible units.

use nalgebra::{DMatrix, DVector, DVectorView};
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::num::{largest, log_sum_exp};
use crate::random::draw_index;
use crate::rbm::harmonium::VisibleUnits;
use crate::{Error, Result};

/// Categorical visible units (Potts or softmax units), each in one of q categories from 0 to q - 1.
///
/// The log density is `sum_i b[v_i, i]` with biases `b` (q x D), and `-inf` if an entry is not a category. The `q D`
/// statistics are indicators; category k of unit i has index `i q + k`. Given the hidden units, `P(v_i = k)` is
/// proportional to `exp(b[k, i] + (W^T h)[i q + k])`. Methods panic if the length of a state is not D.
///
/// ```
/// use annealed::harmonium::CategoricalUnits;
/// use annealed::model::{NormalizedModel, UnnormalizedModel};
///
/// let units = CategoricalUnits::uniform(3, 2)?;
/// assert!((units.log_normalizer() - 9_f64.ln()).abs() < 1e-15);
/// // Unit 0 was in category 2 twice, once in category 0: (2 + 1) / (3 + 3 * 1) is a half.
/// let units = CategoricalUnits::from_data(3, &[vec![2], vec![0], vec![2]], 1.0)?;
/// let probability = (units.log_density(&vec![2]) - units.log_normalizer()).exp();
/// assert!((probability - 0.5).abs() < 1e-15);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CategoricalUnits {
    /// The biases `b` (q x D).
    biases: DMatrix<f64>,
}

impl CategoricalUnits {
    /// Creates units from biases (q x D), a row per category and a column per unit.
    ///
    /// # Errors
    /// If there are no biases, or a bias is not finite.
    pub fn new(biases: DMatrix<f64>) -> Result<Self> {
        Error::check_not_empty("biases", biases.len())?;
        Error::check_finite("biases", biases.iter().copied())?;
        Ok(Self { biases })
    }

    /// Creates units with equally likely categories: all biases are 0.
    ///
    /// # Errors
    /// If there are no categories, no units, or more than `2^28` biases.
    pub fn uniform(categories: usize, units: usize) -> Result<Self> {
        check_shape(categories, units)?;
        Self::new(DMatrix::zeros(categories, units))
    }

    /// Creates units with the frequencies of the data. Category k has probability `(n_k + s) / (N + q s)` if `n_k` of N
    /// rows have it. The `smoothing` s, such as 1, keeps the bias of an absent category finite.
    ///
    /// # Errors
    /// If there are no categories or no data, rows differ in length, an entry is invalid, or `smoothing` is not finite
    /// and positive.
    pub fn from_data(categories: usize, data: &[Vec<usize>], smoothing: f64) -> Result<Self> {
        Error::check_positive("smoothing", smoothing)?;
        Error::check_not_empty("data", data.len())?;
        let mut units = Self::uniform(categories, data[0].len())?;
        for row in data {
            units.check_state("row of data", row)?;
        }
        for (unit, mut column) in units.biases.column_iter_mut().enumerate() {
            column.fill(smoothing);
            data.iter().for_each(|row| column[row[unit]] += 1.0);
            let total = data.len() as f64 + categories as f64 * smoothing;
            column.apply(|count| *count = (*count / total).ln());
        }
        Self::new(units.biases)
    }

    /// Returns the number of categories, q.
    pub fn categories(&self) -> usize {
        self.biases.nrows()
    }

    /// Returns the biases `b` (q x D).
    pub fn biases(&self) -> &DMatrix<f64> {
        &self.biases
    }

    /// Returns the probabilities of the categories of each unit (q x D).
    pub fn probabilities(&self) -> DMatrix<f64> {
        let mut probabilities = self.biases.clone();
        for mut column in probabilities.column_iter_mut() {
            let log_z = log_sum_exp(column.iter());
            column.apply(|bias| *bias = (*bias - log_z).exp());
        }
        probabilities
    }
}

const MAX_BIASES: usize = 1 << 28;

fn check_shape(categories: usize, units: usize) -> Result<()> {
    let biases = categories.saturating_mul(units);
    let shape = format!("{categories} categories, {units} units");
    let expected = format!("at least one of each and at most {MAX_BIASES} pairs");
    Error::check((1..=MAX_BIASES).contains(&biases), "units", shape, expected)
}

impl UnnormalizedModel for CategoricalUnits {
    type State = Vec<usize>;

    fn log_density(&self, visible: &Vec<usize>) -> f64 {
        demand_dimension("a state", visible.len(), self.units());
        let bias = |(unit, &category): (usize, &usize)| {
            let column = self.biases.column(unit);
            column.as_slice().get(category).copied()
        };
        let biases = visible.iter().enumerate().map(bias);
        biases.map(|bias| bias.unwrap_or(f64::NEG_INFINITY)).sum()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.units())
    }
}

impl NormalizedModel for CategoricalUnits {
    fn log_normalizer(&self) -> f64 {
        self.biases
            .column_iter()
            .map(|column| log_sum_exp(column.iter()))
            .sum()
    }
}

impl Sampleable for CategoricalUnits {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vec<usize> {
        let mut weights = Vec::with_capacity(self.categories());
        let columns = self.biases.column_iter();
        let draw = |column: DVectorView<'_, f64>| {
            let largest = largest(column.iter());
            weights.clear();
            weights.extend(column.iter().map(|bias| (bias - largest).exp()));
            draw_index(weights.iter().copied(), weights.iter().sum(), rng)
        };
        columns.map(draw).collect()
    }
}

impl VisibleUnits for CategoricalUnits {
    fn units(&self) -> usize {
        self.biases.ncols()
    }

    fn statistic_count(&self) -> usize {
        self.biases.len()
    }

    fn statistics(&self, visible: &Vec<usize>) -> impl Iterator<Item = (usize, f64)> {
        let categories = self.categories();
        let units = visible.iter().copied().enumerate();
        let known = units.filter(move |&(_, category)| category < categories);
        known.map(move |(unit, category)| (unit * categories + category, 1.0))
    }

    fn mean_statistics(&self) -> DVector<f64> {
        DVector::from_column_slice(self.probabilities().as_slice())
    }

    fn tilted(&self, field: &DVector<f64>) -> Self {
        let mut biases = self.biases.clone();
        biases
            .iter_mut()
            .zip(field)
            .for_each(|(bias, field)| *bias += field);
        Self { biases }
    }

    fn blended(&self, other: &Self, t: f64) -> Self {
        let biases = &self.biases * (1.0 - t) + &other.biases * t;
        Self { biases }
    }

    fn check_state(&self, argument: &'static str, visible: &Vec<usize>) -> Result<()> {
        Error::check_dimension(argument, visible.len(), self.units())?;
        let mut units = visible.iter().enumerate();
        match units.find(|(_, category)| **category >= self.categories()) {
            None => Ok(()),
            Some((unit, category)) => Err(Error::invalid(
                argument,
                format!("{category} at index {unit}"),
                format!("categories below {}", self.categories()),
            )),
        }
    }

    fn log_states(&self) -> f64 {
        self.units() as f64 * (self.categories() as f64).ln()
    }
}

// The biases are written unit by unit.
crate::num::serialize_as! {
    CategoricalUnits as units {
        biases: Vec::from_iter(units.biases.column_iter().map(|column| column.as_slice().to_vec())),
    }
}
crate::num::deserialize_checked! {
    CategoricalUnits { biases: Vec<Vec<f64>> } => CategoricalUnits::from_columns(biases)
}

#[cfg(feature = "serde")]
impl CategoricalUnits {
    fn from_columns(biases: Vec<Vec<f64>>) -> Result<Self> {
        let (units, categories) = (biases.len(), biases.first().map_or(0, Vec::len));
        for column in &biases {
            Error::check_dimension("biases of a unit", column.len(), categories)?;
        }
        let biases = biases.into_iter().flatten();
        Self::new(DMatrix::from_iterator(categories, units, biases))
    }
}
