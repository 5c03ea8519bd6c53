//! A Student t base that moves towards weighted states.

use nalgebra::{DMatrix, DVector};

use crate::model::{Gaussian, SquareMatrix, StudentT, UnnormalizedModel};

/// Number of states that the present centre and scale count for.
const PRIOR: f64 = 4.0;
/// Fewest states a dimension for a full scale matrix.
pub(super) const FULL: usize = 4;

/// Returns the base after a step of expectation maximisation (Peel and McLachlan 2000), in which its present centre and
/// scale count as a few states. Weights sum to the effective number of states. A diagonal scale matrix stays diagonal.
pub(super) fn refitted(
    base: &StudentT,
    states: &[DVector<f64>],
    weights: &[f64],
) -> Option<StudentT> {
    let (gaussian, freedom) = (base.gaussian(), base.degrees_of_freedom());
    let dimension = gaussian.dimension();
    // A heavy tail leaves little weight to far states.
    let pull = |x| (freedom + dimension as f64) / (freedom - 2.0 * gaussian.log_density(x));
    let pairs = states
        .iter()
        .zip(weights)
        .filter(|(_, weight)| **weight > 0.0);
    let pulled: Vec<(&DVector<f64>, f64)> = pairs.map(|(x, w)| (x, w * pull(x))).collect();
    let count: f64 = weights.iter().sum();
    let all: f64 = pulled.iter().map(|(_, pull)| pull).sum();
    let mut mean = gaussian.mean() * (PRIOR / (PRIOR + all));
    for (x, pull) in &pulled {
        mean.axpy(pull / (PRIOR + all), x, 1.0);
    }
    let share = |weight: f64| weight / (PRIOR + count);
    let gaussian = match gaussian.form().precision() {
        SquareMatrix::Diagonal(precision) => {
            let mut variances = precision.map(|x| share(PRIOR) / x);
            for (x, pull) in &pulled {
                let deviation = *x - &mean;
                variances += deviation.component_mul(&deviation) * share(*pull);
            }
            Gaussian::diagonal(mean, variances)
        }
        _ if count < (FULL * dimension) as f64 => return None,
        _ => {
            let mut covariance = gaussian.covariance() * share(PRIOR);
            let column = |(x, pull): &(&DVector<f64>, f64)| (*x - &mean) * share(*pull).sqrt();
            let deviations = DMatrix::from_columns(&Vec::from_iter(pulled.iter().map(column)));
            covariance += &deviations * deviations.transpose();
            Gaussian::new(mean, covariance)
        }
    };
    StudentT::new(gaussian.ok()?, freedom).ok()
}
