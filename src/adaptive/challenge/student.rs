//! A Student t base that moves towards weighted states.

use nalgebra::DVector;

use crate::model::{Gaussian, SquareMatrix, StudentT, UnnormalizedModel};

/// Fewest states that the present centre and scale count for; a full scale matrix counts for as many as it has rows.
const PRIOR: f64 = 4.0;

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
    let form = gaussian.form().precision();
    let prior = match form {
        SquareMatrix::Diagonal(_) => PRIOR,
        _ => PRIOR.max(dimension as f64),
    };
    let mut mean = gaussian.mean() * (prior / (prior + all));
    for (x, pull) in &pulled {
        mean.axpy(pull / (prior + all), x, 1.0);
    }
    let share = |weight: f64| weight / (prior + count);
    let deviations = pulled.iter().map(|(x, pull)| (*x - &mean, share(*pull)));
    let gaussian = match form {
        SquareMatrix::Diagonal(precision) => {
            let mut variances = precision.map(|x| share(prior) / x);
            for (deviation, share) in deviations {
                variances += deviation.component_mul(&deviation) * share;
            }
            Gaussian::diagonal(mean, variances)
        }
        _ => {
            let mut covariance = gaussian.covariance() * share(prior);
            for (deviation, share) in deviations {
                covariance.ger(share, &deviation, &deviation, 1.0);
            }
            Gaussian::new(mean, covariance)
        }
    };
    exact(gaussian.ok()?, freedom)
}

/// Largest factor by which other coordinates narrow the variance of one. Beyond it rounding of the precision matrix tells.
const NARROWED: f64 = 1e10;

/// Returns the Student t distribution; `None` where its density would not be that of its samples to many digits, as down
/// a neck whose coordinates become one.
pub(super) fn exact(gaussian: Gaussian, freedom: f64) -> Option<StudentT> {
    if let SquareMatrix::Dense(precision) = gaussian.form().precision() {
        let variances = gaussian.covariance().diagonal();
        let narrowed = variances.component_mul(&precision.diagonal());
        if !narrowed.iter().all(|factor| *factor < NARROWED) {
            return None;
        }
    }
    StudentT::new(gaussian, freedom).ok()
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, dvector};

    use super::*;

    #[test]
    fn a_base_whose_coordinates_become_one_is_none() {
        let of = |off: f64| {
            let covariance = DMatrix::from_row_slice(2, 2, &[1.0, 1.0 - off, 1.0 - off, 1.0]);
            exact(Gaussian::new(dvector![0.0, 0.0], covariance).unwrap(), 5.0)
        };
        assert!(of(1e-9).is_some() && of(1e-11).is_none());
    }

    #[test]
    fn few_states_leave_a_full_scale_matrix_most_of_its_old_variance() {
        let scale = DMatrix::from_row_slice(2, 2, &[2.0, 0.5, 0.5, 1.0]);
        let gaussian = Gaussian::new(dvector![1.0, -1.0], scale.clone()).unwrap();
        let base = StudentT::new(gaussian, 5.0).unwrap();
        let same = refitted(&base, &[dvector![9.0, 9.0]], &[0.0]).unwrap();
        assert!((same.gaussian().covariance() - &scale).norm() < 1e-12);
        // A state at the centre has a pull of 7 / 5: the centre stays, and four fifths of the scale matrix do.
        let held = refitted(&base, &[dvector![1.0, -1.0]], &[1.0]).unwrap();
        assert!((held.gaussian().mean() - dvector![1.0, -1.0]).norm() < 1e-12);
        assert!((held.gaussian().covariance() - scale * 0.8).norm() < 1e-12);
    }
}
