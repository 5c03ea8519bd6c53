//! The quadratic form behind every Gaussian density: `-1/2 (x - mu)^T P (x - mu)`.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// A centre `mu` and a symmetric positive definite precision matrix `P`, evaluated without
/// allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuadraticForm {
    mean: DVector<f64>,
    precision: Precision,
}

/// Diagonal matrices cost d instead of d^2, and independent coordinates are common in bases.
#[derive(Debug, Clone, PartialEq)]
enum Precision {
    Diagonal(DVector<f64>),
    Dense(DMatrix<f64>),
}

impl QuadraticForm {
    /// The caller has checked that the sizes agree and that the matrix is symmetric.
    pub(crate) fn new(mean: DVector<f64>, precision: DMatrix<f64>) -> Self {
        debug_assert_eq!(precision.shape(), (mean.len(), mean.len()));
        let diagonal = (0..mean.len()).all(|j| (0..j).all(|i| precision[(i, j)] == 0.0));
        let precision = if diagonal {
            Precision::Diagonal(precision.diagonal())
        } else {
            Precision::Dense(precision)
        };
        Self { mean, precision }
    }

    /// Centre `mean`, precision `(1 - beta) a + beta b`.
    pub(crate) fn blend(mean: DVector<f64>, a: &Self, b: &Self, beta: f64) -> Self {
        let precision = match (&a.precision, &b.precision) {
            (Precision::Diagonal(a), Precision::Diagonal(b)) => {
                Precision::Diagonal(a.zip_map(b, |a, b| (1.0 - beta) * a + beta * b))
            }
            _ => Precision::Dense(
                a.precision()
                    .zip_map(&b.precision(), |a, b| (1.0 - beta) * a + beta * b),
            ),
        };
        Self { mean, precision }
    }

    pub(crate) fn mean(&self) -> &DVector<f64> {
        &self.mean
    }

    pub(crate) fn precision(&self) -> DMatrix<f64> {
        match &self.precision {
            Precision::Diagonal(diagonal) => DMatrix::from_diagonal(diagonal),
            Precision::Dense(matrix) => matrix.clone(),
        }
    }

    /// `-1/2 (x - mu)^T P (x - mu)`.
    pub(crate) fn value(&self, state: &DVector<f64>) -> f64 {
        let (x, mean) = self.checked(state);
        match &self.precision {
            Precision::Diagonal(p) => -0.5 * sum_of_squares(p.as_slice(), x, mean),
            Precision::Dense(p) => {
                // Twice the strict lower triangle, and the diagonal.
                let d = mean.len();
                let mut form = 0.0;
                for (i, column) in p.as_slice().chunks_exact(d).enumerate() {
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
        let gradient = gradient.as_mut_slice();
        assert_eq!(gradient.len(), mean.len(), "length of the gradient");
        match &self.precision {
            Precision::Diagonal(p) => {
                for (((g, p), x), mean) in gradient.iter_mut().zip(p.iter()).zip(x).zip(mean) {
                    *g -= scale * (p * (x - mean));
                }
                -0.5 * sum_of_squares(p.as_slice(), x, mean)
            }
            Precision::Dense(p) => {
                let mut form = 0.0;
                for (i, column) in p.as_slice().chunks_exact(mean.len()).enumerate() {
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
        let (precision, pull) = match &self.precision {
            Precision::Diagonal(p) => (p[index], 0.0),
            Precision::Dense(p) => {
                // At its centre the coordinate adds nothing to its own row.
                state[index] = centre;
                let (x, mean) = self.checked(state);
                let row = &p.as_slice()[index * mean.len()..][..mean.len()];
                (row[index], weighted_offset(row, x, mean))
            }
        };
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
fn weighted_offset(p: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    lane_sum(p, x, mean, |p, offset| p * offset)
}

/// `sum_j p_j (x_j - mu_j)^2`.
fn sum_of_squares(p: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    lane_sum(p, x, mean, |p, offset| p * offset * offset)
}

#[inline(always)]
fn lane_sum(p: &[f64], x: &[f64], mean: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let (p_lanes, p_rest) = p.as_chunks::<LANES>();
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (mean_lanes, mean_rest) = mean.as_chunks::<LANES>();
    let mut rest = 0.0;
    for ((p, x), mean) in p_rest.iter().zip(x_rest).zip(mean_rest) {
        rest += term(*p, x - mean);
    }
    if p_lanes.is_empty() {
        return rest;
    }
    let mut lanes = [0.0; LANES];
    for ((p, x), mean) in p_lanes.iter().zip(x_lanes).zip(mean_lanes) {
        for lane in 0..LANES {
            lanes[lane] += term(p[lane], x[lane] - mean[lane]);
        }
    }
    rest + lanes.iter().sum::<f64>()
}
