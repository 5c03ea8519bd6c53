//! The likelihood of a logistic regression.

use std::path::Path;

use annealed::prelude::*;
use annealed::{Error, Result};

/// The likelihood `log L(w) = - sum over rows of log(1 + exp(- row . w))`; each row has the sign of its label.
pub struct Logistic {
    signed: DMatrix<f64>,
}

impl Logistic {
    pub fn new(mut design: DMatrix<f64>, labels: &[bool]) -> Self {
        for (mut row, &label) in design.row_iter_mut().zip(labels) {
            row *= if label { 1.0 } else { -1.0 };
        }
        Self { signed: design }
    }

    /// Reads 208 sonar returns: an intercept and 60 predictors of mean 0 and standard deviation .5. The state is in
    /// units of the prior's deviations, 20 for the intercept and 5 for the other coefficients.
    pub fn sonar(file: &Path) -> Result<Self> {
        let (x, labels) = read_sonar(file)?;
        let scale = DVector::from_fn(61, |j, _| if j == 0 { 20.0 } else { 5.0 });
        Ok(Self::new(x * DMatrix::from_diagonal(&scale), &labels))
    }
}

/// Returns the predictors, where the first is 1, and whether each return came from metal.
fn read_sonar(file: &Path) -> Result<(DMatrix<f64>, Vec<bool>)> {
    let text = std::fs::read_to_string(file).map_err(|error| Error::io(file, error))?;
    let line = |line: &str| {
        let (numbers, label) = line.rsplit_once(',')?;
        let numbers = numbers.split(',').map(|field| field.trim().parse().ok());
        let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
        (numbers.len() == 60).then(|| (numbers, label.trim() == "M"))
    };
    let lines: Option<Vec<_>> = text.lines().map(line).collect();
    let lines = lines.ok_or_else(|| Error::file(file, "expected 60 numbers and a label a line"))?;
    let mut x = DMatrix::from_fn(lines.len(), 61, |i, j| match j {
        0 => 1.0,
        _ => lines[i].0[j - 1],
    });
    for mut column in x.column_iter_mut().skip(1) {
        let (mean, deviation) = (column.mean(), column.variance().sqrt());
        column.apply(|value| *value = 0.5 * (*value - mean) / deviation);
    }
    Ok((x, lines.into_iter().map(|(_, label)| label).collect()))
}

fn log_loss(x: f64) -> f64 {
    (-x.abs()).exp().ln_1p() + (-x).max(0.0)
}

impl UnnormalizedModel for Logistic {
    type State = DVector<f64>;

    fn log_density(&self, w: &DVector<f64>) -> f64 {
        let margins = &self.signed * w;
        -margins.iter().map(|&margin| log_loss(margin)).sum::<f64>()
    }
}

impl Differentiable for Logistic {
    fn accumulate_gradient(
        &self,
        w: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let margins = &self.signed * w;
        let slopes = margins.map(|margin| 1.0 / (1.0 + margin.exp()));
        *gradient += self.signed.tr_mul(&slopes) * scale;
        -margins.iter().map(|&margin| log_loss(margin)).sum::<f64>()
    }
}
