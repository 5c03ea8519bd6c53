//! Recorders: mergeable accumulators that see the chains at recorded stages.

use crate::kernel::{Block, Stage};
use crate::num::{WeightedMean, WeightedVariance};
use crate::path::Intermediate;
use crate::work::Merge;

/// An observer of a run, called for each block of chains after each recorded stage.
///
/// Each block has its own clone. Clones merge in a fixed order, so the result does not depend on threads. A recorder
/// sees weighted chains `(x_k, w_k)`, which target `p_k`. On a path with
/// [surrogates](crate::path::AnnealingPath::surrogate_at), `p_k` is the surrogate, also at the last stage.
pub trait Recorder<M: Intermediate>: Merge + Clone {
    /// Records one block after a stage.
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>);

    /// Copies from a new recorder what serde does not write, such as a function. It is called after this recorder was
    /// read from a checkpoint.
    fn resume_as(&mut self, _new: &Self) {}
}

impl<M: Intermediate> Recorder<M> for () {
    fn record(&mut self, _stage: Stage<'_, M>, _block: &Block<M::State>) {}
}

impl Merge for () {
    fn merge(&mut self, _right: Self) {}
}

/// Records nothing if it is `None`.
impl<M: Intermediate, R: Recorder<M>> Recorder<M> for Option<R> {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        if let Some(recorder) = self {
            recorder.record(stage, block);
        }
    }

    fn resume_as(&mut self, new: &Self) {
        if let (Some(recorder), Some(new)) = (self, new) {
            recorder.resume_as(new);
        }
    }
}

impl<R: Merge> Merge for Option<R> {
    fn merge(&mut self, right: Self) {
        if let (Some(mine), Some(theirs)) = (self, right) {
            mine.merge(theirs);
        }
    }
}

/// Runs two recorders side by side.
impl<M: Intermediate, A: Recorder<M>, B: Recorder<M>> Recorder<M> for (A, B) {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        self.0.record(stage, block);
        self.1.record(stage, block);
    }

    fn resume_as(&mut self, new: &Self) {
        self.0.resume_as(&new.0);
        self.1.resume_as(&new.1);
    }
}

impl<A: Merge, B: Merge> Merge for (A, B) {
    fn merge(&mut self, right: Self) {
        self.0.merge(right.0);
        self.1.merge(right.1);
    }
}

/// Weighted mean of `f(x_k)` at each recorded stage, an estimate of `E f` under `p_k`. On a path with
/// [surrogates](crate::path::AnnealingPath::surrogate_at), as an `RbmPath` in single precision, all stages use the
/// surrogates. For the exact target use [`WeightedSample::expectation`](crate::estimate::WeightedSample::expectation).
///
/// ```
/// use annealed::ais::Expectations;
/// use annealed::prelude::*;
///
/// // The mean of the first coordinate moves from 0 to 3.
/// let target = Gaussian::isotropic(DVector::from_element(2, 3.0), 1.0)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, &target);
/// let run = Ais::new(&path, RandomWalkMetropolis::new(1.0)?)
///     .schedule(Schedule::linear(100)?)
///     .chains(1_000)
///     .recorder(Expectations::new(|x: &DVector<f64>| x[0]))
///     .run()?;
/// for (beta, mean, error) in run.recorder().estimates().skip(24).step_by(25) {
///     println!("beta = {beta}: {mean:.2} +- {error:.2}");
///     assert!((mean - 3.0 * beta).abs() < 5.0 * error);
/// }
/// # Ok::<(), annealed::Error>(())
/// ```
///
/// `examples/ising.rs` records the magnetisation of a lattice.
///
/// It holds a closure. Therefore a [`RunPart`](crate::ais::RunPart) with it merges but cannot be saved, and a run with
/// it has no checkpoints. If you need them, write a recorder that implements serde's traits.
#[derive(Clone)]
pub struct Expectations<F> {
    function: F,
    stages: Vec<Recorded>,
}

#[derive(Debug, Clone, Copy)]
struct Recorded {
    beta: f64,
    mean: WeightedMean,
    /// Variance of the same values of the function, with each weight squared.
    squared: WeightedVariance,
}

impl<F> Expectations<F> {
    /// Creates a recorder of the weighted mean of `function`.
    pub fn new(function: F) -> Self {
        Self {
            function,
            stages: Vec::new(),
        }
    }

    /// Returns `(beta_k, mean of f)` at each recorded stage; NaN if no chain carries weight.
    pub fn means(&self) -> impl Iterator<Item = (f64, f64)> {
        self.stages
            .iter()
            .map(|stage| (stage.beta, stage.mean.get()))
    }

    /// Returns `(beta_k, mean of f, standard error)` at each recorded stage. The error is infinite if one chain carries
    /// all the weight.
    ///
    /// The square of the error is `sum w^2 (f - mean)^2 / (sum w)^2 / (1 - 1/ESS)`. The error is too small if chains
    /// are resampled.
    pub fn estimates(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.stages.iter().map(|stage| {
            let (mean, error) = stage.estimate();
            (stage.beta, mean, error)
        })
    }
}

impl Recorded {
    fn estimate(&self) -> (f64, f64) {
        let mean = self.mean.get();
        // 1 / ESS.
        let share = (self.squared.log_weight() - 2.0 * self.mean.log_weight()).exp();
        let variance = share * self.squared.about(mean) / (1.0 - share);
        let error = if share < 1.0 {
            variance.sqrt()
        } else {
            f64::INFINITY
        };
        (mean, error)
    }
}

impl<F> std::fmt::Debug for Expectations<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.means()).finish()
    }
}

impl<M: Intermediate, F: Fn(&M::State) -> f64 + Clone> Recorder<M> for Expectations<F> {
    fn record(&mut self, stage: Stage<'_, M>, block: &Block<M::State>) {
        let mut recorded = Recorded {
            beta: stage.beta,
            mean: WeightedMean::default(),
            squared: WeightedVariance::default(),
        };
        for (state, &log_weight) in block.states().iter().zip(block.log_weights()) {
            if log_weight > f64::NEG_INFINITY {
                let value = (self.function)(state);
                recorded.mean.add(log_weight, value);
                recorded.squared.add(2.0 * log_weight, value);
            }
        }
        self.stages.push(recorded);
    }
}

impl<F> Merge for Expectations<F> {
    fn merge(&mut self, right: Self) {
        for (mine, theirs) in self.stages.iter_mut().zip(&right.stages) {
            mine.mean.merge(&theirs.mean);
            mine.squared.merge(&theirs.squared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ais::Ais;
    use crate::kernel::RandomWalkMetropolis;
    use crate::model::Gaussian;
    use crate::path::GeometricPath;
    use crate::schedule::Schedule;
    use nalgebra::DVector;

    /// Checks that about 68% of means of small runs lie within one standard error, and that their errors match the
    /// scatter.
    #[test]
    fn means_scatter_as_their_errors_say() {
        let target = Gaussian::isotropic(DVector::from_element(1, 1.0), 0.5).unwrap();
        let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
        let kernel = RandomWalkMetropolis::new(1.0).unwrap();
        let run = |seed| {
            let ais = Ais::new(&path, &kernel).schedule(Schedule::linear(4).unwrap());
            let recorder = Expectations::new(|x: &DVector<f64>| x[0]);
            ais.chains(200)
                .block_size(50)
                .recorder(recorder)
                .seed(seed)
                .run()
                .unwrap()
        };
        // Precisions add up, so the mean at beta is 4 beta / (1 + 3 beta).
        let mut squares = [0.0; 4];
        let mut within = [0; 4];
        for seed in 0..200 {
            for (k, (beta, mean, error)) in run(seed).recorder().estimates().enumerate() {
                let deviation = (mean - 4.0 * beta / (1.0 + 3.0 * beta)) / error;
                squares[k] += deviation * deviation / 200.0;
                within[k] += u32::from(deviation.abs() < 1.0);
            }
        }
        for (square, within) in squares.into_iter().zip(within) {
            // The mean of 200 squared normals is 1 +- .1, and 137 +- 6.6 lie within one.
            assert!((0.6..1.45).contains(&square), "{square}");
            assert!((110..=163).contains(&within), "{within}");
        }
    }

    #[test]
    fn one_chain_has_no_error() {
        let path = GeometricPath::new(
            Gaussian::standard(1).unwrap(),
            Gaussian::standard(1).unwrap(),
        );
        let kernel = RandomWalkMetropolis::new(1.0).unwrap();
        let recorder = Expectations::new(|x: &DVector<f64>| x[0]);
        let ais = Ais::new(&path, kernel).schedule(Schedule::linear(2).unwrap());
        let run = ais.chains(1).recorder(recorder).run().unwrap();
        assert!(
            run.recorder()
                .estimates()
                .all(|(_, _, error)| error == f64::INFINITY)
        );
    }
}
