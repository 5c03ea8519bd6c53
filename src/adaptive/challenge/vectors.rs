//! Rival bases for vectors: Student's t around the modes, and by components of the states on their way there.

use nalgebra::DVector;

use super::components::{components, gaussian, independent};
use super::modes::modes;
use super::proposal::{Proposals, Rivals, Target, Trails};
use super::student::{exact, refitted};
use crate::Result;
use crate::adaptive::refit::Law;
use crate::model::{Gaussian, NormalizedModel, StudentT};

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
