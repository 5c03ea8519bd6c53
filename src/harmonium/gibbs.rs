//! Block Gibbs sampling of harmoniums.

use nalgebra::DVector;
use rand::Rng;

use crate::Result;
use crate::chain::{Block, Increment, NonFinite, Stage, Step};
use crate::harmonium::model::{Harmonium, draw_units};
use crate::harmonium::path::HarmoniumAt;
use crate::harmonium::visible::VisibleUnits;
use crate::kernel::{Invariant, TransitionKernel, own_reversal};
use crate::path::{Intermediate, Stationary};
use crate::rbm::BlockGibbs;

/// The visible units drawn anew at this beta, by way of the hidden ones, whose logits at the target are `activation`.
fn draw_visible<V: VisibleUnits, R: Rng + ?Sized>(
    model: &HarmoniumAt<'_, V>,
    activation: &DVector<f64>,
    rng: &mut R,
) -> V::State {
    let hidden = draw_units(activation, model.beta(), rng);
    let field = model.path().target().field(&hidden) * model.beta();
    model.visible.tilted(&field).sample(rng)
}

impl<V: VisibleUnits> TransitionKernel<HarmoniumAt<'_, V>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, HarmoniumAt<'_, V>>,
        _chain: usize,
        state: &mut V::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let activation = stage.model.path().target().hidden_activation(state);
        *state = draw_visible(stage.model, &activation, rng);
        Ok(Step::invariant())
    }

    /// The product `W s(v)` serves weight and move.
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

/// A plain harmonium, sampled without annealing.
impl<V: VisibleUnits> TransitionKernel<Stationary<&Harmonium<V>>> for BlockGibbs {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, Stationary<&Harmonium<V>>>,
        _chain: usize,
        state: &mut V::State,
        _workspace: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        stage.model.0.gibbs_sweep(state, rng);
        Ok(Step::invariant())
    }
}

own_reversal! { ['p, V: VisibleUnits] BlockGibbs, HarmoniumAt<'p, V> }
own_reversal! { ['r, V: VisibleUnits] BlockGibbs, Stationary<&'r Harmonium<V>> }

impl<V: VisibleUnits> Invariant<HarmoniumAt<'_, V>> for BlockGibbs {}
impl<V: VisibleUnits> Invariant<Stationary<&Harmonium<V>>> for BlockGibbs {}
