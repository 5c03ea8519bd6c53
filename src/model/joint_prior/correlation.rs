//! Correlation matrices by partial correlations (Lewandowski, Kurowicka and Joe 2009, the C-vine).

use rand::Rng;

use crate::model::Prior;
use crate::model::prior::{ROUNDED, TINY};
use crate::model::transformed_prior::{TransformedPrior, accumulate_each, times};
use crate::{Error, Result};

/// The LKJ distribution of correlation matrices. Row j of the Cholesky factor, with coordinates `u_0 .. u_{j-1}`, is
/// `L_jk = z_k c_0 .. c_{k-1}`, with `c_0 .. c_{j-1}` on the diagonal and `c = sqrt(1 - z^2)`. The partial correlations
/// `z_k = tanh(u_k / 2)` are independent. Both beta parameters of `(1 + z_k) / 2` are `shape + (size - 2 - k) / 2`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(super) struct Correlation {
    size: usize,
    shape: f64,
    /// The priors of a row's coordinates. Row j of the Cholesky factor uses the first j.
    #[cfg_attr(feature = "serde", serde(skip))]
    columns: Vec<Prior>,
}

impl Correlation {
    pub(super) fn new(size: usize, shape: f64) -> Result<Self> {
        let expected = "a number from 2 to 1000";
        Error::check((2..=1_000).contains(&size), "size", size, expected)?;
        let within = (1e-3..=5e8).contains(&shape);
        let expected = "a number in [1e-3, 5e8]";
        Error::check(within, "shape", shape, expected)?;
        let law = |k: usize| shape + 0.5 * (size - 2 - k) as f64;
        let columns = (0..size - 1).map(|k| Prior::beta(law(k), law(k)));
        Ok(Self {
            size,
            shape,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// Returns the priors of all coordinates, row after row of the Cholesky factor.
    fn laws(&self) -> impl Iterator<Item = &Prior> {
        (1..self.size).flat_map(|j| &self.columns[..j])
    }
}

/// Returns the indices at which the coordinates and the parameters of row j begin.
fn starts(j: usize) -> (usize, usize) {
    (j * j.saturating_sub(1) / 2, j * (j + 1) / 2)
}

impl TransformedPrior for Correlation {
    fn coordinates(&self) -> usize {
        starts(self.size).0
    }

    fn parameters(&self) -> usize {
        starts(self.size).1
    }

    fn accumulate_gradient(&self, u: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
        accumulate_each(self.laws(), u, scale, gradient)
    }

    fn sample(&self, rng: &mut dyn Rng, u: &mut [f64]) {
        for (u, law) in u.iter_mut().zip(self.laws()) {
            *u = law.sample(rng);
        }
    }

    fn write_parameters(&self, u: &[f64], _: &[f64], x: &mut [f64]) {
        for j in 0..self.size {
            let (from, to) = starts(j);
            let mut left = 1.0;
            for (x, u) in x[to..].iter_mut().zip(&u[from..from + j]) {
                *x = (0.5 * u).tanh() * left;
                left /= (0.5 * u).cosh();
            }
            x[to + j] = left.max(TINY);
        }
    }

    /// Uses `dL_jk / du_k = c_0 .. c_{k-1} c_k^2 / 2`, and `d log L_jm / du_k = -z_k / 2` for m after k.
    fn pull_back(&self, u: &[f64], _: &[f64], by_x: &mut [f64], _: &mut [f64], by_u: &mut [f64]) {
        for j in 0..self.size {
            let (from, to) = starts(j);
            let (u, by_x) = (&u[from..from + j], &mut by_x[to..=to + j]);
            let by_u = &mut by_u[from..from + j];
            let mut left = 1.0;
            for k in 0..j {
                let (z, c) = ((0.5 * u[k]).tanh(), 1.0 / (0.5 * u[k]).cosh());
                by_u[k] += times(by_x[k], 0.5 * left * c * c);
                by_x[k] = times(by_x[k], z * left);
                left *= c;
            }
            // `write_parameters` keeps this entry at `TINY` or above. At `TINY` it is constant.
            let mut later = times(by_x[j], if left > TINY { left } else { 0.0 });
            for k in (0..j).rev() {
                by_u[k] -= 0.5 * (0.5 * u[k]).tanh() * later;
                later += by_x[k];
            }
        }
    }

    fn write_coordinates(&self, x: &[f64], _: &[f64], u: &mut [f64]) {
        let is_row = |row: &[f64]| {
            let square = row.iter().map(|x| x * x).sum::<f64>();
            (square - 1.0).abs() < ROUNDED && row.last() > Some(&0.0)
        };
        for j in 0..self.size {
            let (from, to) = starts(j);
            let row = &x[to..=to + j];
            if !is_row(row) {
                return u.fill(f64::NAN);
            }
            let mut left = row[j];
            for k in (0..j).rev() {
                u[from + k] = 2.0 * (row[k] / left).asinh();
                left = left.hypot(row[k]);
            }
        }
    }

    fn support(&self) -> String {
        let size = self.size;
        format!("the lower triangle of a Cholesky factor of {size} rows of length 1, row by row")
    }
}

crate::num::deserialize_checked! {
    Correlation { size: usize, shape: f64 } => Self::new(size, shape)
}
