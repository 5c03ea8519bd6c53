//! The likelihood of a logistic regression.

use annealed::prelude::*;

/// `log L(w) = - sum over rows of log(1 + exp(- row . w))`, each row of the design times the sign of its
/// label.
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
}

/// `log(1 + e^-x)`.
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
