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
            Some(p) => {
                for (((g, p), x), mean) in gradient.iter_mut().zip(p.as_slice()).zip(x).zip(mean) {
                    *g -= scale * (p * (x - mean));
                }
                -0.5 * sum_of_squares(p.as_slice(), x, mean)
            }
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
    let (x, mean) = (&x[..p.len()], &mean[..p.len()]);
    let plain_sum = |p: &[f64], x: &[f64], mean: &[f64]| {
        let mut sum = 0.0;
        for i in 0..p.len() {
            sum += term(p[i], x[i] - mean[i]);
        }
        sum
    };
    if p.len() < LANES {
        return plain_sum(p, x, mean);
    }
    let (p_lanes, p_rest) = p.as_chunks::<LANES>();
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (mean_lanes, mean_rest) = mean.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for ((p, x), mean) in p_lanes.iter().zip(x_lanes).zip(mean_lanes) {
        for lane in 0..LANES {
            lanes[lane] += term(p[lane], x[lane] - mean[lane]);
        }
    }
    plain_sum(p_rest, x_rest, mean_rest) + lanes.iter().sum::<f64>()
}
