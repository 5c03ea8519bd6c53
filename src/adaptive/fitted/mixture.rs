//! Mixtures of many distributions, fitted to weighted draws.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use super::super::base_search::MixtureBase;
use crate::model::{Gaussian, NormalizedModel, StudentT};
use crate::num::log_sum_exp;
use crate::path::AnnealingPath;
use crate::random::{StreamRng, draw_index};

/// Student t distributions with their shares in a mixture.
pub(super) type Laws = Vec<(f64, StudentT)>;

/// Degrees of freedom of the distributions. Five leave a variance to the weights of a target with tails like those of a
/// Student t of 2.5 degrees or more.
pub(super) const DEGREES: f64 = 5.0;
/// Factor of the scale matrices: deviations are 5% wider, since a base that is too narrow costs more draws than one that
/// is too wide.
const WIDENING: f64 = 1.05 * 1.05;
/// Scale matrix of a distribution, relative to the covariance of the draws. That of a Student t is smaller than its covariance.
pub(super) const SCALE: f64 = WIDENING * (DEGREES - 2.0) / DEGREES;
/// Largest number of components.
const MOST: usize = 64;
/// Number of steps of expectation maximisation from each start.
const STEPS: usize = 20;
/// Gain in the log likelihood below which the steps end.
const SMALL: f64 = 0.1;
/// Gain in the log likelihood, for each parameter and unit of the log of the effective number of draws, that a further component
/// must bring (Schwarz 1978).
const GAIN: f64 = 0.5;
/// Number of numbers of components in a row that are tried in vain.
const VAIN: usize = 2;
/// Effective number of draws, for each dimension, without which a component is dropped.
const FEWEST: f64 = 1.0;
/// Effective number of draws as which a small sphere counts in each covariance, and the sphere's variance relative to the
/// component's mean variance. It keeps the covariance of few draws regular.
const SPHERE: (f64, f64) = (2.0, 0.1);

/// Draws in coordinates in which their weighted covariance is the identity, with weights that sum to 1.
struct Whitened {
    states: DMatrix<f64>,
    weights: Vec<f64>,
    /// The effective number of the draws.
    count: f64,
}

/// A Gaussian of a mixture.
struct GaussianPart {
    share: f64,
    mean: DVector<f64>,
    covariance: DMatrix<f64>,
}

/// Returns mixtures as one mixture, each with its share.
pub(super) fn joined<'l>(mixtures: impl IntoIterator<Item = (f64, &'l Laws)>) -> Laws {
    let scaled = mixtures.into_iter().flat_map(|(share, laws)| {
        let laws = laws.iter();
        laws.map(move |(own, law)| (share * own, law.clone()))
    });
    scaled.collect()
}

/// Returns the mixture of `laws` and the path's own base, which has the rest.
pub(super) fn with_own<P>(path: &P, laws: Laws) -> MixtureBase<P, StudentT>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    MixtureBase::with_log_z(path.clone(), path.base().log_normalizer(), laws)
}

/// Fits a mixture of Student t distributions to draws, whose weights sum to 1 and which count as `count` draws. The number
/// of distributions grows by half while it raises the likelihood enough. Returns `None` if a direction does not vary.
pub(super) fn fitted(
    states: &[&DVector<f64>],
    weights: &[f64],
    count: f64,
    before: &Laws,
    rng: &mut StreamRng,
) -> Option<Laws> {
    // Where no draw lies on the support, there is nothing to fit.
    states.first()?;
    let columns = Vec::from_iter(states.iter().map(|state| (*state).clone()));
    let mut states = DMatrix::from_columns(&columns);
    let mean = &states * DVector::from_column_slice(weights);
    states.column_iter_mut().for_each(|mut x| x -= &mean);
    let covariance = weighted_covariance(&states, weights);
    let factor = Cholesky::new(covariance)?.unpack();
    factor.solve_lower_triangular_mut(&mut states);
    let draws = Whitened {
        states,
        weights: weights.to_vec(),
        count,
    };
    let own = |(share, law): &(f64, StudentT)| {
        let mut mean = law.gaussian().mean() - &mean;
        factor.solve_lower_triangular_mut(&mut mean);
        let mut half = law.gaussian().covariance() / SCALE;
        factor.solve_lower_triangular_mut(&mut half);
        let mut covariance = half.transpose();
        factor.solve_lower_triangular_mut(&mut covariance);
        GaussianPart {
            share: *share,
            mean,
            covariance,
        }
    };
    let parts = likeliest(&draws, before.iter().map(own).collect(), rng)?;
    let law = |part: GaussianPart| {
        let covariance = &factor * part.covariance * factor.transpose() * SCALE;
        let symmetric = (&covariance + covariance.transpose()) * 0.5;
        let gaussian = Gaussian::new(&mean + &factor * part.mean, symmetric).ok()?;
        Some((part.share, StudentT::exact(gaussian, DEGREES).ok()?))
    };
    parts.into_iter().map(law).collect()
}

pub(super) fn weighted_covariance(deviations: &DMatrix<f64>, weights: &[f64]) -> DMatrix<f64> {
    let mut scaled = deviations.clone();
    let roots = weights.iter().map(|weight| weight.sqrt());
    for (mut column, root) in scaled.column_iter_mut().zip(roots) {
        column *= root;
    }
    &scaled * scaled.transpose()
}

/// Returns the likeliest mixture, less a penalty for its parameters.
fn likeliest(
    draws: &Whitened,
    before: Vec<GaussianPart>,
    rng: &mut StreamRng,
) -> Option<Vec<GaussianPart>> {
    let dimension = draws.states.nrows();
    let penalty = GAIN * (1 + dimension * (dimension + 3) / 2) as f64 * draws.count.max(2.0).ln();
    let per_part = (2 * dimension + 4) as f64;
    let (mut best, mut highest, mut last) = (None, f64::NEG_INFINITY, f64::NEG_INFINITY);
    let (mut vain, mut parts) = (0, before.len().div_ceil(2).max(1));
    let worth = |found: &[GaussianPart], log_likelihood: f64| {
        draws.count * log_likelihood - penalty * found.len() as f64
    };
    if before.len() > 1
        && let Some((found, log_likelihood)) = draws.improved(before)
    {
        highest = worth(&found, log_likelihood);
        best = Some(found);
    }
    while parts <= MOST && vain < VAIN && (parts == 1 || parts as f64 * per_part <= draws.count) {
        let (found, log_likelihood) = draws.maximised(parts, rng)?;
        let worth = worth(&found, log_likelihood);
        vain += 1;
        if worth > last {
            (last, vain) = (worth, 0);
        }
        if worth > highest {
            (best, highest) = (Some(found), worth);
        }
        parts += parts.div_ceil(2);
    }
    best
}

impl Whitened {
    /// Returns a mixture of at most `parts` Gaussians after expectation maximisation, with its mean log likelihood before the
    /// last step.
    fn maximised(&self, parts: usize, rng: &mut StreamRng) -> Option<(Vec<GaussianPart>, f64)> {
        let shares = self.nearest(&self.seeds(parts, rng));
        self.improved(self.moved(&shares))
    }

    /// Returns a mixture after expectation maximisation, with its mean log likelihood before the last step.
    fn improved(&self, mut mixture: Vec<GaussianPart>) -> Option<(Vec<GaussianPart>, f64)> {
        let mut log_likelihood = f64::NEG_INFINITY;
        for _ in 0..STEPS {
            let (shares, higher) = self.responsibilities(&mixture)?;
            mixture = self.moved(&shares);
            let gain = self.count * (higher - log_likelihood);
            log_likelihood = higher;
            if gain < SMALL {
                break;
            }
        }
        Some((mixture, log_likelihood))
    }

    /// Draws some of the states, each with a probability in proportion to its weight and to its squared distance from those before
    /// (k-means++, Arthur and Vassilvitskii 2007).
    fn seeds(&self, parts: usize, rng: &mut StreamRng) -> Vec<usize> {
        let mut distances = vec![f64::INFINITY; self.weights.len()];
        let mut seeds = vec![draw_index(self.weights.iter().copied(), 1.0, rng)];
        while seeds.len() < parts {
            let last = self.states.column(seeds[seeds.len() - 1]);
            for (distance, state) in distances.iter_mut().zip(self.states.column_iter()) {
                *distance = distance.min((state - last).norm_squared());
            }
            let masses = self.weights.iter().zip(&distances).map(|(w, d)| w * d);
            let total = masses.clone().sum();
            seeds.push(draw_index(Vec::from_iter(masses).into_iter(), total, rng));
        }
        seeds
    }

    /// Gives each state to the nearest seed.
    fn nearest(&self, seeds: &[usize]) -> DMatrix<f64> {
        let mut shares = DMatrix::zeros(self.weights.len(), seeds.len());
        for (i, state) in self.states.column_iter().enumerate() {
            let distance = |seed: &usize| (state - self.states.column(*seed)).norm_squared();
            let nearest = (0..seeds.len())
                .min_by(|a, b| distance(&seeds[*a]).total_cmp(&distance(&seeds[*b])));
            shares[(i, nearest.unwrap_or(0))] = self.weights[i];
        }
        shares
    }

    /// Divides the weight of each state among the parts. Returns the mean log likelihood, too.
    fn responsibilities(&self, parts: &[GaussianPart]) -> Option<(DMatrix<f64>, f64)> {
        let mut terms = DMatrix::zeros(self.weights.len(), parts.len());
        for (part, mut column) in parts.iter().zip(terms.column_iter_mut()) {
            let factor = Cholesky::<_, Dyn>::new(part.covariance.clone())?.unpack();
            let log_scale = part.share.ln() - factor.diagonal().map(f64::ln).sum();
            let mut off = self.states.clone();
            off.column_iter_mut().for_each(|mut x| x -= &part.mean);
            factor.solve_lower_triangular_mut(&mut off);
            for (term, x) in column.iter_mut().zip(off.column_iter()) {
                *term = log_scale - 0.5 * x.norm_squared();
            }
        }
        let mut log_likelihood = 0.0;
        for (mut row, weight) in terms.row_iter_mut().zip(&self.weights) {
            let sum = log_sum_exp(row.iter());
            log_likelihood += weight * sum;
            row.apply(|term| *term = weight * (*term - sum).exp());
        }
        Some((terms, log_likelihood))
    }

    /// Returns the parts with the moments of their shares of the states. Parts with too few of them are dropped, but for the
    /// largest.
    fn moved(&self, shares: &DMatrix<f64>) -> Vec<GaussianPart> {
        let dimension = self.states.nrows();
        let of_parts = Vec::from_iter(shares.column_iter().map(|column| column.sum()));
        let largest = of_parts.iter().copied().fold(0.0, f64::max);
        let (states, least) = (
            SPHERE.0 / self.count,
            FEWEST * dimension as f64 / self.count,
        );
        let mut parts = Vec::new();
        for (column, share) in shares.column_iter().zip(of_parts) {
            if share < largest && share <= least {
                continue;
            }
            let mean = &self.states * column / share;
            let mut off = self.states.clone();
            off.column_iter_mut().for_each(|mut x| x -= &mean);
            let sum = weighted_covariance(&off, Vec::from_iter(column.iter().copied()).as_slice());
            let sphere = SPHERE.1 * sum.trace() / (share * dimension as f64) + 1e-9;
            let sphere = DMatrix::from_diagonal_element(dimension, dimension, states * sphere);
            parts.push(GaussianPart {
                share,
                mean,
                covariance: (sum + sphere) / (share + states),
            });
        }
        let all: f64 = parts.iter().map(|part| part.share).sum();
        parts.iter_mut().for_each(|part| part.share /= all);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Sampleable;
    use crate::random::{Purpose, stream};

    fn at(mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(2, mean), deviation).unwrap()
    }

    /// Fits a mixture to draws of laws in the given shares.
    fn of_draws(laws: &[(f64, Gaussian)], count: usize) -> Laws {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let drawn = laws.iter().flat_map(|(share, law)| {
            let draws = (0..(share * count as f64) as usize).map(|_| law.sample(&mut rng));
            Vec::from_iter(draws)
        });
        let states = Vec::from_iter(drawn);
        let weights = vec![1.0 / states.len() as f64; states.len()];
        let states = Vec::from_iter(&states);
        fitted(&states, &weights, count as f64, &Vec::new(), &mut rng).unwrap()
    }

    #[test]
    fn a_gaussian_is_one_distribution() {
        let laws = of_draws(&[(1.0, at(3.0, 0.1))], 400);
        assert_eq!(laws.len(), 1);
        let found = laws[0].1.gaussian();
        assert!((found.mean()[0] - 3.0).abs() < 4.0 * 0.1 / 20.0);
        // Draws of the Student t have 1.05^2 times the variance.
        let variance = found.covariance()[(0, 0)] * DEGREES / (DEGREES - 2.0) / WIDENING;
        assert!((variance / 0.01 - 1.0).abs() < 4.0 * (2.0_f64 / 400.0).sqrt());
    }

    /// Twelve modes on a line, of which one has a hundredth of the mass. A fit from an earlier one keeps all.
    #[test]
    fn many_modes_are_found() {
        let shares = (0..12).map(|i| if i == 5 { 0.01 } else { 0.09 });
        let laws = shares
            .enumerate()
            .map(|(i, share)| (share, at(10.0 * i as f64, 0.5)));
        let laws = Vec::from_iter(laws);
        let found = of_draws(&laws, 2_000);
        for (share, law) in &laws {
            let near =
                |(_, of): &&(f64, StudentT)| (of.gaussian().mean() - law.mean()).norm() < 1.0;
            let mass: f64 = found.iter().filter(near).map(|(mass, _)| mass).sum();
            assert!((mass / share - 1.0).abs() < 0.5, "{share}: {mass}");
        }
    }

    #[test]
    fn draws_without_a_spread_are_refused() {
        let (one, other) = (DVector::zeros(2), DVector::from_vec(vec![0.0, 1.0]));
        let states = [&one, &other, &one];
        let mut rng = stream(1, Purpose::TESTING, 0);
        assert!(fitted(&states, &[0.3, 0.3, 0.4], 3.0, &Vec::new(), &mut rng).is_none());
    }
}
