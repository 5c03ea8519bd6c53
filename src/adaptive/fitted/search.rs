//! Adaptive multiple importance sampling along a path: a mixture is fitted to weighted draws of all mixtures before it.

use nalgebra::DVector;
use rand::RngExt;

use super::super::base_search::MixtureBase;
use super::mixture::{Laws, fitted};
use super::target::CountedTarget;
use crate::model::{NormalizedModel, Sampleable, StudentT, UnnormalizedModel};
use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::work::Halt;

/// Share of the path's own base in a fitted one: it bounds the log weights where no draw of a search fell.
const OWN_SHARE: f64 = 0.04;
/// Share of the path's own base in the mixtures on the way. Draws from it find modes that the fits before have missed.
const EXPLORING: f64 = 0.2;
/// Share of the last mixture before the target in those at the target. It is broader, and covers what these miss.
const BROAD_SHARE: f64 = 0.15;
/// Number of draws in the first steps, in units of the number in later ones; at most the dimension. They decide which modes are seen.
const BROAD: [usize; 2] = [4, 2];
/// Effective number of all draws that a step along the path leaves, as a share of the last mixture's draws.
const LEFT: f64 = 0.2;
/// Effective share of the last draws at which a search ends at the target, and the effective number of all draws, as a share
/// of the number in a step.
const ENOUGH: f64 = 0.25;
const ENOUGH_OF_ALL: f64 = 0.75;
/// Largest number of steps at the target, and of all.
const AT_TARGET: usize = 12;
pub(super) const MOST_STEPS: usize = 60;
/// Number of draws, with repetitions, to which a mixture is fitted.
const POINTS: usize = 2048;
/// Number of steps for which progress is forecast at first.
pub(super) const LIKELY_STEPS: usize = 8;

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

/// The settings of a search, and the draws of earlier ones.
#[derive(Clone, Copy)]
pub(super) struct SearchPlan<'e> {
    /// Dimension of the states.
    pub(super) dimension: usize,
    /// Number of draws in each step.
    pub(super) size: usize,
    /// Number of draws in each step whose multiples the first steps take.
    pub(super) broad: usize,
    /// Largest number of evaluations.
    pub(super) most: u64,
    /// All draws of earlier searches. They count in the mixtures that are fitted at the target.
    pub(super) earlier: &'e [Weighted],
}

impl SearchPlan<'_> {
    /// Returns the number of draws in a step.
    fn draws(&self, step: usize) -> usize {
        let factor = BROAD.get(step).map_or(1, |most| self.dimension.min(*most));
        self.size.max(self.broad * factor)
    }

    /// Returns whether a search may end after `steps` steps at the target, with these last draws and these of all steps.
    fn ends(&self, steps: usize, last: &Weighted, all: f64) -> bool {
        let least = 1 + usize::from(!self.earlier.is_empty());
        let is_close = last.share() >= ENOUGH && all >= ENOUGH_OF_ALL * self.size as f64;
        steps >= least && (is_close || steps == AT_TARGET)
    }
}

/// The result of a search: a mixture close to the target, draws of it, and all draws of the search.
pub(super) struct Searched<P> {
    pub(super) laws: Laws,
    pub(super) base: MixtureBase<P, StudentT>,
    pub(super) draws: Weighted,
    pub(super) all: Weighted,
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

/// Searches for a mixture that is close to the target of a path. Each step draws from the mixture before, weighs *all* draws as draws
/// of all mixtures together, moves as far along the geometric path from the base as these weights allow, and fits a mixture
/// there. Returns `None` if it does not end within the plan.
pub(super) fn search<P>(
    path: &P,
    plan: SearchPlan<'_>,
    target: &CountedTarget<'_, P::At>,
    rng: &mut StreamRng,
) -> Result<Option<Searched<P>>, Halt>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let (begun, later) = (target.spent(), target.later.get());
    let mut pool = Pool::new(plan.earlier);
    let (mut beta, mut at_target) = (0.0, 0);
    let (mut laws, mut fit, mut broad) = (Laws::new(), Laws::new(), Laws::new());
    for step in 0..MOST_STEPS {
        let count = plan.draws(step);
        if target.spent() - begun + count as u64 > plan.most {
            break;
        }
        let left = LIKELY_STEPS.saturating_sub(step + 1) * plan.size;
        target.later.set(later.saturating_add(left as u64));
        let base = with_own(path, laws.clone());
        let states = Vec::from_iter((0..count).map(|_| base.sample(rng)));
        let log_densities = target.log_densities(&states)?;
        pool.add(path, &base, &states, &log_densities);
        let draws = Weighted::by(states, log_densities, &base);
        at_target += usize::from(beta == 1.0);
        if plan.ends(at_target, &draws, pool.effective(1.0)) {
            let all = pool.weighted();
            return Ok(Some(Searched {
                laws,
                base,
                draws,
                all,
            }));
        }
        // A covariance takes one draw more than there are dimensions.
        let least = (LEFT * pool.alive(count) as f64).max((plan.dimension + 1) as f64);
        beta = pool.next(beta, least);
        if beta == 0.0 {
            // Too few draws lie on the target's support.
            continue;
        }
        let Some(found) = pool.fitted(beta, &fit, rng) else {
            break;
        };
        fit = found;
        laws = if beta < 1.0 {
            broad = fit.clone();
            joined([(1.0 - EXPLORING, &fit)])
        } else if broad.is_empty() {
            joined([(1.0 - OWN_SHARE, &fit)])
        } else {
            joined([(1.0 - OWN_SHARE - BROAD_SHARE, &fit), (BROAD_SHARE, &broad)])
        };
    }
    Ok(None)
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

/// All draws of a search.
struct Pool<'e, B> {
    states: Vec<DVector<f64>>,
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
    fn add(
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
    fn new(earlier: &'e [Weighted]) -> Self {
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
    fn alive(&self, last: usize) -> usize {
        let last = &self.target[self.target.len() - last..];
        last.iter().filter(|value| value.is_finite()).count()
    }

    /// Returns the log weights for the model at `beta` on the geometric path from the base to the target.
    fn log_weights(&self, beta: f64) -> impl Iterator<Item = f64> {
        let log_count = (self.states.len() as f64).ln();
        let pairs = self.own.iter().zip(&self.target).zip(&self.log_mixed);
        pairs.map(move |((&own, &target), log_mixed)| {
            // A density of 0 has no part in a product with the exponent 0.
            let log_density = match beta {
                0.0 => own,
                1.0 => target,
                _ => (1.0 - beta) * own + beta * target,
            };
            log_density - log_mixed + log_count
        })
    }

    /// Returns the effective number of all draws for the model at `beta`.
    fn effective(&self, beta: f64) -> f64 {
        WeightSums::of(self.log_weights(beta)).effective_sample_size()
    }

    /// Returns the largest beta at which the effective number of all draws is at least `least`, or `beta` itself.
    fn next(&self, beta: f64, least: f64) -> f64 {
        let leaves = |beta: f64| self.effective(beta) >= least;
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
    fn fitted(&self, beta: f64, before: &Laws, rng: &mut StreamRng) -> Option<Laws> {
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
    fn weighted(self) -> Weighted {
        let log_weights = self.log_weights(1.0).collect();
        Weighted::new(self.states, self.target, log_weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gaussian;
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};
    use crate::work::Pulse;

    /// Returns a pulse that counts nothing.
    fn still() -> Pulse<'static> {
        Pulse::new(0..1, None, &|_, _| Ok(()))
    }

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

    #[test]
    fn a_search_ends_close_to_a_narrow_target() {
        for dimension in [1, 4, 10] {
            let target = at(dimension, 1.5, 0.1);
            let path = GeometricPath::new(Gaussian::standard(dimension).unwrap(), target.clone());
            let pulse = still();
            let counted = CountedTarget::new(path.at(1.0), &pulse);
            let mut rng = stream(3, Purpose::TESTING, dimension);
            let plan = SearchPlan {
                dimension,
                size: 256,
                broad: 256,
                most: u64::MAX,
                earlier: &[],
            };
            let found = search(&&path, plan, &counted, &mut rng).unwrap().unwrap();
            let error = found.draws.log_z() - target.log_normalizer();
            assert!(error.abs() < 4.0 * found.draws.error(), "{error}");
            assert!(found.draws.share() >= ENOUGH && found.laws.len() <= 3);
            assert_eq!(counted.spent(), found.all.states.len() as u64);
            let short = SearchPlan { most: 300, ..plan };
            assert!(search(&&path, short, &counted, &mut rng).unwrap().is_none());
        }
    }
}
