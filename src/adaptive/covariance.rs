//! The covariance of the chains along a run, which shapes the proposals.

use nalgebra::{DMatrix, DVector};

use crate::ais::{Merge, Recorder};
use crate::kernel::{Block, Preconditioner, Stage};
use crate::num::WeightSums;
use crate::path::Intermediate;

/// Number of chains per dimension from which on a covariance is a matrix.
pub(super) const CHAINS_PER_DIMENSION: usize = 4;

/// Weighted mean and covariance of states, or only the variances of their coordinates.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Covariance {
    /// Sum of the effective sample sizes of all merged blocks.
    count: f64,
    mean: DVector<f64>,
    /// Mean product of deviations: a matrix, or a column of squares.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::num::serial::matrix")
    )]
    spread: DMatrix<f64>,
}

impl Covariance {
    /// Returns the weighted covariance of a block's chains, or `None` if all are dead. It has only variances in
    /// more than `most` dimensions.
    pub(super) fn of<S>(
        block: &Block<S>,
        coordinates: fn(&S) -> &[f64],
        most: usize,
    ) -> Option<Self> {
        let weights = WeightSums::of(block.log_weights());
        let alive: Vec<usize> = block.alive().collect();
        let dimension = coordinates(&block.states()[*alive.first()?]).len();
        let mut deviations = DMatrix::zeros(dimension, alive.len());
        let mut mean = DVector::zeros(dimension);
        let share = |chain: usize| weights.share(block.log_weights()[chain]);
        for (mut column, &chain) in deviations.column_iter_mut().zip(&alive) {
            column.copy_from_slice(coordinates(&block.states()[chain]));
            mean.axpy(share(chain), &column, 1.0);
        }
        for (mut column, &chain) in deviations.column_iter_mut().zip(&alive) {
            column -= &mean;
            column *= share(chain).sqrt();
        }
        let spread = match dimension <= most {
            true => &deviations * deviations.transpose(),
            false => DMatrix::from_fn(dimension, 1, |i, _| deviations.row(i).norm_squared()),
        };
        Some(Self {
            count: weights.effective_sample_size(),
            mean,
            spread,
        })
    }

    /// Returns the covariance of several blocks, each with the sum of its weights, or `None` if all chains are dead.
    pub(super) fn of_blocks(
        blocks: impl IntoIterator<Item = (WeightSums, Option<Self>)>,
    ) -> Option<Self> {
        let mut all = WeightSums::default();
        let mut merged: Option<Self> = None;
        for (weights, covariance) in blocks {
            all.merge(&weights);
            merged = match (merged, covariance) {
                (Some(mut left), Some(right)) => {
                    // By the sums of weights, so that the result is the weighted covariance of all chains together.
                    left.merge_by(&right, (weights.log_sum() - all.log_sum()).exp());
                    Some(left)
                }
                (left, right) => left.or(right),
            };
        }
        Some(Self {
            count: all.effective_sample_size(),
            ..merged?
        })
    }

    /// Returns the average of two covariances, each about its own mean. The weight of `other` is `share`.
    fn mixed(&self, other: &Self, share: f64) -> Self {
        Self {
            count: (1.0 - share) * self.count + share * other.count,
            mean: &self.mean * (1.0 - share) + &other.mean * share,
            spread: &self.spread * (1.0 - share) + &other.spread * share,
        }
    }

    /// Returns the covariance of both sets of chains, each about its own mean.
    fn pooled(&self, other: &Self) -> Self {
        let count = self.count + other.count;
        Self {
            count,
            ..self.mixed(other, other.count / count)
        }
    }

    fn merge(&mut self, right: &Self) {
        self.merge_by(right, right.count / (self.count + right.count));
    }

    /// Merges the covariance of further chains, whose share of the weight is `share`.
    fn merge_by(&mut self, right: &Self, share: f64) {
        let distance = &right.mean - &self.mean;
        let between = match self.spread.ncols() {
            1 => DMatrix::from_column_slice(distance.len(), 1, distance.map(|x| x * x).as_slice()),
            _ => &distance * distance.transpose(),
        };
        self.count += right.count;
        self.mean += distance * share;
        self.spread *= 1.0 - share;
        self.spread += &right.spread * share + between * (share * (1.0 - share));
    }

    /// Returns the preconditioner, or `None` if a coordinate or a combination of coordinates does not vary.
    pub(super) fn preconditioner(&self) -> Option<Preconditioner> {
        let dimension = self.mean.len();
        // In one dimension a full matrix has a single column, too.
        if self.spread.ncols() < dimension || dimension == 1 {
            let deviations = self.spread.column(0).map(f64::sqrt);
            return Preconditioner::deviations(deviations).ok();
        }
        Preconditioner::covariance(&self.spread).ok()
    }
}

/// Covariances at increasing betas, interpolated linearly.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Shapes(Vec<(f64, Covariance)>);

/// Number of knots of a preconditioner from one covariance to the next. The factor of the nearest knot applies, so it
/// lags by at most an eighth of their difference; a knot costs one Cholesky factor.
const KNOTS_PER_SHAPE: usize = 4;

impl Shapes {
    pub(super) fn push(&mut self, beta: f64, covariance: Covariance) {
        self.0.push((beta, covariance));
    }

    fn at(&self, beta: f64) -> Option<Covariance> {
        let right = self.0.partition_point(|(knot, _)| *knot <= beta);
        let Some((b, after)) = self.0.get(right) else {
            return Some(self.0.last()?.1.clone());
        };
        let Some((a, before)) = right.checked_sub(1).and_then(|left| self.0.get(left)) else {
            return Some(after.clone());
        };
        // Passes of fewer chains than a round's may have variances where the round has a matrix.
        match before.spread.shape() == after.spread.shape() {
            true => Some(before.mixed(after, (beta - a) / (b - a))),
            false => Some(after.clone()),
        }
    }

    /// Returns the covariances at the betas that a round recorded: the recorded ones, pooled with the old ones. If
    /// `is_trusted(beta)` is false, the chains of the round had not mixed there, and the old covariance is kept.
    pub(super) fn improved<S>(
        &self,
        recorder: &CovarianceRecorder<S>,
        is_trusted: impl Fn(f64) -> bool,
    ) -> Self {
        let improved = recorder.shapes().map(|(beta, found)| {
            let shape = match (self.at(beta), is_trusted(beta)) {
                (None, _) => found.clone(),
                (Some(known), true) if known.spread.shape() == found.spread.shape() => {
                    found.pooled(&known)
                }
                (Some(_), true) => found.clone(),
                (Some(known), false) => known,
            };
            (beta, shape)
        });
        Self(improved.collect())
    }

    /// Returns the preconditioner with knots at and between the betas, or `None` if no covariance gives one.
    pub(super) fn preconditioner(&self) -> Option<Preconditioner> {
        let inner = self.0.windows(2).flat_map(|pair| {
            let (a, b) = (pair[0].0, pair[1].0);
            let share = |i| i as f64 / KNOTS_PER_SHAPE as f64;
            (0..KNOTS_PER_SHAPE).map(move |i| a + share(i) * (b - a))
        });
        let betas = inner.chain(self.0.last().map(|(beta, _)| *beta));
        let knot = |beta| Some((beta, self.at(beta)?.preconditioner()?));
        Preconditioner::knots(betas.filter_map(knot)).ok()
    }
}

/// A recorder of the chains' covariance in bins of stages.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "checkpoint", serde(bound = ""))]
pub(crate) struct CovarianceRecorder<S> {
    #[cfg_attr(feature = "checkpoint", serde(skip, default = "no_coordinates"))]
    coordinates: fn(&S) -> &[f64],
    chains: usize,
    steps: usize,
    bins: Vec<Option<CovarianceBin>>,
}

#[derive(Debug, Clone)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize, serde::Deserialize))]
struct CovarianceBin {
    first_beta: f64,
    last_beta: f64,
    covariance: Covariance,
}

/// Largest number of bins along a run. A first round of the fewest stages (16) has one stage in each. More bins would
/// follow the path better, from fewer states each.
pub(super) const BINS: usize = 16;
/// Largest number of stages recorded in a bin. It bounds the cost at some 128 covariances for each block of chains.
/// Neighbouring stages share their chains, so that further ones add correlated states.
const STAGES_PER_BIN: usize = 8;

/// Returns a placeholder for `coordinates` in a recorder read from a file. `resume_as` replaces it.
#[cfg(feature = "checkpoint")]
fn no_coordinates<S>() -> fn(&S) -> &[f64] {
    |_| &[]
}

impl<S> CovarianceRecorder<S> {
    pub(super) fn new(coordinates: fn(&S) -> &[f64], chains: usize, steps: usize) -> Self {
        Self {
            coordinates,
            chains,
            steps,
            bins: vec![None; BINS.min(steps)],
        }
    }

    /// Returns the middle beta and the covariance of each bin.
    fn shapes(&self) -> impl Iterator<Item = (f64, &Covariance)> {
        let bins = self.bins.iter().flatten();
        bins.map(|bin| (0.5 * (bin.first_beta + bin.last_beta), &bin.covariance))
    }
}

impl<M: Intermediate<State: Clone>> Recorder<M> for CovarianceRecorder<M::State> {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let stride = self.steps.div_ceil(BINS * STAGES_PER_BIN);
        if !stage.index.is_multiple_of(stride) && stage.index != self.steps {
            return;
        }
        let most = self.chains / CHAINS_PER_DIMENSION;
        let Some(covariance) = Covariance::of(block, self.coordinates, most) else {
            return;
        };
        let bin = (stage.index - 1) * self.bins.len() / self.steps;
        match &mut self.bins[bin] {
            Some(bin) => {
                bin.covariance.merge(&covariance);
                bin.last_beta = stage.beta;
            }
            empty => {
                *empty = Some(CovarianceBin {
                    first_beta: stage.beta,
                    last_beta: stage.beta,
                    covariance,
                });
            }
        }
    }

    fn resume_as(&mut self, new: &Self) {
        self.coordinates = new.coordinates;
    }
}

impl<S> Merge for CovarianceRecorder<S> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(right.bins) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    mine.covariance.merge(&theirs.covariance);
                    // A block whose chains have died has no later stage of the bin.
                    mine.last_beta = mine.last_beta.max(theirs.last_beta);
                }
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_of_a_first_pass_may_stand_beside_a_matrix() {
        let covariance = |columns| Covariance {
            count: 10.0,
            mean: DVector::zeros(2),
            spread: DMatrix::identity(2, columns),
        };
        let shapes = Shapes(vec![(0.2, covariance(1)), (0.8, covariance(2))]);
        assert_eq!(shapes.at(0.5).map(|at| at.spread.ncols()), Some(2));
    }
}
