//! Quadratic forms of eight states at once, for few dimensions, where the coordinates of one state leave most of a
//! register empty.
//!
//! A register holds one coordinate of all eight. Each state's sums have the order that they have alone, so that the
//! bits are the same.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::model::square::SquareMatrix;
use crate::num::{VECTOR_WIDTH, over_vectors};

/// A number of each state.
type Lanes = [f64; VECTOR_WIDTH];

/// A vector of each state, of fewer than eight coordinates.
type Tile = [Lanes; VECTOR_WIDTH - 1];

/// Writes `(x - mu)^T P (x - mu)` of each state.
pub(super) fn forms(
    precision: &SquareMatrix,
    mean: &[f64],
    states: &[DVector<f64>],
    forms: &mut [f64],
) {
    over_vectors(
        #[inline(always)]
        move || {
            let chunks = states.chunks(VECTOR_WIDTH);
            for (states, forms) in chunks.zip(forms.chunks_mut(VECTOR_WIDTH)) {
                let rows = rows_of(states, mean.len());
                let offset = |j: usize| rows.map(|row| row[j] - mean[j]);
                let found = match precision {
                    SquareMatrix::Diagonal(p) => sum_of_squares(p.as_slice(), offset),
                    SquareMatrix::Dense(p) => {
                        dense_form(p.as_slice(), &tile(mean.len(), offset), mean.len())
                    }
                };
                forms.copy_from_slice(&found[..forms.len()]);
            }
        },
    );
}

/// Subtracts `scale * P (x - mu)` from the gradient of each state, a row, and writes the form.
pub(super) fn accumulate_pulls(
    precision: &SquareMatrix,
    mean: &[f64],
    states: DMatrixView<'_, f64>,
    scale: f64,
    mut gradients: DMatrixViewMut<'_, f64>,
    forms: &mut [f64],
) {
    over_vectors(
        #[inline(always)]
        move || {
            for (chunk, forms) in forms.chunks_mut(VECTOR_WIDTH).enumerate() {
                let rows = chunk * VECTOR_WIDTH..chunk * VECTOR_WIDTH + forms.len();
                let offset = |j: usize| {
                    let column = states.column(j);
                    padded(&column.as_slice()[rows.clone()]).map(|x| x - mean[j])
                };
                let subtract = |j: usize, pull: Lanes| {
                    let mut column = gradients.column_mut(j);
                    let gradient = &mut column.as_mut_slice()[rows.clone()];
                    let mut next = padded(gradient);
                    for l in 0..VECTOR_WIDTH {
                        next[l] -= scale * pull[l];
                    }
                    gradient.copy_from_slice(&next[..gradient.len()]);
                };
                let found = match precision {
                    SquareMatrix::Diagonal(p) => diagonal_pull(p.as_slice(), offset, subtract),
                    SquareMatrix::Dense(p) => {
                        dense_pull(p.as_slice(), offset, subtract, mean.len())
                    }
                };
                forms.copy_from_slice(&found[..forms.len()]);
            }
        },
    );
}

/// Up to eight states, the last of which stands in for those that lack.
#[inline(always)]
fn rows_of(states: &[DVector<f64>], dimension: usize) -> [&[f64]; VECTOR_WIDTH] {
    std::array::from_fn(|lane| {
        let state = states[lane.min(states.len() - 1)].as_slice();
        assert!(state.len() == dimension, "a state of another dimension");
        &state[..dimension]
    })
}

/// Up to eight numbers.
#[inline(always)]
fn padded(values: &[f64]) -> Lanes {
    let mut lanes = Lanes::default();
    if let Some(all) = values.first_chunk() {
        lanes = *all;
    } else {
        lanes[..values.len()].copy_from_slice(values);
    }
    lanes
}

#[inline(always)]
fn sum_of_squares(p: &[f64], mut offset: impl FnMut(usize) -> Lanes) -> Lanes {
    let mut sum = Lanes::default();
    for (j, p) in p.iter().enumerate() {
        let x = offset(j);
        for l in 0..VECTOR_WIDTH {
            sum[l] += p * x[l] * x[l];
        }
    }
    sum
}

#[inline(always)]
fn diagonal_pull(
    p: &[f64],
    offset: impl Fn(usize) -> Lanes,
    mut subtract: impl FnMut(usize, Lanes),
) -> Lanes {
    sum_of_squares(p, |j| {
        let offset = offset(j);
        subtract(j, offset.map(|x| p[j] * x));
        offset
    })
}

/// The diagonal, and twice the strict lower triangle.
#[inline(always)]
fn dense_form(p: &[f64], offsets: &Tile, dimension: usize) -> Lanes {
    let mut half = Lanes::default();
    for (i, column) in p.chunks_exact(dimension).enumerate() {
        let below = weighted_sum(&column[i + 1..], &offsets[i + 1..]);
        let x = &offsets[i];
        for l in 0..VECTOR_WIDTH {
            half[l] += x[l] * (0.5 * column[i] * x[l] + below[l]);
        }
    }
    half.map(|half| 2.0 * half)
}

#[inline(always)]
fn dense_pull(
    p: &[f64],
    offset: impl Fn(usize) -> Lanes,
    mut subtract: impl FnMut(usize, Lanes),
    dimension: usize,
) -> Lanes {
    let offsets = tile(dimension, offset);
    let mut form = Lanes::default();
    for (i, column) in p.chunks_exact(dimension).enumerate() {
        let pull = weighted_sum(column, &offsets);
        for l in 0..VECTOR_WIDTH {
            form[l] += offsets[i][l] * pull[l];
        }
        subtract(i, pull);
    }
    form
}

#[inline(always)]
fn tile(dimension: usize, offset: impl Fn(usize) -> Lanes) -> Tile {
    let mut tile = Tile::default();
    for j in 0..dimension.min(tile.len()) {
        tile[j] = offset(j);
    }
    tile
}

#[inline(always)]
fn weighted_sum(p: &[f64], offsets: &[Lanes]) -> Lanes {
    let mut sum = Lanes::default();
    for (p, x) in p.iter().zip(offsets) {
        for l in 0..VECTOR_WIDTH {
            sum[l] += p * x[l];
        }
    }
    sum
}
