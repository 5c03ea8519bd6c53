//! Log densities of draws under all states, and the checks of them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use nalgebra::DMatrix;

use crate::estimate::repeated::{check_each_once, check_repeated};
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

/// Least number of different times of replicas: the least number of batches.
const TIMES: usize = 20;
/// Draws of a chain for each draw with an earlier time than the draw before it, below which the draws are not in order.
/// The times of chains one after the other start again.
const IN_ORDER: usize = 4;

impl Dependence {
    /// Creates the dependence of replicas from the time of each draw.
    ///
    /// # Errors
    /// A time that is not finite.
    pub fn replicas(times: &[f64]) -> Result<Self> {
        let indexed = times.iter().copied().enumerate();
        Error::check_each("times", "draw", indexed, f64::is_finite, "finite numbers")?;
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let rank = |time: &f64| sorted.partition_point(|other| other < time);
        Ok(Self::Replicas(times.iter().map(rank).collect()))
    }

    /// Creates the dependence of chains whose draws have times, one for each draw as `labels`, the states.
    ///
    /// # Errors
    /// Draws of a state that are not in the order of time; another number of times than of labels.
    pub fn chains(times: &[f64], labels: &[usize]) -> Result<Self> {
        Error::check_dimension("times (one for each draw)", times.len(), labels.len())?;
        let states = labels.iter().max().map_or(0, |last| last + 1);
        let (mut last, mut counts) = (vec![f64::NAN; states], vec![(0, 0); states]);
        for (time, &state) in times.iter().zip(labels) {
            counts[state].0 += usize::from(*time < last[state]);
            counts[state].1 += 1;
            last[state] = *time;
        }
        for (state, (back, draws)) in counts.into_iter().enumerate() {
            let value = format!(
                "state {state}, where {back} of {draws} draws are earlier than the draw before"
            );
            let expected = "draws of a chain in the order of time: sort them";
            Error::check(IN_ORDER * back < draws.max(1), "times", value, expected)?;
        }
        Ok(Self::Chains)
    }
}

/// Log densities of draws under all states, with checked labels.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// Log density of each draw (row) under each state (column), less the state's offset.
    matrix: DMatrix<f64>,
    /// The mean of the log densities of each state's own draws, rounded to a whole number; 0 for a state without draws. A
    /// large one would cost the solution digits.
    pub(super) offsets: Vec<f64>,
    /// State of each draw.
    pub(super) labels: Vec<usize>,
    /// Number of draws of each state.
    pub(super) counts: Vec<usize>,
    /// States with draws.
    pub(super) drawn: Vec<usize>,
    pub(super) how: Dependence,
    /// Rounding error of the largest log density.
    pub(super) rounding: f64,
}

/// Argument name in errors of the matrix.
const MATRIX: &str = "log densities, minus u_kn (a row for each draw, a column for each state)";

impl Data {
    pub(super) fn new(
        mut matrix: DMatrix<f64>,
        labels: Vec<usize>,
        how: Dependence,
    ) -> Result<Self> {
        let (draws, states) = matrix.shape();
        Error::check_at_least("number of states", states, 2)?;
        Error::check_not_empty("draws", draws)?;
        check_indices("labels (one for each row)", &labels, draws, states)?;
        if let Dependence::Replicas(times) = &how {
            check_indices("times (one for each row)", times, draws, draws)?;
            let different = times.iter().collect::<HashSet<_>>().len();
            Error::check_at_least("different times of replicas", different, TIMES)?;
        }
        check_values(&matrix, &labels)?;
        check_copies(&matrix, &labels, states, &how)?;
        let mut counts = vec![0; states];
        labels.iter().for_each(|state| counts[*state] += 1);
        let each = counts.iter().map(|count| *count as f64).enumerate();
        let expected = "none, or 2 and more";
        Error::check_each("draws of a state", "state", each, |n| n != 1.0, expected)?;
        let (rounding, mut offsets) = (rounding(matrix.as_slice()), vec![0.0; states]);
        for (draw, &state) in labels.iter().enumerate() {
            offsets[state] += matrix[(draw, state)] / counts[state] as f64;
        }
        for (mut column, offset) in matrix.column_iter_mut().zip(&mut offsets) {
            *offset = offset.round();
            column.add_scalar_mut(-*offset);
        }
        Ok(Self {
            drawn: (0..states).filter(|state| counts[*state] > 0).collect(),
            rounding,
            matrix,
            offsets,
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

/// Refuses draws that are given twice.
fn check_copies(
    matrix: &DMatrix<f64>,
    labels: &[usize],
    states: usize,
    how: &Dependence,
) -> Result<()> {
    let mut rows = vec![DefaultHasher::new(); labels.len()];
    for column in matrix.column_iter() {
        let values = rows.iter_mut().zip(column.iter());
        values.for_each(|(row, value)| value.to_bits().hash(row));
    }
    let mut series = vec![Vec::new(); states];
    for (row, state) in rows.iter().zip(labels) {
        series[*state].push(row.finish());
    }
    check_repeated("state", &series)?;
    match how {
        Dependence::Independent => check_each_once("state", &series),
        Dependence::Chains | Dependence::Replicas(_) => Ok(()),
    }
}

/// Returns the largest rounding error of log densities. Numbers that all have single precision were computed in it, unless
/// they are whole and so small that it would have left fractions.
fn rounding(values: &[f64]) -> f64 {
    let finite = || values.iter().filter(|x| x.is_finite());
    let largest = finite().fold(0.0, |most: f64, x| most.max(x.abs()));
    let is_single = finite().all(|x| f64::from(*x as f32) == *x);
    let is_whole = largest < f64::from(1 << 23) && finite().all(|x| x.fract() == 0.0);
    match is_single && !is_whole {
        true => 0.5 * f64::from(f32::EPSILON) * largest,
        false => 0.5 * f64::EPSILON * largest,
    }
}
