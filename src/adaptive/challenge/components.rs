//! Gaussians with diagonal covariances that are fitted to states by expectation maximisation.

use nalgebra::{DMatrix, DVector};

use crate::model::Gaussian;
use crate::num::log_sum_exp;

/// Number of iterations.
const ITERATIONS: usize = 50;
/// Fewest states that keep a component alive, as a sum of responsibilities.
const FEWEST: f64 = 4.0;
/// Fewest states a dimension that give a full covariance.
const FULL: usize = 4;
/// Least variance of a component, relative to that of all states.
const NARROWEST: f64 = 1e-8;

/// A component: its share, and mean and variances of its states.
struct Component {
    share: f64,
    mean: DVector<f64>,
    variances: DVector<f64>,
}

/// Returns the components of a mixture with at most `count` of them (Dempster, Laird and Rubin 1977). They begin at
/// evenly spaced states. Components that lose their states end. None is left where a coordinate does not vary.
pub(super) fn components(states: &[&DVector<f64>], count: usize) -> Vec<Gaussian> {
    let Some(all) = Component::of(states, &vec![1.0; states.len()], None) else {
        return Vec::new();
    };
    let floor = &all.variances * NARROWEST;
    let mut components: Vec<Component> = (0..count.min(states.len()))
        .map(|k| Component {
            share: 1.0 / count as f64,
            mean: states[k * states.len() / count].clone(),
            variances: all.variances.clone(),
        })
        .collect();
    for _ in 0..ITERATIONS {
        let shares = responsibilities(states, &components);
        let next = shares
            .iter()
            .filter_map(|shares| Component::of(states, shares, Some(&floor)));
        components = next.collect();
    }
    let shares = responsibilities(states, &components);
    let fitted = components.into_iter().zip(shares);
    fitted.filter_map(|(one, shares)| one.gaussian(states, &shares)).collect()
}

/// Returns for each component its responsibility for each state.
fn responsibilities(states: &[&DVector<f64>], components: &[Component]) -> Vec<Vec<f64>> {
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

impl Component {
    /// Returns the component of states with these weights; `None` for too few.
    fn of(states: &[&DVector<f64>], weights: &[f64], floor: Option<&DVector<f64>>) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total < FEWEST {
            return None;
        }
        let mut mean = DVector::zeros(states[0].len());
        let mut variances = mean.clone();
        for (state, weight) in states.iter().zip(weights) {
            mean.axpy(weight / total, state, 1.0);
        }
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

    /// Returns the Gaussian, with a full covariance where the component has states enough.
    fn gaussian(self, states: &[&DVector<f64>], weights: &[f64]) -> Option<Gaussian> {
        let (total, dimension) = (weights.iter().sum::<f64>(), self.mean.len());
        if total < (FULL * dimension) as f64 {
            return Gaussian::diagonal(self.mean, self.variances).ok();
        }
        let mut covariance = DMatrix::zeros(dimension, dimension);
        for (state, weight) in states.iter().zip(weights) {
            let deviation = *state - &self.mean;
            covariance.ger(weight / total, &deviation, &deviation, 1.0);
        }
        Gaussian::new(self.mean, covariance).ok()
    }

    /// Returns the log density times the share, without `(2 pi)^(-d/2)`.
    fn log_density(&self, state: &DVector<f64>) -> f64 {
        let terms = state.iter().zip(&self.mean).zip(&self.variances);
        let terms =
            terms.map(|((x, mean), variance)| (x - mean).powi(2) / variance + variance.ln());
        self.share.ln() - 0.5 * terms.sum::<f64>()
    }
}
