//! Rival bases for vectors: Student's t around the modes, and by components of the states on their way there.

use nalgebra::DVector;

use super::components::{components, gaussian};
use super::modes::modes;
use super::proposal::{Proposals, Rivals, Target, Trails};
use super::student::{exact, refitted};
use crate::Result;
use crate::model::{Gaussian, StudentT};

/// Degrees of freedom of the bases.
const FREEDOM: f64 = 5.0;
/// Largest power whose states are parted into components, and the number of these.
const MILD: f64 = 2.5;
const COMPONENTS: usize = 12;

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

    fn fit(samples: &[Self]) -> Option<StudentT> {
        let states: Vec<&Self> = samples.iter().collect();
        let fitted = gaussian(&states, &vec![1.0; states.len()], 1.0)?;
        exact(fitted, FREEDOM)
    }

    fn refit(base: &StudentT, states: &[Self], weights: &[f64]) -> Option<StudentT> {
        refitted(base, states, weights)
    }
}
