//! Proposals of other starts: what a type of states does to find bases around modes.

use std::cell::{Cell, RefCell};

use crate::Result;
use crate::model::{NormalizedModel, Sampleable};
use crate::random::StreamRng;

/// A type of states whose challenges can propose rival bases. It is implemented for vectors and for bits.
pub trait Rivals: Clone + Send + Sync + 'static {
    /// A base around one mode.
    type Base: Sampleable<State = Self> + NormalizedModel + Send + Sync;

    /// Whether [`propose`](Self::propose) climbs from the [draws](Trails::draws) of the old base, as that of vectors does. More
    /// of the budget goes there.
    const CLIMBS: bool = false;

    /// Returns bases around the modes where the `trails` end.
    ///
    /// # Errors
    /// States from which no base can be made by mistake, such as those of other lengths. Where no base suits return
    /// none: the challenge is then a second run from the old base.
    fn propose(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Proposals<Self::Base>>;

    /// Returns a base fitted to independent samples of one density, for a comparison of the old base's log normaliser with
    /// its samples. With `None`, as by default, it stays unchecked, and a second run that lies above the first is
    /// [`Undecided`](super::Judgement::Undecided), unless the normaliser is
    /// [certain](NormalizedModel::has_certain_normalizer).
    fn fit(_samples: &[Self]) -> Option<Self::Base> {
        None
    }

    /// Returns the base moved towards `states`, which are draws of all bases. The weights say how far each belongs to
    /// this base and to the target; they sum to the effective number of states. Where the bases leave out part of the
    /// target, a copy of one is moved there. `None`, as by default, leaves the base as it is.
    ///
    /// A base with k parameters that are fitted to n states is off by about `k / (2 n)` nats. Where that is much, let what
    /// its parameters have in common count for some states: the noise of 240 free ones hid the phases of a Potts model.
    fn refit(_base: &Self::Base, _states: &[Self], _weights: &[f64]) -> Option<Self::Base> {
        None
    }
}

/// Bases around modes.
#[derive(Debug, Clone)]
pub struct Proposals<B> {
    /// Number of modes found.
    pub modes: usize,
    /// The bases, any number a mode.
    pub bases: Vec<B>,
}

/// The states of some chains, each cooled from the target to a high power of it.
#[derive(Debug, Clone)]
pub struct Trails<S> {
    rungs: Vec<(f64, Vec<S>)>,
    draws: Vec<S>,
}

impl<S> Default for Trails<S> {
    fn default() -> Self {
        Self {
            rungs: Vec::new(),
            draws: Vec::new(),
        }
    }
}

impl<S> Trails<S> {
    pub(super) fn new(starts: Vec<S>) -> Self {
        Self {
            rungs: vec![(1.0, starts)],
            draws: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, power: f64, states: Vec<S>) {
        self.rungs.push((power, states));
    }

    pub(super) fn with_draws(self, draws: Vec<S>) -> Self {
        Self { draws, ..self }
    }

    /// Returns samples of the old base, from which local optima are sought; none unless a type of states
    /// [climbs](Rivals::CLIMBS).
    pub fn draws(&self) -> &[S] {
        &self.draws
    }

    /// Returns the powers, from 1 up, each with one state a chain in the same order.
    pub fn rungs(&self) -> impl ExactSizeIterator<Item = (f64, &[S])> {
        self.rungs
            .iter()
            .map(|(power, states)| (*power, &states[..]))
    }

    /// Returns the states at the highest power.
    pub fn ends(&self) -> &[S] {
        self.rungs.last().map_or(&[], |(_, states)| states)
    }
}

pub(super) type GradientOf<'t, S> = &'t dyn Fn(&S, &mut S) -> f64;

/// The log density of a target, counted.
pub struct Target<'t, S> {
    log_density: &'t dyn Fn(&S) -> f64,
    /// Function that writes the gradient and returns the log density.
    pub(super) gradient: Option<GradientOf<'t, S>>,
    pub(super) spent: Cell<u64>,
    allowance: u64,
    /// Epsilon of the number type of the log densities.
    pub(super) epsilon: f64,
    /// Stream of a search for optima.
    pub(super) rng: RefCell<StreamRng>,
}

impl<'t, S> Target<'t, S> {
    /// Creates a target of which so many evaluations may be spent.
    pub(super) fn new(
        log_density: &'t dyn Fn(&S) -> f64,
        gradient: Option<GradientOf<'t, S>>,
        allowance: u64,
        rng: StreamRng,
    ) -> Self {
        Self {
            log_density,
            gradient,
            spent: Cell::new(0),
            allowance,
            epsilon: f64::EPSILON,
            rng: RefCell::new(rng),
        }
    }

    /// Returns `log f(x)`; `-inf` once the evaluations [left](Self::left) are spent.
    pub fn log_density(&self, state: &S) -> f64 {
        match self.charge(1) {
            true => (self.log_density)(state),
            false => f64::NEG_INFINITY,
        }
    }

    /// Returns the number of evaluations that may be spent.
    pub fn left(&self) -> u64 {
        self.allowance.saturating_sub(self.spent.get())
    }

    /// Calls a search that may spend at most so many evaluations of those left.
    pub(super) fn within<T>(&self, evaluations: u64, search: impl FnOnce() -> T) -> T {
        let held = self.left().saturating_sub(evaluations);
        self.spent.set(self.spent.get() + held);
        let found = search();
        self.spent.set(self.spent.get() - held);
        found
    }

    pub(super) fn charge(&self, evaluations: u64) -> bool {
        let is_affordable = evaluations <= self.left();
        if is_affordable {
            self.spent.set(self.spent.get() + evaluations);
        }
        is_affordable
    }
}

impl<S> std::fmt::Debug for Target<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("spent", &self.spent)
            .field("allowance", &self.allowance)
            .finish_non_exhaustive()
    }
}
