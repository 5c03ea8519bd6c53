//! The path from independent visible units to a harmonium, and block Gibbs sampling along it.

use std::f64::consts::LN_2;

use nalgebra::DVector;
use rand::Rng;

use crate::kernel::{Block, Increment, NonFinite, Stage, Step, TransitionKernel, detailed_balance};
use crate::model::UnnormalizedModel;
use crate::num::{sigmoid, softplus, softplus_increment};
use crate::path::{AnnealingPath, BetaDerivative, Intermediate, Stationary};
use crate::rbm::BlockGibbs;
use crate::rbm::harmonium::{Harmonium, VisibleUnits};
use crate::rbm::lower_bound::{Effort, STARTS};
use crate::rbm::model::draw_all;
use crate::{Error, Result};

/// The path from independent visible units, the base, to a harmonium with units of the same kind, the target.
///
/// It is geometric in the *joint* densities of v and h (Salakhutdinov and Murray 2008, equation 15), and the base has
/// fair coins as hidden units. With densities r and `r_0` of the visible units of target and base,
///
/// `log f_beta(v) = (1 - beta) log r_0(v) + beta log r(v) + sum_j softplus(beta (a_j + W_j s(v))) - (1 - beta) M log 2`.
///
/// Every model of the path is a harmonium. A base fitted to data (`from_data`) is nearer to the target than most bases.
///
/// ```
/// use annealed::harmonium::{CategoricalUnits, Harmonium, HarmoniumPath};
/// use annealed::prelude::*;
///
/// let units = CategoricalUnits::uniform(3, 2)?;
/// let weights = DMatrix::from_row_slice(1, 6, &[1.0, -1.0, 0.0, 0.5, 0.0, -0.5]);
/// let target = Harmonium::new(weights, DVector::from_element(1, 0.3), units.clone())?;
/// let path = HarmoniumPath::new(units, target.clone())?;
/// let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(20)?).chains(500).run()?;
/// assert!((run.log_z() - target.exact_log_normalizer()?).abs() < 4.0 * run.standard_error());
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HarmoniumPath<V> {
    base: V,
    target: Harmonium<V>,
}

impl<V: VisibleUnits> HarmoniumPath<V> {
    /// Creates the path from `base` to `target`.
    ///
    /// # Errors
    /// If the numbers of visible units or of statistics differ.
    pub fn new(base: V, target: Harmonium<V>) -> Result<Self> {
        let visible = target.visible();
        Error::check_dimension("units of the base", base.units(), visible.units())?;
        let (found, expected) = (base.statistic_count(), visible.statistic_count());
        Error::check_dimension("statistics of the base", found, expected)?;
        Ok(Self { base, target })
    }

    /// Returns the visible units that chains start from.
    pub fn base(&self) -> &V {
        &self.base
    }

    /// Returns the model at `beta` in `[0, 1]`.
    pub fn at(&self, beta: f64) -> HarmoniumAt<'_, V> {
        HarmoniumAt {
            path: self,
            beta,
            visible: self.base.blended(self.target.visible(), beta),
        }
    }

    /// Returns the harmonium at `beta = 1`.
    pub fn target(&self) -> &Harmonium<V> {
        &self.target
    }
}

impl<'p, V: VisibleUnits> AnnealingPath for &'p HarmoniumPath<V> {
    type State = V::State;
    type Base = V;
    type At = HarmoniumAt<'p, V>;

    fn base(&self) -> &V {
        &self.base
    }

    /// Returns the bound of [`Harmonium::lower_bound`], computed as for an [`RbmPath`](crate::rbm::RbmPath).
    fn certain_bound(&self, states: &[&V::State], chain_steps: u64) -> Option<f64> {
        let effort = Effort::of_run(chain_steps, self.target.hidden_units());
        let found = self.target.bound_from(states, STARTS, 0, effort);
        found.ok().map(|found| found.value)
    }

    fn at(&self, beta: f64) -> HarmoniumAt<'p, V> {
        HarmoniumPath::at(self, beta)
    }
}

/// The harmonium at one beta of a [`HarmoniumPath`].
#[derive(Debug, Clone)]
pub struct HarmoniumAt<'a, V> {
    path: &'a HarmoniumPath<V>,
    beta: f64,
    /// The blended units of base and target.
    pub(crate) visible: V,
}

impl<'a, V: VisibleUnits> HarmoniumAt<'a, V> {
    /// Returns the path.
    pub fn path(&self) -> &'a HarmoniumPath<V> {
        self.path
    }

    /// Returns the visible units at this beta, without the hidden ones.
    pub fn visible(&self) -> &V {
        &self.visible
    }

    /// Returns the derivative in beta of the visible log density; `-inf` if the target excludes `state`.
    fn visible_slope(&self, state: &V::State) -> f64 {
        let target = self.path.target.visible().log_density(state);
        if target == f64::NEG_INFINITY {
            target
        } else {
            target - self.path.base.log_density(state)
        }
    }

    fn free_units(&self) -> f64 {
        self.path.target.hidden_units() as f64 * LN_2
    }

    /// Computes [`log_ratio`](Intermediate::log_ratio), with the target's hidden logits given `v` in `activation`.
    pub(crate) fn log_ratio_with(
        &self,
        previous: &Self,
        state: &V::State,
        activation: &DVector<f64>,
    ) -> f64 {
        let step = self.beta - previous.beta;
        let slope = self.visible_slope(state);
        // Not multiplied by the step, which may be 0 or negative.
        if slope == f64::NEG_INFINITY {
            return slope;
        }
        let increments = activation
            .iter()
            .map(|x| softplus_increment(self.beta * x, step * x));
        step * (slope + self.free_units()) + increments.sum::<f64>()
    }
}

impl<V: VisibleUnits> UnnormalizedModel for HarmoniumAt<'_, V> {
    type State = V::State;

    fn log_density(&self, state: &V::State) -> f64 {
        let activation = self.path.target.hidden_activation(state);
        let hidden = activation
            .iter()
            .map(|x| softplus(self.beta * x))
            .sum::<f64>();
        self.visible.log_density(state) + hidden - (1.0 - self.beta) * self.free_units()
    }

    fn state_dimension(&self) -> Option<usize> {
        Some(self.visible.units())
    }
}

impl<V: VisibleUnits> Intermediate for HarmoniumAt<'_, V> {
    fn beta(&self) -> f64 {
        self.beta
    }

    /// Sums softplus differences without cancellation, and adds the terms linear in beta.
    fn log_ratio(&self, previous: &Self, state: &V::State) -> f64 {
        let activation = self.path.target.hidden_activation(state);
        self.log_ratio_with(previous, state, &activation)
    }

    fn log_ratio_given(&self, previous: &Self, state: &V::State, _: f64, _: Option<f64>) -> f64 {
        self.log_ratio(previous, state)
    }
}

impl<V: VisibleUnits> BetaDerivative for HarmoniumAt<'_, V> {
    /// Returns `log r(v) - log r_0(v) + M log 2 + sum_j x_j sigmoid(beta x_j)` with `x = a + W s(v)`.
    fn beta_derivative(&self, state: &V::State) -> f64 {
        let activation = self.path.target.hidden_activation(state);
        let hidden = activation.iter().map(|x| x * sigmoid(self.beta * x));
        self.visible_slope(state) + self.free_units() + hidden.sum::<f64>()
    }
}

/// Draws the visible units at this beta through the hidden units, whose logits at the target are `activation`.
fn draw_visible<V: VisibleUnits, R: Rng + ?Sized>(
    model: &HarmoniumAt<'_, V>,
    activation: &DVector<f64>,
    rng: &mut R,
) -> V::State {
    let hidden = draw_all(&(activation * model.beta()), rng);
    let field = model.path().target().field(&hidden) * model.beta();
    model.visible.tilted(&field).sample(rng)
}

impl<V: VisibleUnits> TransitionKernel<HarmoniumAt<'_, V>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, HarmoniumAt<'_, V>>,
        state: &mut V::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let activation = stage.model.path().target().hidden_activation(state);
        *state = draw_visible(stage.model, &activation, rng);
        Ok(Step::invariant())
    }

    /// Computes `W s(v)` once for both weight and move.
    fn advance(
        &self,
        stage: Stage<'_, HarmoniumAt<'_, V>>,
        block: &mut Block<V::State>,
        _workspace: &mut (),
    ) -> Result<()> {
        let target = stage.model.path().target();
        block.for_each(stage, |_, state, rng| {
            let activation = target.hidden_activation(state);
            let log_ratio = if stage.is_at_rest() {
                0.0
            } else {
                stage
                    .model
                    .log_ratio_with(stage.previous, state, &activation)
            };
            NonFinite::check_log_density("log ratio", log_ratio)?;
            *state = draw_visible(stage.model, &activation, rng);
            Ok(Increment::new(log_ratio, Step::invariant()))
        })
    }
}

impl<V: VisibleUnits> TransitionKernel<Stationary<&Harmonium<V>>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, Stationary<&Harmonium<V>>>,
        state: &mut V::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        stage.model.0.gibbs_sweep(state, rng);
        Ok(Step::invariant())
    }
}

detailed_balance! { ['p, V: VisibleUnits] BlockGibbs, HarmoniumAt<'p, V> }
detailed_balance! { ['r, V: VisibleUnits] BlockGibbs, Stationary<&'r Harmonium<V>> }
