//! A lower bound on log Z of an RBM that needs no chain to be right.

use std::collections::BTreeSet;

use nalgebra::{DMatrix, DVector};

use crate::num::{log_sum_exp, sigmoid};
use crate::rbm::enumerate::{check_log_normalizer, map_tasks};
use crate::rbm::mean_field::{BLOCK, MeanField, coins};
use crate::rbm::model::Rbm;
use crate::rbm::scalar::Scalar;
use crate::{Error, Result};

/// A lower bound on log Z of an RBM, certain but for rounding, and the modes by which it was found.
///
/// It tells that an estimate which lies below it has missed mass. Where the mass is spread over many modes it lies far
/// below log Z and says nothing.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LowerBound {
    /// The bound: the highest one of a mode, or [`configurations`](Self::configurations) where that is higher.
    pub value: f64,
    /// The log of the sum of `f(h)` over the distinct hidden configurations that were met.
    pub configurations: f64,
    /// The distinct mean-field solutions, by falling bound.
    pub modes: Vec<Mode>,
}

/// A solution of the mean-field equations `mu = sigmoid(a + W m)`, `m = sigmoid(b + W^T mu)` of an RBM.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mode {
    /// The means `mu` of the hidden units.
    pub hidden: DVector<f64>,
    /// The means `m` of the visible units.
    pub visible: DVector<f64>,
    /// `a.mu + H(mu) + sum_i softplus(b_i + (W^T mu)_i)`, which is at most log Z.
    pub bound: f64,
}

impl<T: Scalar> Rbm<T> {
    /// A lower bound on log Z, by mean-field ascents from these visible states, which may be none, and from so many
    /// `starts` at fair coins.
    ///
    /// For any probabilities mu of the hidden units `a.mu + H(mu) + sum_i softplus(b_i + (W^T mu)_i) <= log Z`, H the
    /// entropy. Applying the equations of a [`Mode`] in turn never lowers it. The sum of
    /// `f(h) = exp(a.h) prod_i (1 + exp(b_i + (W^T h)_i))` over distinct hidden configurations is at most Z, too; these
    /// are the most probable ones given the states, and those next to the modes. All is computed in f64.
    ///
    /// # Errors
    /// Neither states nor starts; a state of another length than D; parameters of which log Z overflows.
    ///
    /// ```
    /// use annealed::rbm::Rbm;
    /// use nalgebra::dmatrix;
    ///
    /// let weights = dmatrix![4.0, 4.0, -4.0; -2.0, 1.0, 0.0];
    /// let rbm = Rbm::<f64>::new(weights, vec![-2.0, 0.0].into(), vec![-1.0, -2.0, 2.0].into())?;
    /// let bound = rbm.lower_bound(&[], 10, 0)?;
    /// let exact = rbm.exact_log_normalizer()?;
    /// assert!(bound.value < exact && bound.value > exact - 0.1);
    /// # Ok::<(), annealed::Error>(())
    /// ```
    pub fn lower_bound(&self, states: &[Vec<bool>], starts: usize, seed: u64) -> Result<LowerBound> {
        for state in states {
            Error::check_dimension("state", state.len(), self.visible_units())?;
        }
        Error::check_count("states and starts", states.len().saturating_add(starts), 1)?;
        let units = self.visible_units();
        let given = states.chunks(BLOCK).map(|states| {
            DMatrix::from_fn(units, states.len(), |i, column| f64::from(states[column][i]))
        });
        let drawn = (0..starts.div_ceil(BLOCK))
            .map(|block| coins(units, BLOCK.min(starts - block * BLOCK), seed, block));
        let blocks: Vec<DMatrix<f64>> = given.chain(drawn).collect();
        let equations = MeanField::new(self);
        let found = map_tasks(blocks.len(), |block| equations.climb(&blocks[block]));
        let mut modes = Vec::new();
        let mut met = BTreeSet::new();
        for (solutions, configurations) in found {
            modes.extend(solutions);
            met.extend(configurations);
        }
        modes.sort_by(|one: &Mode, other: &Mode| other.bound.total_cmp(&one.bound));
        let mut distinct = BTreeSet::new();
        modes.retain(|mode| distinct.insert(rounded(&mode.hidden, 100.0)));
        let configurations = equations.log_sum(&Vec::from_iter(met));
        Ok(LowerBound {
            value: check_log_normalizer(configurations.max(modes[0].bound))?,
            configurations,
            modes,
        })
    }
}

/// Each probability as a multiple of `1 / steps`.
fn rounded(probabilities: &DVector<f64>, steps: f64) -> Vec<u8> {
    probabilities.iter().map(|p| (steps * p).round() as u8).collect()
}

impl MeanField {
    /// The solutions to which the columns lead, and the most probable hidden configurations at both ends.
    fn climb(&self, visible: &DMatrix<f64>) -> (Vec<Mode>, Vec<Vec<u8>>) {
        let first = self.hidden(visible);
        let hidden = self.hidden(&self.solve(visible.clone()).map(sigmoid));
        let logits = self.visible_logits(&hidden);
        let bounds = self.bounds(&hidden, &logits);
        let mode = |column: usize, bound: f64| Mode {
            hidden: hidden.column(column).into_owned(),
            visible: logits.column(column).map(sigmoid),
            bound,
        };
        let ends = first.column_iter().chain(hidden.column_iter());
        let ends = ends.map(|column| rounded(&column.into_owned(), 1.0));
        let modes = bounds.into_iter().enumerate().map(|(column, bound)| mode(column, bound));
        (modes.collect(), ends.collect())
    }

    /// `log sum f(h)` over hidden configurations.
    fn log_sum(&self, configurations: &[Vec<u8>]) -> f64 {
        let blocks: Vec<_> = configurations.chunks(BLOCK).collect();
        let log_f = map_tasks(blocks.len(), |block| {
            let states = blocks[block];
            let units = states[0].len();
            let hidden = DMatrix::from_fn(units, states.len(), |j, column| f64::from(states[column][j]));
            self.bounds(&hidden, &self.visible_logits(&hidden))
        });
        log_sum_exp(log_f.into_iter().flatten())
    }
}
