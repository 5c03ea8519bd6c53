//! Log densities and gradients at both ends of the path, for chains that move together.

use std::iter::once;
use std::mem::swap;
use std::ops::Range;

use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

use super::vector::set_len;
use crate::model::{Differentiable, Gradients};
use crate::num::{next_run, set_zero};
use crate::path::{Ends, Intermediate};

/// Log densities and gradients of several states at both ends of the path.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct EndGradients(pub(super) [EndGradient; 2]);

/// Log densities and gradients of several states at one end. An unknown log density is NaN. The gradients are a matrix
/// with a row for each state, stored by columns.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct EndGradient {
    pub(super) log_densities: Vec<f64>,
    pub(super) gradients: DVector<f64>,
}

/// Returns the weights of the two ends' gradients in the gradient of `model`; `None` if the path has no ends.
pub(super) fn end_weights<M: Gradients + Intermediate>(model: &M) -> Option<[f64; 2]> {
    model.rows(&[]).end_weights().filter(|_| M::HAS_ENDS)
}

/// Returns the log density of a state under `model`, from its `known` log densities at both ends. Only ends of positive
/// weight must be known.
pub(super) fn blended<M: Intermediate>(model: &M, weights: [f64; 2], known: Ends) -> f64 {
    // An end of weight 0 may be unknown, and 0 times NaN would be NaN.
    let [base, target] = weights.map(|weight| weight > 0.0);
    model.log_density_at(Ends {
        base: if base { known.base } else { 0.0 },
        target: if target { known.target } else { 0.0 },
    })
}

impl EndGradient {
    /// Returns the columns of the gradients, then the log densities.
    fn columns(&self) -> impl Iterator<Item = &[f64]> {
        let columns = self.gradients.as_slice();
        let columns = columns.chunks_exact(self.log_densities.len());
        columns.chain(once(&self.log_densities[..]))
    }

    fn columns_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        let columns = self.gradients.as_mut_slice();
        let columns = columns.chunks_exact_mut(self.log_densities.len());
        columns.chain(once(&mut self.log_densities[..]))
    }

    /// Evaluates the log density and gradient of `model`, one end of the path, at the only state.
    fn evaluate(&mut self, model: &Model<'_>, position: &DVector<f64>) {
        set_zero(self.gradients.as_mut_slice());
        self.log_densities[0] = model.accumulate_gradient(position, 1.0, &mut self.gradients);
    }

    fn evaluate_run(&mut self, model: &Model<'_>, positions: &DVector<f64>, run: Range<usize>) {
        let states = self.log_densities.len();
        let dimension = positions.len() / states;
        let positions = DMatrixView::from_slice(positions.as_slice(), states, dimension);
        let gradients = self.gradients.as_mut_slice();
        // A view is filled entry by entry, which costs more than filling the whole matrix.
        if run.len() == states {
            set_zero(gradients);
        }
        let mut gradients = DMatrixViewMut::from_slice(gradients, states, dimension);
        let (positions, mut gradients) = (
            positions.rows(run.start, run.len()),
            gradients.rows_mut(run.start, run.len()),
        );
        if run.len() < states {
            gradients.fill(0.0);
        }
        let log_densities = &mut self.log_densities[run];
        model.accumulate_gradients(positions, 1.0, gradients, log_densities);
    }
}

/// The data of several states, and a matrix with a row for the position of each, stored by columns.
pub(super) type Positions<'p> = (&'p [usize], &'p DVector<f64>);

type Model<'m> = dyn Differentiable<State = DVector<f64>> + 'm;

impl EndGradients {
    /// Returns the number of states.
    pub(super) fn len(&self) -> usize {
        self.0[0].log_densities.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for `states` states. Forgets all values if the size changes.
    pub(super) fn set_size(&mut self, states: usize, dimension: usize) {
        for end in &mut self.0 {
            let size = (states, states * dimension);
            if (end.log_densities.len(), end.gradients.len()) != size {
                end.log_densities.clear();
                end.log_densities.resize(states, f64::NAN);
                set_len(&mut end.gradients, states * dimension);
            }
        }
    }

    #[inline]
    pub(super) fn forget(&mut self, state: usize) {
        for end in &mut self.0 {
            if let Some(log_density) = end.log_densities.get_mut(state) {
                *log_density = f64::NAN;
            }
        }
    }

    /// Makes room for new states and forgets all log densities. Ends of weight 0 are not evaluated; their gradients are
    /// set to 0, so that a saved block contains no leftover values.
    pub(super) fn clear(&mut self, states: usize, dimension: usize, weights: [f64; 2]) {
        self.set_size(states, dimension);
        for (end, weight) in self.0.iter_mut().zip(weights) {
            end.log_densities.fill(f64::NAN);
            if weight == 0.0 {
                end.gradients.fill(0.0);
            }
        }
    }

    pub(super) fn ends_of(&self, state: usize) -> Ends {
        let [base, target] = &self.0;
        Ends {
            base: base.log_densities[state],
            target: target.log_densities[state],
        }
    }

    /// Evaluates all states that need an end of positive weight, if the log density of one of them is unknown there. So
    /// one call of the model serves many states. Returns whether any end was evaluated. The rows of `positions` are the
    /// states.
    pub(super) fn complete<M: Gradients + Intermediate>(
        &mut self,
        model: &M,
        weights: [f64; 2],
        positions: Positions<'_>,
    ) -> bool {
        let mut learned = false;
        for end in (0..2).filter(|&end| weights[end] > 0.0) {
            let lacks = |(state, known): (usize, &f64)| {
                known.is_nan() && self.needs(model, weights, (end, state))
            };
            let mut known = self.0[end].log_densities.iter().enumerate();
            if known.any(lacks) {
                learned = true;
                self.evaluate(model, weights, (end, positions));
            }
        }
        learned
    }

    fn evaluate<M: Gradients + Intermediate>(
        &mut self,
        model: &M,
        weights: [f64; 2],
        (end, (data, positions)): (usize, Positions<'_>),
    ) {
        let states = self.len();
        // The default `accumulate_gradients` would copy the only state and gradient out of the matrices and back.
        if states == 1 && !model.evaluates_batches() {
            let end_gradient = &mut self.0[end];
            let evaluate = &mut |model: &Model<'_>| end_gradient.evaluate(model, positions);
            return model.rows(data).with_end(end, evaluate);
        }
        let mut done = 0;
        while let Some(run) = next_run(done..states, |state| {
            self.needs(model, weights, (end, state))
        }) {
            done = run.end;
            let end_gradient = &mut self.0[end];
            let rows = model.rows(&data[run.clone()]);
            rows.with_end(end, &mut |model| {
                end_gradient.evaluate_run(model, positions, run.clone());
            });
        }
    }

    /// Returns whether the log densities of all states are known at the ends of positive weight.
    pub(super) fn has(&self, weights: [f64; 2]) -> bool {
        let mut ends = self.0.iter().zip(weights);
        ends.all(|(end, weight)| {
            weight == 0.0 || !end.log_densities.iter().any(|known| known.is_nan())
        })
    }

    /// Returns whether the log density of a state depends on `end`. It does not depend on the target if the state lies
    /// off the support of the base.
    fn needs<M: Intermediate>(
        &self,
        model: &M,
        weights: [f64; 2],
        (end, state): (usize, usize),
    ) -> bool {
        // With an unknown target, the log density is NaN only if it depends on the target.
        let target = f64::NAN;
        let base = self.0[0].log_densities[state];
        end == 0 || blended(model, weights, Ends { base, target }).is_nan()
    }

    /// Copies the rows `runs` of `from` to the rows of `self`, one after another.
    pub(super) fn load(&mut self, from: &Self, runs: &[Range<usize>]) {
        for (to, from) in self.0.iter_mut().zip(&from.0) {
            for (mut to, from) in to.columns_mut().zip(from.columns()) {
                for run in runs {
                    let (rows, rest) = to.split_at_mut(run.len());
                    rows.copy_from_slice(&from[run.clone()]);
                    to = rest;
                }
            }
        }
    }

    /// Writes the rows of `from` to the rows `runs`, for the states that moved. An entry of `moved` has all bits set
    /// for a state that moved, and no bit set for a state that stayed.
    pub(super) fn store(&mut self, from: &mut Self, runs: &[Range<usize>], moved: &[u64]) {
        if moved.iter().all(|&moved| moved == 0) {
            return;
        }
        if moved.len() == self.len() && moved.iter().all(|&moved| moved != 0) {
            return swap(self, from);
        }
        for (to, from) in self.0.iter_mut().zip(&from.0) {
            for (to, mut from) in to.columns_mut().zip(from.columns()) {
                let mut moved = moved;
                for run in runs {
                    let (rows, are_moved) = (&from[..run.len()], &moved[..run.len()]);
                    for ((to, from), moved) in to[run.clone()].iter_mut().zip(rows).zip(are_moved) {
                        // Without a branch the loop can use vector registers.
                        *to = f64::from_bits(from.to_bits() & moved | to.to_bits() & !moved);
                    }
                    (from, moved) = (&from[run.len()..], &moved[run.len()..]);
                }
            }
        }
    }

    /// Returns the log densities and gradients of one state; `None` if there are no states.
    pub(super) fn row(&self, state: usize) -> Option<Self> {
        (!self.is_empty()).then(|| {
            Self(self.0.each_ref().map(|end| {
                let columns = end
                    .gradients
                    .as_slice()
                    .chunks_exact(end.log_densities.len());
                let row = columns.map(|column| column[state]).collect();
                EndGradient {
                    log_densities: vec![end.log_densities[state]],
                    gradients: DVector::from_vec(row),
                }
            }))
        })
    }

    /// Replaces the log densities and gradients of one state. If the dimension differs, they become unknown.
    pub(super) fn set_row(&mut self, state: usize, row: Self) {
        if self.len() <= 1 {
            return *self = row;
        }
        for (end, row) in self.0.iter_mut().zip(&row.0) {
            let states = end.log_densities.len();
            let fits = row.gradients.len() * states == end.gradients.len();
            let known = row.log_densities.first().filter(|_| fits);
            end.log_densities[state] = known.copied().unwrap_or(f64::NAN);
            let columns = end.gradients.as_mut_slice().chunks_exact_mut(states);
            for (column, x) in columns.zip(row.gradients.as_slice()) {
                column[state] = *x;
            }
        }
    }

    /// Returns whether the matrices have rows for `states` states. Used to check a file.
    #[cfg(feature = "checkpoint")]
    pub(super) fn fits(&self, states: usize) -> bool {
        let [base, target] = &self.0;
        let is_sized = |end: &EndGradient| {
            let left = end.gradients.len().checked_rem(states);
            end.log_densities.len() == states && left.is_none_or(|left| left == 0)
        };
        is_sized(base) && is_sized(target) && base.gradients.len() == target.gradients.len()
    }
}
