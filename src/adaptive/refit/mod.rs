//! Refitted bases: between two rounds a distribution is fitted to the states, and the next round starts from it.

mod base;
mod modes;

pub use base::{NoRefit, Refit};

use std::sync::Arc;

use nalgebra::DVector;

use self::modes::modes;
use super::base_search::{MixtureAt, MixtureBase, from_base};
use super::covariance::Covariance;
use super::round::{Ended, Layout, RoundJob, Start};
use crate::Result;
use crate::ais::Run;
use crate::estimate::pareto_shape;
use crate::kernel::TransitionKernel;
use crate::model::{NormalizedModel, Sampleable, StudentT, UnnormalizedModel};
use crate::num::{WeightSums, log_add_exp};
use crate::path::AnnealingPath;
use crate::random::StreamRng;

/// A type that fits bases between rounds, and runs rounds from them. The trait does not require vectors as states.
pub(super) trait Refits<S, K>: Send + Sync {
    /// Returns the function that returns a state's coordinates.
    fn coordinates(&self) -> fn(&S) -> &[f64];

    /// Fits a base to the states of a round, or returns the reason against it. `shape` has their mean and covariance.
    fn fit(&self, run: &Run<S>, shape: &Covariance, rng: &mut StreamRng) -> Result<Fitted>;

    /// Runs a round from a refitted base.
    fn round(
        &self,
        refit: &Refit,
        start: Start<K>,
        layout: &Layout<S>,
        job: &mut RoundJob<'_, S>,
    ) -> Result<Ended<S>>;
}

/// A fitted base, or the reason why there is none.
pub(super) type Fitted = std::result::Result<Refit, NoRefit>;

pub(super) type Refitting<'p, S, K> = Arc<dyn Refits<S, K> + 'p>;

/// Returns a [`Refits`] that refits the base of `path`.
pub(super) fn refitting<'p, P, K>(path: P) -> Refitting<'p, DVector<f64>, K>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel + Sync> + Send + Sync + 'p,
    P::At: Send + Sync,
    K: TransitionKernel<MixtureAt<P, StudentT>> + Send + Sync,
{
    Arc::new(RefitOfPath(path))
}

/// Smallest effective number of states in each mode for a fit. A covariance of fewer states puts chains where earlier
/// ones were: on 16 double wells log Z is 1 nat low (`docs/notes/architecture-slices.md`).
const FEWEST_STATES: f64 = 16.0;
/// Log of the factor, 1.15, that widens the fitted deviations in up to 25 dimensions. A base that is too narrow loses
/// modes, while twice the covariance does no harm on Gaussian RBMs (`docs/notes/bases.md`).
const LOG_WIDENING: f64 = 0.14;
/// Largest share of the path's own base in a mixture. If the likeliest mixture has a larger one, the own base explains
/// more of the states' weight than the fit does, and no base is refitted.
const MOST_OWN_SHARE: f64 = 0.5;
/// Smallest share of the path's own base. If its chains end with weight 0, a run that drew none of them overestimates
/// log Z by this share, outside its error: so it is below the errors that runs reach (.004 and more).
const LEAST_OWN_SHARE: f64 = 0.001;
/// Number of updates of the own base's share by expectation maximisation. They approach the likeliest share from 1/2
/// and never pass it, so an early end only leaves the share nearer to 1/2.
const SHARE_UPDATES: usize = 30;
/// Largest Pareto shape k' of target-to-base ratios among target states. Among samples of the base the shape is k' / (1
/// + k'): a variance needs k' < 1, so .6 leaves moments up to the order 2.7, and a margin for noise.
const HEAVIEST_TAIL: f64 = 0.6;
/// Number of samples of a fitted distribution that must all lie on the target's support. A fit with 5% of its mass off
/// the support passes in 4% of the cases, one with 10% in .1%.
pub(super) const SUPPORT_DRAWS: usize = 64;

/// Refits the base of a path.
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
        run: &Run<DVector<f64>>,
        shape: &Covariance,
        rng: &mut StreamRng,
    ) -> Result<Fitted> {
        fit(&self.0, run, shape, rng)
    }

    fn round(
        &self,
        refit: &Refit,
        start: Start<K>,
        layout: &Layout<DVector<f64>>,
        job: &mut RoundJob<'_, DVector<f64>>,
    ) -> Result<Ended<DVector<f64>>> {
        let log_z = self.0.base().log_normalizer();
        let fitted = (1.0 - refit.own_share, refit.law.clone());
        let base = MixtureBase::with_log_z(self.0.clone(), log_z, vec![fitted]);
        // The new base is normalised.
        let layout = Layout {
            log_base_normalizer: layout.log_base_normalizer - log_z,
            ..*layout
        };
        // A codec is made for the path's own models, so an unfinished block of this round begins anew.
        layout.run(from_base(&self.0, base), start, None, job)
    }
}

fn fit<P>(
    path: &P,
    run: &Run<DVector<f64>>,
    shape: &Covariance,
    rng: &mut StreamRng,
) -> Result<Fitted>
where
    P: AnnealingPath<State = DVector<f64>, Base: NormalizedModel>,
{
    let effective = shape.count();
    let Some(gaussian) = shape.gaussian().filter(|_| effective >= FEWEST_STATES) else {
        return Ok(Err(NoRefit::FewStates { effective }));
    };
    let sums = WeightSums::of(run.log_weights());
    let shares = run.log_weights().iter().map(|&w| sums.share(w));
    let weighted: Vec<_> = shares.zip(run.states()).filter(|(w, _)| *w > 0.0).collect();
    // The covariance pools several rounds, but the modes are counted in the states of this round alone.
    let effective = sums.effective_sample_size();
    let modes = modes(&Vec::from_iter(weighted.iter().map(|(_, x)| *x)));
    if let Some(modes) = modes.filter(|&modes| effective < FEWEST_STATES * modes as f64) {
        return Ok(Err(NoRefit::Modes { modes, effective }));
    }
    let inflation = inflation(gaussian.dimension());
    let law = StudentT::likeliest(gaussian, effective, &weighted)?;
    let law = law.scaled(inflation)?;
    let log_z = path.base().log_normalizer();
    let log_law = |x: &DVector<f64>| law.log_density(x) - law.log_normalizer();
    let log_own = |x: &DVector<f64>| path.base().log_density(x) - log_z;
    let ratios = weighted.iter().map(|(w, x)| (*w, log_own(x) - log_law(x)));
    let share = own_share(&Vec::from_iter(ratios));
    if share > MOST_OWN_SHARE {
        return Ok(Err(NoRefit::OwnBase { share }));
    }
    let target = path.at(1.0);
    let on_support = |x: DVector<f64>| target.log_density(&x) > f64::NEG_INFINITY;
    if !(0..SUPPORT_DRAWS).all(|_| on_support(law.sample(rng))) {
        return Ok(Err(NoRefit::Edges));
    }
    let share = share.max(LEAST_OWN_SHARE);
    let log_base =
        |x: &DVector<f64>| log_add_exp((1.0 - share).ln() + log_law(x), share.ln() + log_own(x));
    // The fit of the tail takes values of equal weight.
    let ratios = by_weight(&weighted).map(|x| target.log_density(x) - log_base(x));
    let shape = pareto_shape(&Vec::from_iter(ratios));
    if let Some(k_hat) = shape.filter(|&k_hat| k_hat > HEAVIEST_TAIL) {
        return Ok(Err(NoRefit::Tails { k_hat }));
    }
    Refit::new(law, share).map(Ok)
}

/// Resamples n weighted states to n states, with repeats: the states at which the cumulative weight passes
/// `(i + 1/2) / n`.
fn by_weight<'s>(weighted: &[(f64, &'s DVector<f64>)]) -> impl Iterator<Item = &'s DVector<f64>> {
    let (count, mut sum, mut taken) = (weighted.len() as f64, 0.0, 0.5);
    weighted.iter().flat_map(move |(weight, state)| {
        sum += weight * count;
        let times = (sum - taken).ceil().max(0.0);
        taken += times;
        std::iter::repeat_n(*state, times as usize)
    })
}

/// Returns true if a base can be fitted to a run's states: no chain is dead, and enough states show a single mode.
pub(super) fn shows_one_mode<S>(run: &Run<S>, coordinates: fn(&S) -> &[f64]) -> bool {
    let few = run.effective_sample_size() < FEWEST_STATES || run.estimate().dead_chains() > 0;
    let vector = |x| DVector::from_column_slice(coordinates(x));
    let states = || Vec::from_iter(run.states().iter().map(vector));
    !few && modes(&Vec::from_iter(&states())).is_none()
}

/// Returns the factor by which the fitted covariance is multiplied. It widens deviations by the factor 1.15, or less if
/// the path would be longer than 1: in d dimensions a widening by `e^r` has the Fisher distance `r (2 d)^(1/2)`.
fn inflation(dimension: usize) -> f64 {
    let shortest = (2.0 * dimension as f64).sqrt().recip();
    (2.0 * LOG_WIDENING.min(shortest)).exp()
}

/// Returns the own base's share in the likeliest mixture, by expectation maximisation. `ratios` contains each state's
/// weight, and the log ratio of the own base's density there to the fitted density.
fn own_share(ratios: &[(f64, f64)]) -> f64 {
    (0..SHARE_UPDATES).fold(0.5, |share: f64, _| {
        let log_odds = (share / (1.0 - share)).ln();
        let terms = ratios
            .iter()
            .map(|(w, ratio)| w / (1.0 + (-ratio - log_odds).exp()));
        // Keeps the log odds finite.
        terms.sum::<f64>().clamp(1e-12, 1.0 - 1e-12)
    })
}
