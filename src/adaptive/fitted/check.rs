//! Checks of a fitted base: by states from which it was not fitted, by states on the way, and by the first passes' log Z.

use nalgebra::DVector;

use super::adapted::{
    Adapted, CountedTarget, DRAWS, WeightedDraws, adapted, drawn, relative_error,
};
use super::{Fitted, FittedBase, NotFitted, PassStates, Refused, Settle};
use crate::adaptive::first_pass_task::Known;
use crate::estimate::pareto_shape;
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::{WeightSums, log_mean_exp, log_sum_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::work::{Halt, Pulse};

/// Largest number of first passes: three pairs.
pub(super) const MOST_PASSES: usize = 6;
/// Effective number of draws below which no base is used.
const FEWEST_EFFECTIVE: f64 = 8.0;
/// Log of the factor by which the mean of `p / (Z q)` over states may exceed its value under the target.
const MOST_EXCESS: f64 = std::f64::consts::LN_2;
/// Number of relative errors of this mean that are allowed in addition.
const EXCESS_ERRORS: f64 = 3.0;
/// Number of errors by which the mean of `log(p / (Z q))` over states may exceed its value under the target.
const LOG_ERRORS: f64 = 4.0;
/// Ratio up to which a base that misses states is compared with them again, by more draws.
const MOST_DOUBTFUL: f64 = 20.0;
/// Number of these draws.
pub(super) const MORE_DRAWS: usize = 8 * DRAWS;
/// Number of errors by which log Z may lie below the first passes' own.
const LOG_Z_ERRORS: f64 = 3.0;
/// Largest Pareto shape k' of target-to-base ratios among target states. Among samples of the base the shape is `k' / (1
/// + k')`, and a variance needs k' < 1.
const HEAVIEST_TAIL: f64 = 0.9;
/// Factor by which the largest `p / q` on the way may exceed the largest one at the target.
const MOST_LOST: f64 = 10.0;
/// Number of stages of a pass from which a state is moved at the target.
const STAGES: usize = 8;

type States = [(DVector<f64>, f64)];

/// The end of an attempt: an error or a stop, or a reason against a base.
enum Refusal {
    Halted(Halt),
    Reason(NotFitted),
}

impl<E: Into<Halt>> From<E> for Refusal {
    fn from(halt: E) -> Self {
        Self::Halted(halt.into())
    }
}

impl From<NotFitted> for Refusal {
    fn from(reason: NotFitted) -> Self {
        Self::Reason(reason)
    }
}

/// Fits a base to the states of first passes, and checks it: the fits to all passes but one by the states of this one,
/// their mixture by states on the way, its tail by all states, and its log Z by the log Z of the passes. The last check
/// moves states on the way at the target.
pub(super) fn fit<P>(
    path: &P,
    passes: &[PassStates<DVector<f64>>],
    settle: Settle<'_, DVector<f64>>,
    rng: &mut StreamRng,
    pulse: &Pulse<'_>,
) -> Result<Fitted, Halt>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let target = CountedTarget::new(path.at(1.0), pulse);
    let (found, log_z) = match fits(path, passes, &target, rng) {
        Ok(fits) => {
            let whole = fits.mixed(path, None);
            let log_z = (whole.draws.log_z(), whole.draws.error());
            let covered = check_each_covered(path, &fits, &target, rng);
            let found = covered.and_then(|()| checked(path, passes, &fits, whole, settle));
            (found, Some(log_z))
        }
        Err(refusal) => (Err(refusal), None),
    };
    let found = match found {
        Ok(found) => Ok(found),
        Err(Refusal::Reason(reason)) => Err(Refused { reason, log_z }),
        Err(Refusal::Halted(halt)) => return Err(halt),
    };
    Ok(Fitted {
        found,
        evaluations: target.spent.get(),
    })
}

/// The states at which passes arrived, and the fits to them, each with the index of its pass.
struct PassFits<P> {
    arrived: Vec<Known<DVector<f64>>>,
    fits: Vec<(usize, Adapted<P>)>,
}

impl<P> PassFits<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    /// Mixes the fits to all passes, or to all but one.
    fn mixed(&self, path: &P, left_out: Option<usize>) -> Adapted<P> {
        let others = self
            .fits
            .iter()
            .filter(|(index, _)| Some(*index) != left_out);
        Adapted::mixed(path, others.map(|(_, fit)| fit))
    }
}

/// Fits a distribution to the states of each pass.
fn fits<P>(
    path: &P,
    passes: &[PassStates<DVector<f64>>],
    target: &CountedTarget<'_, P::At>,
    rng: &mut StreamRng,
) -> Result<PassFits<P>, Refusal>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let mut arrived = Vec::with_capacity(passes.len());
    let mut fits = Vec::with_capacity(passes.len());
    let earlier = passes.len().saturating_sub(2);
    for (index, pass) in passes.iter().enumerate() {
        let known = known(&pass.arrived, target)?;
        let states = Vec::from_iter(known.iter().map(|(state, _)| state.clone()));
        match usable(adapted(path, &states, target, rng)?) {
            Ok(fit) => fits.push((index, fit)),
            // Without a fit of its own, an earlier pass has states that the other fits must cover.
            Err(_) if index < earlier => {}
            Err(reason) => return Err(reason.into()),
        }
        arrived.push(known);
    }
    Ok(PassFits { arrived, fits })
}

/// Refuses fits if those to all passes but one do not cover the states of this one. Few effective draws tend to give too low a
/// value under the target. So in the third pair, after which none follows, more draws decide in doubt.
fn check_each_covered<P>(
    path: &P,
    fits: &PassFits<P>,
    target: &CountedTarget<'_, P::At>,
    rng: &mut StreamRng,
) -> Result<(), Refusal>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let is_third = fits.arrived.len() == MOST_PASSES;
    for (pass, states) in fits.arrived.iter().enumerate() {
        let others = fits.mixed(path, Some(pass));
        match check_covered(&others, states) {
            Err(NotFitted::Uncovered { excess }) if is_third && excess < MOST_DOUBTFUL => {
                let more = drawn(path, others.laws, MORE_DRAWS, target, rng)?;
                check_covered(&more, states)
            }
            checked => checked,
        }?;
    }
    Ok(())
}

/// Returns the mixture of all fits as a base, with the effective share of its draws, unless a check fails.
fn checked<P>(
    path: &P,
    passes: &[PassStates<DVector<f64>>],
    fits: &PassFits<P>,
    whole: Adapted<P>,
    settle: Settle<'_, DVector<f64>>,
) -> Result<(FittedBase, f64), Refusal>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let at_target = log_ratios(&whole.base, fits.arrived.iter().flatten());
    let on_way = passes.iter().flat_map(|pass| pass.trail.iter().flatten());
    check_lost(&at_target, &log_ratios(&whole.base, on_way))?;
    check_tails(&at_target)?;
    // The mixture's log Z is 0; the log Z of the first passes is relative to the path's base.
    let own_log_z = path.base().log_normalizer();
    check_log_z(&whole.draws, passes, own_log_z)?;
    let settled = settle(least_covered(&whole.base, passes))?;
    check_lost(&at_target, &log_ratios(&whole.base, &settled))?;
    let own_share = whole.base.own_share();
    Ok((FittedBase::new(whole.laws, own_share)?, whole.draws.share()))
}

/// Returns states with their log densities under the target, which is evaluated where these are not known.
fn known<M>(
    states: &States,
    target: &CountedTarget<'_, M>,
) -> Result<Vec<(DVector<f64>, f64)>, Halt>
where
    M: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    if states.iter().all(|(_, value)| !value.is_nan()) {
        return Ok(states.to_vec());
    }
    let states = Vec::from_iter(states.iter().map(|(state, _)| state.clone()));
    let values = target.log_densities(&states)?;
    Ok(states.into_iter().zip(values).collect())
}

/// Returns `log(f / q)` at states, given with log f.
fn log_ratios<'s>(
    base: &impl UnnormalizedModel<State = DVector<f64>>,
    states: impl IntoIterator<Item = &'s (DVector<f64>, f64)>,
) -> Vec<f64> {
    let ratio = |(state, value): &(DVector<f64>, f64)| value - base.log_density(state);
    states.into_iter().map(ratio).collect()
}

/// Refuses a fit whose draws hardly count as draws of the target.
fn usable<P>(fit: Option<Adapted<P>>) -> Result<Adapted<P>, NotFitted>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let fit = fit.ok_or(NotFitted::FewStates)?;
    let effective = fit.draws.effective();
    match effective >= FEWEST_EFFECTIVE {
        true => Ok(fit),
        false => Err(NotFitted::FewDraws { effective }),
    }
}

/// Compares `log(p / (Z q))` over states to which q was not fitted with its value under the target, by draws of q: the
/// mean of the ratio, and the mean of its log. Where q misses some mass of the states, both are too large.
fn check_covered<P>(fitted: &Adapted<P>, states: &States) -> Result<(), NotFitted>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let draws = &fitted.draws;
    let log_z = draws.log_z();
    let relative = |log_ratios: Vec<f64>| Vec::from_iter(log_ratios.iter().map(|x| x - log_z));
    let of_states = relative(log_ratios(&fitted.base, states));
    let of_draws = relative(draws.log_weights.clone());
    let under_target = log_sum_exp(of_draws.iter().zip(&draws.log_weights).map(|(x, w)| x + w))
        - draws.weights.log_sum();
    let excess = log_mean_exp(&of_states) - under_target;
    let most = MOST_EXCESS
        + EXCESS_ERRORS * relative_error(&WeightSums::of(&of_states), states.len()).min(1.0);
    let (mean, error) = moments(&of_states, &vec![0.0; states.len()]);
    let (expected, of_expected) = moments(&of_draws, &draws.log_weights);
    match excess > most || mean > expected + LOG_ERRORS * error.hypot(of_expected) {
        true => Err(NotFitted::Uncovered {
            excess: excess.exp(),
        }),
        false => Ok(()),
    }
}

/// Compares the largest `f / q` on the way with the largest at the target. All chains are resampled at each stage, so a
/// mode with few chains may lose them all, in each pass. It is then seen on the way alone.
fn check_lost(at_target: &[f64], on_way: &[f64]) -> Result<(), NotFitted> {
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let excess = (largest(on_way) - largest(at_target)).exp();
    match excess > MOST_LOST {
        true => Err(NotFitted::Lost { excess }),
        false => Ok(()),
    }
}

/// Returns the state that the base covers least, of some stages of each of the last two passes. In a mode that lost its
/// chains early, it has a low density at the target until it is moved there.
fn least_covered(
    base: &impl UnnormalizedModel<State = DVector<f64>>,
    passes: &[PassStates<DVector<f64>>],
) -> Vec<DVector<f64>> {
    let of_stage = |states: &Known<DVector<f64>>| {
        let ratios = log_ratios(base, states).into_iter().zip(states);
        let least = ratios.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(least.1.0.clone())
    };
    let of_pass = |pass: &PassStates<DVector<f64>>| {
        let stride = pass.trail.len().div_ceil(STAGES).max(1);
        let stages = pass.trail.iter().rev().step_by(stride);
        Vec::from_iter(stages.filter_map(of_stage))
    };
    last_pair(passes).iter().flat_map(of_pass).collect()
}

/// Returns the last two passes, which have the most chains.
fn last_pair<S>(passes: &[PassStates<S>]) -> &[PassStates<S>] {
    &passes[passes.len().saturating_sub(2)..]
}

fn check_tails(at_target: &[f64]) -> Result<(), NotFitted> {
    let heavy = pareto_shape(at_target).filter(|&k_hat| k_hat > HEAVIEST_TAIL);
    heavy.map_or(Ok(()), |k_hat| Err(NotFitted::Tails { k_hat }))
}

/// Refuses a base whose draws give a lower log Z than the last pair of passes, or in the third pair, than the last two that are
/// not swayed. A swayed pass does not count beside another. The error of the two is the larger of two: the one that their
/// stages explain, and the one that their difference explains.
fn check_log_z(
    draws: &WeightedDraws,
    passes: &[PassStates<DVector<f64>>],
    own_log_z: f64,
) -> Result<(), NotFitted> {
    let all = Vec::from_iter(passes);
    let steady = Vec::from_iter(passes.iter().filter(|pass| !pass.is_swayed));
    let of_third = steady.last_chunk().filter(|_| all.len() == MOST_PASSES);
    let Some([one, other]) = of_third.or(all.last_chunk()) else {
        return Ok(());
    };
    let ((log_ratio, of_one), (before, of_other)) = (other.log_ratio, one.log_ratio);
    let (first, of_stages) = match (one.is_swayed, other.is_swayed) {
        (true, false) => other.log_ratio,
        (false, true) => one.log_ratio,
        _ => (
            log_mean_exp(&[before, log_ratio]),
            of_one.hypot(of_other) / 2.0,
        ),
    };
    let first = first + own_log_z;
    let error = of_stages.max((log_ratio - before).abs() / 2.0);
    let log_z = draws.log_z();
    match log_z < first - LOG_Z_ERRORS * error.hypot(draws.error()) {
        true => Err(NotFitted::Lower { log_z, first }),
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

    type Vector = DVector<f64>;

    /// Returns a pulse that counts nothing.
    fn still() -> Pulse<'static> {
        Pulse::new(0..1, None, &|_, _| Ok(()))
    }

    fn at(dimension: usize, mean: f64, deviation: f64) -> Gaussian {
        Gaussian::isotropic(DVector::from_element(dimension, mean), deviation).unwrap()
    }

    fn known(target: &GaussianMixture, states: Vec<Vector>) -> Known<Vector> {
        let values = Vec::from_iter(states.iter().map(|state| target.log_density(state)));
        states.into_iter().zip(values).collect()
    }

    /// Returns a pass whose chains arrived at `states`, with the log densities of `target`.
    fn pass(
        target: &GaussianMixture,
        states: Vec<Vector>,
        trail: Vec<Vector>,
    ) -> PassStates<Vector> {
        PassStates {
            arrived: known(target, states),
            trail: vec![known(target, trail)],
            log_ratio: (target.log_normalizer(), 0.3),
            is_swayed: false,
        }
    }

    fn draws(law: &Gaussian, count: usize, rng: &mut StreamRng) -> Vec<Vector> {
        (0..count).map(|_| law.sample(rng)).collect()
    }

    /// Returns the reason against a base for a target of two modes, if there is one. All states of the first pass lie in
    /// the first mode. `second` states of the second pass lie in the other, and `on_way` states on the way of the first
    /// lie at a `distance` from it; moves at the target take these to its mean if they `settle`.
    fn reason(second: usize, (on_way, distance): (usize, f64), settle: bool) -> Option<NotFitted> {
        let (wide, narrow) = (at(3, -3.0, 1.0), at(3, 3.0, 0.3));
        let parts = [(0.5, wide.clone()), (0.5, narrow.clone())];
        let target = GaussianMixture::new(parts).unwrap();
        let base = Gaussian::isotropic(Vector::zeros(3), 10.0).unwrap();
        let shifted = base.log_normalizer();
        let path = GeometricPath::new(base, target.clone());
        let mut rng = stream(1, Purpose::TESTING, 0);
        let trail = draws(&at(3, 3.0 + distance, 0.3), on_way, &mut rng);
        let one = pass(&target, draws(&wide, 64, &mut rng), trail);
        let mut states = draws(&wide, 64 - second, &mut rng);
        states.extend(draws(&narrow, second, &mut rng));
        let mut passes = [one, pass(&target, states, Vec::new())];
        for pass in &mut passes {
            pass.log_ratio.0 = -0.7 - shifted;
        }
        let mean = Vector::from_element(3, 3.0);
        let mut moved = |states: Vec<Vector>| {
            let moved = states.into_iter().map(|state| match settle {
                true => mean.clone(),
                false => state,
            });
            Ok(known(&target, moved.collect()))
        };
        let fitted = fit(&&path, &passes, &mut moved, &mut rng, &still()).unwrap();
        fitted.found.err().map(|refused| refused.reason)
    }

    #[test]
    fn a_mode_is_seen_by_the_other_pass_or_on_the_way() {
        let is_lost = |reason| matches!(reason, Some(NotFitted::Lost { .. }));
        assert_eq!(reason(0, (0, 0.0), false), None);
        let uncovered = reason(20, (0, 0.0), false);
        assert!(matches!(uncovered, Some(NotFitted::Uncovered { .. })));
        assert!(is_lost(reason(0, (1, 0.0), false)));
        // States that left the mode early look harmless until they are moved at the target.
        assert_eq!(reason(0, (5, 2.0), false), None);
        assert!(is_lost(reason(0, (5, 2.0), true)));
    }

    /// A pass whose own chains shape its proposals has too high a log Z, and so does not vouch for the other one's.
    #[test]
    fn log_z_is_compared_with_passes_that_are_not_swayed() {
        let law = at(2, 0.0, 1.0);
        let target = GaussianMixture::new([(1.0, law.clone())]).unwrap();
        let mut rng = stream(3, Purpose::TESTING, 0);
        let states = draws(&law, DRAWS, &mut rng);
        let values = Vec::from_iter(states.iter().map(|state| target.log_density(state)));
        let draws = WeightedDraws::weighed(states, values, &law);
        let compared = |log_ratios: &[(f64, bool)]| {
            let passes = log_ratios.iter().map(|&(log_ratio, is_swayed)| PassStates {
                log_ratio: (log_ratio, 0.2),
                is_swayed,
                ..pass(&target, Vec::new(), Vec::new())
            });
            let passes = Vec::from_iter(passes);
            check_log_z(&draws, &passes, draws.log_z())
        };
        let third = |pair: [(f64, bool); 2]| {
            let earlier = [(-9.0, false), (-7.0, false), (-8.0, false), (-2.0, false)];
            compared(&[earlier.as_slice(), &pair].concat())
        };
        assert_eq!(third([(4.0, true), (2.9, false)]), Ok(()));
        assert!(third([(3.1, false), (2.9, false)]).is_err());
        assert!(third([(4.0, true), (-1.5, false)]).is_ok());
        // In earlier pairs the last two passes alone count, and of these the one that is not swayed.
        let second = |pair: [(f64, bool); 2]| compared(&[[(-8.0, false); 2], pair].concat());
        assert!(second([(4.0, true), (2.9, false)]).is_err());
        assert!(second([(0.5, true), (0.1, false)]).is_ok());
        assert!(compared(&[(3.1, true), (2.9, true)]).is_err());
    }

    /// Exact states of Gaussians: a hundred pairs of passes.
    #[test]
    fn gaussians_are_fitted() {
        let mut rng = stream(2, Purpose::TESTING, 0);
        let mut refused = Vec::new();
        for dimension in [1, 2, 5, 10, 30] {
            let law = at(dimension, 1.0, 0.2);
            let target = GaussianMixture::new([(1.0, law.clone())]).unwrap();
            let base = Gaussian::standard(dimension).unwrap();
            let path = GeometricPath::new(base.clone(), target.clone());
            for _ in 0..20 {
                let mut one = || {
                    let states = draws(&law, 64, &mut rng);
                    let mut pass = pass(&target, states, Vec::new());
                    pass.log_ratio.0 -= base.log_normalizer();
                    pass
                };
                let passes = [one(), one()];
                let mut stay = |states| Ok(known(&target, states));
                let fitted = fit(&&path, &passes, &mut stay, &mut rng, &still()).unwrap();
                refused.extend(fitted.found.err());
            }
        }
        assert!(refused.len() <= 2, "{refused:?}");
    }

    /// Exact states of a Gaussian in 30 dimensions, and fits to some of them whose draws count for few of the target.
    #[test]
    fn more_draws_decide_where_no_passes_follow() {
        let law = at(30, 0.0, 1.0);
        let base = Gaussian::isotropic(DVector::zeros(30), 2.0).unwrap();
        let path = GeometricPath::new(base, law.clone());
        let pulse = still();
        let target = CountedTarget::new(path.at(1.0), &pulse);
        let mut rng = stream(4, Purpose::TESTING, 0);
        let mut refused = [0, 0];
        for run in 0..60 {
            let mut pass = |count| {
                let states = draws(&law, count, &mut rng);
                let values = Vec::from_iter(states.iter().map(|state| law.log_density(state)));
                states.into_iter().zip(values).collect()
            };
            let passes = [2, 6][run % 2];
            let mut fits = PassFits {
                arrived: (0..passes).map(|_| pass(512)).collect(),
                fits: Vec::new(),
            };
            let few: Known<Vector> = pass(36);
            for index in 0..2 {
                let states = Vec::from_iter(few.iter().map(|(state, _)| state.clone()));
                let fit = adapted(&&path, &states, &target, &mut rng).unwrap();
                fits.fits.push((index, fit.unwrap()));
            }
            let covered = check_each_covered(&&path, &fits, &target, &mut rng);
            refused[run % 2] += usize::from(covered.is_err());
        }
        assert!(refused[0] >= 5 && refused[1] <= 1, "{refused:?}");
    }
}
