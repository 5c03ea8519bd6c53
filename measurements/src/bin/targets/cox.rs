//! A log-Gaussian Cox process on a grid, which evaluates many states at once.

use std::f64::consts::TAU;
use std::path::Path;

use annealed::nalgebra::{DMatrixView, DMatrixViewMut};
use annealed::prelude::*;
use annealed::{Error, Result};

use annealed_measurements::problems::rows::rows;

const SIDE: usize = 40;
const CELLS: usize = SIDE * SIDE;
const VARIANCE: f64 = 1.91;
const RANGE: f64 = SIDE as f64 / 33.0;
/// Width of the panels in which products skip the zeros above the diagonal of L.
const PANEL: usize = 200;

/// The posterior of the field's independent coordinates `e ~ N(0, I)`: `f = mu + L e` with `L L' = S`,
/// `S_ij = 1.91 exp(- 33 / 40 dist_ij)` in cells, and `log L = sum (y f - exp(f) / 1600)` without factorials.
pub struct Cox {
    counts: DVector<f64>,
    mean: f64,
    factor: DMatrix<f64>,
}

impl Cox {
    /// Reads points of the unit square and counts them in cells.
    pub fn read(file: &Path) -> Result<Self> {
        let mut counts = DVector::zeros(CELLS);
        let rows = rows(file)?;
        for row in &rows {
            let cell = |field: &String| {
                let x: f64 = field.parse().ok()?;
                let cell = SIDE as f64 * x;
                (0.0..SIDE as f64).contains(&cell).then_some(cell as usize)
            };
            let cells: Vec<usize> = row.iter().filter_map(cell).collect();
            let [i, j] = cells[..] else {
                return Err(Error::file(file, "expected two numbers in [0, 1) a line"));
            };
            counts[i * SIDE + j] += 1.0;
        }
        Ok(Self::new(counts, rows.len()))
    }

    fn new(counts: DVector<f64>, points: usize) -> Self {
        let covariance = DMatrix::from_fn(CELLS, CELLS, |a, b| {
            let off = |x: usize, y: usize| x.abs_diff(y) as f64;
            let distance = off(a / SIDE, b / SIDE).hypot(off(a % SIDE, b % SIDE));
            VARIANCE * (-distance / RANGE).exp()
        });
        let factor = covariance.cholesky().expect("a kernel of the exponential");
        Self {
            counts,
            mean: (points as f64).ln() - 0.5 * VARIANCE,
            factor: factor.unpack(),
        }
    }

    /// Turns fields `L e` into slopes of the log likelihood, and returns each row's log density.
    fn slopes(&self, states: DMatrixView<'_, f64>, fields: &mut DMatrix<f64>, log: &mut [f64]) {
        log.fill(-0.5 * CELLS as f64 * TAU.ln());
        for (j, mut column) in fields.column_iter_mut().enumerate() {
            let count = self.counts[j];
            for ((field, e), log) in column
                .iter_mut()
                .zip(states.column(j).iter())
                .zip(&mut *log)
            {
                let f = self.mean + *field;
                let rate = f.exp() / CELLS as f64;
                *log += count * f - rate - 0.5 * e * e;
                *field = count - rate;
            }
        }
    }
}

impl UnnormalizedModel for Cox {
    type State = DVector<f64>;

    fn log_density(&self, e: &DVector<f64>) -> f64 {
        self.gradient_into(e, &mut DVector::zeros(CELLS))
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(CELLS)
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl Differentiable for Cox {
    fn accumulate_gradient(
        &self,
        e: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut log_density = [0.0];
        let states = DMatrixView::from_slice(e.as_slice(), 1, CELLS);
        let gradients = DMatrixViewMut::from_slice(gradient.as_mut_slice(), 1, CELLS);
        self.accumulate_gradients(states, scale, gradients, &mut log_density);
        log_density[0]
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        let mut fields = DMatrix::zeros(states.nrows(), CELLS);
        for start in (0..CELLS).step_by(PANEL) {
            // Rows of L end at the diagonal.
            let end = start + PANEL;
            let rows = self.factor.view((start, 0), (PANEL, end)).transpose();
            fields
                .columns_mut(start, PANEL)
                .gemm(1.0, &states.columns(0, end), &rows, 0.0);
        }
        self.slopes(states, &mut fields, log_densities);
        for start in (0..CELLS).step_by(PANEL) {
            // Columns of L begin at the diagonal.
            let height = CELLS - start;
            let columns = self.factor.view((start, start), (height, PANEL));
            gradients.columns_mut(start, PANEL).gemm(
                scale,
                &fields.columns(start, height),
                &columns,
                1.0,
            );
        }
        gradients.zip_apply(&states, |slope, e| *slope -= scale * e);
    }
}
