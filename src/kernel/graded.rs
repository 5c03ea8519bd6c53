//! A chain over vectors whose log densities and gradients at the ends of the path are known.

use nalgebra::DVector;

use super::preconditioner::Factor;
use super::vector::{add_scaled, checked, set_len, turn};
use super::{NonFinite, Stage};
use crate::model::Differentiable;
use crate::num::{all_finite, set_zero};
use crate::path::{EndGradients, Ends, Intermediate};

/// Values known of a state: log densities and gradients at the ends of the path.
pub(super) struct Graded<'g> {
    pub(super) ends: &'g mut Ends,
    pub(super) gradients: &'g mut EndGradients,
}

impl Graded<'_> {
    /// Returns log ratio and log density of the chain's state, and writes the gradient, turned by `factor`. Evaluates
    /// what is not known.
    pub(super) fn weigh<M: Differentiable + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        factor: Option<&Factor>,
        state: &DVector<f64>,
        gradient: &mut DVector<f64>,
    ) -> Result<(f64, f64), NonFinite> {
        set_len(gradient, state.len());
        let finite = all_finite(state.as_slice());
        let here = match finite {
            true => grade(stage.model, state, self.gradients, gradient),
            false => f64::NEG_INFINITY,
        };
        let log_ratio = if stage.is_at_rest() {
            0.0
        } else if M::HAS_ENDS {
            let Ends { base, target } = self.gradients.ends();
            let known = self.ends.or_base(|| base).or_target(|| target);
            *self.ends = known;
            stage.weigh(state, self.ends).0
        } else {
            let before = self.ends.of_beta(stage.previous.beta());
            let model = stage.model;
            model.log_ratio_given(stage.previous, state, here, before)
        };
        if !M::HAS_ENDS {
            *self.ends = Ends::at_beta(here, stage.beta);
        }
        let log_ratio = NonFinite::check_log_density("log ratio", log_ratio)
            .map_err(|fault| fault.at_state(state.as_slice()))?;
        let here = checked("log density", here, state, gradient)?;
        turn(factor, state, gradient)?;
        Ok((log_ratio, here))
    }

    /// Takes over what is known of the state to which the chain has moved; `arrival` gets what was known before.
    pub(super) fn arrive<M: Differentiable + Intermediate>(
        &mut self,
        stage: Stage<'_, M>,
        log_density: f64,
        arrival: &mut EndGradients,
    ) {
        std::mem::swap(self.gradients, arrival);
        *self.ends = match M::HAS_ENDS {
            true => self.gradients.ends(),
            false => Ends::at_beta(log_density, stage.beta),
        };
    }
}

/// Writes the gradient at a position, turned by `factor`, and returns the log density. Both are checked. `known` gets
/// the gradients at the ends of the path, if it has any.
pub(super) fn evaluate_ends<M: Differentiable + Intermediate>(
    quantity: &'static str,
    model: &M,
    factor: Option<&Factor>,
    position: &DVector<f64>,
    known: &mut EndGradients,
    gradient: &mut DVector<f64>,
) -> Result<f64, NonFinite> {
    known.forget();
    let log_density = match all_finite(position.as_slice()) {
        true => grade(model, position, known, gradient),
        false => f64::NEG_INFINITY,
    };
    let log_density = checked(quantity, log_density, position, gradient)?;
    turn(factor, position, gradient)?;
    Ok(log_density)
}

/// Writes the gradient at a finite position and returns the log density, both unchecked. Evaluates the ends of the path
/// that are not known.
fn grade<M: Differentiable + Intermediate>(
    model: &M,
    position: &DVector<f64>,
    known: &mut EndGradients,
    gradient: &mut DVector<f64>,
) -> f64 {
    let Some(weights) = end_weights(model) else {
        return model.gradient_into(position, gradient);
    };
    let log_density = model.end_gradients(position, known);
    set_zero(gradient.as_mut_slice());
    for (weight, end) in weights.into_iter().zip([&known.base, &known.target]) {
        if weight > 0.0 && end.is_known() {
            add_scaled(gradient, weight, &end.gradient);
        }
    }
    log_density
}

/// Returns the weights of the gradients at the ends of a path that has ends.
pub(super) fn end_weights<M: Differentiable + Intermediate>(model: &M) -> Option<[f64; 2]> {
    model.end_weights().filter(|_| M::HAS_ENDS)
}
