//! Search for the modes of a target among states of one type.

use std::cell::{Cell, RefCell};

use crate::Result;
use crate::model::Fit;
use crate::random::StreamRng;

/// Largest number of modes of vectors and of bits. The limit bounds the cost: each mode has up to 7 distributions (3
/// for bits), among which population Monte Carlo divides its draws. The modes found first, the highest ones, are kept.
pub(super) const MOST_MODES: usize = 16;

/// A type of states among which a [`BaseSearch`](super::BaseSearch) finds modes. It is implemented for vectors and for
/// bits.
///
/// ```
/// use annealed::adaptive::{BaseSearch, FindModes, Target, Trails};
/// use annealed::model::{Bernoulli, Fit};
/// use annealed::prelude::*;
/// use rand::Rng;
///
/// #[derive(Clone)]
/// struct Spins(Vec<bool>);
///
/// /// Independent spins.
/// struct Independent(Bernoulli);
///
/// impl UnnormalizedModel for Independent {
///     type State = Spins;
///
///     fn log_density(&self, spins: &Spins) -> f64 {
///         self.0.log_density(&spins.0)
///     }
/// }
///
/// impl NormalizedModel for Independent {
///     fn log_normalizer(&self) -> f64 {
///         self.0.log_normalizer()
///     }
/// }
///
/// impl Sampleable for Independent {
///     fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Spins {
///         Spins(self.0.sample(rng))
///     }
/// }
///
/// impl Fit for Independent {
///     fn fit(states: &[Spins], weights: &[f64]) -> annealed::Result<Self> {
///         let bits: Vec<_> = states.iter().map(|spins| spins.0.clone()).collect();
///         Bernoulli::fit(&bits, weights).map(Self)
///     }
/// }
///
/// /// A magnet has two modes: most spins up, or most of them down.
/// impl FindModes for Spins {
///     type Law = Independent;
///
///     fn find_modes(trails: &Trails<Self>, _: &Target<'_, Self>) -> annealed::Result<Vec<Vec<Independent>>> {
///         let is_up = |s: &Spins| 2 * s.0.iter().filter(|up| **up).count() > s.0.len();
///         let (up, down): (Vec<_>, Vec<_>) = trails.ends().iter().cloned().partition(is_up);
///         let sides = [up, down].into_iter().filter(|side| !side.is_empty());
///         sides.map(|side| Ok(vec![Fit::fit(&side, &vec![1.0; side.len()])?])).collect()
///     }
/// }
/// # let fair = Independent(Bernoulli::new(DVector::zeros(12))?);
/// # let energy = |s: &Spins| 0.1 * s.0.iter().map(|up| if *up { 1.0 } else { -1.0 }).sum::<f64>().powi(2);
/// # let path = GeometricPath::new(fair, FunctionModel::new(energy));
/// # #[derive(Clone)]
/// # struct Flip;
/// # impl annealed::kernel::SymmetricProposal<Spins> for Flip {
/// #     fn propose<R: Rng + ?Sized>(&self, _: f64, spins: &Spins, to: &mut Spins, rng: &mut R) {
/// #         to.0.clone_from(&spins.0);
/// #         let i = rand::RngExt::random_range(rng, 0..spins.0.len());
/// #         to.0[i] = !to.0[i];
/// #     }
/// # }
/// # let kernel = Metropolis(Flip);
/// # let found = BaseSearch::fixed(&path, kernel, 50_000).run()?;
/// # assert_eq!(found.modes, 2);
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// `Trails` and `Target` come from a search, so an implementation is tested by a search with a small budget, as above.
pub trait FindModes: Clone + Send + Sync + 'static {
    /// A distribution around one mode. The search [refits](Fit::refit) it to weighted draws. It also
    /// [fits](Fit::fit) one to samples of the base, to compare the base's log normaliser with them.
    type Law: Fit<State = Self> + Send + Sync;

    /// Whether [`find_modes`](Self::find_modes) climbs from [draws](Trails::draws) of the path's own base, as for
    /// vectors. If true, the search for modes gets a larger part of the budget.
    const CLIMBS: bool = false;

    /// Returns distributions (laws) around the modes where the `trails` end: for each mode a list of any length.
    ///
    /// # Errors
    /// States to which no law can be fitted because of a mistake, such as states of different lengths. If no law suits
    /// any mode, return an empty list: the base then stays the path's own.
    fn find_modes(trails: &Trails<Self>, target: &Target<'_, Self>) -> Result<Vec<Vec<Self::Law>>>;
}

/// The states of some chains while they are cooled from the target to a high power of the target.
#[derive(Debug, Clone)]
pub struct Trails<S> {
    rungs: Vec<(f64, Vec<S>)>,
    draws: Vec<S>,
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

    /// Returns samples of the path's own base, from which climbs to local optima start; none unless
    /// [`FindModes::CLIMBS`] is true.
    pub fn draws(&self) -> &[S] {
        &self.draws
    }

    /// Returns the powers of the target, from 1 up, each with the states of all chains in the same order.
    pub fn rungs(&self) -> impl ExactSizeIterator<Item = (f64, &[S])> {
        self.rungs
            .iter()
            .map(|(power, states)| (*power, &states[..]))
    }

    /// Returns the states of all chains at the highest power of the target.
    pub fn ends(&self) -> &[S] {
        self.rungs.last().map_or(&[], |(_, states)| states)
    }
}

pub(super) type GradientOf<'t, S> = &'t dyn Fn(&S, &mut S) -> f64;

/// The log density of a target, with a limited number of evaluations.
pub struct Target<'t, S> {
    log_density: &'t dyn Fn(&S) -> f64,
    /// Function that writes the gradient and returns the log density.
    pub(super) gradient: Option<GradientOf<'t, S>>,
    pub(super) spent: Cell<u64>,
    allowance: u64,
    /// Returns true from when the search has to stop.
    pub(super) is_over: &'t dyn Fn() -> bool,
    /// Machine epsilon of the number type in which the target computes log densities.
    pub(super) epsilon: f64,
    /// Random numbers for searches for optima.
    pub(super) rng: RefCell<StreamRng>,
}

impl<'t, S> Target<'t, S> {
    /// Creates a target with at most `allowance` evaluations.
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
            is_over: &|| false,
            epsilon: f64::EPSILON,
            rng: RefCell::new(rng),
        }
    }

    /// Returns `log f(x)`; `-inf` if no evaluations are [left](Self::left).
    pub fn log_density(&self, state: &S) -> f64 {
        match self.charge(1) {
            true => (self.log_density)(state),
            false => f64::NEG_INFINITY,
        }
    }

    /// Writes `gradient` and returns `log f(x)`, both by `gradient_of`, at the cost of one evaluation. Returns `-inf`
    /// if none is left.
    pub(super) fn by(&self, gradient_of: GradientOf<'_, S>, state: &S, gradient: &mut S) -> f64 {
        match self.charge(1) {
            true => gradient_of(state, gradient),
            false => f64::NEG_INFINITY,
        }
    }

    /// Returns the number of evaluations that are left; 0 once the search has to stop.
    pub fn left(&self) -> u64 {
        match (self.is_over)() {
            true => 0,
            false => self.allowance.saturating_sub(self.spent.get()),
        }
    }

    /// Calls `search`, which may spend at most `evaluations` of the evaluations left.
    pub(super) fn within<T>(&self, evaluations: u64, search: impl FnOnce() -> T) -> T {
        // Counts the other evaluations as spent meanwhile, so that `left` and `charge` obey the limit.
        let held = self.left().saturating_sub(evaluations);
        self.spent.set(self.spent.get() + held);
        let found = search();
        self.spent.set(self.spent.get() - held);
        found
    }

    fn charge(&self, evaluations: u64) -> bool {
        let is_affordable = evaluations <= self.left();
        if is_affordable {
            self.spent.set(self.spent.get() + evaluations);
        }
        is_affordable
    }
}

crate::num::debug_by_fields! { Target for [S] Target<'_, S> { spent, allowance } }
