//! Proposals of several chains, which are evaluated and decided together.

use std::fmt;

use crate::chain::{Increment, NonFinite, Stage, Step};
use crate::kernel::metropolis::{PROPOSAL, acceptances};
use crate::path::Intermediate;

/// Proposals of some chains, with the numbers that decide about them. A kernel that moves one chain at a time uses the
/// first.
pub struct Proposals<S> {
    states: Vec<S>,
    log_ratios: Vec<f64>,
    /// Log densities of the states and of the proposals.
    here: Vec<f64>,
    there: Vec<f64>,
    acceptances: Vec<f64>,
    uniforms: Vec<f64>,
}

impl<S> Default for Proposals<S> {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            log_ratios: Vec::new(),
            here: Vec::new(),
            there: Vec::new(),
            acceptances: Vec::new(),
            uniforms: Vec::new(),
        }
    }
}

impl<S> fmt::Debug for Proposals<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.states.len();
        f.debug_struct("Proposals")
            .field("places", &places)
            .finish()
    }
}

impl<S: Clone> Proposals<S> {
    /// A place for one proposal, which holds an arbitrary earlier state.
    #[inline]
    pub(super) fn one(&mut self, state: &S) -> &mut S {
        if self.states.is_empty() {
            self.states.push(state.clone());
        }
        &mut self.states[0]
    }

    /// Weighs chains in these states, and calls `propose` with each one's index, its place for a proposal and its place
    /// for the number that decides; then evaluates the proposals.
    pub(super) fn make<M: Intermediate<State = S>>(
        &mut self,
        stage: Stage<'_, M>,
        states: &[S],
        mut propose: impl FnMut(usize, &mut S, &mut f64),
    ) {
        let chains = states.len();
        self.states
            .extend(states.iter().skip(self.states.len()).cloned());
        let numbers = [
            &mut self.log_ratios,
            &mut self.acceptances,
            &mut self.uniforms,
        ];
        for numbers in numbers.into_iter().chain([&mut self.here, &mut self.there]) {
            numbers.resize(chains, 0.0);
        }
        if stage.is_at_rest() {
            self.log_ratios.fill(0.0);
            stage.model.log_densities(states, &mut self.here);
        } else {
            let (log_ratios, here) = (&mut self.log_ratios, &mut self.here);
            stage
                .model
                .log_ratios_and_densities(stage.previous, states, log_ratios, here);
        }
        let places = self.states.iter_mut().zip(&mut self.uniforms);
        for (index, (proposal, uniform)) in places.enumerate() {
            propose(index, proposal, uniform);
        }
        stage
            .model
            .log_densities(&self.states[..chains], &mut self.there);
        self.acceptances.copy_from_slice(&self.there);
        acceptances(&self.here, &mut self.acceptances);
    }

    /// What a chain in this state, by its index among these, does, and its proposal.
    ///
    /// # Errors
    /// A number that is not finite, as `check` finds it.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        index: usize,
        state: &S,
        check: impl Fn(&'static str, f64, &S) -> Result<f64, NonFinite>,
    ) -> Result<(bool, Increment, &mut S), NonFinite> {
        let log_ratio = check("log ratio", self.log_ratios[index], state)?;
        check("log density", self.here[index], state)?;
        check(PROPOSAL, self.there[index], &self.states[index])?;
        let acceptance = self.acceptances[index];
        let increment = Increment::new(log_ratio, Step::metropolis(acceptance));
        let accepted = self.uniforms[index] < acceptance;
        Ok((accepted, increment, &mut self.states[index]))
    }
}

/// Swaps two values where the condition holds, without a branch, which would be mispredicted where it is random.
#[inline]
#[allow(unsafe_code)]
pub(super) fn swap_if<T>(condition: bool, a: &mut T, b: &mut T) {
    let (a, b) = (std::ptr::from_mut(a), std::ptr::from_mut(b));
    let other = std::hint::select_unpredictable(condition, b, a);
    // SAFETY: both are valid for reads and writes, and `ptr::swap` takes a value that is swapped with itself.
    unsafe { std::ptr::swap(a, other) };
}
