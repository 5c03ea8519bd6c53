//! The quadratic form behind every Gaussian density: `-1/2 (x - mu)^T P (x - mu)`.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// A centre `mu` and a symmetric positive definite precision matrix `P`, evaluated without
/// allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuadraticForm {
    mean: DVector<f64>,
    precision: DMatrix<f64>,
    /// The diagonal of `P` where there is nothing beside it: such forms are common in bases and
    /// cost d instead of d^2.
    diagonal: Option<DVector<f64>>,
}

impl QuadraticForm {
    /// The caller has checked that the sizes agree and that the matrix is symmetric.
    pub(crate) fn new(mean: DVector<f64>, precision: DMatrix<f64>) -> Self {
        debug_assert_eq!(precision.shape(), (mean.len(), mean.len()));
        let is_diagonal = (0..mean.len()).all(|j| (0..j).all(|i| precision[(i, j)] == 0.0));
        Self {
            diagonal: is_diagonal.then(|| precision.diagonal()),
            mean,
            precision,
        }
    }

    pub(crate) fn mean(&self) -> &DVector<f64> {
        &self.mean
    }

    pub(crate) fn precision(&self) -> &DMatrix<f64> {
        &self.precision
    }

    /// `-1/2 (x - mu)^T P (x - mu)`.
    pub(crate) fn value(&self, state: &DVector<f64>) -> f64 {
        let (x, mean) = self.checked(state);
        let d = mean.len();
        match &self.diagonal {
            Some(p) => -0.5 * sum_of_squares(p.as_slice(), x, mean),
            None => {
                // Twice the strict lower triangle, and the diagonal.
                let mut form = 0.0;
                for (i, column) in self.precision.as_slice().chunks_exact(d).enumerate() {
                    let below = weighted_offset(&column[i + 1..], &x[i + 1..], &mean[i + 1..]);
                    let offset = x[i] - mean[i];
                    form += offset * (0.5 * column[i] * offset + below);
                }
                -form
            }
        }
    }

    /// Adds `-scale * P (x - mu)` to `gradient` and returns the [`value`](Self::value).
    pub(crate) fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (x, mean) = self.checked(state);
        let d = mean.len();
        let gradient = gradient.as_mut_slice();
        assert_eq!(gradient.len(), mean.len(), "length of the gradient");
        match &self.diagonal {
            Some(p) => -0.5 * accumulate_pull(p.as_slice(), x, mean, scale, gradient),
            None => {
                let mut form = 0.0;
                for (i, column) in self.precision.as_slice().chunks_exact(d).enumerate() {
                    let pull = weighted_offset(column, x, mean);
                    gradient[i] -= scale * pull;
                    form += (x[i] - mean[i]) * pull;
                }
                -0.5 * form
            }
        }
    }

    /// Draws `x_i` given the others: `N(mu_i - sum_{j != i} P_ij (x_j - mu_j) / P_ii, 1 / P_ii)`.
    pub(crate) fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        let centre = self.mean[index];
        let precision = self.precision[(index, index)];
        let mut pull = 0.0;
        if self.diagonal.is_none() {
            // At its centre the coordinate adds nothing to its own row.
            state[index] = centre;
            let (x, mean) = self.checked(state);
            let row = &self.precision.as_slice()[index * mean.len()..][..mean.len()];
            pull = weighted_offset(row, x, mean);
        }
        let noise: f64 = rng.sample(StandardNormal);
        state[index] = centre - pull / precision + noise / precision.sqrt();
    }

    fn checked<'a>(&'a self, state: &'a DVector<f64>) -> (&'a [f64], &'a [f64]) {
        assert_eq!(state.len(), self.mean.len(), "length of the state");
        (state.as_slice(), self.mean.as_slice())
    }
}

/// Independent partial sums, so that the compiler may use vector registers.
const LANES: usize = 8;

/// `sum_j p_j (x_j - mu_j)`.
#[inline(always)]
fn weighted_offset(p: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    lane_sum(p, x, mean, |p, offset| p * offset)
}

/// `sum_j p_j (x_j - mu_j)^2`.
fn sum_of_squares(p: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    lane_sum(p, x, mean, |p, offset| p * offset * offset)
}

#[inline(always)]
fn lane_sum(p: &[f64], x: &[f64], mean: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let ((p, p_rest), (x, x_rest), (mean, mean_rest)) = (lanes(p), lanes(x), lanes(mean));
    let mut rest = 0.0;
    for ((p, x), mean) in p_rest.iter().zip(x_rest).zip(mean_rest) {
        rest += term(*p, x - mean);
    }
    if p.is_empty() {
        return rest;
    }
    let mut sums = [0.0; LANES];
    for ((p, x), mean) in p.iter().zip(x).zip(mean) {
        for l in 0..LANES {
            sums[l] += term(p[l], x[l] - mean[l]);
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// Subtracts `scale * p_j (x_j - mu_j)` from `gradient` and returns the sum of squares.
fn accumulate_pull(p: &[f64], x: &[f64], mean: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    let ((p, p_rest), (x, x_rest), (mean, mean_rest)) = (lanes(p), lanes(x), lanes(mean));
    let (gradient, gradient_rest) = gradient.as_chunks_mut::<LANES>();
    let mut rest = 0.0;
    let terms = gradient_rest.iter_mut().zip(p_rest).zip(x_rest);
    for (((g, p), x), mean) in terms.zip(mean_rest) {
        let offset = x - mean;
        *g -= scale * (p * offset);
        rest += p * offset * offset;
    }
    if p.is_empty() {
        return rest;
    }
    let mut sums = [0.0; LANES];
    for (((g, p), x), mean) in gradient.iter_mut().zip(p).zip(x).zip(mean) {
        for l in 0..LANES {
            let offset = x[l] - mean[l];
            let pull = p[l] * offset;
            g[l] -= scale * pull;
            sums[l] += pull * offset;
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[inline(always)]
fn lanes(values: &[f64]) -> (&[[f64; LANES]], &[f64]) {
    values.as_chunks()
}
