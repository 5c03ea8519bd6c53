//! Kernels tuned by the chains that they move: step sizes by the acceptance, shapes by the covariance.

use nalgebra::DVector;

use super::covariance::{BINS, CHAINS_PER_DIMENSION, Covariance, CovarianceRecorder, Shapes};
use super::robbins_monro::{Gain, STEP_GAIN};
use crate::Result;
use crate::ais::StageSummary;
use crate::kernel::{Preconditioner, StepSize, TransitionKernel, Tunable};
use crate::model::Latent;
use crate::num::WeightSums;
use crate::path::AnnealingPath;
use crate::population::{DatumOf, Populations};

/// The methods of a tunable kernel as function pointers. For other kernels an `Option<Tuner>` is `None`.
#[derive(Debug)]
pub(super) struct Tuner<K, S> {
    coordinates: fn(&S) -> &[f64],
    step_size: fn(&K) -> &StepSize,
    with_step_size: fn(&K, StepSize) -> K,
    preconditioned: fn(&K, Preconditioner) -> K,
    optimal_acceptance: fn(&K) -> f64,
    longest_step_size: fn(&K) -> f64,
    /// The datum of a state, and the number of data, if each datum has its own step size.
    data: Option<(DatumOf<S>, usize)>,
}

crate::num::copy! { for [K, S] Tuner<K, S> }

impl<K: Tunable> Tuner<K, DVector<f64>> {
    pub(super) fn new() -> Self {
        Self::with(|state| state.as_slice(), None)
    }
}

impl<K: Tunable> Tuner<K, Latent> {
    /// Creates a tuner of the step size of each datum. It does not shape the kernel.
    pub(super) fn of_data(data: usize) -> Self {
        Self::with(|state| state.vector.as_slice(), Some((Latent::datum, data)))
    }
}

impl<K: Tunable, S> Tuner<K, S> {
    fn with(coordinates: fn(&S) -> &[f64], data: Option<(DatumOf<S>, usize)>) -> Self {
        Self {
            coordinates,
            data,
            step_size: K::step_size,
            with_step_size: K::with_step_size,
            preconditioned: K::preconditioned,
            optimal_acceptance: K::optimal_acceptance,
            longest_step_size: K::longest_step_size,
        }
    }
}

impl<K: Clone, S> Tuner<K, S> {
    /// Returns the function that returns a state's datum, if each datum has its own step size.
    pub(super) fn datum_of(&self) -> Option<DatumOf<S>> {
        self.data.map(|(datum_of, _)| datum_of)
    }

    /// Returns the function that returns a state's coordinates.
    pub(super) fn coordinates(&self) -> fn(&S) -> &[f64] {
        self.coordinates
    }

    /// Returns the kernel with covariances (`shapes`) updated by a round, and step sizes corrected by its acceptance.
    pub(super) fn after_round(
        &self,
        kernel: &K,
        shapes: &mut Shapes,
        recorder: &CovarianceRecorder<S>,
        stages: &[StageSummary],
    ) -> Result<K> {
        let target = (self.optimal_acceptance)(kernel);
        let moved = |beta: f64| {
            let next = stages.partition_point(|stage| stage.beta < beta);
            let stage = stages.get(next).or(stages.last());
            stage.and_then(|stage| stage.acceptance) > Some(0.5 * target)
        };
        *shapes = shapes.improved(recorder, moved);
        let corrected = self.corrected(kernel, stages)?;
        Ok(self.shaped(&corrected, shapes))
    }

    /// Returns the kernel, preconditioned by the covariances `shapes`, with its step size at the target for all betas.
    pub(super) fn as_at_target(&self, kernel: &K, shapes: &Shapes) -> Result<K> {
        let size = StepSize::constant((self.step_size)(kernel).at(1.0))?;
        Ok(self.shaped(&(self.with_step_size)(kernel, size), shapes))
    }

    fn shaped(&self, kernel: &K, shapes: &Shapes) -> K {
        match shapes.preconditioner() {
            Some(preconditioner) => (self.preconditioned)(kernel, preconditioner),
            None => kernel.clone(),
        }
    }

    /// Returns the kernel with step sizes corrected by the acceptance at up to 16 betas.
    fn corrected(&self, kernel: &K, stages: &[StageSummary]) -> Result<K> {
        let target = (self.optimal_acceptance)(kernel);
        let corrected = |stages: &[StageSummary]| {
            let middle = 0.5 * (stages[0].beta + stages[stages.len() - 1].beta);
            let accepted = stages.iter().filter_map(|stage| stage.acceptance);
            let (sum, count) =
                accepted.fold((0.0, 0), |(sum, count), rate| (sum + rate, count + 1));
            let excess = match count {
                0 => 0.0,
                _ => sum / f64::from(count) - target,
            };
            // Half as fast upward: a step slightly too long may never be accepted, one slightly too short costs little.
            let gain = if excess < 0.0 {
                STEP_GAIN
            } else {
                0.5 * STEP_GAIN
            };
            let size = (self.step_size)(kernel).at(middle);
            let longest = (self.longest_step_size)(kernel);
            (middle, (size * (gain * excess).exp()).min(longest))
        };
        let knots: Vec<(f64, f64)> = stages
            .chunks(stages.len().div_ceil(BINS))
            .map(corrected)
            .collect();
        Ok((self.with_step_size)(kernel, StepSize::knots(knots)?))
    }
}

/// A kernel that is tuned while a population goes along a path.
#[derive(Clone)]
pub(super) struct Tuning<K, S> {
    tuner: Tuner<K, S>,
    /// The kernel with the preconditioner for the present beta.
    kernel: K,
    /// Logarithm of the step size, or of the step size of each datum.
    log_sizes: Vec<f64>,
    sizes: Vec<(f64, Vec<f64>)>,
    pub(super) shapes: Shapes,
}

impl<K: Clone, S> Tuning<K, S> {
    pub(super) fn new(tuner: Tuner<K, S>, kernel: &K) -> Self {
        Self {
            tuner,
            kernel: kernel.clone(),
            log_sizes: vec![
                (tuner.step_size)(kernel).at(0.0).ln();
                tuner.data.map_or(1, |(_, data)| data)
            ],
            sizes: Vec::new(),
            shapes: Shapes::default(),
        }
    }

    /// Multiplies the step size.
    pub(super) fn scale(&mut self, factor: f64) {
        self.log_sizes
            .iter_mut()
            .for_each(|size| *size += factor.ln());
    }

    /// Preconditions the kernel by the covariance of the weighted chains at their present beta. With
    /// many data it does nothing, because their covariance would contain the spread between data.
    pub(super) fn shape<P>(&mut self, populations: &mut Populations<P>) -> Result<()>
    where
        P: AnnealingPath<State = S> + Send + Sync,
        P::At: Send,
        K: TransitionKernel<P::At>,
        S: Send,
    {
        if self.tuner.data.is_some() {
            return Ok(());
        }
        let coordinates = self.tuner.coordinates;
        let most = populations.chains() / CHAINS_PER_DIMENSION;
        let parts = populations.map(&|population| {
            let block = population.block();
            let weights = WeightSums::of(block.log_weights());
            Ok((weights, Covariance::of(block, coordinates, most)))
        })?;
        if let Some(covariance) = Covariance::of_blocks(parts) {
            let beta = populations.beta();
            if let Some(shape) = covariance.preconditioner() {
                self.kernel = (self.tuner.preconditioned)(&self.kernel, shape);
            }
            self.shapes.push(beta, covariance);
        }
        Ok(())
    }

    /// Moves all chains `moves` times, while a Robbins-Monro recursion drives the step size to the optimal acceptance.
    pub(super) fn moves<P>(&mut self, populations: &mut Populations<P>, moves: usize) -> Result<()>
    where
        P: AnnealingPath<State = S> + Send + Sync,
        P::At: Send,
        K: TransitionKernel<P::At> + Sync,
        S: Send,
    {
        let target = (self.tuner.optimal_acceptance)(&self.kernel);
        let longest = (self.tuner.longest_step_size)(&self.kernel);
        // Each stage begins with the full gain, since another beta may need a very different size.
        let mut gains = Vec::from_iter(self.log_sizes.iter().map(|_| Gain::default()));
        let sizes = |log_sizes: &[f64]| Vec::from_iter(log_sizes.iter().map(|size| size.exp()));
        let beta = populations.beta();
        for _ in 0..moves {
            // Constant in beta, which is above 1 where chains are cooled.
            let size = self.step_size(&[(0.0, sizes(&self.log_sizes))])?;
            let kernel = (self.tuner.with_step_size)(&self.kernel, size);
            let decisions = populations.stay(&kernel)?;
            let rates = match self.tuner.data {
                None => vec![decisions.acceptance().unwrap_or(target)],
                Some(data) => rates_of_data(populations, data),
            };
            for ((log_size, gain), rate) in self.log_sizes.iter_mut().zip(&mut gains).zip(rates) {
                *log_size = (*log_size + gain.increment(rate - target)).min(longest.ln());
            }
        }
        // Further moves at the same beta replace its size.
        self.sizes.pop_if(|(last, _)| *last == beta);
        self.sizes.push((beta, sizes(&self.log_sizes)));
        Ok(())
    }

    /// Returns the step size through these sizes at each beta.
    fn step_size(&self, sizes: &[(f64, Vec<f64>)]) -> Result<StepSize> {
        let of = |index: usize| StepSize::knots(sizes.iter().map(|(beta, at)| (*beta, at[index])));
        match self.tuner.data {
            None => of(0),
            Some((_, data)) => StepSize::of_data((0..data).map(of).collect::<Result<_>>()?),
        }
    }

    /// Returns the tuned kernel, and the covariances found at each beta.
    pub(super) fn finish(self) -> Result<(K, Shapes)> {
        let sizes = self.step_size(&self.sizes)?;
        let sized = (self.tuner.with_step_size)(&self.kernel, sizes);
        Ok((self.tuner.shaped(&sized, &self.shapes), self.shapes))
    }
}

/// Returns the mean acceptance of the last move of each datum's chains.
fn rates_of_data<P>(populations: &Populations<P>, data: (DatumOf<P::State>, usize)) -> Vec<f64>
where
    P: AnnealingPath<State: Send> + Send + Sync,
    P::At: Send,
{
    let (datum_of, data) = data;
    let mut rates = vec![(0.0, 0.0); data];
    for block in populations.blocks() {
        for (state, accepted) in block.states().iter().zip(block.accepted()) {
            let (sum, count) = &mut rates[datum_of(state)];
            (*sum, *count) = (*sum + accepted, *count + 1.0);
        }
    }
    rates.into_iter().map(|(sum, count)| sum / count).collect()
}
