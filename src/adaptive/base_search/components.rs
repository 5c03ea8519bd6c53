//! Gaussians that are fitted to states by expectation maximisation.

use nalgebra::DVector;

use crate::model::{Gaussian, gaussian, mean};
use crate::num::responsibilities;

/// Number of iterations of expectation maximisation. They need no evaluation of the target, and population Monte Carlo
/// moves the resulting components further, so their fit need not be precise.
const EM_ITERATIONS: usize = 50;
/// Smallest sum of responsibilities at which a component is kept. A variance from 4 states has a standard error of 82%.
const FEWEST_STATES: f64 = 4.0;
/// Smallest variance of a component, relative to the variance of all states. It only keeps a component on copies of one
/// state from a variance of 0. A component may be as narrow as 1e-4 of the spread of all states.
const LEAST_VARIANCE: f64 = 1e-8;

/// A component of the mixture: its share, and the mean and variances of its states.
struct Cluster {
    share: f64,
    mean: DVector<f64>,
    variances: DVector<f64>,
}

/// Returns at most `count` components of a mixture fitted to `states` (Dempster, Laird and Rubin 1977). Their means
/// start at states evenly spaced in the list. Responsibilities ignore correlations of coordinates. Components that lose
/// their states are dropped. The result is empty if a coordinate does not vary.
pub(super) fn components(states: &[&DVector<f64>], count: usize) -> Vec<Gaussian> {
    let Some(all) = Cluster::of(states, &vec![1.0; states.len()], None) else {
        return Vec::new();
    };
    let floor = &all.variances * LEAST_VARIANCE;
    let mut components: Vec<Cluster> = (0..count.min(states.len()))
        .map(|k| Cluster {
            share: 1.0 / count as f64,
            mean: states[k * states.len() / count].clone(),
            variances: all.variances.clone(),
        })
        .collect();
    let shares = |components: &[Cluster]| {
        let log_densities = |state: &&DVector<f64>| {
            Vec::from_iter(components.iter().map(|one| one.log_density(state)))
        };
        responsibilities(
            states.iter().map(|x| (log_densities(x), 1.0)),
            components.len(),
        )
    };
    for _ in 0..EM_ITERATIONS {
        let shares = shares(&components);
        let next = shares
            .iter()
            .filter_map(|shares| Cluster::of(states, shares, Some(&floor)));
        components = next.collect();
    }
    let shares = shares(&components);
    let fitted = shares.iter().map(|shares| gaussian(states, shares, 1.0));
    fitted.flatten().collect()
}

impl Cluster {
    /// Returns the component fitted to the weighted `states`; `None` if the weights sum to less than [`FEWEST_STATES`].
    fn of(states: &[&DVector<f64>], weights: &[f64], floor: Option<&DVector<f64>>) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total < FEWEST_STATES {
            return None;
        }
        let mean = mean(states, weights, total);
        let mut variances = DVector::zeros(mean.len());
        for (state, weight) in states.iter().zip(weights) {
            let deviation = *state - &mean;
            variances += deviation.component_mul(&deviation) * (weight / total);
        }
        if let Some(floor) = floor {
            variances.zip_apply(floor, |x, floor| *x = x.max(floor));
        }
        Some(Self {
            share: total / states.len() as f64,
            mean,
            variances,
        })
    }

    /// Returns the log of the component's density at `state` times its share, without the factor `(2 pi)^(-d/2)`.
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let terms = state.iter().zip(&self.mean).zip(&self.variances);
        let terms =
            terms.map(|((x, mean), variance)| (x - mean).powi(2) / variance + variance.ln());
        self.share.ln() - 0.5 * terms.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::{DMatrix, dvector};

    use super::*;
    use crate::model::Sampleable;
    use crate::random::{Purpose, stream};

    #[test]
    fn components_keep_the_correlations_of_their_states() {
        let part = |mean: f64, correlation: f64| {
            let covariance = DMatrix::from_row_slice(2, 2, &[1.0, correlation, correlation, 1.0]);
            Gaussian::new(dvector![mean, mean], covariance).unwrap()
        };
        let parts = [part(0.0, 0.9), part(20.0, -0.9)];
        let mut rng = stream(1, Purpose::TESTING, 0);
        let states: Vec<_> = (0..400).map(|i| parts[i / 200].sample(&mut rng)).collect();
        let states: Vec<_> = states.iter().collect();
        let mut found = components(&states, 2);
        found.sort_by(|a, b| a.mean()[0].total_cmp(&b.mean()[0]));
        for (found, part) in found.iter().zip(&parts) {
            let off = found.covariance() - part.covariance();
            assert!(off.amax() < 0.4, "{}", found.covariance());
        }
    }
}
