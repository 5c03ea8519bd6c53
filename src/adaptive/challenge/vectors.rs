//! Rival bases for vectors: Student's t around the modes, and by components of the states on their way there.

use nalgebra::DVector;

use super::components::{components, gaussian, independent};
use super::modes::modes;
use super::proposal::{Proposals, Rivals, Target, Trails};
use crate::Result;
use crate::adaptive::refit::Law;
use crate::model::{Gaussian, NormalizedModel, SquareMatrix, StudentT, UnnormalizedModel};

/// Degrees of freedom of the bases.
const FREEDOM: f64 = 5.0;
/// Largest power whose states are parted into components, and the number of these.
const MILD: f64 = 2.5;
const COMPONENTS: usize = 12;
/// Most dimensions in which all covariances of samples are fitted.
const DENSE: usize = 200;
/// Degrees of freedom that stand for a Gaussian.
const NORMAL: f64 = 1e6;

impl Rivals for DVector<f64> {
    type Base = StudentT;

    const CLIMBS: bool = true;

    /// Parts the chains by the modes where they end, and looks for others. For each mode it takes Laplace's approximation
    /// where it can be afforded, and mean and covariance of its chains at several powers, the covariance times the power.
    fn propose(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Proposals<StudentT>> {
        let modes = modes(trails, target);
        let around = modes.iter().flat_map(|mode| mode.gaussians.clone());
        let mut gaussians: Vec<Gaussian> = around.collect();
        let mild = trails.rungs().filter(|(power, _)| *power <= MILD);
        let mild: Vec<&Self> = mild.flat_map(|(_, states)| states).collect();
        gaussians.extend(components(&mild, COMPONENTS));
        let bases = gaussians.into_iter();
        Ok(Proposals {
            modes: modes.len(),
            bases: bases
                .filter_map(|gaussian| exact(gaussian, FREEDOM))
                .collect(),
        })
    }

    /// Fits a Gaussian or Student t. Its coordinates are independent, unless their covariances make the samples likelier by
    /// more than the number of covariances (Akaike 1974).
    fn fit(samples: &[Self]) -> Option<StudentT> {
        let (count, dimension) = (samples.len() as f64, samples.first()?.len());
        let (states, ones) = (Vec::from_iter(samples), vec![1.0; samples.len()]);
        let diagonal = independent(&states, &ones, 1.0)?;
        let gain = |dense: &Gaussian| count * (diagonal.log_normalizer() - dense.log_normalizer());
        let covariances = 0.5 * (dimension * (dimension - 1)) as f64;
        let dense = (dimension <= DENSE).then(|| gaussian(&states, &ones, 1.0));
        let dense = dense.flatten().filter(|dense| gain(dense) > covariances);
        let weighted = Vec::from_iter(states.iter().map(|state| (count.recip(), *state)));
        match Law::likeliest(dense.unwrap_or(diagonal), count, &weighted).ok()? {
            Law::Gaussian(gaussian) => exact(gaussian, NORMAL),
            Law::Student(student) => {
                exact(student.gaussian().clone(), student.degrees_of_freedom())
            }
        }
    }

    fn refit(base: &StudentT, states: &[Self], weights: &[f64]) -> Option<StudentT> {
        refitted(base, states, weights)
    }
}

/// Fewest states that the present centre and scale count for; a full scale matrix counts for as many as it has rows.
const PRIOR_STATES: f64 = 4.0;

/// Returns the base after a step of expectation maximisation (Peel and McLachlan 2000), in which its present centre and
/// scale count as a few states. Weights sum to the effective number of states. A diagonal scale matrix stays diagonal.
fn refitted(base: &StudentT, states: &[DVector<f64>], weights: &[f64]) -> Option<StudentT> {
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
        SquareMatrix::Diagonal(_) => PRIOR_STATES,
        _ => PRIOR_STATES.max(dimension as f64),
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
fn exact(gaussian: Gaussian, freedom: f64) -> Option<StudentT> {
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
