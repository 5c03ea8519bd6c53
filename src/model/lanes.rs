//! Quadratic forms of eight states at once, for few dimensions: a register holds one coordinate of all eight.
//!
//! Sums keep the order of a single state, so the bits are the same. Loops over lanes are written out, because `map` and
//! `from_fn` of arrays are not always inlined and then do not use the wide registers.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use crate::error::demand_dimension;
use crate::model::square::SquareMatrix;
use crate::num::{VECTOR_WIDTH, over_vectors};

/// One number for each of eight states.
pub(super) type Lanes = [f64; VECTOR_WIDTH];

/// A vector of fewer than eight coordinates for each of eight states: one `Lanes` per coordinate.
type Tile = [Lanes; VECTOR_WIDTH - 1];

/// Writes `(x - mu)^T P (x - mu)` of each state.
pub(super) fn forms(
    precision: &SquareMatrix,
    mean: &[f64],
    states: &[[DVector<f64>; VECTOR_WIDTH]],
    forms: &mut [Lanes],
) {
    over_vectors(
        #[inline(always)]
        move || {
            for (states, form) in states.iter().zip(forms) {
                let offsets = &offsets_of(states, mean)[..mean.len()];
                *form = match precision {
                    SquareMatrix::Diagonal(p) => sum_of_squares(p.as_slice(), offsets),
                    SquareMatrix::Dense(p) => dense_form(p.as_slice(), offsets),
                };
            }
        },
    );
}

/// Subtracts `scale * P (x - mu)` from the gradient of each state (a row), and writes the quadratic forms
/// `(x - mu)' P (x - mu)`, eight rows at a time.
pub(super) fn accumulate_pulls(
    precision: &SquareMatrix,
    mean: &[f64],
    states: DMatrixView<'_, f64>,
    scale: f64,
    mut gradients: DMatrixViewMut<'_, f64>,
    forms: &mut [Lanes],
) {
    over_vectors(
        #[inline(always)]
        move || {
            for (group, form) in forms.iter_mut().enumerate() {
                let mut offsets = Tile::default();
                for (j, (offset, mean)) in offsets.iter_mut().zip(mean).enumerate() {
                    *offset = minus(&states.column(j).as_slice().as_chunks().0[group], *mean);
                }
                let mut sum = Lanes::default();
                for (i, offset) in offsets[..mean.len()].iter().enumerate() {
                    let pull = match precision {
                        SquareMatrix::Diagonal(p) => times(offset, p[i]),
                        SquareMatrix::Dense(p) => {
                            let column = &p.as_slice()[i * mean.len()..][..mean.len()];
                            weighted_sum(column, &offsets)
                        }
                    };
                    let mut column = gradients.column_mut(i);
                    let gradient = &mut column.as_mut_slice().as_chunks_mut().0[group];
                    add_product(&mut sum, offset, &pull);
                    add_product(gradient, &[-scale; VECTOR_WIDTH], &pull);
                }
                *form = sum;
            }
        },
    );
}

#[inline(always)]
fn offsets_of(states: &[DVector<f64>; VECTOR_WIDTH], mean: &[f64]) -> Tile {
    let row = |state: usize| {
        let row = states[state].as_slice();
        demand_dimension("a state", row.len(), mean.len());
        // A slice with the length of the mean needs no further bounds checks.
        &row[..mean.len()]
    };
    let (a, b, c, d) = (row(0), row(1), row(2), row(3));
    let (e, f, g, h) = (row(4), row(5), row(6), row(7));
    let mut offsets = Tile::default();
    for (j, (offset, mean)) in offsets.iter_mut().zip(mean).enumerate() {
        *offset = minus(&[a[j], b[j], c[j], d[j], e[j], f[j], g[j], h[j]], *mean);
    }
    offsets
}

#[inline(always)]
fn minus(x: &Lanes, y: f64) -> Lanes {
    let mut difference = *x;
    for x in &mut difference {
        *x -= y;
    }
    difference
}

#[inline(always)]
fn times(x: &Lanes, factor: f64) -> Lanes {
    let mut product = *x;
    for x in &mut product {
        *x *= factor;
    }
    product
}

#[inline(always)]
fn add_product(sum: &mut Lanes, x: &Lanes, y: &Lanes) {
    let mut next = *sum;
    for l in 0..VECTOR_WIDTH {
        next[l] += x[l] * y[l];
    }
    *sum = next;
}

#[inline(always)]
fn sum_of_squares(p: &[f64], offsets: &[Lanes]) -> Lanes {
    let mut sum = Lanes::default();
    for (p, x) in p.iter().zip(offsets) {
        add_product(&mut sum, &times(x, *p), x);
    }
    sum
}

#[inline(always)]
fn dense_form(p: &[f64], offsets: &[Lanes]) -> Lanes {
    let mut half = Lanes::default();
    for (i, column) in p.chunks_exact(offsets.len()).enumerate() {
        let mut rest = weighted_sum(&column[i + 1..], &offsets[i + 1..]);
        for (rest, x) in rest.iter_mut().zip(&offsets[i]) {
            *rest += 0.5 * column[i] * x;
        }
        add_product(&mut half, &offsets[i], &rest);
    }
    times(&half, 2.0)
}

#[inline(always)]
fn weighted_sum(p: &[f64], offsets: &[Lanes]) -> Lanes {
    let mut sum = Lanes::default();
    for (p, x) in p.iter().zip(offsets) {
        add_product(&mut sum, &[*p; VECTOR_WIDTH], x);
    }
    sum
}
