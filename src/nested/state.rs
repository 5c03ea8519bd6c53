//! A state that remembers its likelihood.

use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::slice::from_ref;

use rand::Rng;

use crate::Result;
use crate::kernel::SymmetricProposal;
use crate::model::UnnormalizedModel;

/// A state of the chains on a [`LevelPath`](super::LevelPath), with its log likelihood once that has been computed. So
/// each proposal's likelihood is evaluated only once. It dereferences to the state; mutable access clears the
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

/// Proposes states with likelihoods by any proposal between states.
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
