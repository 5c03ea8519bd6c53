//! Modes among vectors. Student t distributions are fitted around each mode, and to clusters of states at low powers.

use nalgebra::DVector;

use super::components::components;
use super::find_modes::{FindModes, Target, Trails};
use super::modes::modes;
use crate::Result;
use crate::model::{Gaussian, StudentT};

/// Degrees of freedom of each Student's t. Tails heavier than a Gaussian's prevent huge weights where a fit is too
/// narrow. Where a fit is exact, they leave 73% of the effective sample size in 10 dimensions.
const DEGREES_OF_FREEDOM: f64 = 5.0;
/// Largest power of the target at which the states are divided into components. Six powers, 1 to 2.16, are below it;
/// the next one is 2.85.
const HIGHEST_MILD_POWER: f64 = 2.5;
/// Largest number of components into which these states are divided. With 128 chains at six powers, a component has 64
/// states on average, enough for a full covariance in up to 16 dimensions.
const MOST_COMPONENTS: usize = 12;

impl FindModes for DVector<f64> {
    type Law = StudentT;

    const CLIMBS: bool = true;

    /// Groups the chains by the modes where they end, and looks for other modes. The distributions of a mode are
    /// Laplace's approximation, if it is affordable, and fits to the mode's chains at several powers of the target,
    /// each with the chains' covariance times the power. Components fitted to all chains' states at low powers are
    /// added to the list of the last mode.
    fn find_modes(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Vec<Vec<StudentT>>> {
        let heavy = |gaussian: Gaussian| StudentT::exact(gaussian, DEGREES_OF_FREEDOM).ok();
        let modes = modes(trails, target).into_iter();
        let around = modes.map(|mode| mode.gaussians.into_iter().filter_map(heavy).collect());
        let mut laws: Vec<Vec<StudentT>> = around.collect();
        let mild = trails
            .rungs()
            .filter(|(power, _)| *power <= HIGHEST_MILD_POWER);
        let mild: Vec<&Self> = mild.flat_map(|(_, states)| states).collect();
        let components = components(&mild, MOST_COMPONENTS)
            .into_iter()
            .filter_map(heavy);
        match laws.last_mut() {
            Some(last) => last.extend(components),
            None => laws.push(components.collect()),
        }
        Ok(laws)
    }
}
