//! Fitted bases: a distribution is fitted to the states of two first passes, and rounds start from it.

mod base;

pub use base::{NoRefit, Refit};

use std::sync::Arc;

use nalgebra::DVector;

use super::base_search::{MixtureAt, MixtureBase, from_base};
use super::first_pass_task::Arrived;
use super::round::{Ended, Layout, RoundJob, Start};
use crate::estimate::pareto_shape;
use crate::kernel::{Rest, TransitionKernel};
use crate::model::{
    Fit, Gaussian, GaussianMixture, NormalizedModel, Sampleable, StudentT, UnnormalizedModel,
    log_densities_of,
};
use crate::num::{WeightSums, log_mean_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;
use crate::schedule::Schedule;
use crate::{Error, Result};

/// A type that fits bases, and runs rounds from them. The trait does not require vectors as states.
pub(super) trait Refits<S, K>: Send + Sync {
    /// Returns the function that returns a state's coordinates.
    fn coordinates(&self) -> fn(&S) -> &[f64];

    /// Fits a base to the states of two first passes, or returns the reason against it.
    fn fit(&self, halves: &[Arrived<S, K>; 2], log_z: f64, rng: &mut StreamRng) -> Result<Fitted>;

    /// Runs a round from a fitted base. Without a schedule its chains are draws that do not move.
    fn round(
        &self,
        refit: &Refit,
        start: (Option<Start<K>>, u64),
        layout: &Layout<S>,
        job: &mut RoundJob<'_, S>,
    ) -> Result<Ended<S>>;
}

/// A fitted base with the effective share of its draws, or the reason why there is none; and the evaluations spent.
pub(super) struct Fitted {
    pub(super) found: std::result::Result<(Refit, f64), NoRefit>,
    pub(super) evaluations: u64,
}

pub(super) type Refitting<'p, S, K> = Arc<dyn Refits<S, K> + 'p>;

/// Returns a [`Refits`] that fits bases for the target of `path`.
pub(super) fn refitting<'p, P, K>(path: P) -> Refitting<'p, DVector<f64>, K>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync + 'p,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, StudentT>> + Send + Sync,
{
    Arc::new(RefitOfPath(path))
}

/// Share of the path's own base in a fitted one: it bounds the log weights where no chain of a first pass arrived.
const OWN_SHARE: f64 = 0.04;
/// Degrees of freedom of the fitted distributions. Five leave a variance to the weights of a target with tails like
/// those of a Student t of 2.5 degrees or more.
const DEGREES: f64 = 5.0;
/// Factor of the fitted scale matrices: deviations are 5% wider, since a base that is too narrow costs more draws than
/// one that is too wide.
const WIDENING: f64 = 1.05 * 1.05;
/// Number of draws of the base by which it is checked. They also show how many draws a round needs.
const DRAWS: usize = 256;
/// Effective number of these draws below which no base is used.
const FEWEST_EFFECTIVE: f64 = 8.0;
/// Log of the factor by which the mean of `p / (Z q)` over states may exceed its value under the target.
const MOST_EXCESS: f64 = std::f64::consts::LN_2;
/// Number of errors by which the mean of `log(p / (Z q))` over states may exceed its value under the target, and by which
/// log Z may lie below the first passes' own.
const MOST_ERRORS: [f64; 2] = [4.0, 3.0];
/// Largest Pareto shape k' of target-to-base ratios among target states. Among samples of the base the shape is k' / (1
/// + k'): a variance needs k' < 1, so .6 leaves moments up to the order 2.7, and a margin for noise.
const HEAVIEST_TAIL: f64 = 0.9;
/// Largest number of steps that fit the base again, to the states and to weighted draws of the base before.
const MOST_STEPS: usize = 8;
/// Least effective share of the draws to which a base is fitted again, and the number of powers of their weights that are
/// tried for it.
const LEAST_TEMPERED: f64 = 0.25;
const MOST_POWERS: usize = 30;
/// Effective share of the draws at which these steps end.
const ENOUGH: f64 = 0.4;
/// Least factor by which a step raises the effective share, unless the share is below a tenth.
const LEAST_GAIN: f64 = 1.2;

/// Fits bases for the target of a path.
struct RefitOfPath<P>(P);

impl<P, K> Refits<DVector<f64>, K> for RefitOfPath<P>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, StudentT>> + Send + Sync,
{
    fn coordinates(&self) -> fn(&DVector<f64>) -> &[f64] {
        |state| state.as_slice()
    }

    fn fit(
        &self,
        halves: &[Arrived<DVector<f64>, K>; 2],
        log_z: f64,
        rng: &mut StreamRng,
    ) -> Result<Fitted> {
        let states = halves.each_ref().map(|half| half.states.as_slice());
        let log_zs = halves.each_ref().map(|half| half.found.log_z - log_z);
        // Each stage halves the effective sample size, so its weights have the relative variance 1.
        let errors = halves
            .each_ref()
            .map(|half| (half.found.schedule.stages() as f64 / half.states.len() as f64).sqrt());
        fit(&self.0, states, (log_zs, errors), rng)
    }

    fn round(
        &self,
        refit: &Refit,
        (start, seed): (Option<Start<K>>, u64),
        layout: &Layout<DVector<f64>>,
        job: &mut RoundJob<'_, DVector<f64>>,
    ) -> Result<Ended<DVector<f64>>> {
        let log_z = self.0.base().log_normalizer();
        let base = MixtureBase::with_log_z(self.0.clone(), log_z, refit.laws().to_vec());
        let path = from_base(&self.0, base);
        // The new base is normalised.
        let layout = Layout {
            log_base_normalizer: layout.log_base_normalizer - log_z,
            ..*layout
        };
        // A codec is made for the path's own models, so an unfinished block of this round begins anew.
        match start {
            Some(start) => layout.run(path, start, None, job),
            None => layout.run(path, (Rest, Schedule::linear(1)?, seed), None, job),
        }
    }
}

/// Student t distributions with their shares in a mixture.
type Laws = Vec<(f64, StudentT)>;

/// Returns the mixture of Student t distributions fitted to weighted states.
fn laws(states: &[DVector<f64>], weights: &[f64]) -> Option<Laws> {
    let mixture = GaussianMixture::fit(states, weights).ok()?;
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
        laws.iter()
            .map(move |(own, law)| (share * own, law.clone()))
    });
    scaled.collect()
}

/// Draws of a fitted base, with the target's log densities and the log weights.
struct Draws {
    states: Vec<DVector<f64>>,
    log_densities: Vec<f64>,
    log_weights: Vec<f64>,
    weights: WeightSums,
}

impl Draws {
    /// Weighs states, whose log densities under the target are given, by a base.
    fn weighed(
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

    fn log_z(&self) -> f64 {
        log_mean_exp(&self.log_weights)
    }

    /// Returns the effective number of draws, divided by their number.
    fn share(&self) -> f64 {
        self.weights.effective_sample_size() / self.states.len() as f64
    }

    /// Returns weights whose sum is their effective number: those of the target, or a power of them that leaves enough
    /// effective draws.
    fn tempered(&self) -> Vec<f64> {
        let powers = std::iter::successors(Some(1.0), |power| Some(0.8 * power));
        let tempered = powers.take(MOST_POWERS).map(|power| {
            let log_weights = Vec::from_iter(self.log_weights.iter().map(|w| power * w));
            (WeightSums::of(&log_weights), log_weights)
        });
        let least = LEAST_TEMPERED * self.states.len() as f64;
        let mut last = Vec::new();
        for (weights, log_weights) in tempered {
            let effective = weights.effective_sample_size();
            let shares = log_weights.iter().map(|&w| effective * weights.share(w));
            last = shares.collect();
            if effective >= least {
                break;
            }
        }
        last
    }
}

/// A base fitted to the states of one first pass, and improved by draws.
struct Adapted<P> {
    laws: Laws,
    base: MixtureBase<P, StudentT>,
    draws: Draws,
    evaluations: u64,
}

/// Fits a mixture of distributions to states. While hardly any of its draws are worth something under the target, fits it
/// again to draws, whose weights have a power that rises to 1.
fn adapted<P>(path: &P, states: &[DVector<f64>], rng: &mut StreamRng) -> Result<Option<Adapted<P>>>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let own_log_z = path.base().log_normalizer();
    let rest = 1.0 - OWN_SHARE;
    let Some(first) = laws(states, &vec![1.0; states.len()]) else {
        return Ok(None);
    };
    let mut laws_now = joined([(rest, &first)]);
    let mut best: Option<Adapted<P>> = None;
    let mut evaluations = 0;
    for _ in 0..MOST_STEPS {
        let base = MixtureBase::with_log_z(path.clone(), own_log_z, laws_now.clone());
        let drawn = Vec::from_iter((0..DRAWS).map(|_| base.sample(rng)));
        let log_densities = checked(log_densities_of(&path.at(1.0), &drawn))?;
        evaluations += DRAWS as u64;
        let draws = Draws::weighed(drawn, log_densities, &base);
        let (share, worth) = (draws.share(), draws.tempered());
        let refitted = laws(&draws.states, &worth);
        let before = best.as_ref().map_or(0.0, |best| best.draws.share());
        let gains = share > LEAST_GAIN * before || share < 0.1;
        if share > before {
            best = Some(Adapted {
                laws: laws_now.clone(),
                base,
                draws,
                evaluations,
            });
        }
        let (true, Some(refitted)) = (share < ENOUGH && gains, refitted) else {
            break;
        };
        laws_now = joined([(0.85 * rest, &refitted), (0.15 * rest, &first)]);
    }
    Ok(best.map(|best| Adapted {
        evaluations,
        ..best
    }))
}

/// Fits a base to the states of two halves, and checks it: each half's own fit by the states of the other, its log Z by
/// those of the first passes (relative to the path's base, with errors), its tail by all states.
fn fit<P>(
    path: &P,
    halves: [&[DVector<f64>]; 2],
    (log_zs, errors): ([f64; 2], [f64; 2]),
    rng: &mut StreamRng,
) -> Result<Fitted>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let none = |reason, evaluations| {
        Ok(Fitted {
            found: Err(reason),
            evaluations,
        })
    };
    let (one, other) = (
        adapted(path, halves[0], rng)?,
        adapted(path, halves[1], rng)?,
    );
    let (Some(one), Some(other)) = (one, other) else {
        return none(NoRefit::FewStates, 0);
    };
    let mut evaluations = one.evaluations + other.evaluations;
    let trace = std::env::var("TRACE").is_ok();
    if trace {
        eprintln!(
            "shares {:.2} {:.2} log Z {:.2} {:.2} passes {log_zs:?} evals {evaluations} parts {} {}",
            one.draws.share(),
            other.draws.share(),
            one.draws.log_z(),
            other.draws.log_z(),
            one.laws.len(),
            other.laws.len()
        );
    }
    for half in [&one, &other] {
        let effective = half.draws.weights.effective_sample_size();
        if !(effective >= FEWEST_EFFECTIVE) {
            return none(NoRefit::FewDraws { effective }, evaluations);
        }
    }
    let both = joined([(0.5, &one.laws), (0.5, &other.laws)]);
    let own_log_z = path.base().log_normalizer();
    let base = MixtureBase::with_log_z(path.clone(), own_log_z, both.clone());
    let mut ratios = Vec::new();
    for (states, half) in [(halves[1], &one), (halves[0], &other)] {
        let at_states = checked(log_densities_of(&path.at(1.0), states))?;
        evaluations += states.len() as u64;
        let draws = &half.draws;
        let log_z = draws.log_z();
        let ratio = |(x, f): (&DVector<f64>, &f64)| f - log_z - half.base.log_density(x);
        let of_states = Vec::from_iter(states.iter().zip(&at_states).map(ratio));
        let of_draws = Vec::from_iter(draws.states.iter().zip(&draws.log_densities).map(ratio));
        let under_target = log_of_mean(&of_draws, &draws.log_weights, &draws.weights);
        let excess = log_mean_exp(&of_states) - under_target;
        let (mean, error) = moments(&of_states, &vec![0.0; states.len()]);
        let (expected, its) = moments(&of_draws, &draws.log_weights);
        if trace {
            eprintln!(
                "  excess {excess:.2} mean {mean:.2} +- {error:.2} expected {expected:.2} +- {its:.2}"
            );
        }
        let doubt = 3.0 * relative_error(&of_states).min(1.0);
        if excess > MOST_EXCESS + doubt || mean > expected + MOST_ERRORS[0] * error.hypot(its) {
            let excess = excess.exp();
            return none(NoRefit::Uncovered { excess }, evaluations);
        }
        let pairs = states.iter().zip(&at_states);
        ratios.extend(pairs.map(|(x, f)| f - base.log_density(x)));
    }
    if let Some(k_hat) = pareto_shape(&ratios).filter(|&k_hat| k_hat > HEAVIEST_TAIL) {
        return none(NoRefit::Tails { k_hat }, evaluations);
    }
    let [one, other] = [one, other].map(|half| half.draws);
    let states = [one.states, other.states].concat();
    let draws = Draws::weighed(
        states,
        [one.log_densities, other.log_densities].concat(),
        &base,
    );
    let (log_z, share) = (draws.log_z(), draws.share());
    let spread = 0.5 * (log_zs[0] - log_zs[1]).abs();
    let error = spread.max(0.5 * errors[0].hypot(errors[1]));
    let own = ((1.0 / share - 1.0) / draws.states.len() as f64).sqrt();
    // The mixture's log Z is 0; that of the first passes is relative to the path's base, whose log Z is `own_log_z`.
    let first = log_mean_exp(&log_zs) + own_log_z;
    if log_z < first - MOST_ERRORS[1] * error.hypot(own) {
        return none(NoRefit::Lower { log_z, first }, evaluations);
    }
    let own_share = 1.0 - both.iter().map(|(share, _)| share).sum::<f64>();
    Ok(Fitted {
        found: Ok((Refit::new(both, own_share)?, share)),
        evaluations,
    })
}

/// Refuses log densities that are NaN or `+inf`.
fn checked(log_densities: Vec<f64>) -> Result<Vec<f64>> {
    let wrong = log_densities.iter().find(|x| !(**x < f64::INFINITY));
    match wrong {
        Some(wrong) => Err(Error::invalid(
            "target",
            wrong,
            "a log density below infinity",
        )),
        None => Ok(log_densities),
    }
}

/// Returns the log of the weighted mean of `exp(log_values)`.
fn log_of_mean(log_values: &[f64], log_weights: &[f64], weights: &WeightSums) -> f64 {
    let terms = log_values.iter().zip(log_weights).map(|(x, w)| x + w);
    // A draw off the support has the weight 0, whatever its value.
    let terms = terms.map(|term| {
        if term.is_nan() {
            f64::NEG_INFINITY
        } else {
            term
        }
    });
    crate::num::log_sum_exp(&Vec::from_iter(terms)) - weights.log_sum()
}

/// Returns the standard error of the mean of `exp(log_values)`, relative to this mean.
fn relative_error(log_values: &[f64]) -> f64 {
    let effective = WeightSums::of(log_values).effective_sample_size();
    (1.0 / effective - 1.0 / log_values.len() as f64)
        .max(0.0)
        .sqrt()
}

/// Returns the weighted mean of values with its standard error, by the effective number of values.
fn moments(values: &[f64], log_weights: &[f64]) -> (f64, f64) {
    let weights = WeightSums::of(log_weights);
    let shares = log_weights.iter().map(|&w| weights.share(w));
    let pairs = || {
        values
            .iter()
            .zip(shares.clone())
            .filter(|(_, share)| *share > 0.0)
    };
    let mean: f64 = pairs().map(|(x, share)| share * x).sum();
    let variance: f64 = pairs().map(|(x, share)| share * (x - mean).powi(2)).sum();
    (mean, (variance / weights.effective_sample_size()).sqrt())
}
