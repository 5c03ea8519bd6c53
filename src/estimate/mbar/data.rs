//! Log densities of draws under all states, and the checks of them.

use nalgebra::DMatrix;

use crate::{Error, Result};

/// How the draws of all states depend on each other. The standard errors follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dependence {
    /// All draws are independent.
    Independent,
    /// The draws of each state, in the given order, are one chain, or several long chains one after the other.
    Chains,
    /// Index of the time of each draw. Draws of all states at near times depend on each other, as in replica exchange,
    /// where replicas move over the states.
    Replicas(Vec<usize>),
}

/// Log densities of draws under all states, with checked labels.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// Log density of each draw (row) under each state (column).
    matrix: DMatrix<f64>,
    /// State of each draw.
    pub(super) labels: Vec<usize>,
    /// Number of draws of each state.
    pub(super) counts: Vec<usize>,
    /// States with draws.
    pub(super) drawn: Vec<usize>,
    pub(super) how: Dependence,
}

/// Argument name in errors of the matrix.
const MATRIX: &str = "log densities, minus u_kn (a row for each draw, a column for each state)";

impl Data {
    pub(super) fn new(matrix: DMatrix<f64>, labels: Vec<usize>, how: Dependence) -> Result<Self> {
        let (draws, states) = matrix.shape();
        Error::check_at_least("number of states", states, 2)?;
        Error::check_not_empty("draws", draws)?;
        check_indices("labels (one for each row)", &labels, draws, states)?;
        if let Dependence::Replicas(times) = &how {
            check_indices("times (one for each row)", times, draws, draws)?;
        }
        check_values(&matrix, &labels)?;
        let mut counts = vec![0; states];
        labels.iter().for_each(|state| counts[*state] += 1);
        let each = counts.iter().map(|count| *count as f64).enumerate();
        let expected = "none, or 2 and more";
        Error::check_each("draws of a state", "state", each, |n| n != 1.0, expected)?;
        Ok(Self {
            drawn: (0..states).filter(|state| counts[*state] > 0).collect(),
            matrix,
            labels,
            counts,
            how,
        })
    }

    /// Returns the log densities of all draws under a state.
    pub(super) fn column(&self, state: usize) -> &[f64] {
        let draws = self.labels.len();
        &self.matrix.as_slice()[state * draws..(state + 1) * draws]
    }
}

/// Refuses a list that has not one index for each row, or an index that is not below `most`.
fn check_indices(name: &'static str, indices: &[usize], rows: usize, most: usize) -> Result<()> {
    Error::check_dimension(name, indices.len(), rows)?;
    let values = indices.iter().map(|index| *index as f64).enumerate();
    let expected = format!("indices below {most}");
    Error::check_each(name, "row", values, |index| index < most as f64, &expected)
}

/// Refuses NaN and `+inf`, and a draw without density under its own state.
fn check_values(matrix: &DMatrix<f64>, labels: &[usize]) -> Result<()> {
    for (state, column) in matrix.column_iter().enumerate() {
        let place = format!("state {state}, draw");
        let values = column.iter().copied().enumerate();
        let below = |x| x < f64::INFINITY;
        Error::check_each(MATRIX, &place, values.clone(), below, "numbers below +inf")?;
        let own = values.filter(|(draw, _)| labels[*draw] == state);
        let expected = "finite numbers for a draw under its own state";
        Error::check_each(MATRIX, &place, own, f64::is_finite, expected)?;
    }
    Ok(())
}
