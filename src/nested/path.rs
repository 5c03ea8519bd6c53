//! The path from a prior to its part above a level of the likelihood, over states that store their likelihood.

use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::slice::from_ref;

use rand::Rng;

use crate::error::Failure;
use crate::kernel::SymmetricProposal;
use crate::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use crate::path::{AnnealingPath, Ends, Intermediate, Normalized, TemperedPath};
use crate::{Error, Result};

/// A state of the chains on a [`LevelPath`](super::LevelPath). It keeps its log likelihood once that has been computed,
/// so that each proposal's likelihood is evaluated only once. It dereferences to the state; mutable access clears the
/// likelihood.
///
/// ```
/// use annealed::nested::LevelState;
///
/// let mut bits = LevelState::from(vec![true, false]);
/// bits[0] = false;
/// assert_eq!(bits.into_inner(), [false, false]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LevelState<S> {
    state: S,
    log_likelihood: OnceCell<f64>,
}

impl<S> LevelState<S> {
    /// Returns the state alone.
    pub fn into_inner(self) -> S {
        self.state
    }

    /// Returns `log L(x)`, evaluated on the first call.
    pub(super) fn log_likelihood(&self, likelihood: &impl UnnormalizedModel<State = S>) -> f64 {
        let evaluate = || likelihood.log_density(&self.state);
        *self.log_likelihood.get_or_init(evaluate)
    }
}

impl<S> From<S> for LevelState<S> {
    fn from(state: S) -> Self {
        Self {
            state,
            log_likelihood: OnceCell::new(),
        }
    }
}

impl<S> Deref for LevelState<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S> DerefMut for LevelState<S> {
    fn deref_mut(&mut self) -> &mut S {
        self.log_likelihood.take();
        &mut self.state
    }
}

/// Proposes `LevelState`s by a proposal between plain states.
impl<S, Q: SymmetricProposal<S>> SymmetricProposal<LevelState<S>> for Q {
    fn propose<R: Rng + ?Sized>(
        &self,
        beta: f64,
        state: &LevelState<S>,
        proposal: &mut LevelState<S>,
        rng: &mut R,
    ) {
        Q::propose(self, beta, &**state, &mut **proposal, rng);
    }

    fn coordinates<'s>(&self, state: &'s LevelState<S>) -> Option<&'s [f64]> {
        Q::coordinates(self, &**state)
    }

    fn check(&self, states: &[LevelState<S>]) -> Result<()> {
        let mut states = states.iter().map(|state| from_ref(&state.state));
        states.try_for_each(|state| Q::check(self, state))
    }
}

/// The path from a prior, through rising levels `l_1 < .. < l_T` of the log likelihood, to the prior above `l_T`:
///
/// `f_t(x) = p(x)` where `log L(x) > l_t`, and 0 elsewhere, at `beta = t/T`.
///
/// Its normalisers are the prior probabilities `X_t = P(log L > l_t)`, so that an annealed run estimates the
/// probability of a rare event. The level `-inf` excludes exactly the states of likelihood 0. Betas round to the
/// nearest level.
#[derive(Debug)]
pub struct LevelPath<'m, P, L> {
    base: LevelPrior<'m, P>,
    pub(super) problem: &'m TemperedPath<P, L>,
    levels: Vec<f64>,
}

impl<P, L> Clone for LevelPath<'_, P, L> {
    fn clone(&self) -> Self {
        Self {
            base: LevelPrior(self.base.0),
            problem: self.problem,
            levels: self.levels.clone(),
        }
    }
}

/// The prior of a [`LevelPath`].
#[derive(Debug)]
pub struct LevelPrior<'m, P>(&'m Normalized<P>);

/// A prior restricted to the states above a level of the log likelihood.
#[derive(Debug)]
pub struct LevelAt<'m, P, L> {
    problem: &'m TemperedPath<P, L>,
    /// Level; `None` for the unrestricted prior.
    level: Option<f64>,
    beta: f64,
}

impl<'m, P, L> LevelPath<'m, P, L>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    /// Creates the path through `levels` of the log likelihood of `problem`.
    ///
    /// # Errors
    /// Levels that do not increase strictly, or are not below `+inf`.
    pub fn new(
        problem: &'m TemperedPath<P, L>,
        levels: impl IntoIterator<Item = f64>,
    ) -> Result<Self> {
        let levels: Vec<f64> = levels.into_iter().collect();
        let expected = "levels below +inf that increase strictly";
        for (t, &level) in levels.iter().enumerate() {
            let above = t == 0 || levels[t - 1] < level;
            let found = || format!("{level} at index {t}");
            Error::check(above && level < f64::INFINITY, "levels", found(), expected)?;
        }
        Ok(Self {
            base: LevelPrior(problem.prior()),
            problem,
            levels,
        })
    }

    /// Returns the levels.
    pub fn levels(&self) -> &[f64] {
        &self.levels
    }

    /// Returns the beta of the level `index`, counted from 1; index 0 is the prior.
    pub(super) fn beta(&self, index: usize) -> f64 {
        index as f64 / self.levels.len().max(1) as f64
    }
}

impl<'m, P, L> LevelAt<'m, P, L> {
    pub(super) fn new(problem: &'m TemperedPath<P, L>, level: f64, beta: f64) -> Self {
        Self {
            problem,
            level: Some(level),
            beta,
        }
    }

    /// Returns the level, which the log likelihood exceeds; `None` at the prior.
    pub fn level(&self) -> Option<f64> {
        self.level
    }

    /// Returns the log of the restriction: 0 above the level and `-inf` elsewhere. Returns a log likelihood that is NaN
    /// or `+inf` as it is.
    fn restriction(&self, log_likelihood: f64) -> f64 {
        let Some(level) = self.level else {
            return 0.0;
        };
        if log_likelihood <= level {
            f64::NEG_INFINITY
        } else if log_likelihood < f64::INFINITY {
            0.0
        } else {
            log_likelihood
        }
    }
}

impl<'m, P, L> AnnealingPath for LevelPath<'m, P, L>
where
    P: Sampleable,
    L: UnnormalizedModel<State = P::State>,
{
    type State = LevelState<P::State>;
    type Base = LevelPrior<'m, P>;
    type At = LevelAt<'m, P, L>;

    fn base(&self) -> &LevelPrior<'m, P> {
        &self.base
    }

    fn at(&self, beta: f64) -> LevelAt<'m, P, L> {
        let index = (beta * self.levels.len() as f64).round() as usize;
        LevelAt {
            problem: self.problem,
            level: index.checked_sub(1).map(|t| self.levels[t]),
            beta,
        }
    }

    fn check(&self) -> Result<()> {
        AnnealingPath::check(&self.problem)
    }
}

impl<P: UnnormalizedModel> UnnormalizedModel for LevelPrior<'_, P> {
    type State = LevelState<P::State>;

    fn log_density(&self, state: &LevelState<P::State>) -> f64 {
        self.0.log_density(state)
    }

    fn state_dimension(&self) -> Option<usize> {
        self.0.state_dimension()
    }
}

impl<P: Sampleable> Sampleable for LevelPrior<'_, P> {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> LevelState<P::State> {
        self.0.sample(rng).into()
    }
}

impl<P: NormalizedModel> NormalizedModel for LevelPrior<'_, P> {
    fn log_normalizer(&self) -> f64 {
        self.0.log_normalizer()
    }
}

impl<P, L> UnnormalizedModel for LevelAt<'_, P, L>
where
    P: UnnormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    type State = LevelState<P::State>;

    /// Returns the log density. The likelihood is not evaluated if the prior excludes the state.
    fn log_density(&self, state: &LevelState<P::State>) -> f64 {
        self.log_density_at(self.ends(state, Ends::UNKNOWN))
    }

    fn epsilon(&self) -> f64 {
        self.problem.likelihood().epsilon()
    }

    fn failure(&self) -> Option<Failure> {
        self.problem.likelihood().failure()
    }
}

impl<P, L> Intermediate for LevelAt<'_, P, L>
where
    P: UnnormalizedModel,
    L: UnnormalizedModel<State = P::State>,
{
    const HAS_ENDS: bool = true;

    fn beta(&self) -> f64 {
        self.beta
    }

    fn log_ratio(&self, _previous: &Self, state: &LevelState<P::State>) -> f64 {
        // A chain that carries weight lies above the level of `previous`, so the prior cancels from the ratio.
        match self.level {
            None => 0.0,
            Some(_) => self.restriction(state.log_likelihood(self.problem.likelihood())),
        }
    }

    /// Returns log prior and log likelihood. The likelihood is left out if the prior excludes the state or the model
    /// has no level.
    fn ends(&self, state: &LevelState<P::State>, known: Ends) -> Ends {
        let (prior, likelihood) = (self.problem.prior(), self.problem.likelihood());
        let known = known.or_base(|| prior.log_density(state));
        if known.base == f64::NEG_INFINITY || self.level.is_none() {
            return known;
        }
        known.or_target(|| state.log_likelihood(likelihood))
    }

    fn log_density_at(&self, ends: Ends) -> f64 {
        if ends.base == f64::NEG_INFINITY {
            return ends.base;
        }
        ends.base + self.restriction(ends.target)
    }

    fn log_ratio_at(&self, _previous: &Self, ends: Ends) -> f64 {
        self.restriction(ends.target)
    }
}
