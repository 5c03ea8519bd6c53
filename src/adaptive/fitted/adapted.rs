//! Mixtures of Student t distributions, fitted to states and then to weighted draws of their own.

use std::cell::Cell;

use nalgebra::DVector;

use super::super::base_search::MixtureBase;
use crate::kernel::NonFinite;
use crate::model::{
    Fit, Gaussian, GaussianMixture, NormalizedModel, Sampleable, StudentT, UnnormalizedModel,
    log_densities_of,
};
use crate::num::{WeightSums, log_mean_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::work::{Halt, Pulse, Stepped, join};

/// Share of the path's own base in a fitted one: it bounds the log weights where no chain of a first pass arrived.
const OWN_SHARE: f64 = 0.04;
/// Degrees of freedom of the fitted distributions. Five leave a variance to the weights of a target with tails like
/// those of a Student t of 2.5 degrees or more.
const DEGREES: f64 = 5.0;
/// Factor of the fitted scale matrices: deviations are 5% wider, since a base that is too narrow costs more draws than
/// one that is too wide.
const WIDENING: f64 = 1.05 * 1.05;
/// Number of draws of a base by which it is checked. They also show how many draws a round needs.
pub(super) const DRAWS: usize = 256;
/// Largest number of steps that fit the base again, to the states and to weighted draws of the base before.
pub(super) const MOST_STEPS: usize = 8;
/// Share of the distribution fitted to states in the mixtures that are fitted to draws.
const FIRST_SHARE: f64 = 0.15;
/// Least effective share of the draws to which a base is fitted again.
const LEAST_TEMPERED: f64 = 0.25;
/// Number of powers of the draws' weights that are tried for this share, and the factor from one power to the next.
const POWERS: (usize, f64) = (30, 0.8);
/// Effective share of the draws at which the steps end.
const ENOUGH: f64 = 0.4;
/// Least factor by which a step must raise the effective share, unless the share is below a tenth.
const LEAST_GAIN: f64 = 1.2;
/// Number of steps of expectation maximisation that move several parts to weighted draws.
const EM_STEPS: usize = 10;
/// Largest number of states that a thread evaluates together, if the target does not evaluate batches.
pub(in crate::adaptive) const TOGETHER: usize = 16;

/// The target, with the number of its evaluations. They count as chain-steps.
pub(super) struct CountedTarget<'a, M> {
    model: M,
    pulse: &'a Pulse<'a>,
    pub(super) spent: Cell<u64>,
}

impl<'a, M: UnnormalizedModel<State = DVector<f64>> + Sync> CountedTarget<'a, M> {
    pub(super) fn new(model: M, pulse: &'a Pulse<'a>) -> Self {
        let spent = Cell::new(0);
        Self {
            model,
            pulse,
            spent,
        }
    }

    /// Returns the log densities of states. Refuses NaN and `+inf`.
    pub(super) fn log_densities(&self, states: &[DVector<f64>]) -> Result<Vec<f64>, Halt> {
        let mut values = vec![0.0; states.len()];
        for (states, values) in states.chunks(DRAWS).zip(values.chunks_mut(DRAWS)) {
            evaluate(&self.model, states, values);
            self.spent.set(self.spent.get() + states.len() as u64);
            self.pulse.pass(Stepped::of(states.len(), false))?;
        }
        for (chain, &value) in values.iter().enumerate() {
            let checked = NonFinite::check_log_density("log density of the target", value);
            checked
                .map_err(|fault| fault.of_model(&self.model, (chain, 0, 1.0), 0..values.len()))?;
        }
        Ok(values)
    }
}

fn evaluate<M>(model: &M, states: &[DVector<f64>], values: &mut [f64])
where
    M: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    if states.len() <= TOGETHER || model.evaluates_batches() {
        return values.copy_from_slice(&log_densities_of(model, states));
    }
    let (left, right) = states.split_at(states.len() / 2);
    let (of_left, of_right) = values.split_at_mut(left.len());
    join(&mut || evaluate(model, left, of_left), &mut || {
        evaluate(model, right, of_right)
    });
}

/// Student t distributions with their shares in a mixture.
type Laws = Vec<(f64, StudentT)>;

/// Returns the mixture of Student t distributions with the means and covariances of Gaussians, except for the widening.
fn laws(mixture: &GaussianMixture) -> Option<Laws> {
    // The scale matrix of a Student t is smaller than its covariance.
    let scale = WIDENING * (DEGREES - 2.0) / DEGREES;
    let law = |(share, part): (f64, &Gaussian)| {
        let part = part.scaled(scale).ok()?;
        Some((share, StudentT::exact(part, DEGREES).ok()?))
    };
    mixture.components().map(law).collect()
}

/// Returns mixtures as one mixture, each with its share.
fn joined<'l>(mixtures: impl IntoIterator<Item = (f64, &'l Laws)>) -> Laws {
    let scaled = mixtures.into_iter().flat_map(|(share, laws)| {
        let own = laws.iter();
        own.map(move |(own, law)| (share * own, law.clone()))
    });
    scaled.collect()
}

/// Returns the mixture of `laws` and the path's own base.
fn mixed<P>(path: &P, laws: Laws) -> MixtureBase<P, StudentT>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    MixtureBase::with_log_z(path.clone(), path.base().log_normalizer(), laws)
}

/// Draws of a fitted base, with the target's log densities and the log weights.
pub(super) struct WeightedDraws {
    pub(super) states: Vec<DVector<f64>>,
    pub(super) log_densities: Vec<f64>,
    pub(super) log_weights: Vec<f64>,
    pub(super) weights: WeightSums,
}

impl WeightedDraws {
    /// Weighs states, whose log densities under the target are given, by a base.
    pub(super) fn weighed(
        states: Vec<DVector<f64>>,
        log_densities: Vec<f64>,
        base: &impl UnnormalizedModel<State = DVector<f64>>,
    ) -> Self {
        let pairs = states.iter().zip(&log_densities);
        let log_weights = Vec::from_iter(pairs.map(|(x, f)| f - base.log_density(x)));
        let weights = WeightSums::of(&log_weights);
        Self {
            states,
            log_densities,
            log_weights,
            weights,
        }
    }

    pub(super) fn log_z(&self) -> f64 {
        log_mean_exp(&self.log_weights)
    }

    /// Returns the effective number of draws; 0 if none lies on the target's support.
    pub(super) fn effective(&self) -> f64 {
        self.weights.effective_sample_size().max(0.0)
    }

    /// Returns the standard error of log Z.
    pub(super) fn error(&self) -> f64 {
        relative_error(&self.weights, self.states.len())
    }

    /// Returns the effective number of draws, divided by their number.
    pub(super) fn share(&self) -> f64 {
        self.effective() / self.states.len() as f64
    }

    /// Fits a mixture to the weighted draws. A single Gaussian may become several; several are only moved, because a search
    /// for their number takes seconds.
    fn refitted(&self, fit: &GaussianMixture) -> Option<GaussianMixture> {
        let worth = self.tempered();
        let moved = |fit: GaussianMixture, _| fit.refit(&self.states, &worth);
        match fit.components().len() {
            1 => GaussianMixture::fit(&self.states, &worth).ok(),
            _ => (0..EM_STEPS).try_fold(fit.clone(), moved).ok(),
        }
    }

    /// Returns weights whose sum is their effective number: those of the target, or a power of them that leaves enough
    /// effective draws.
    fn tempered(&self) -> Vec<f64> {
        let least = LEAST_TEMPERED * self.states.len() as f64;
        let mut worth = Vec::new();
        let powers = std::iter::successors(Some(1.0), |power| Some(POWERS.1 * power));
        for power in powers.take(POWERS.0) {
            let log_weights = Vec::from_iter(self.log_weights.iter().map(|w| power * w));
            let weights = WeightSums::of(&log_weights);
            let effective = weights.effective_sample_size();
            let shares = log_weights.iter().map(|&w| effective * weights.share(w));
            worth = shares.collect();
            if effective >= least {
                break;
            }
        }
        worth
    }
}

/// Returns the standard error of the mean of `count` weights, relative to this mean.
pub(super) fn relative_error(weights: &WeightSums, count: usize) -> f64 {
    let variance = 1.0 / weights.effective_sample_size() - 1.0 / count as f64;
    variance.max(0.0).sqrt()
}

/// A base fitted to states and improved by draws, or a mixture of such bases.
pub(super) struct Adapted<P> {
    pub(super) laws: Vec<(f64, StudentT)>,
    pub(super) base: MixtureBase<P, StudentT>,
    pub(super) draws: WeightedDraws,
}

impl<P> Adapted<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    /// Mixes fits in equal shares. All have the same number of draws, which together are draws of the mixture.
    pub(super) fn mixed<'f>(path: &P, fits: impl IntoIterator<Item = &'f Self>) -> Self
    where
        P: 'f,
    {
        let fits = Vec::from_iter(fits);
        let share = 1.0 / fits.len() as f64;
        let laws = joined(fits.iter().map(|fit| (share, &fit.laws)));
        let base = mixed(path, laws.clone());
        let states = fits.iter().flat_map(|fit| fit.draws.states.iter().cloned());
        let log_densities = fits.iter().flat_map(|fit| fit.draws.log_densities.clone());
        let draws = WeightedDraws::weighed(states.collect(), log_densities.collect(), &base);
        Self { laws, base, draws }
    }
}

/// Fits a mixture of distributions to states. While its draws hardly count as draws of the target, fits it again to
/// draws, whose weights have a power that rises to 1 (population Monte Carlo, Cappe, Guillin, Marin and Robert 2004).
/// Returns `None` if the states are too few.
pub(super) fn adapted<P>(
    path: &P,
    states: &[DVector<f64>],
    target: &CountedTarget<'_, P::At>,
    rng: &mut StreamRng,
) -> Result<Option<Adapted<P>>, Halt>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let fit = GaussianMixture::fit(states, &vec![1.0; states.len()]).ok();
    let Some((mut fit, first)) = fit.and_then(with_laws) else {
        return Ok(None);
    };
    let rest = 1.0 - OWN_SHARE;
    let mut now = drawn(path, joined([(rest, &first)]), DRAWS, target, rng)?;
    let mut best = None;
    for left in (0..MOST_STEPS).rev() {
        let before = best
            .as_ref()
            .map_or(0.0, |best: &Adapted<P>| best.draws.share());
        let share = now.draws.share();
        let gains = share > LEAST_GAIN * before || share < 0.1;
        let goes_on = left > 0 && gains && share < ENOUGH;
        let next = goes_on.then(|| now.draws.refitted(&fit)).flatten();
        if best.is_none() || share > before {
            best = Some(now);
        }
        let Some((refitted, laws)) = next.and_then(with_laws) else {
            break;
        };
        fit = refitted;
        let shares = [(1.0 - FIRST_SHARE, &laws), (FIRST_SHARE, &first)];
        let mixed = joined(shares.map(|(share, laws)| (rest * share, laws)));
        now = drawn(path, mixed, DRAWS, target, rng)?;
    }
    Ok(best)
}

fn with_laws(mixture: GaussianMixture) -> Option<(GaussianMixture, Laws)> {
    let laws = laws(&mixture)?;
    Some((mixture, laws))
}

/// Draws from the mixture of `laws` and the path's own base.
pub(super) fn drawn<P>(
    path: &P,
    laws: Laws,
    count: usize,
    target: &CountedTarget<'_, P::At>,
    rng: &mut StreamRng,
) -> Result<Adapted<P>, Halt>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
    P::At: Sync,
{
    let base = mixed(path, laws.clone());
    let states = Vec::from_iter((0..count).map(|_| base.sample(rng)));
    let log_densities = target.log_densities(&states)?;
    let draws = WeightedDraws::weighed(states, log_densities, &base);
    Ok(Adapted { laws, base, draws })
}
