//! Adaptive multiple importance sampling along a path: a mixture is fitted to weighted draws of all mixtures before it.

use nalgebra::DVector;

use super::super::base_search::MixtureBase;
use super::mixture::{Laws, joined, with_own};
use super::modes::{ModeSearch, WithModes};
use super::pool::{Pool, Weighted};
use super::target::CountedTarget;
use crate::model::{NormalizedModel, Sampleable, StudentT};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::work::Halt;

/// Share of the path's own base in a fitted one: it bounds the log weights where no draw of a search fell.
const OWN_SHARE: f64 = 0.04;
/// Share of the path's own base in the mixtures on the way. Draws from it find modes that the fits before have missed.
const EXPLORING: f64 = 0.2;
/// Exponent of the shares of a mixture in draws on the way: small modes have more draws than mass, since a narrow one grows.
const EVENNESS: f64 = 0.5;
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
/// Number of steps without progress in beta after which modes that a fit does not have no longer hold it.
const MOST_WAITS: usize = 12;
/// Largest number of steps at the target, and of all.
const AT_TARGET: usize = 12;
pub(super) const MOST_STEPS: usize = 60;
/// Number of steps for which progress is forecast at first.
pub(super) const LIKELY_STEPS: usize = 8;

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
    /// Centres of the distributions that the last searches found.
    pub(super) leads: &'e [DVector<f64>],
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

/// Returns a mixture with shares that differ less, as a part of one.
fn evened(laws: &Laws, share: f64) -> Laws {
    let even = laws
        .iter()
        .map(|(own, law)| (own.powf(EVENNESS), law.clone()));
    let even = Laws::from_iter(even);
    let sum: f64 = even.iter().map(|(own, _)| own).sum();
    joined([(share / sum, &even)])
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
    let of_leads = target.log_densities(plan.leads)?;
    let (mut laws, mut fit, mut broad) = (Laws::new(), WithModes::empty(), Laws::new());
    let mut waits = 0;
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
        let few = (plan.dimension + 1) as f64;
        let least = (LEFT * pool.alive(count) as f64).max(few);
        let of_modes = match waits < MOST_WAITS {
            true => fit.shares_of_modes(&pool.states),
            false => Vec::new(),
        };
        let before = beta;
        beta = pool.next(beta, least, (&of_modes, few));
        waits += usize::from(beta == before);
        if beta == 0.0 {
            // Too few draws lie on the target's support.
            continue;
        }
        let Some(found) = pool.fitted(beta, &fit.laws, rng) else {
            break;
        };
        let modes = ModeSearch {
            path,
            target,
            beta,
            leads: plan.leads,
            of_leads: &of_leads,
        };
        fit = modes.beside(&found, &fit, &pool)?;
        laws = if beta < 1.0 {
            broad = fit.laws.clone();
            evened(&fit.laws, 1.0 - EXPLORING)
        } else if broad.is_empty() {
            joined([(1.0 - OWN_SHARE, &fit.laws)])
        } else {
            let share = 1.0 - OWN_SHARE - BROAD_SHARE;
            joined([(share, &fit.laws), (BROAD_SHARE, &broad)])
        };
    }
    Ok(None)
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
                leads: &[],
            };
            let found = search(&&path, plan, &counted, &mut rng).unwrap().unwrap();
            let error = found.draws.log_z() - target.log_normalizer();
            assert!(error.abs() < 4.0 * found.draws.error(), "{error}");
            assert!(found.draws.share() >= ENOUGH && found.laws.len() <= 3);
            // Outlying draws are tested, and count.
            let (spent, drawn) = (counted.spent() as f64, found.all.states.len() as f64);
            assert!(spent >= drawn && spent < 1.2 * drawn, "{spent}, {drawn}");
            let short = SearchPlan { most: 300, ..plan };
            assert!(search(&&path, short, &counted, &mut rng).unwrap().is_none());
        }
    }
}
