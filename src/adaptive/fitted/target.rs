//! The target, with the number of its evaluations.

use std::cell::Cell;

use nalgebra::DVector;

use crate::kernel::NonFinite;
use crate::model::{UnnormalizedModel, log_densities_of};
use crate::work::{Halt, Pulse, Stepped, join};

/// Largest number of states that a thread evaluates together, if the target does not evaluate batches.
pub(in crate::adaptive) const TOGETHER: usize = 16;
/// Largest number of states that are evaluated before the work reports them and may stop.
const REPORTED: usize = 256;

/// The target, with the number of its evaluations. They count as chain-steps.
pub(super) struct CountedTarget<'a, M> {
    model: M,
    pulse: &'a Pulse<'a>,
    spent: Cell<u64>,
    /// Forecast of the chain-steps that follow the present evaluations.
    pub(super) later: Cell<u64>,
}

impl<'a, M: UnnormalizedModel<State = DVector<f64>> + Sync> CountedTarget<'a, M> {
    pub(super) fn new(model: M, pulse: &'a Pulse<'a>) -> Self {
        Self {
            model,
            pulse,
            spent: Cell::new(0),
            later: Cell::new(0),
        }
    }

    /// Returns the number of evaluations so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Returns the log densities of states. Refuses NaN and `+inf`.
    pub(super) fn log_densities(&self, states: &[DVector<f64>]) -> Result<Vec<f64>, Halt> {
        let (mut values, mut left) = (vec![0.0; states.len()], states.len());
        for (states, values) in states.chunks(REPORTED).zip(values.chunks_mut(REPORTED)) {
            evaluate(&self.model, states, values);
            self.spent.set(self.spent.get() + states.len() as u64);
            left -= states.len();
            self.pulse.pass(Stepped {
                left: Some(self.later.get().saturating_add(left as u64)),
                ..Stepped::of(states.len(), false)
            })?;
        }
        for (chain, &value) in values.iter().enumerate() {
            let checked = NonFinite::check_log_density("log density of the target", value);
            checked
                .map_err(|fault| fault.of_model(&self.model, (chain, 0, 1.0), 0..values.len()))?;
        }
        Ok(values)
    }
}

fn evaluate<M>(model: &M, states: &[DVector<f64>], values: &mut [f64])
where
    M: UnnormalizedModel<State = DVector<f64>> + Sync,
{
    if states.len() <= TOGETHER || model.evaluates_batches() {
        return values.copy_from_slice(&log_densities_of(model, states));
    }
    let (left, right) = states.split_at(states.len() / 2);
    let (of_left, of_right) = values.split_at_mut(left.len());
    join(&mut || evaluate(model, left, of_left), &mut || {
        evaluate(model, right, of_right)
    });
}
