//! The quadratic form behind every Gaussian density.

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};
use rand::Rng;

use crate::error::demand_dimension;
use crate::model::square::SquareMatrix;
use crate::model::{Differentiable, FullConditionals, UnnormalizedModel, accumulate_each, lanes};
use crate::num::{VECTOR_WIDTH, all_finite, over_vectors, wide};
use crate::random::StandardNormal;

/// The log density `-1/2 (x - mu)^T P (x - mu)`, evaluated without allocation. `P` is symmetric positive definite.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuadraticForm {
    mean: DVector<f64>,
    /// The matrix `P`. A diagonal `P` costs d operations instead of d^2.
    precision: SquareMatrix,
}

impl QuadraticForm {
    /// Creates a form. The caller has checked that sizes agree and that the matrix is symmetric.
    pub(crate) fn new(mean: DVector<f64>, precision: SquareMatrix) -> Self {
        Self { mean, precision }
    }

    pub(crate) fn mean(&self) -> &DVector<f64> {
        &self.mean
    }

    pub(crate) fn precision(&self) -> &SquareMatrix {
        &self.precision
    }

    #[inline]
    fn checked<'a>(&'a self, state: &'a DVector<f64>) -> (&'a [f64], &'a [f64]) {
        demand_dimension("a state", state.len(), self.mean.len());
        (state.as_slice(), self.mean.as_slice())
    }

    /// Returns whether a register holds one coordinate of eight states, not eight coordinates of one state.
    fn is_short(&self) -> bool {
        self.mean.len() < VECTOR_WIDTH
    }

    /// Returns how many of `states` states are evaluated eight at a time.
    fn in_lanes(&self, states: usize) -> usize {
        if self.is_short() {
            states - states % VECTOR_WIDTH
        } else {
            0
        }
    }
}

impl UnnormalizedModel for QuadraticForm {
    type State = DVector<f64>;

    #[inline]
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let (x, mean) = self.checked(state);
        let form = match &self.precision {
            SquareMatrix::Diagonal(p) => sum_of_squares(p.as_slice(), x, mean),
            SquareMatrix::Dense(p) => dense_form(p.as_slice(), x, mean),
        };
        -0.5 * without_overflow(form, x)
    }

    fn evaluates_batches(&self) -> bool {
        self.is_short()
    }

    fn log_densities(&self, states: &[DVector<f64>], log_densities: &mut [f64]) {
        let (grouped, rest) = states.split_at(self.in_lanes(states.len()));
        let (forms, log_densities) = log_densities.split_at_mut(grouped.len());
        let (eights, lanes) = (grouped.as_chunks().0, forms.as_chunks_mut().0);
        lanes::forms(&self.precision, self.mean.as_slice(), eights, lanes);
        finish(forms, |chain| self.log_density(&grouped[chain]));
        for (log_density, state) in log_densities.iter_mut().zip(rest) {
            *log_density = self.log_density(state);
        }
    }
}

/// Turns quadratic forms into log densities, in place. `recomputed(i)` replaces a log density i that is not finite.
#[inline]
fn finish(forms: &mut [f64], recomputed: impl Fn(usize) -> f64) {
    forms.iter_mut().for_each(|form| *form *= -0.5);
    if all_finite(forms) {
        return;
    }
    for (chain, log_density) in forms.iter_mut().enumerate() {
        if !log_density.is_finite() {
            *log_density = recomputed(chain);
        }
    }
}

impl Differentiable for QuadraticForm {
    #[inline]
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let (x, mean) = self.checked(state);
        let gradient = gradient.as_mut_slice();
        assert_eq!(gradient.len(), mean.len(), "length of the gradient");
        let form = match &self.precision {
            SquareMatrix::Diagonal(p) => accumulate_pull(p.as_slice(), x, mean, scale, gradient),
            SquareMatrix::Dense(p) => accumulate_dense_pull(p.as_slice(), x, mean, scale, gradient),
        };
        -0.5 * without_overflow(form, x)
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        demand_dimension("states", states.ncols(), self.mean.len());
        let grouped = self.in_lanes(log_densities.len());
        let (forms, log_densities) = log_densities.split_at_mut(grouped);
        let (precision, mean) = (&self.precision, self.mean.as_slice());
        let lanes = forms.as_chunks_mut().0;
        lanes::accumulate_pulls(
            precision,
            mean,
            states,
            scale,
            gradients.as_view_mut(),
            lanes,
        );
        finish(forms, |chain| {
            self.log_density(&states.row(chain).transpose())
        });
        let rest = log_densities.len();
        let gradients = gradients.rows_mut(grouped, rest);
        accumulate_each(
            self,
            states.rows(grouped, rest),
            scale,
            gradients,
            log_densities,
        );
    }
}

impl FullConditionals for QuadraticForm {
    fn coordinates(&self) -> usize {
        self.mean.len()
    }

    /// Draws `x_i` from `N(mu_i - sum_{j != i} P_ij (x_j - mu_j) / P_ii, 1 / P_ii)`.
    fn sample_coordinate<R: Rng + ?Sized>(
        &self,
        state: &mut DVector<f64>,
        index: usize,
        rng: &mut R,
    ) {
        let centre = self.mean[index];
        let precision = self.precision.entry(index, index);
        let mut pull = 0.0;
        if let SquareMatrix::Dense(p) = &self.precision {
            // At its centre the coordinate adds nothing to its own row.
            state[index] = centre;
            let (x, mean) = self.checked(state);
            let row = &p.as_slice()[index * mean.len()..][..mean.len()];
            pull = over_vectors(
                #[inline(always)]
                move || lane_sum(row, x, mean, weighted),
            );
        }
        state[index] =
            centre - pull / precision + StandardNormal::get().draw(rng) / precision.sqrt();
    }
}

/// Returns infinity if `x` is finite but its squares overflowed, and the quadratic form `form` otherwise.
#[inline]
fn without_overflow(form: f64, x: &[f64]) -> f64 {
    if form.is_finite() || !all_finite(x) {
        return form;
    }
    f64::INFINITY
}

/// Returns `sum_j p_j (x_j - mu_j)^2`.
#[inline]
fn sum_of_squares(p: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    if p.len() < VECTOR_WIDTH {
        return sum(p, x, mean, squared);
    }
    wide(
        #[inline(always)]
        move || lane_sum(p, x, mean, squared),
    )
}

/// Subtracts `scale * p_j (x_j - mu_j)` from `gradient` and returns `sum_j p_j (x_j - mu_j)^2`.
#[inline]
fn accumulate_pull(p: &[f64], x: &[f64], mean: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    if p.len() < VECTOR_WIDTH {
        return pull(p, x, mean, scale, gradient);
    }
    wide(
        #[inline(always)]
        move || lane_pull(p, x, mean, scale, gradient),
    )
}

/// Returns `(x - mu)^T P (x - mu)`, summed over the diagonal and, twice, over the entries below it.
fn dense_form(precision: &[f64], x: &[f64], mean: &[f64]) -> f64 {
    over_vectors(
        #[inline(always)]
        move || {
            let mut half = 0.0;
            for (i, column) in precision.chunks_exact(mean.len()).enumerate() {
                let below = lane_sum(&column[i + 1..], &x[i + 1..], &mean[i + 1..], weighted);
                let offset = x[i] - mean[i];
                half += offset * (0.5 * column[i] * offset + below);
            }
            2.0 * half
        },
    )
}

/// Subtracts `scale * P (x - mu)` from `gradient` and returns `(x - mu)^T P (x - mu)`.
fn accumulate_dense_pull(
    precision: &[f64],
    x: &[f64],
    mean: &[f64],
    scale: f64,
    gradient: &mut [f64],
) -> f64 {
    over_vectors(
        #[inline(always)]
        move || {
            let mut form = 0.0;
            for (i, column) in precision.chunks_exact(mean.len()).enumerate() {
                let pull = lane_sum(column, x, mean, weighted);
                gradient[i] -= scale * pull;
                form += (x[i] - mean[i]) * pull;
            }
            form
        },
    )
}

#[inline(always)]
fn weighted(p: f64, offset: f64) -> f64 {
    p * offset
}

#[inline(always)]
fn squared(p: f64, offset: f64) -> f64 {
    p * offset * offset
}

#[inline(always)]
fn sum(p: &[f64], x: &[f64], mean: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sum = 0.0;
    for ((p, x), mean) in p.iter().zip(x).zip(mean) {
        sum += term(*p, x - mean);
    }
    sum
}

#[inline(always)]
fn lane_sum(p: &[f64], x: &[f64], mean: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let ((p, p_rest), (x, x_rest), (mean, mean_rest)) = (lanes(p), lanes(x), lanes(mean));
    let mut sums = [0.0; VECTOR_WIDTH];
    for ((p, x), mean) in p.iter().zip(x).zip(mean) {
        for l in 0..VECTOR_WIDTH {
            sums[l] += term(p[l], x[l] - mean[l]);
        }
    }
    sums.iter().sum::<f64>() + sum(p_rest, x_rest, mean_rest, term)
}

#[inline(always)]
fn pull(p: &[f64], x: &[f64], mean: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for (((g, p), x), mean) in gradient.iter_mut().zip(p).zip(x).zip(mean) {
        let offset = x - mean;
        *g -= scale * (p * offset);
        sum += squared(*p, offset);
    }
    sum
}

#[inline(always)]
fn lane_pull(p: &[f64], x: &[f64], mean: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    let ((p, p_rest), (x, x_rest), (mean, mean_rest)) = (lanes(p), lanes(x), lanes(mean));
    let (gradient, gradient_rest) = gradient.as_chunks_mut::<VECTOR_WIDTH>();
    let mut sums = [0.0; VECTOR_WIDTH];
    for (((g, p), x), mean) in gradient.iter_mut().zip(p).zip(x).zip(mean) {
        // A copy, because the compiler cannot see that the slices do not overlap.
        let mut next = *g;
        for l in 0..VECTOR_WIDTH {
            let offset = x[l] - mean[l];
            next[l] -= scale * (p[l] * offset);
            sums[l] += squared(p[l], offset);
        }
        *g = next;
    }
    sums.iter().sum::<f64>() + pull(p_rest, x_rest, mean_rest, scale, gradient_rest)
}

#[inline(always)]
fn lanes(values: &[f64]) -> (&[[f64; VECTOR_WIDTH]], &[f64]) {
    values.as_chunks()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_away_the_density_is_zero_and_a_nan_stays_one() {
        let matrix = nalgebra::dmatrix![2.0, -1.0; -1.0, 2.0];
        let form = QuadraticForm::new(DVector::zeros(2), SquareMatrix::Dense(matrix));
        let at = |x: f64, y: f64| {
            let state = DVector::from_vec(vec![x, y]);
            let by_gradient = form.accumulate_gradient(&state, 1.0, &mut DVector::zeros(2));
            [form.log_density(&state), by_gradient]
        };
        assert_eq!(at(1e200, 3e200), [f64::NEG_INFINITY; 2]);
        assert_eq!(at(1.0, 1.0), [-1.0; 2]);
        assert!(at(f64::NAN, 1.0).iter().all(|x| x.is_nan()));
    }

    #[test]
    #[should_panic(expected = "a state of dimension 3, expected 2")]
    fn a_longer_state_among_eight_is_not_cut() {
        let form = QuadraticForm::new(
            DVector::zeros(2),
            SquareMatrix::Dense(nalgebra::DMatrix::identity(2, 2)),
        );
        let mut states = vec![DVector::zeros(2); VECTOR_WIDTH];
        states[5] = DVector::zeros(3);
        form.log_densities(&states, &mut [0.0; VECTOR_WIDTH]);
    }

    #[test]
    fn the_widest_registers_give_the_bits_of_the_portable_loops() {
        for d in [8, 9, 31, 100] {
            let wave = |speed: f64| (0..d).map(move |i| (speed * i as f64).sin()).collect();
            let (x, mean, p): (Vec<f64>, Vec<f64>, Vec<f64>) = (wave(1.1), wave(0.7), wave(0.3));
            let wide = sum_of_squares(&p, &x, &mean);
            assert_eq!(wide, lane_sum(&p, &x, &mean, squared), "d = {d}");
            assert!((wide - sum(&p, &x, &mean, squared)).abs() < 1e-12);
            let (mut here, mut there, mut plain) = (x.clone(), x.clone(), x.clone());
            let found = accumulate_pull(&p, &x, &mean, 0.3, &mut here);
            assert_eq!(found, lane_pull(&p, &x, &mean, 0.3, &mut there));
            assert!((found - pull(&p, &x, &mean, 0.3, &mut plain)).abs() < 1e-12);
            assert_eq!(here, there);
            assert_eq!(here, plain);
        }
    }
}
