//! Pairs of searches, and checks of their mixture: each by the draws of the other, and both by log Z and by the tails.

use nalgebra::DVector;

use super::mixture::{joined, with_own};
use super::pool::{Weighted, systematic};
use super::search::{LIKELY_STEPS, SearchPlan, Searched, search};
use super::target::CountedTarget;
use super::{FitEffort, Fitted, FittedBase, Found, NotFitted, Refused, Witness};
use crate::estimate::pareto_shape;
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::work::{Halt, Pulse};

/// Number of pairs of searches. Each has twice as many draws in a step as the one before.
const PAIRS: u32 = 6;
/// Least number of draws in a step, for each dimension.
const DRAWS_PER_DIMENSION: usize = 12;
/// Effective share of the draws of a base below which it is not used.
const LEAST_SHARE: f64 = 0.02;
/// Effective number of all draws of a search below which no base is used, also as a share of the number in its last step.
const FEWEST_EFFECTIVE: f64 = 8.0;
const LEAST_OF_ALL: f64 = 0.25;
/// Number of distributions of a search up to which one pair of searches decides; with just this number, it decides if this share of
/// the last draws is effective. Targets that take more tend to have parts that both searches miss, which more draws find.
const SIMPLE: (usize, f64) = (4, 0.5);
/// Limits to the mass that a mixture may miss of states to which it was not fitted.
struct Allowed {
    /// Log of the factor by which the mean of `p / (Z q)` may exceed its value under the target.
    excess: f64,
    /// Number of errors by which the mean of `log(p / (Z q))` may exceed its value under the target.
    log_errors: f64,
}

const OF_SEARCHES: Allowed = Allowed {
    excess: std::f64::consts::LN_2,
    log_errors: 4.0,
};
/// Chains of a small first pass need not be in equilibrium: they may all lie near a mode's centre.
const OF_WITNESS: Allowed = Allowed {
    excess: 2.0 * std::f64::consts::LN_2,
    log_errors: f64::INFINITY,
};
/// Ratio above which a larger one counts no more, relative to its mean under the target, times the error asked for.
const MOST_RATIO: f64 = 4.0;
/// Number of relative errors of this mean that are allowed in addition.
const EXCESS_ERRORS: f64 = 3.0;
/// Largest rise of log Z from the searches before, as a share of the error asked for.
const MOST_RISE: f64 = 0.75;
/// Number of errors by which estimates of log Z may differ.
const LOG_Z_ERRORS: f64 = 3.0;
/// Largest Pareto shape k' of target-to-base ratios among target states. Among samples of the base the shape is `k' / (1
/// + k')`, and a variance needs k' < 1.
const HEAVIEST_TAIL: f64 = 0.9;
/// Number of states of the target that are drawn from all draws of a search.
const DRAWN: usize = 256;

/// Makes two searches that share nothing, and checks their mixture, by the states of a witness, too. After a failed check two
/// more searches have twice as many draws in a step. They begin anew, and at the target go on from the draws of all earlier ones.
pub(super) fn fit<P>(
    path: &P,
    effort: FitEffort,
    witness: Witness<DVector<f64>>,
    rng: &mut StreamRng,
    pulse: &Pulse<'_>,
) -> Result<Fitted, Halt>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let target = CountedTarget::new(path.at(1.0), pulse);
    let dimension = witness.states.first().map_or(1, DVector::len);
    let own_log_z = path.base().log_normalizer();
    let values = target.log_densities(&witness.states)?;
    let log_weights = vec![witness.log_ratio + own_log_z; values.len()];
    let mut earlier = vec![Weighted::new(witness.states, values, log_weights)];
    let mut found = Err(Refused {
        reason: NotFitted::Unreached,
        log_z: None,
    });
    let mut leads = Vec::new();
    for pair in 0..PAIRS {
        let before = target.spent();
        let broad = effort.draws << pair;
        let size = broad.max((DRAWS_PER_DIMENSION * dimension) << pair);
        let mut searches = Vec::new();
        for others in [1, 0] {
            let of_other = (others * LIKELY_STEPS * size) as u64;
            target.later.set(effort.later.saturating_add(of_other));
            let plan = SearchPlan {
                dimension,
                size,
                broad,
                most: effort.allowance.saturating_sub(before) / 2,
                // Nothing but their check ties the first searches to the witness.
                earlier: if pair == 0 { &[] } else { &earlier },
                leads: &leads,
            };
            searches.extend(search(path, plan, &target, rng)?);
        }
        if let [one, other] = searches.as_slice() {
            found = checked(path, [one, other], &earlier, effort.error, rng);
        }
        let centres = searches.iter().flat_map(|search| &search.laws);
        leads = Vec::from_iter(centres.map(|(_, law)| law.gaussian().mean().clone()));
        earlier.extend(searches.into_iter().map(|search| search.all));
        // The next searches take twice as many evaluations.
        let next = target.spent() + 2 * (target.spent() - before);
        if found.is_ok() || next > effort.allowance {
            break;
        }
    }
    Ok(Fitted {
        found,
        evaluations: target.spent(),
        log_ratio: match earlier.as_slice() {
            [_, .., one, other] => mean([one, other]).0 - own_log_z,
            _ => f64::NEG_INFINITY,
        },
    })
}

/// Returns log Z by all draws of two searches, with its standard error.
fn mean([one, other]: [&Weighted; 2]) -> (f64, f64) {
    let error = one.error().hypot(other.error()) / 2.0;
    (log_mean_exp(&[one.log_z(), other.log_z()]), error)
}

/// Returns the mixture of two searches as a base, with the effective share of its draws, unless a check fails.
fn checked<P>(
    path: &P,
    searches: [&Searched<P>; 2],
    earlier: &[Weighted],
    error: f64,
    rng: &mut StreamRng,
) -> Found
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let [one, other] = searches;
    let laws = joined([(0.5, &one.laws), (0.5, &other.laws)]);
    let base = with_own(path, laws.clone());
    let both = |of: fn(&Weighted) -> &[f64]| [of(&one.draws), of(&other.draws)].concat();
    let states = [&one.draws.states[..], &other.draws.states[..]].concat();
    let draws = Weighted::by(states, both(|draws| &draws.log_densities), &base);
    let check = || {
        let effective = draws.effective();
        let of_all = one.all.effective().min(other.all.effective());
        let step = one.draws.states.len() as f64;
        if draws.share() < LEAST_SHARE || of_all < FEWEST_EFFECTIVE.max(LEAST_OF_ALL * step) {
            return Err(NotFitted::FewDraws { effective });
        }
        check_covered(&one.base, &one.draws, &other.all, error, &OF_SEARCHES)?;
        check_covered(&other.base, &other.draws, &one.all, error, &OF_SEARCHES)?;
        // The first is the witness.
        for (index, before) in earlier.iter().enumerate() {
            let allowed = if index == 0 {
                &OF_WITNESS
            } else {
                &OF_SEARCHES
            };
            check_covered(&base, &draws, before, error, allowed)?;
        }
        check_log_z(&draws, [&one.all, &other.all], error)?;
        if searches.into_iter().any(is_intricate) {
            check_rise([&one.all, &other.all], earlier, error)?;
        }
        let at_target = searches.iter().flat_map(|search| drawn(&search.all, rng));
        let ratio = |(x, log_density): (&DVector<f64>, f64)| log_density - base.log_density(x);
        check_tails(&Vec::from_iter(at_target.map(ratio)))?;
        let own_share = base.own_share();
        let whole = FittedBase::new(laws, own_share);
        whole.map_err(|_| NotFitted::FewDraws { effective })
    };
    let refused = |reason| Refused {
        reason,
        log_z: Some((draws.log_z(), draws.error())),
    };
    Ok((check().map_err(refused)?, draws.share()))
}

/// Draws states of the target from weighted draws, with their log densities.
fn drawn<'w>(draws: &'w Weighted, rng: &mut StreamRng) -> Vec<(&'w DVector<f64>, f64)> {
    let weights = draws.log_weights.iter();
    let shares = weights.map(|&weight| draws.weights.share(weight));
    let states = draws.states.iter().zip(draws.log_densities.iter().copied());
    let states = states.zip(systematic(shares, DRAWN, rng));
    let repeated = states.flat_map(|(state, count)| std::iter::repeat_n(state, count));
    repeated.collect()
}

/// Compares `log(p / (Z q))` over weighted states to which q was not fitted with its value under the target, by draws of q:
/// the mean of the ratio, and the mean of its log. Where q misses some mass of the states, both are too large. A mass far
/// below `error` does not count, however small q is there.
fn check_covered(
    base: &impl UnnormalizedModel<State = DVector<f64>>,
    draws: &Weighted,
    states: &Weighted,
    error: f64,
    allowed: &Allowed,
) -> Result<(), NotFitted> {
    let log_z = draws.log_z();
    let products = |values: &[f64], by: &Weighted| {
        let pairs = values.iter().zip(&by.log_weights);
        // A state off the support has no part in a mean.
        Vec::from_iter(pairs.map(|(x, w)| if *w > f64::NEG_INFINITY { x + w } else { *w }))
    };
    let of_draws = Vec::from_iter(draws.log_weights.iter().map(|w| w - log_z));
    let under_target = log_sum_exp(products(&of_draws, draws)) - draws.weights.log_sum();
    let highest = (MOST_RATIO / error).ln() + under_target;
    let pairs = states.states.iter().zip(&states.log_densities);
    let ratios = pairs.map(|(x, f)| f - base.log_density(x) - log_z);
    let of_states = Vec::from_iter(ratios.map(|ratio| ratio.min(highest)));
    let of_both = products(&of_states, states);
    let excess = log_sum_exp(&of_both) - states.weights.log_sum() - under_target;
    let error = 1.0 / WeightSums::of(&of_both).effective_sample_size();
    let most = allowed.excess + EXCESS_ERRORS * error.sqrt().min(1.0);
    let (mean, error) = moments(&of_states, &states.log_weights);
    let (expected, of_expected) = moments(&of_draws, &draws.log_weights);
    match excess > most || mean > expected + allowed.log_errors * error.hypot(of_expected) {
        true => Err(NotFitted::Uncovered {
            excess: excess.exp(),
        }),
        false => Ok(()),
    }
}

fn check_tails(at_target: &[f64]) -> Result<(), NotFitted> {
    let heavy = pareto_shape(at_target).filter(|&k_hat| k_hat > HEAVIEST_TAIL);
    heavy.map_or(Ok(()), |k_hat| Err(NotFitted::Tails { k_hat }))
}

/// Refuses searches whose estimates of log Z differ, or lie above that by draws of their mixture, by more than `error` and three
/// errors of both.
fn check_log_z(draws: &Weighted, searches: [&Weighted; 2], error: f64) -> Result<(), NotFitted> {
    let estimate = |of: &Weighted| (of.log_z(), of.error());
    let [one, other] = searches.map(estimate);
    let pairs = [
        (one, other),
        (other, one),
        (estimate(draws), mean(searches)),
    ];
    for ((low, of_low), (high, of_high)) in pairs {
        if high - low > error + LOG_Z_ERRORS * of_low.hypot(of_high) {
            return Err(NotFitted::Apart { low, high });
        }
    }
    Ok(())
}

/// Returns whether one pair of searches does not decide.
fn is_intricate<P>(search: &Searched<P>) -> bool {
    let laws = search.laws.len();
    laws > SIMPLE.0 || (laws == SIMPLE.0 && search.draws.share() < SIMPLE.1)
}

/// Refuses searches whose log Z lies above log Z of the pair before: it is likely too low still. Without a pair before,
/// refuses the first pair.
fn check_rise(searches: [&Weighted; 2], earlier: &[Weighted], error: f64) -> Result<(), NotFitted> {
    // The first is the witness.
    let [_, .., one, other] = earlier else {
        return Err(NotFitted::Intricate);
    };
    let ((low, _), (high, _)) = (mean([one, other]), mean(searches));
    match high - low > MOST_RISE * error {
        true => Err(NotFitted::Apart { low, high }),
        false => Ok(()),
    }
}

/// Returns the weighted mean of values with its standard error, by the effective number of values.
fn moments(values: &[f64], log_weights: &[f64]) -> (f64, f64) {
    let weights = WeightSums::of(log_weights);
    let shares = log_weights.iter().map(|&w| weights.share(w));
    // A draw off the support has the value `-inf` and no share.
    let pairs = values.iter().zip(shares).filter(|(_, share)| *share > 0.0);
    let mean: f64 = pairs.clone().map(|(x, share)| share * x).sum();
    let variance: f64 = pairs.map(|(x, share)| share * (x - mean).powi(2)).sum();
    (mean, (variance / weights.effective_sample_size()).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Gaussian, GaussianMixture, Sampleable};
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};

    fn at(dimension: usize, mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(dimension, mean), deviation).unwrap()
    }

    /// Returns draws of a law, weighed for a target.
    fn weighed<L>(target: &GaussianMixture, law: &L, count: usize, rng: &mut StreamRng) -> Weighted
    where
        L: Sampleable<State = DVector<f64>> + NormalizedModel,
    {
        let states = Vec::from_iter((0..count).map(|_| law.sample(rng)));
        let values = Vec::from_iter(states.iter().map(|state| target.log_density(state)));
        Weighted::by(states, values, law)
    }

    fn mixture(shares: [f64; 2]) -> GaussianMixture {
        let [one, other] = shares;
        GaussianMixture::new([(one, at(2, 0.0, 1.0)), (other, at(2, 9.0, 0.5))]).unwrap()
    }

    #[test]
    fn a_mode_is_seen_by_the_draws_of_the_other_search() {
        let mut rng = stream(1, Purpose::TESTING, 0);
        let target = mixture([0.8, 0.2]);
        let mut verdict = |share: f64, error: f64| {
            let fitted = mixture([1.0 - share, share]);
            let draws = weighed(&target, &fitted, 256, &mut rng);
            let others = weighed(&target, &mixture([0.5, 0.5]), 600, &mut rng);
            check_covered(&fitted, &draws, &others, error, &OF_SEARCHES)
        };
        assert_eq!(verdict(0.2, 0.1), Ok(()));
        assert_eq!(verdict(0.12, 0.1), Ok(()));
        let missed = verdict(1e-9, 0.1);
        assert!(
            matches!(missed, Err(NotFitted::Uncovered { .. })),
            "{missed:?}"
        );
    }

    /// A part of a thousandth does not count beside an error of .1, and does beside one of .001.
    #[test]
    fn a_small_mass_counts_beside_a_small_error() {
        let mut rng = stream(2, Purpose::TESTING, 0);
        let target = mixture([0.999, 0.001]);
        let fitted = at(2, 0.0, 1.0);
        let states = Vec::from_iter((0..2_000).map(|_| fitted.sample(&mut rng)));
        let values = Vec::from_iter(states.iter().map(|state| target.log_density(state)));
        let normalised = GaussianMixture::new([(1.0, fitted)]).unwrap();
        let draws = Weighted::by(states, values, &normalised);
        let others = weighed(&target, &mixture([0.9, 0.1]), 4_000, &mut rng);
        assert_eq!(
            check_covered(&normalised, &draws, &others, 0.1, &OF_SEARCHES),
            Ok(())
        );
        assert!(check_covered(&normalised, &draws, &others, 0.001, &OF_SEARCHES).is_err());
    }

    #[test]
    fn estimates_that_lie_apart_are_refused() {
        let mut rng = stream(3, Purpose::TESTING, 0);
        let target = mixture([0.8, 0.2]);
        let right = || {
            weighed(
                &target,
                &mixture([0.7, 0.3]),
                500,
                &mut stream(4, Purpose::TESTING, 0),
            )
        };
        let (one, other) = (right(), right());
        assert_eq!(check_log_z(&right(), [&one, &other], 0.1), Ok(()));
        // Without the second mode log Z is .22 lower.
        let law = GaussianMixture::new([(1.0, at(2, 0.0, 1.0))]).unwrap();
        let low = weighed(&target, &law, 500, &mut rng);
        assert!(check_log_z(&right(), [&low, &other], 0.1).is_err());
        assert!(check_log_z(&low, [&one, &other], 0.1).is_err());
        assert_eq!(check_log_z(&low, [&one, &other], 0.3), Ok(()));
        assert_eq!(
            check_rise([&one, &other], &[], 0.1),
            Err(NotFitted::Intricate)
        );
        let witness = weighed(&target, &law, 50, &mut rng);
        let earlier = [witness, low, weighed(&target, &law, 500, &mut rng)];
        assert!(check_rise([&one, &other], &earlier, 0.1).is_err());
        assert_eq!(check_rise([&one, &other], &earlier, 0.5), Ok(()));
    }

    #[test]
    fn gaussians_have_a_base() {
        let mut refused = Vec::new();
        for dimension in [1, 2, 5, 10, 20] {
            let target = GaussianMixture::new([(1.0, at(dimension, 1.0, 0.2))]).unwrap();
            let path = GeometricPath::new(Gaussian::standard(dimension).unwrap(), target);
            for seed in 0..8 {
                let mut rng = stream(seed, Purpose::TESTING, dimension);
                let law = at(dimension, 1.0, 0.2);
                let witness = Witness {
                    states: (0..50).map(|_| law.sample(&mut rng)).collect(),
                    log_ratio: -path.base().log_normalizer(),
                };
                let effort = FitEffort {
                    draws: 256,
                    allowance: 200_000,
                    error: 0.1,
                    later: 0,
                };
                let pulse = Pulse::new(0..1, None, &|_, _| Ok(()));
                let fitted = fit(&&path, effort, witness, &mut rng, &pulse).unwrap();
                assert!(fitted.evaluations <= 200_000);
                refused.extend(fitted.found.err());
            }
        }
        assert!(refused.is_empty(), "{refused:?}");
    }
}
