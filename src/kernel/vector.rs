//! Vector operations that the kernels over `R^d` share.

use nalgebra::DVector;
use rand::Rng;

use crate::Error;
use crate::kernel::{Block, Increment, NonFinite, Stage, TransitionKernel};
use crate::model::Differentiable;
use crate::num::all_finite;
use crate::path::Intermediate;
use crate::random::StandardNormal;

/// Sets the length of a scratch vector; allocates only if the length changes.
#[inline]
pub(crate) fn set_len(vector: &mut DVector<f64>, len: usize) {
    if vector.len() != len {
        *vector = DVector::zeros(len);
    }
}

pub(crate) fn fill_normal<R: Rng + ?Sized>(vector: &mut DVector<f64>, rng: &mut R) {
    StandardNormal::get().fill(vector.as_mut_slice(), rng);
}

/// A log density so low that no chain reaches it. A gradient may overflow if the log density is lower still.
pub(super) const UNREACHABLE: f64 = -1e100;
/// Slope that counts as an overflow if the log density is below `UNREACHABLE`. Larger finite slopes might overflow in a
/// preconditioner's coordinates.
const STEEP: f64 = 1e200;

/// Returns whether the energy rose by more than 1,000, Stan's threshold, from `before` at the start of a move to
/// `after` at its last finite point. If so, a move to a point where the model is not finite is refused. The reverse
/// move meets the same points, so the refusal is reversible.
pub(crate) fn diverges(before: f64, after: f64) -> bool {
    after - before > 1_000.0
}

/// Returns the number of evaluations in a stage: one at every one of the new `points`, and one at the old point if the
/// path has no ends.
pub(super) fn evaluations<M: Intermediate>(points: usize) -> usize {
    points.saturating_add(usize::from(!M::HAS_ENDS))
}

/// Weighs and moves the active chains one after another. An error in a log ratio names the state.
pub(crate) fn advance_vectors<M, K>(
    kernel: &K,
    stage: Stage<'_, M>,
    block: &mut Block<DVector<f64>>,
    workspace: &mut K::Workspace,
) -> Result<(), Error>
where
    M: Intermediate<State = DVector<f64>>,
    K: TransitionKernel<M>,
{
    block.each(stage, |block, chain| {
        let log_ratio = NonFinite::check_log_density("log ratio", block.log_ratio(stage, chain));
        let (state, rng) = block.chain_mut(chain);
        let log_ratio = log_ratio.map_err(|fault| fault.at_state(state.as_slice()))?;
        let step = kernel.step(stage, state, workspace, rng)?;
        Ok(Increment::new(log_ratio, step))
    })
}

/// Writes `grad log f(x)` and returns `log f(x)`, both checked. Off the support the gradient is 0. A position that
/// overflowed counts as off the support. So does a position where the log density is below -1e100 and the gradient
/// overflows or nearly does.
pub(crate) fn evaluate<M: Differentiable>(
    quantity: &'static str,
    model: &M,
    position: &DVector<f64>,
    gradient: &mut DVector<f64>,
) -> Result<f64, NonFinite> {
    let log_density = match all_finite(position.as_slice()) {
        true => model.gradient_into(position, gradient),
        false => f64::NEG_INFINITY,
    };
    checked(quantity, log_density, position, gradient)
}

/// Checks log density and gradient of a position.
pub(super) fn checked(
    quantity: &'static str,
    log_density: f64,
    position: &DVector<f64>,
    gradient: &mut DVector<f64>,
) -> Result<f64, NonFinite> {
    let mut log_density = NonFinite::check_log_density(quantity, log_density)
        .map_err(|fault| fault.at_state(position.as_slice()))?;
    let overflows = |gradient: &DVector<f64>| !gradient.iter().all(|slope| slope.abs() < STEEP);
    if log_density < UNREACHABLE && overflows(gradient) {
        log_density = f64::NEG_INFINITY;
    }
    if log_density == f64::NEG_INFINITY {
        gradient.as_mut_slice().fill(0.0);
    } else {
        check_gradient(gradient).map_err(|fault| fault.at_state(position.as_slice()))?;
    }
    Ok(log_density)
}

pub(super) fn check_gradient(gradient: &DVector<f64>) -> Result<(), NonFinite> {
    match all_finite(gradient.as_slice()) {
        true => Ok(()),
        false => {
            let quantity = "gradient of the log density";
            let mut values = gradient.iter().copied();
            let value = values.find(|x| !x.is_finite()).unwrap_or(f64::NAN);
            Err(NonFinite::new(quantity, value, "finite components"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GradientModel;

    #[test]
    fn a_gradient_may_overflow_beyond_reach_alone() {
        let model = |log_density, slope| {
            let steep = move |_: &[f64], gradient: &mut [f64]| {
                gradient[0] = slope;
                log_density
            };
            GradientModel::new(1, steep).unwrap()
        };
        let mut gradient = DVector::zeros(1);
        let mut found = |log_density, slope| {
            let (at, model) = (DVector::zeros(1), model(log_density, slope));
            let found = evaluate("log density", &model, &at, &mut gradient);
            (found.ok(), gradient[0])
        };
        for slope in [f64::INFINITY, -1e305, f64::NAN] {
            assert_eq!(found(-1e200, slope), (Some(f64::NEG_INFINITY), 0.0));
        }
        assert_eq!(found(-1e200, 1e150), (Some(-1e200), 1e150));
        assert_eq!(found(-1e3, f64::INFINITY).0, None);
    }
}
