//! Gaussians that are fitted to states: one, or several by expectation maximisation.

use nalgebra::{DMatrix, DVector};

use crate::model::Gaussian;
use crate::num::log_sum_exp;

/// Number of iterations.
const ITERATIONS: usize = 50;
/// Fewest states that keep a component alive, as a sum of responsibilities.
const FEWEST: f64 = 4.0;
/// Fewest states a dimension that give a full covariance.
const FULL: usize = 4;
/// Relative addition to the variances of a full covariance, which few distinct states leave singular.
const RIDGE: f64 = 1e-8;
/// Least variance of a component, relative to that of all states.
const NARROWEST: f64 = 1e-8;

/// A component: its share, and mean and variances of its states.
struct Cluster {
    share: f64,
    mean: DVector<f64>,
    variances: DVector<f64>,
}

/// Returns the components of a mixture with at most `count` of them (Dempster, Laird and Rubin 1977). They begin at
/// evenly spaced states, and are told apart by their variances. Components that lose their states end. None is left where
/// a coordinate does not vary.
pub(super) fn components(states: &[&DVector<f64>], count: usize) -> Vec<Gaussian> {
    let Some(all) = Cluster::of(states, &vec![1.0; states.len()], None) else {
        return Vec::new();
    };
    let floor = &all.variances * NARROWEST;
    let mut components: Vec<Cluster> = (0..count.min(states.len()))
        .map(|k| Cluster {
            share: 1.0 / count as f64,
            mean: states[k * states.len() / count].clone(),
            variances: all.variances.clone(),
        })
        .collect();
    for _ in 0..ITERATIONS {
        let shares = responsibilities(states, &components);
        let next = shares
            .iter()
            .filter_map(|shares| Cluster::of(states, shares, Some(&floor)));
        components = next.collect();
    }
    let shares = responsibilities(states, &components);
    let fitted = shares.iter().map(|shares| gaussian(states, shares, 1.0));
    fitted.flatten().collect()
}

/// Returns the Gaussian of weighted states, their covariance times `scale`: in full where there are states enough, or else
/// diagonal. `None` where a coordinate does not vary.
pub(super) fn gaussian(states: &[&DVector<f64>], weights: &[f64], scale: f64) -> Option<Gaussian> {
    let (total, dimension) = (weights.iter().sum::<f64>(), states.first()?.len());
    if total < (FULL * dimension) as f64 {
        return independent(states, weights, scale);
    }
    let mean = mean(states, weights, total);
    let scale = scale / (total - 1.0);
    let mut covariance = DMatrix::zeros(dimension, dimension);
    let deviations = states.iter().map(|&state| state - &mean);
    for (deviation, weight) in deviations.zip(weights.iter().map(|weight| scale * weight)) {
        covariance.ger(weight, &deviation, &deviation, 1.0);
    }
    covariance.set_diagonal(&(covariance.diagonal() * (1.0 + RIDGE)));
    Gaussian::new(mean, covariance).ok()
}

/// Returns the Gaussian of weighted states with independent coordinates, their variances times `scale`; `None` where one
/// does not vary.
pub(super) fn independent(
    states: &[&DVector<f64>],
    weights: &[f64],
    scale: f64,
) -> Option<Gaussian> {
    let total: f64 = weights.iter().sum();
    let mean = mean(states, weights, total);
    let scale = scale / (total - 1.0);
    let mut variances = DVector::zeros(mean.len());
    for (&state, weight) in states.iter().zip(weights) {
        variances += (state - &mean).map(|x| scale * weight * x * x);
    }
    Gaussian::diagonal(mean, variances).ok()
}

fn mean(states: &[&DVector<f64>], weights: &[f64], total: f64) -> DVector<f64> {
    let mut mean = DVector::zeros(states[0].len());
    for (state, weight) in states.iter().zip(weights) {
        mean.axpy(weight / total, state, 1.0);
    }
    mean
}

/// Returns for each component its responsibility for each state.
fn responsibilities(states: &[&DVector<f64>], components: &[Cluster]) -> Vec<Vec<f64>> {
    let mut shares = vec![Vec::with_capacity(states.len()); components.len()];
    for state in states {
        let parts = components.iter().map(|one| one.log_density(state));
        let parts: Vec<f64> = parts.collect();
        let sum = log_sum_exp(&parts);
        for (shares, part) in shares.iter_mut().zip(parts) {
            shares.push((part - sum).exp());
        }
    }
    shares
}

impl Cluster {
    /// Returns the component of states with these weights; `None` for too few.
    fn of(states: &[&DVector<f64>], weights: &[f64], floor: Option<&DVector<f64>>) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total < FEWEST {
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

    /// Returns the log density times the share, without `(2 pi)^(-d/2)`.
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let terms = state.iter().zip(&self.mean).zip(&self.variances);
        let terms =
            terms.map(|((x, mean), variance)| (x - mean).powi(2) / variance + variance.ln());
        self.share.ln() - 0.5 * terms.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use super::*;
    use crate::model::{Sampleable, UnnormalizedModel};
    use crate::random::{Purpose, stream};

    #[test]
    fn components_keep_the_correlations_of_their_states() {
        let part = |mean: f64, correlation: f64| {
            let covariance = DMatrix::from_row_slice(2, 2, &[1.0, correlation, correlation, 1.0]);
            Gaussian::new(dvector![mean, mean], covariance).unwrap()
        };
        let parts = [part(0.0, 0.9), part(20.0, -0.9)];
        let mut rng = stream(1, Purpose::Testing, 0);
        let states: Vec<_> = (0..400).map(|i| parts[i / 200].sample(&mut rng)).collect();
        let states: Vec<_> = states.iter().collect();
        let mut found = components(&states, 2);
        found.sort_by(|a, b| a.mean()[0].total_cmp(&b.mean()[0]));
        for (found, part) in found.iter().zip(&parts) {
            let off = found.covariance() - part.covariance();
            assert!(off.amax() < 0.4, "{}", found.covariance());
        }
        // Chains that did not move since they were resampled.
        let two = [dvector![0.0, 0.1], dvector![0.7, 0.3]];
        let copies: Vec<_> = (0..100).map(|i| &two[i % 2]).collect();
        let thin = gaussian(&copies, &[1.0; 100], 1.0).unwrap();
        for _ in 0..100 {
            let log_density = thin.log_density(&thin.sample(&mut rng));
            assert!(-20.0 < log_density && log_density <= 0.0, "{log_density}");
        }
        let few = gaussian(&states[..7], &[1.0; 7], 1.0).unwrap();
        assert_eq!(few.covariance()[(0, 1)], 0.0);
    }
}
