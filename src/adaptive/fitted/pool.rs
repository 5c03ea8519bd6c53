//! All draws of a search, weighed as draws of all its mixtures together.

use nalgebra::DVector;
use rand::RngExt;

use super::super::base_search::MixtureBase;
use super::mixture::{Laws, fitted};
use crate::model::{NormalizedModel, StudentT, UnnormalizedModel};
use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;

/// Number of draws, with repetitions, to which a mixture is fitted.
const POINTS: usize = 2048;
/// States with their log densities under the target, and log weights for it.
pub(super) struct Weighted {
    pub(super) states: Vec<DVector<f64>>,
    pub(super) log_densities: Vec<f64>,
    pub(super) log_weights: Vec<f64>,
    pub(super) weights: WeightSums,
}

impl Weighted {
    pub(super) fn new(
        states: Vec<DVector<f64>>,
        log_densities: Vec<f64>,
        log_weights: Vec<f64>,
    ) -> Self {
        let weights = WeightSums::of(&log_weights);
        Self {
            states,
            log_densities,
            log_weights,
            weights,
        }
    }

    /// Weighs states, whose log densities under the target are given, by a base.
    pub(super) fn by(
        states: Vec<DVector<f64>>,
        log_densities: Vec<f64>,
        base: &impl UnnormalizedModel<State = DVector<f64>>,
    ) -> Self {
        let pairs = states.iter().zip(&log_densities);
        let log_weights = pairs.map(|(x, f)| f - base.log_density(x)).collect();
        Self::new(states, log_densities, log_weights)
    }

    pub(super) fn log_z(&self) -> f64 {
        log_mean_exp(&self.log_weights)
    }

    /// Returns the effective number of draws; 0 if none lies on the target's support.
    pub(super) fn effective(&self) -> f64 {
        self.weights.effective_sample_size()
    }

    /// Returns the standard error of log Z.
    pub(super) fn error(&self) -> f64 {
        let variance = 1.0 / self.weights.effective_sample_size() - 1.0 / self.states.len() as f64;
        variance.max(0.0).sqrt()
    }

    /// Returns the effective number of draws, divided by their number.
    pub(super) fn share(&self) -> f64 {
        self.effective() / self.states.len() as f64
    }
}

/// Returns how often each of some states is among `count` that are drawn in proportion to their shares of 1 (systematic
/// resampling).
pub(super) fn systematic(
    shares: impl Iterator<Item = f64>,
    count: usize,
    rng: &mut StreamRng,
) -> impl Iterator<Item = usize> {
    let (mut next, mut sum) = (rng.random::<f64>(), 0.0);
    shares.map(move |share| {
        sum += share * count as f64;
        let mut drawn = 0;
        while next < sum {
            drawn += 1;
            next += 1.0;
        }
        drawn
    })
}

/// Returns the log density on the geometric path at `beta`, where the base and the target have these log densities.
pub(super) fn tempered(beta: f64, base: f64, target: f64) -> f64 {
    // A density of 0 has no part in a product with the exponent 0.
    match beta {
        0.0 => base,
        1.0 => target,
        _ => (1.0 - beta) * base + beta * target,
    }
}

/// All draws of a search.
pub(super) struct Pool<'e, B> {
    pub(super) states: Vec<DVector<f64>>,
    /// Log densities under the path's own base, normalised.
    own: Vec<f64>,
    /// Log densities under the target.
    target: Vec<f64>,
    /// Logs of the sum over all mixtures of the number of their draws times their density (Veach and Guibas 1995).
    log_mixed: Vec<f64>,
    /// The mixtures, with the logs of their numbers of draws.
    mixtures: Vec<(f64, B)>,
    earlier: &'e [Weighted],
}

impl<P> Pool<'_, MixtureBase<P, StudentT>>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    /// Adds draws of a further mixture.
    pub(super) fn add(
        &mut self,
        path: &P,
        mixture: &MixtureBase<P, StudentT>,
        states: &[DVector<f64>],
        log_densities: &[f64],
    ) {
        let log_count = (states.len() as f64).ln();
        for (state, log_mixed) in self.states.iter().zip(&mut self.log_mixed) {
            *log_mixed = log_sum_exp([*log_mixed, log_count + mixture.log_density(state)]);
        }
        self.mixtures.push((log_count, mixture.clone()));
        let mixtures = &self.mixtures;
        let of_all = |state| log_sum_exp(mixtures.iter().map(|(n, q)| n + q.log_density(state)));
        self.log_mixed.extend(states.iter().map(of_all));
        let (base, log_z) = (path.base(), path.base().log_normalizer());
        let own = states.iter().map(|state| base.log_density(state) - log_z);
        self.own.extend(own);
        self.target.extend(log_densities);
        self.states.extend_from_slice(states);
    }
}

impl<'e, B> Pool<'e, B> {
    pub(super) fn new(earlier: &'e [Weighted]) -> Self {
        Self {
            states: Vec::new(),
            own: Vec::new(),
            target: Vec::new(),
            log_mixed: Vec::new(),
            mixtures: Vec::new(),
            earlier,
        }
    }

    /// Returns the number of the last draws on the target's support.
    pub(super) fn alive(&self, last: usize) -> usize {
        let last = &self.target[self.target.len() - last..];
        last.iter().filter(|value| value.is_finite()).count()
    }

    /// Returns all draws with their log densities at `beta` on the geometric path from the base to the target.
    pub(super) fn log_densities(&self, beta: f64) -> impl Iterator<Item = (&DVector<f64>, f64)> {
        let pairs = self.own.iter().zip(&self.target);
        let values = pairs.map(move |(&own, &target)| tempered(beta, own, target));
        self.states.iter().zip(values)
    }

    /// Returns the log weights for the model at `beta`.
    pub(super) fn log_weights(&self, beta: f64) -> impl Iterator<Item = f64> {
        let log_count = (self.states.len() as f64).ln();
        let pairs = self.log_densities(beta).zip(&self.log_mixed);
        pairs.map(move |((_, log_density), log_mixed)| log_density - log_mixed + log_count)
    }

    /// Returns the effective number of all draws for the model at `beta`.
    pub(super) fn effective(&self, beta: f64) -> f64 {
        WeightSums::of(self.log_weights(beta)).effective_sample_size()
    }

    /// Returns the largest beta at which the effective number of all draws is at least `least`, or `beta` itself. Each mode, given by
    /// the log of its share in each draw, has an effective number of its own.
    pub(super) fn next(&self, beta: f64, least: f64, (modes, few): (&[Vec<f64>], f64)) -> f64 {
        let effective = |log_weights| WeightSums::of(log_weights).effective_sample_size();
        let leaves = |beta: f64| {
            let of_mode = |shares: &Vec<f64>| {
                let pairs = self.log_weights(beta).zip(shares);
                effective(Vec::from_iter(pairs.map(|(weight, share)| weight + share)))
            };
            self.effective(beta) >= least && modes.iter().all(|mode| of_mode(mode) >= few)
        };
        if leaves(1.0) {
            return 1.0;
        }
        let (mut low, mut high) = (beta, 1.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            match leaves(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// Fits a mixture to the draws, weighted for the model at `beta`, from the fit before. At the target each earlier search
    /// counts as much as this one.
    pub(super) fn fitted(&self, beta: f64, before: &Laws, rng: &mut StreamRng) -> Option<Laws> {
        let earlier = if beta == 1.0 { self.earlier } else { &[] };
        let counts = std::iter::once(self.states.len());
        let counts = counts.chain(earlier.iter().map(|search| search.states.len()));
        let counts = counts.flat_map(|count| std::iter::repeat_n((count as f64).ln(), count));
        let others = earlier.iter().flat_map(|search| search.log_weights.iter());
        let log_weights = self.log_weights(beta).chain(others.copied());
        let log_weights = Vec::from_iter(log_weights.zip(counts).map(|(weight, n)| weight - n));
        let others = earlier.iter().flat_map(|search| &search.states);
        let states = self.states.iter().chain(others);
        let sums = WeightSums::of(&log_weights);
        let shares = log_weights.iter().map(|&weight| sums.share(weight));
        let drawn = Vec::from_iter(systematic(shares, POINTS, rng));
        let points = states.zip(&drawn).filter(|(_, count)| **count > 0);
        let share = |count: usize| count as f64 / POINTS as f64;
        let (states, shares): (Vec<_>, Vec<_>) = points.map(|(x, n)| (x, share(*n))).unzip();
        fitted(&states, &shares, sums.effective_sample_size(), before, rng)
    }

    /// Returns all draws, weighted for the target.
    pub(super) fn weighted(self) -> Weighted {
        let log_weights = self.log_weights(1.0).collect();
        Weighted::new(self.states, self.target, log_weights)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mixture::with_own;
    use super::*;
    use crate::model::{Gaussian, Sampleable};
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};

    fn at(dimension: usize, mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(dimension, mean), deviation).unwrap()
    }

    #[test]
    fn states_are_drawn_in_proportion_to_their_shares() {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let shares = [0.1, 0.0, 0.65, 0.25];
        let counts = Vec::from_iter(systematic(shares.into_iter(), 1_000, &mut rng));
        for (count, share) in counts.iter().zip(shares) {
            assert!((*count as f64 - 1_000.0 * share).abs() <= 1.0, "{counts:?}");
        }
    }

    /// Draws of two mixtures that do not depend on them: Z is the mean of the weights, whatever the numbers of draws are.
    #[test]
    fn all_draws_count_as_draws_of_all_mixtures() {
        let target = at(2, 1.0, 0.4);
        let path = GeometricPath::new(Gaussian::standard(2).unwrap(), target.clone());
        let path = &path;
        let near = StudentT::new(at(2, 1.2, 0.5), 5.0).unwrap();
        let mut rng = stream(2, Purpose::TESTING, 0);
        let mut pool = Pool::new(&[]);
        for (laws, count) in [(Vec::new(), 4_000), (vec![(0.9, near)], 1_000)] {
            let base = with_own(&path, laws);
            let states = Vec::from_iter((0..count).map(|_| base.sample(&mut rng)));
            let values = Vec::from_iter(states.iter().map(|state| target.log_density(state)));
            pool.add(&path, &base, &states, &values);
        }
        let half = pool.log_weights(0.0).collect::<Vec<_>>();
        assert!(log_mean_exp(&half).abs() < 0.05, "the base is normalised");
        let all = pool.weighted();
        let error = all.log_z() - target.log_normalizer();
        assert!(
            error.abs() < 4.0 * all.error() && all.error() < 0.05,
            "{error}"
        );
    }
}
