//! Posteriors of logistic regressions.

use std::f64::consts::TAU;
use std::path::Path;

use annealed::nalgebra::{DMatrixView, DMatrixViewMut};
use annealed::prelude::*;
use annealed::{Error, Result};

use super::rows::rows;

/// The posterior `prod over rows of 1 / (1 + exp(- row . w)) N(w; 0, s^2 I)`; each row has the sign of its label.
pub struct Regression {
    signed: DMatrix<f64>,
    deviation: f64,
}

impl Regression {
    /// Reads 208 sonar returns: an intercept, 60 predictors of mean 0 and standard deviation 1, prior N(0, I).
    pub fn sonar(file: &Path) -> Result<Self> {
        let (mut predictors, labels) = columns(file, |label| label == "M", 61)?;
        for mut column in predictors.column_iter_mut() {
            let (mean, deviation) = (column.mean(), column.variance().sqrt());
            column.apply(|x| *x = (*x - mean) / deviation);
        }
        Ok(Self::new(predictors, &labels, 1.0))
    }

    /// Reads 1,000 applicants: an intercept, 24 predictors of standard deviation 1 that are not centred, prior
    /// N(0, 10^2 I).
    pub fn credit(file: &Path) -> Result<Self> {
        let (mut predictors, labels) = columns(file, |label| label == "1", 25)?;
        for mut column in predictors.column_iter_mut() {
            let deviation = column.variance().sqrt();
            column /= deviation;
        }
        Ok(Self::new(predictors, &labels, 10.0))
    }

    /// Creates the posterior of an intercept and the coefficients of `predictors`.
    pub fn new(predictors: DMatrix<f64>, labels: &[bool], deviation: f64) -> Self {
        let mut signed = predictors.insert_column(0, 1.0);
        for (mut row, &label) in signed.row_iter_mut().zip(labels) {
            row *= if label { 1.0 } else { -1.0 };
        }
        Self { signed, deviation }
    }

    fn log_prior(&self, square: f64) -> f64 {
        let dimension = self.signed.ncols() as f64;
        -0.5 * square / self.deviation.powi(2) - dimension * (0.5 * TAU.ln() + self.deviation.ln())
    }
}

/// Returns `sum log(1 / (1 + exp(-score)))`, and turns each score into its slope `1 / (1 + exp(score))`.
fn log_likelihood<'s>(scores: impl Iterator<Item = &'s mut f64>) -> f64 {
    let (mut linear, mut product, mut logs) = (0.0, 1.0, 0.0);
    for score in scores {
        let tail = (-score.abs()).exp();
        linear += score.min(0.0);
        // One logarithm of a product replaces many logarithms, because its factors lie between 1 and 2.
        product *= 1.0 + tail;
        if product > 1e100 {
            logs += f64::ln(product);
            product = 1.0;
        }
        *score = if *score > 0.0 { tail } else { 1.0 } / (1.0 + tail);
    }
    linear - logs - product.ln()
}

/// Reads lines of numbers and a label. Returns the predictors, and for each label the result of `is_one`.
fn columns(
    file: &Path,
    is_one: impl Fn(&str) -> bool,
    fields: usize,
) -> Result<(DMatrix<f64>, Vec<bool>)> {
    let rows = rows(file)?;
    let mut numbers = Vec::new();
    for row in &rows {
        let parsed = row[..row.len() - 1]
            .iter()
            .map(|field| field.parse::<f64>());
        let parsed: std::result::Result<Vec<_>, _> = parsed.collect();
        match parsed {
            Ok(parsed) if row.len() == fields => numbers.extend(parsed),
            _ => {
                let expected = format!("expected {} numbers and a label a line", fields - 1);
                return Err(Error::file(file, expected));
            }
        }
    }
    let labels = rows.iter().map(|row| is_one(&row[fields - 1])).collect();
    let predictors = DMatrix::from_row_slice(rows.len(), fields - 1, &numbers);
    Ok((predictors, labels))
}

impl UnnormalizedModel for Regression {
    type State = DVector<f64>;

    fn log_density(&self, w: &DVector<f64>) -> f64 {
        let mut scores = &self.signed * w;
        log_likelihood(scores.iter_mut()) + self.log_prior(w.norm_squared())
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.signed.ncols())
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl Differentiable for Regression {
    fn accumulate_gradient(
        &self,
        w: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut scores = &self.signed * w;
        let log_likelihood = log_likelihood(scores.iter_mut());
        gradient.gemv_tr(scale, &self.signed, &scores, 1.0);
        gradient.axpy(-scale / self.deviation.powi(2), w, 1.0);
        log_likelihood + self.log_prior(w.norm_squared())
    }

    fn accumulate_gradients(
        &self,
        states: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_densities: &mut [f64],
    ) {
        // Each column is a state.
        let mut scores = &self.signed * states.transpose();
        let each = scores.column_iter_mut().zip(states.row_iter());
        for ((mut scores, state), log_density) in each.zip(log_densities) {
            *log_density = log_likelihood(scores.iter_mut()) + self.log_prior(state.norm_squared());
        }
        gradients.gemm(scale, &scores.transpose(), &self.signed, 1.0);
        let shrink = -scale / self.deviation.powi(2);
        gradients.zip_apply(&states, |slope, x| *slope += shrink * x);
    }
}
