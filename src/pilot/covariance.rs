//! The covariance of the chains along a run, by which proposals are shaped.

use nalgebra::{DMatrix, DVector};

use crate::ais::{Merge, Recorder};
use crate::chain::{Block, Stage};
use crate::kernel::Preconditioner;
use crate::num::WeightSums;
use crate::path::Intermediate;

/// Weighted mean and covariance of states, or of their coordinates one by one.
#[derive(Debug, Clone)]
pub(super) struct Covariance {
    /// Sum of the effective sample sizes.
    count: f64,
    mean: DVector<f64>,
    /// Mean of the products of deviations: a matrix, or a column of squares.
    spread: DMatrix<f64>,
}

impl Covariance {
    /// That of the chains of a block under their weights; `None` where all are dead. It is a matrix where the
    /// run has so many chains that they tell one, and else the variances alone.
    pub(super) fn of<S>(
        block: &Block<S>,
        coordinates: fn(&S) -> &[f64],
        chains_of_run: usize,
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
        let spread = match chains_of_run >= 4 * dimension {
            true => &deviations * deviations.transpose(),
            false => DMatrix::from_fn(dimension, 1, |i, _| deviations.row(i).norm_squared()),
        };
        Some(Self {
            count: weights.effective_sample_size(),
            mean,
            spread,
        })
    }

    /// With the spread of other chains pooled in, about their own mean.
    fn pool(&mut self, other: &Self) {
        let share = other.count / (self.count + other.count);
        self.count += other.count;
        self.spread *= 1.0 - share;
        self.spread += &other.spread * share;
    }

    fn merge(&mut self, right: &Self) {
        let share = right.count / (self.count + right.count);
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

    /// The preconditioner of these states; `None` where a coordinate, or a combination of them, does not vary.
    pub(super) fn preconditioner(&self) -> Option<Preconditioner> {
        let dimension = self.mean.len();
        if self.spread.ncols() < dimension || dimension == 1 {
            let deviations = self.spread.column(0).map(f64::sqrt);
            return Preconditioner::deviations(deviations).ok();
        }
        Preconditioner::covariance(&self.spread).ok()
    }
}

/// A recorder of the chains' covariance in bins of stages.
#[derive(Debug, Clone)]
pub(super) struct CovarianceRecorder<S> {
    coordinates: fn(&S) -> &[f64],
    chains: usize,
    steps: usize,
    bins: Vec<Option<Bin>>,
}

/// Stages of one bin that were looked at.
#[derive(Debug, Clone)]
struct Bin {
    first_beta: f64,
    last_beta: f64,
    covariance: Covariance,
}

/// Bins along a run, and stages looked at in each of them, at most.
const BINS: usize = 16;
const STAGES: usize = 8;

impl<S> CovarianceRecorder<S> {
    /// For a run of so many chains and stages.
    pub(super) fn new(coordinates: fn(&S) -> &[f64], chains: usize, steps: usize) -> Self {
        Self {
            coordinates,
            chains,
            steps,
            bins: vec![None; BINS.min(steps)],
        }
    }

    /// With the bins of an earlier round, of other chains, pooled in. Rounds of equal intensities have bins at
    /// nearly the same betas.
    pub(super) fn pooled(mut self, earlier: Option<Self>) -> Self {
        let earlier = earlier.map_or(Vec::new(), |earlier| earlier.bins);
        if earlier.len() == self.bins.len() {
            for (mine, theirs) in self.bins.iter_mut().zip(&earlier) {
                if let Some((mine, theirs)) = mine.as_mut().zip(theirs.as_ref()) {
                    mine.covariance.pool(&theirs.covariance);
                }
            }
        }
        self
    }

    /// The preconditioners of the bins, each at the middle of its stages.
    pub(super) fn knots(&self) -> Vec<(f64, Preconditioner)> {
        let bins = self.bins.iter().flatten();
        let knot = |bin: &Bin| {
            let middle = 0.5 * (bin.first_beta + bin.last_beta);
            Some((middle, bin.covariance.preconditioner()?))
        };
        bins.filter_map(knot).collect()
    }
}

impl<M: Intermediate<State: Clone>> Recorder<M> for CovarianceRecorder<M::State> {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let stride = self.steps.div_ceil(BINS * STAGES);
        if !stage.index.is_multiple_of(stride) && stage.index != self.steps {
            return;
        }
        let Some(covariance) = Covariance::of(block, self.coordinates, self.chains) else {
            return;
        };
        let bin = (stage.index - 1) * self.bins.len() / self.steps;
        match &mut self.bins[bin] {
            Some(bin) => {
                bin.covariance.merge(&covariance);
                bin.last_beta = stage.beta;
            }
            empty => {
                *empty = Some(Bin {
                    first_beta: stage.beta,
                    last_beta: stage.beta,
                    covariance,
                });
            }
        }
    }
}

impl<S> Merge for CovarianceRecorder<S> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(right.bins) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.covariance.merge(&theirs.covariance),
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
    }
}
