//! Log densities and gradients of the chains of a block at the ends of the path, as matrices.

use std::iter::once;
use std::ops::Range;

use nalgebra::{DMatrixViewMut, DVector};

use crate::path::{EndBatch, EndGradient, EndGradients, Ends};

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
