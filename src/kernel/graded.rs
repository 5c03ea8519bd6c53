//! Log densities and gradients at the ends of the path: of a chain, and of a block as matrices.

use std::iter::once;
use std::ops::Range;

use nalgebra::{DMatrixViewMut, DVector};

use super::preconditioner::Factor;
use super::vector::{add_scaled, checked, set_len, turn};
use super::{NonFinite, Stage};
use crate::model::Differentiable;
use crate::num::{all_finite, set_zero};
use crate::path::{EndBatch, EndGradient, EndGradients, Ends, Intermediate};

/// Values known of a state: log densities and gradients at the ends of the path.
pub(super) struct Graded<'g> {
    pub(super) ends: &'g mut Ends,
    pub(super) gradients: &'g mut EndGradients,
}

impl Graded<'_> {
    /// Calls `work` with a memory of its own, in which nothing is known.
    pub(super) fn unknown<T>(work: impl FnOnce(Graded<'_>) -> T) -> T {
        let (mut ends, mut gradients) = (Ends::UNKNOWN, EndGradients::default());
        work(Graded {
            ends: &mut ends,
            gradients: &mut gradients,
        })
    }

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

/// Values known of several states: for each end of the path log densities, NaN where not known, and gradients, a matrix
/// with a row for each chain, stored by columns.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct EndRows(pub(super) [Rows; 2]);

#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Rows {
    pub(super) log_densities: Vec<f64>,
    pub(super) gradients: Vec<f64>,
}

impl EndRows {
    /// Makes room for these chains. A change of size forgets all.
    pub(super) fn set_size(&mut self, chains: usize, dimension: usize) {
        for rows in &mut self.0 {
            let size = (chains, chains * dimension);
            if (rows.log_densities.len(), rows.gradients.len()) != size {
                rows.log_densities.clear();
                rows.log_densities.resize(chains, f64::NAN);
                rows.gradients.resize(chains * dimension, 0.0);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0[0].log_densities.is_empty()
    }

    pub(super) fn forget(&mut self, chain: usize) {
        for rows in &mut self.0 {
            if let Some(log_density) = rows.log_densities.get_mut(chain) {
                *log_density = f64::NAN;
            }
        }
    }

    pub(super) fn forget_all(&mut self) {
        (self.0.iter_mut()).for_each(|rows| rows.log_densities.fill(f64::NAN));
    }

    /// Returns the places for an evaluation of all chains. An end that is not known for all of them counts as unknown.
    pub(super) fn batches(&mut self) -> [EndBatch<'_>; 2] {
        self.0.each_mut().map(|rows| {
            let (chains, entries) = (rows.log_densities.len(), rows.gradients.len());
            if rows.log_densities.iter().any(|x| x.is_nan()) {
                rows.log_densities.fill(f64::NAN);
                rows.gradients.fill(0.0);
            }
            EndBatch {
                log_densities: &mut rows.log_densities,
                gradients: DMatrixViewMut::from_slice(
                    &mut rows.gradients,
                    chains,
                    entries.checked_div(chains).unwrap_or(0),
                ),
            }
        })
    }

    /// Returns whether the ends of positive weight are known for all chains.
    pub(super) fn know(&self, weights: [f64; 2]) -> bool {
        weights
            .into_iter()
            .zip(&self.0)
            .all(|(weight, rows)| weight == 0.0 || rows.log_densities.iter().all(|x| !x.is_nan()))
    }

    /// Copies the rows of `runs` from a larger block.
    pub(super) fn load(&mut self, from: &Self, runs: &[Range<usize>]) {
        for (to, from) in self.0.iter_mut().zip(&from.0) {
            let columns = to.gradients.chunks_exact_mut(to.log_densities.len());
            let columns = columns.chain(once(&mut to.log_densities[..]));
            let all = from.gradients.chunks_exact(from.log_densities.len());
            let all = all.chain(once(&from.log_densities[..]));
            for (mut to, from) in columns.zip(all) {
                for run in runs {
                    let (rows, rest) = to.split_at_mut(run.len());
                    rows.copy_from_slice(&from[run.clone()]);
                    to = rest;
                }
            }
        }
    }

    /// Copies rows to `runs` in a larger block, for those of their chains that have all bits in `moved`, not none.
    pub(super) fn store(&mut self, from: &Self, runs: &[Range<usize>], moved: &[u64]) {
        for (to, from) in self.0.iter_mut().zip(&from.0) {
            let columns = to.gradients.chunks_exact_mut(to.log_densities.len());
            let columns = columns.chain(once(&mut to.log_densities[..]));
            let found = from.gradients.chunks_exact(from.log_densities.len());
            let found = found.chain(once(&from.log_densities[..]));
            for (to, mut from) in columns.zip(found) {
                let mut moved = moved;
                for run in runs {
                    let (rows, are_moved) = (&from[..run.len()], &moved[..run.len()]);
                    for ((to, from), moved) in to[run.clone()].iter_mut().zip(rows).zip(are_moved) {
                        *to = f64::from_bits(from.to_bits() & moved | to.to_bits() & !moved);
                    }
                    (from, moved) = (&from[run.len()..], &moved[run.len()..]);
                }
            }
        }
    }

    pub(super) fn ends_of(&self, chain: usize) -> Ends {
        let [base, target] = [0, 1].map(|end| {
            let known = self.0[end].log_densities.get(chain);
            known.copied().unwrap_or(f64::NAN)
        });
        Ends { base, target }
    }

    /// Returns what is known of one chain.
    pub(super) fn of(&self, chain: usize) -> EndGradients {
        let [base, target] = self.0.each_ref().map(|rows| {
            let chains = rows.log_densities.len();
            let known = rows.log_densities.get(chain).copied();
            let columns = rows.gradients.chunks_exact(chains.max(1));
            let row: Vec<f64> = columns
                .filter_map(|column| column.get(chain).copied())
                .collect();
            EndGradient {
                log_density: known.unwrap_or(f64::NAN),
                gradient: DVector::from_vec(row),
            }
        });
        EndGradients { base, target }
    }

    /// Replaces what is known of one chain; forgets it if the gradients do not fit.
    pub(super) fn set(&mut self, chain: usize, known: &EndGradients) {
        for (rows, known) in self.0.iter_mut().zip([&known.base, &known.target]) {
            let chains = rows.log_densities.len();
            let fits = known.gradient.len() * chains == rows.gradients.len();
            rows.log_densities[chain] = if fits { known.log_density } else { f64::NAN };
            let columns = rows.gradients.chunks_exact_mut(chains);
            for (column, x) in columns.zip(known.gradient.as_slice()) {
                column[chain] = *x;
            }
        }
    }

    /// Returns whether the matrices have rows for `chains` chains, or none. Checks a file.
    #[cfg(feature = "checkpoint")]
    pub(super) fn fits(&self, chains: usize) -> bool {
        let [base, target] = &self.0;
        let sized = |rows: &Rows| {
            let columns = rows.gradients.len().checked_rem(chains);
            rows.log_densities.len() == chains && columns.is_none_or(|left| left == 0)
        };
        let none = |rows: &Rows| rows.log_densities.is_empty() && rows.gradients.is_empty();
        let same = base.gradients.len() == target.gradients.len();
        same && (none(base) && none(target) || sized(base) && sized(target))
    }
}
