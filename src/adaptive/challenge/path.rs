//! The path of a challenge: from a mixture of a path's base and of rival bases to the same target.

use std::fmt;
use std::sync::Arc;

use nalgebra::{DMatrixView, DVector};
use rand::{Rng, RngExt};

use crate::Result;
use crate::error::Failure;
use crate::model::{
    Differentiable, EndBatch, EndGradients, Ends, NormalizedModel, Sampleable, UnnormalizedModel,
};
use crate::num::{log_sum_exp, next_run, weighted};
use crate::path::{AnnealingPath, Intermediate};

/// A mixture of the base of a path, divided by its normaliser, and of rival bases B; its log Z is 0.
pub struct RivalBase<'p, P: AnnealingPath + 'p, B>(Arc<Members<'p, P, B>>);

/// Both ends of a [`RivalPath`].
struct Members<'p, P: AnnealingPath + 'p, B> {
    path: &'p P,
    /// The base of the path, as a view of it.
    old: P::At<'p>,
    target: P::At<'p>,
    old_share: f64,
    /// Log of the share, minus log Z.
    old_scale: f64,
    rivals: Vec<Rival<B>>,
}

struct Rival<B> {
    share: f64,
    /// Log of the share, minus log Z.
    log_scale: f64,
    base: B,
}

impl<P: AnnealingPath, B> fmt::Debug for RivalBase<'_, P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.0.rivals.iter().map(|rival| rival.share);
        f.debug_struct("RivalBase")
            .field("old_share", &self.0.old_share)
            .field("shares", &Vec::from_iter(shares))
            .finish_non_exhaustive()
    }
}

impl<P: AnnealingPath, B> Clone for RivalBase<'_, P, B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<'p, P: AnnealingPath, B: NormalizedModel<State = P::State>> RivalBase<'p, P, B> {
    /// Mixes the base of `path`, of the stated log Z, with rivals in these shares; the base has what is left of 1.
    pub(super) fn new(path: &'p P, log_base_z: f64, rivals: Vec<(f64, B)>) -> Self {
        let old_share = 1.0 - rivals.iter().map(|(share, _)| share).sum::<f64>();
        let rival = |(share, base): (f64, B)| Rival {
            share,
            log_scale: share.ln() - base.log_normalizer(),
            base,
        };
        Self(Arc::new(Members {
            path,
            old: path.at(0.0),
            target: path.at(1.0),
            old_share,
            old_scale: old_share.ln() - log_base_z,
            rivals: rivals.into_iter().map(rival).collect(),
        }))
    }

    pub(super) fn target(&self) -> &P::At<'p> {
        &self.0.target
    }
}

impl<P: AnnealingPath, B> UnnormalizedModel for RivalBase<'_, P, B>
where
    B: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    fn log_density(&self, state: &P::State) -> f64 {
        let old = self.0.old_scale + self.0.old.log_density(state);
        if self.0.rivals.is_empty() {
            return old;
        }
        let rivals = self.0.rivals.iter();
        let rivals = rivals.map(|rival| rival.log_scale + rival.base.log_density(state));
        log_sum_exp(std::iter::once(old).chain(rivals))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.0.path.base().state_dimension()
    }

    fn failure(&self) -> Option<Failure> {
        self.0.old.failure()
    }
}

impl<P: AnnealingPath, B> NormalizedModel for RivalBase<'_, P, B>
where
    B: UnnormalizedModel<State = P::State>,
{
    fn log_normalizer(&self) -> f64 {
        0.0
    }
}

impl<P: AnnealingPath, B> Sampleable for RivalBase<'_, P, B>
where
    B: Sampleable<State = P::State>,
{
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> P::State {
        let mut left = rng.random::<f64>() - self.0.old_share;
        let chosen = self.0.rivals.iter().find(|rival| {
            let is_chosen = 0.0 <= left && left < rival.share;
            left -= rival.share;
            is_chosen
        });
        match chosen {
            Some(rival) => rival.base.sample(rng),
            None => self.0.path.base().sample(rng),
        }
    }
}

impl<'p, P, B> Differentiable for RivalBase<'p, P, B>
where
    P: AnnealingPath<State = DVector<f64>>,
    P::At<'p>: Differentiable,
    B: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let log_density = self.log_density(state);
        if log_density == f64::NEG_INFINITY {
            return log_density;
        }
        let Members { old, rivals, .. } = &*self.0;
        let here = self.0.old_scale + old.log_density(state);
        let share = (here - log_density).exp();
        if share > 0.0 {
            old.accumulate_gradient(state, scale * share, gradient);
        }
        for Rival {
            log_scale, base, ..
        } in rivals
        {
            let share = (log_scale + base.log_density(state) - log_density).exp();
            base.accumulate_gradient(state, scale * share, gradient);
        }
        log_density
    }
}

/// The geometric path from a [`RivalBase`] to the target of a path.
#[derive(Debug)]
pub struct RivalPath<'p, P: AnnealingPath + 'p, B>(RivalBase<'p, P, B>);

impl<'p, P: AnnealingPath, B> RivalPath<'p, P, B> {
    pub(super) fn new(base: RivalBase<'p, P, B>) -> Self {
        Self(base)
    }
}

/// The model at one beta of a [`RivalPath`], or of the target cooled: a power of at least 1 of it.
#[derive(Debug)]
pub struct RivalAt<'p, P: AnnealingPath + 'p, B> {
    base: RivalBase<'p, P, B>,
    beta: f64,
    /// Exponents of base and target.
    powers: [f64; 2],
}

impl<'p, P: AnnealingPath, B> RivalAt<'p, P, B> {
    /// Returns the model at the base of the challenged path.
    pub fn old_base(&self) -> &P::At<'p> {
        &self.base.0.old
    }

    /// Returns the model at the target.
    pub fn target(&self) -> &P::At<'p> {
        &self.base.0.target
    }

    /// Returns the exponents of the mixture of bases and of the target: `1 - beta` and `beta`, or 0 and a power of at
    /// least 1 where the target is cooled.
    pub fn powers(&self) -> [f64; 2] {
        self.powers
    }

    fn blend(&self, ends: Ends) -> f64 {
        weighted(self.powers[0], ends.base) + weighted(self.powers[1], ends.target)
    }
}

impl<'p, P, B> AnnealingPath for RivalPath<'p, P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = RivalBase<'p, P, B>;
    type At<'a>
        = RivalAt<'p, P, B>
    where
        Self: 'a;

    fn base(&self) -> &Self::Base {
        &self.0
    }

    fn at(&self, beta: f64) -> RivalAt<'p, P, B> {
        RivalAt {
            base: self.0.clone(),
            beta,
            powers: [1.0 - beta, beta],
        }
    }

    fn check(&self) -> Result<()> {
        self.0.0.path.check()
    }
}

/// The target at powers from 1, at 0, to [`COLDEST`], at 1. It is sampled by chains that are placed there.
pub(super) struct Cooled<'p, P: AnnealingPath + 'p, B>(pub(super) RivalBase<'p, P, B>);

/// Largest power of the target.
pub(super) const COLDEST: f64 = 256.0;

impl<'p, P, B> AnnealingPath for Cooled<'p, P, B>
where
    P: AnnealingPath,
    B: Sampleable<State = P::State>,
{
    type State = P::State;
    type Base = RivalBase<'p, P, B>;
    type At<'a>
        = RivalAt<'p, P, B>
    where
        Self: 'a;

    fn base(&self) -> &Self::Base {
        &self.0
    }

    fn at(&self, beta: f64) -> RivalAt<'p, P, B> {
        RivalAt {
            base: self.0.clone(),
            beta,
            powers: [0.0, COLDEST.powf(beta)],
        }
    }
}

impl<P, B> UnnormalizedModel for RivalAt<'_, P, B>
where
    P: AnnealingPath,
    B: UnnormalizedModel<State = P::State>,
{
    type State = P::State;

    fn log_density(&self, state: &P::State) -> f64 {
        self.blend(self.ends(state, Ends::UNKNOWN))
    }

    fn state_dimension(&self) -> Option<usize> {
        self.base.state_dimension()
    }

    fn evaluates_batches(&self) -> bool {
        self.target().evaluates_batches()
    }

    fn log_densities(&self, states: &[P::State], log_densities: &mut [f64]) {
        let mut bases = vec![f64::NAN; states.len()];
        log_densities.fill(f64::NAN);
        self.ends_of_batch(states, &mut bases, log_densities);
        for (value, base) in log_densities.iter_mut().zip(bases) {
            let target = *value;
            *value = self.blend(Ends { base, target });
        }
    }

    fn failure(&self) -> Option<Failure> {
        self.base.failure().or_else(|| self.target().failure())
    }
}

impl<P, B> Intermediate for RivalAt<'_, P, B>
where
    P: AnnealingPath,
    B: UnnormalizedModel<State = P::State>,
{
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.beta
    }

    fn ends(&self, state: &P::State, known: Ends) -> Ends {
        let known = known.or_base(|| self.base.log_density(state));
        known.or_target(|| self.target().log_density(state))
    }

    fn ends_of_batch(&self, states: &[P::State], bases: &mut [f64], targets: &mut [f64]) {
        for (state, base) in states.iter().zip(bases).filter(|(_, base)| base.is_nan()) {
            *base = self.base.log_density(state);
        }
        let mut done = 0;
        while let Some(run) = next_run(done..states.len(), |state| targets[state].is_nan()) {
            done = run.end;
            let target = self.target();
            target.log_densities(&states[run.clone()], &mut targets[run]);
        }
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        self.blend(ends)
    }

    fn log_ratio(&self, previous: &Self, state: &P::State) -> f64 {
        self.log_ratio_at(previous, self.ends(state, Ends::UNKNOWN))
    }

    fn log_ratio_at(&self, previous: &Self, ends: Ends) -> f64 {
        if ends.base.is_finite() && ends.target.is_finite() {
            let change = |end: usize| self.powers[end] - previous.powers[end];
            return change(0) * ends.base + change(1) * ends.target;
        }
        let here = self.blend(ends);
        match here == f64::NEG_INFINITY {
            true => here,
            false => here - previous.blend(ends),
        }
    }
}

impl<'p, P, B> Differentiable for RivalAt<'p, P, B>
where
    P: AnnealingPath<State = DVector<f64>>,
    P::At<'p>: Differentiable,
    B: Differentiable,
{
    fn accumulate_gradient(
        &self,
        state: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        let mut ends = Ends {
            base: 0.0,
            target: 0.0,
        };
        let [to_base, to_target] = self.powers;
        if to_base > 0.0 {
            let scale = scale * to_base;
            ends.base = self.base.accumulate_gradient(state, scale, gradient);
        }
        if to_target > 0.0 {
            let scale = scale * to_target;
            ends.target = self.target().accumulate_gradient(state, scale, gradient);
        }
        self.blend(ends)
    }

    fn end_weights(&self) -> Option<[f64; 2]> {
        Some(self.powers)
    }

    fn end_gradients(&self, state: &DVector<f64>, known: &mut EndGradients) -> f64 {
        let mut ends = Ends {
            base: 0.0,
            target: 0.0,
        };
        if self.powers[0] > 0.0 {
            ends.base = known.base.or_evaluate(&self.base, state);
        }
        if self.powers[1] > 0.0 {
            ends.target = known.target.or_evaluate(self.target(), state);
        }
        self.blend(ends)
    }

    fn end_gradients_of_batch(&self, states: DMatrixView<'_, f64>, ends: [EndBatch<'_>; 2]) {
        let [base, target] = ends;
        if self.powers[0] > 0.0 && !base.is_known() {
            let model = &self.base;
            model.accumulate_gradients(states, 1.0, base.gradients, base.log_densities);
        }
        if self.powers[1] > 0.0 && !target.is_known() {
            let model = self.target();
            model.accumulate_gradients(states, 1.0, target.gradients, target.log_densities);
        }
    }
}
