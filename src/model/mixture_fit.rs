//! Mixtures of Gaussians fitted to weighted states by expectation maximisation, from one component up.

use nalgebra::{DMatrix, DVector};

use crate::Result;
use crate::model::{Fit, Gaussian, GaussianMixture, UnnormalizedModel};
use crate::num::responsibilities;

/// Largest number of components.
const MOST: usize = 8;
/// Largest dimension in which components are split.
const DENSE: usize = 100;
/// Fewest states for each component and dimension.
const STATES: usize = 4;
/// Largest number of steps of expectation maximisation after a split.
const STEPS: usize = 30;
/// Gain in the log likelihood below which the steps end.
const SMALL: f64 = 0.1;
/// Distance of the two new means from the old mean after a split, in standard deviations along the axis. It is below 1,
/// so that the halves keep a positive variance along the axis.
const APART: f64 = 0.8;

/// The number of components grows from 1 to at most 8. A split of one component is kept if it raises the log likelihood
/// by at least `p / 2 log n`, for p new parameters and weights that sum to n (Schwarz 1978). The masses sum to 1.
impl Fit for GaussianMixture {
    fn coordinates(state: &DVector<f64>) -> &[f64] {
        state.as_slice()
    }

    fn fit(states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let whole = Gaussian::fit(states, weights)?;
        let (dimension, count) = (whole.dimension(), weights.iter().sum::<f64>());
        // A further component adds a mass, a mean and a covariance.
        let parameters = 1 + dimension * (dimension + 3) / 2;
        let least = 0.5 * parameters as f64 * count.ln();
        let mut best = Self::new([(1.0, whole)])?;
        let mut highest = log_likelihood(&best, states, weights);
        for components in 2..=MOST {
            let affordable = count >= (STATES * dimension * components) as f64;
            let splits = match affordable && dimension <= DENSE {
                true => best.splits(states, weights),
                false => Vec::new(),
            };
            let grown = splits
                .into_iter()
                .map(|split| maximised(split, states, weights));
            match grown.max_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((found, mixture)) if found >= highest + least => {
                    (best, highest) = (mixture, found);
                }
                _ => break,
            }
        }
        Ok(best)
    }

    /// Moves each component by [`Gaussian::refit`], and updates the masses: a step of expectation maximisation.
    fn refit(&self, states: &[DVector<f64>], weights: &[f64]) -> Result<Self> {
        let moved = self
            .components()
            .zip(self.responsibilities(states, weights));
        let moved = moved.map(|((_, component), own)| {
            // `new` refuses a mass of 0, which a component far from all states can have.
            let mass = own.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            Ok((mass, component.refit(states, &own)?))
        });
        let moved: Vec<(f64, Gaussian)> = moved.collect::<Result<_>>()?;
        let all: f64 = moved.iter().map(|(mass, _)| mass).sum();
        Self::new(moved.into_iter().map(|(mass, g)| (mass / all, g)))
    }
}

impl GaussianMixture {
    /// Returns for each component the states' weights times its responsibilities.
    fn responsibilities(&self, states: &[DVector<f64>], weights: &[f64]) -> Vec<Vec<f64>> {
        let terms = |state| Vec::from_iter(self.0.terms(state));
        let states = states.iter().map(terms).zip(weights.iter().copied());
        responsibilities(states, self.components().len())
    }

    /// Returns the mixtures in which one component is split along one of its [`axes`].
    fn splits(&self, states: &[DVector<f64>], weights: &[f64]) -> Vec<Self> {
        let all = self.responsibilities(states, weights);
        let split = |(i, (_, component)): (usize, (f64, &Gaussian))| {
            let axes = axes(component, states, &all[i]).into_iter();
            axes.filter_map(move |axis| self.split(i, &axis).ok())
        };
        self.components().enumerate().flat_map(split).collect()
    }

    /// Returns the mixture with component `split` in two halves. Together they have the component's covariance.
    fn split(&self, split: usize, axis: &DVector<f64>) -> Result<Self> {
        let mut components = Vec::from_iter(self.components().map(|(mass, g)| (mass, g.clone())));
        let (mass, whole) = components.swap_remove(split);
        let covariance = whole.covariance() - axis * axis.transpose() * APART.powi(2);
        for sign in [1.0, -1.0] {
            let mean = whole.mean() + axis * (sign * APART);
            components.push((0.5 * mass, Gaussian::new(mean, covariance.clone())?));
        }
        Self::new(components)
    }
}

/// Returns the axes, one deviation long, along which the weighted states have the least and the largest kurtosis. Two
/// modes lie along the first, a few distant states along the second. The axes are eigenvectors of
/// `sum_i w_i |z_i|^2 z_i z_i'`, with the states z in the component's own coordinates (Cardoso 1989).
fn axes(component: &Gaussian, states: &[DVector<f64>], weights: &[f64]) -> Vec<DVector<f64>> {
    let dimension = component.dimension();
    let Some(factor) = component.covariance().cholesky() else {
        return Vec::new();
    };
    let factor = factor.l();
    let mut fourth = DMatrix::zeros(dimension, dimension);
    for (state, weight) in states.iter().zip(weights).filter(|(_, w)| **w > 0.0) {
        if let Some(z) = factor.solve_lower_triangular(&(state - component.mean())) {
            fourth.ger(weight * z.norm_squared(), &z, &z, 1.0);
        }
    }
    let eigen = fourth.symmetric_eigen();
    let ends = [eigen.eigenvalues.imin(), eigen.eigenvalues.imax()];
    let ends = &ends[..dimension.min(2)];
    ends.iter()
        .map(|&end| &factor * eigen.eigenvectors.column(end))
        .collect()
}

/// Returns the mixture after expectation maximisation. Its log likelihood comes first in the pair.
fn maximised(
    mut mixture: GaussianMixture,
    states: &[DVector<f64>],
    weights: &[f64],
) -> (f64, GaussianMixture) {
    let mut found = log_likelihood(&mixture, states, weights);
    for _ in 0..STEPS {
        let Ok(next) = mixture.refit(states, weights) else {
            break;
        };
        let higher = log_likelihood(&next, states, weights);
        let is_small = higher < found + SMALL;
        (mixture, found) = (next, higher);
        if is_small {
            break;
        }
    }
    (found, mixture)
}

fn log_likelihood(mixture: &GaussianMixture, states: &[DVector<f64>], weights: &[f64]) -> f64 {
    let pairs = states.iter().zip(weights);
    pairs
        .map(|(state, weight)| weight * mixture.log_density(state))
        .sum()
}

#[cfg(test)]
mod tests {
    use nalgebra::dvector;

    use super::*;
    use crate::model::{NormalizedModel, Sampleable};
    use crate::random::{Purpose, stream};

    fn part(mean: [f64; 3], deviations: [f64; 3]) -> Gaussian {
        let variances = DVector::from_iterator(3, deviations.map(|x| x * x));
        Gaussian::diagonal(DVector::from_row_slice(&mean), variances).unwrap()
    }

    fn fitted(law: &impl Sampleable<State = DVector<f64>>, count: usize) -> GaussianMixture {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let states = Vec::from_iter((0..count).map(|_| law.sample(&mut rng)));
        GaussianMixture::fit(&states, &vec![1.0; count]).unwrap()
    }

    #[test]
    fn a_gaussian_is_one_component() {
        for count in [60, 2_000] {
            let mixture = fitted(&part([1.0, 2.0, 3.0], [1.0, 0.1, 9.0]), count);
            assert_eq!(mixture.components().len(), 1);
        }
    }

    /// The modes lie along the axis with the least variance, and one of them has a tenth of the mass.
    #[test]
    fn modes_are_found_whatever_the_units() {
        let parts = [
            (0.5, part([0.0, 0.0, 5.0], [0.01, 1.0, 50.0])),
            (0.4, part([0.1, 0.0, 5.0], [0.01, 1.0, 50.0])),
            (0.1, part([0.05, 9.0, 5.0], [0.01, 1.0, 50.0])),
        ];
        let exact = GaussianMixture::new(parts).unwrap();
        let mixture = fitted(&exact, 3_000);
        let mut found = Vec::from_iter(mixture.components());
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(found.len(), 3);
        for ((mass, own), (expected, of)) in found.iter().zip(exact.components()) {
            assert!((mass - expected).abs() < 0.04, "{mass}");
            let off = own.mean() - of.mean();
            let deviations = of.covariance().diagonal().map(f64::sqrt);
            assert!(off.component_div(&deviations).amax() < 0.3, "{off}");
        }
        assert!(mixture.log_normalizer().abs() < 1e-12);
    }

    #[test]
    fn one_coordinate_has_one_axis() {
        let states = Vec::from_iter(
            (0..200).map(|i| dvector![f64::from(i % 2) * 8.0 + f64::from(i) * 0.01]),
        );
        let mixture = GaussianMixture::fit(&states, &[1.0; 200]).unwrap();
        assert_eq!(mixture.components().len(), 2);
    }
}
