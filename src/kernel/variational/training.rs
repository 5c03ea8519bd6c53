//! The training loop.

use nalgebra::DVector;

use super::adam::{Adam, clip};
use super::flow::LearnedTransitions;
use super::minibatch::{Energy, Gradient, Minibatch};
use super::objective::Objective;
use crate::ais::{Purpose, StreamRng, stream};
use crate::error::{Error, Result};
use crate::model::{Differentiable, Sampleable};
use crate::path::AnnealingPath;
use crate::schedule::Schedule;

/// Points of a training curve, at most.
const CURVE: usize = 1_000;
/// An objective lower than this many times its first magnitude has exploded.
const EXPLOSION: f64 = 1e4;

/// Trains [`LearnedTransitions`] by stochastic gradient ascent on an [`Objective`]: reparameterised
/// minibatches, Adam, gradients of each transition clipped by norm.
///
/// The defaults: 1,500 iterations of 256 samples, learning rate 3e-3, a tenth of it in the last
/// 30% of the iterations, gradients clipped at 10, seed 0.
///
/// ```
/// use annealed::kernel::variational::{LearnedTransitions, Mean, Objective, Training};
/// use annealed::model::Gaussian;
/// use annealed::{path::GeometricPath, schedule::Schedule};
/// use nalgebra::dvector;
///
/// let target = Gaussian::isotropic(dvector![1.0, -1.0], 0.5)?;
/// let path = GeometricPath::new(Gaussian::standard(2)?, target);
/// let flow = LearnedTransitions::new(Mean::Gated { hidden: 8 }, 2, 3, 1)?;
/// let trained = Training::new(Objective::Annealed)
///     .iterations(100)
///     .train(flow, &path, &Schedule::linear(3)?)?;
/// assert_eq!(trained.target_gradients, 100 * 256 * 3);
/// # Ok::<(), annealed::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training {
    objective: Objective,
    iterations: usize,
    batch_size: usize,
    learning_rate: f64,
    decay: f64,
    decay_after: f64,
    clip: f64,
    seed: u64,
}

/// One point of the training curve.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TrainingPoint {
    /// Index of the iteration, from 0.
    pub iteration: usize,
    /// Mean over the minibatch of the log weight, that is the evidence lower bound less
    /// `log Z_0`; with the tempered target, where the objective has one.
    pub objective: f64,
    /// Gradients of log densities evaluated so far, this iteration's included.
    pub target_gradients: u64,
}

/// What a training made.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TrainedTransitions {
    /// The transitions, to be run as a kernel.
    pub flow: LearnedTransitions,
    /// At most 1,000 points, evenly spaced.
    pub curve: Vec<TrainingPoint>,
    /// Gradients of log densities evaluated in all.
    pub target_gradients: u64,
}

/// Why a training ended early.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// A setting or a shape that cannot be used.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// A NaN, an infinity or an objective that exploded.
    #[error(
        "{quantity} of transition {transition} is {value} at iteration {iteration}, expected \
         a finite number that does not explode: try a smaller learning rate"
    )]
    Diverged {
        /// Index of the iteration, from 0.
        iteration: usize,
        /// Index of the transition, from 1.
        transition: usize,
        /// What was being computed.
        quantity: &'static str,
        /// The value found.
        value: f64,
        /// The transitions at the last iteration whose objective and gradient were good.
        last_good: Box<LearnedTransitions>,
    },
}

impl From<TrainingError> for Error {
    fn from(error: TrainingError) -> Self {
        match error {
            TrainingError::Invalid(error) => error,
            diverged => Self::NotConverged {
                what: "learned transitions",
                detail: diverged.to_string(),
            },
        }
    }
}

impl Training {
    /// With the default settings.
    pub fn new(objective: Objective) -> Self {
        Self {
            objective,
            iterations: 1_500,
            batch_size: 256,
            learning_rate: 3e-3,
            decay: 0.1,
            decay_after: 0.7,
            clip: 10.0,
            seed: 0,
        }
    }

    /// Number of updates.
    pub fn iterations(self, iterations: usize) -> Self {
        Self { iterations, ..self }
    }

    /// Samples an update.
    pub fn batch_size(self, batch_size: usize) -> Self {
        Self { batch_size, ..self }
    }

    /// The learning rate of Adam, before it decays.
    pub fn learning_rate(self, learning_rate: f64) -> Self {
        Self {
            learning_rate,
            ..self
        }
    }

    /// Multiplies the learning rate by `factor` once a fraction `after` of the iterations is done.
    pub fn decay(self, factor: f64, after: f64) -> Self {
        Self {
            decay: factor,
            decay_after: after,
            ..self
        }
    }

    /// Bound on the Euclidean norm of the gradient in one transition's parameters.
    pub fn clip(self, norm: f64) -> Self {
        Self { clip: norm, ..self }
    }

    /// The seed of all randomness in training.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Trains `flow` to carry the base of `path` through the models at the betas of `schedule`.
    ///
    /// # Errors
    /// A setting out of its range; a schedule or a base that does not fit the flow; a NaN, an
    /// infinity or an exploding objective ([`TrainingError::Diverged`], which keeps the last good
    /// parameters).
    pub fn train<'p, P>(
        &self,
        flow: LearnedTransitions,
        path: &'p P,
        schedule: &Schedule,
    ) -> Result<TrainedTransitions, TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: Differentiable,
    {
        self.train_with(flow, path, schedule, |_, _| ())
    }

    /// As [`train`](Self::train), calling `progress` with each iteration's point and the
    /// transitions that it judged.
    ///
    /// # Errors
    /// As [`train`](Self::train).
    pub fn train_with<'p, P>(
        &self,
        flow: LearnedTransitions,
        path: &'p P,
        schedule: &Schedule,
        mut progress: impl FnMut(&TrainingPoint, &LearnedTransitions),
    ) -> Result<TrainedTransitions, TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: Differentiable,
    {
        self.check()?;
        flow.check_steps(schedule)?;
        let mut trainer = Trainer::new(*self, flow, path, schedule)?;
        let every = self.iterations.div_ceil(CURVE);
        let mut curve = Vec::with_capacity(self.iterations / every + 1);
        for iteration in 0..self.iterations {
            let (objective, gradients) = trainer.judge(iteration)?;
            let point = TrainingPoint {
                iteration,
                objective,
                target_gradients: trainer.target_gradients,
            };
            progress(&point, &trainer.flow);
            if iteration % every == 0 {
                curve.push(point);
            }
            trainer.update(gradients, self.learning_rate_at(iteration));
        }
        Ok(TrainedTransitions {
            flow: trainer.flow,
            curve,
            target_gradients: trainer.target_gradients,
        })
    }

    fn progress_at(&self, iteration: usize) -> f64 {
        iteration as f64 / self.iterations as f64
    }

    fn learning_rate_at(&self, iteration: usize) -> f64 {
        if self.progress_at(iteration) < self.decay_after {
            self.learning_rate
        } else {
            self.learning_rate * self.decay
        }
    }

    fn check(&self) -> Result<()> {
        self.objective.check()?;
        for (argument, value) in [
            ("iterations", self.iterations),
            ("batch_size", self.batch_size),
        ] {
            if value == 0 {
                return Err(Error::invalid(argument, 0, "at least 1"));
            }
        }
        Error::check_positive("learning_rate", self.learning_rate)?;
        Error::check_positive("clip", self.clip)?;
        for (argument, value) in [
            ("factor of the decay", self.decay),
            ("start of the decay", self.decay_after),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::invalid(argument, value, "a number in [0, 1]"));
            }
        }
        Ok(())
    }
}

/// The state of a training.
struct Trainer<'p, 's, P> {
    settings: Training,
    path: &'p P,
    schedule: &'s Schedule,
    flow: LearnedTransitions,
    last_good: LearnedTransitions,
    optimizers: Vec<[Adam; 2]>,
    batch: Minibatch,
    rng: StreamRng,
    target_gradients: u64,
    first_objective: Option<f64>,
}

impl<'p, 's, P> Trainer<'p, 's, P>
where
    P: AnnealingPath<State = DVector<f64>>,
    P::At<'p>: Differentiable,
{
    fn new(
        settings: Training,
        flow: LearnedTransitions,
        path: &'p P,
        schedule: &'s Schedule,
    ) -> Result<Self> {
        let mut rng = stream(settings.seed, Purpose::Training, 0);
        let dimension = path.base().sample(&mut rng).len();
        Error::check_dimension("state of the base", dimension, flow.dimension())?;
        let adam = |parameters: &[f64]| Adam::new(parameters.len());
        let optimizers = flow
            .transitions
            .iter()
            .map(|t| [adam(t.forward.parameters()), adam(t.backward.parameters())]);
        Ok(Self {
            settings,
            path,
            schedule,
            optimizers: optimizers.collect(),
            batch: Minibatch::new(&flow, settings.batch_size),
            last_good: flow.clone(),
            flow,
            rng,
            target_gradients: 0,
            first_objective: None,
        })
    }

    /// The objective and its gradient on a new minibatch.
    fn judge(&mut self, iteration: usize) -> Result<(f64, Vec<Gradient>), TrainingError> {
        let departure = self.batch.draw(self.path.base(), &mut self.rng);
        self.batch.follow(&self.flow);
        let progress = self.settings.progress_at(iteration);
        let density_weight = self.settings.objective.density_weight(progress);
        let energies = self.energies(progress, density_weight);
        let mut objective = -density_weight * departure;
        for (t, energy) in energies.iter().enumerate() {
            objective += density_weight * self.batch.log_backward_over_forward(t);
            let energy = energy.as_ref().map_or(0.0, |energy| energy.value);
            if !(objective + energy).is_finite() {
                return Err(self.diverged(iteration, t, "objective", objective + energy));
            }
        }
        let last = energies.last().and_then(Option::as_ref);
        objective += last.map_or(0.0, |energy| energy.value);
        let first = *self.first_objective.get_or_insert(objective);
        if objective < -EXPLOSION * (1.0 + first.abs()) {
            return Err(self.diverged(iteration, energies.len() - 1, "objective", objective));
        }
        let weight = self.settings.objective.local_weight();
        let gradients = self
            .batch
            .gradient(&self.flow, &energies, weight, density_weight);
        for (t, Gradient { forward, backward }) in gradients.iter().enumerate().rev() {
            if let Some(&value) = forward.iter().chain(backward).find(|x| !x.is_finite()) {
                return Err(self.diverged(iteration, t, "gradient", value));
            }
        }
        self.last_good.clone_from(&self.flow);
        Ok((objective, gradients))
    }

    /// `log f_t` at `z_t` for each transition whose energy the objective needs.
    fn energies(&mut self, progress: f64, density_weight: f64) -> Vec<Option<Energy>> {
        let Training { objective, .. } = self.settings;
        let betas = &self.schedule.betas()[1..];
        let last = betas.len() - 1;
        let energy = |(t, &beta): (usize, &f64)| {
            let scale = match t == last {
                true => objective.energy_scale(progress),
                false if objective.local_weight() > 0.0 => 1.0,
                false => return None,
            };
            Some(self.batch.energy(t + 1, &self.path.at(beta), scale))
        };
        let mut energies: Vec<_> = betas.iter().enumerate().map(energy).collect();
        let evaluated = energies.iter().flatten().count() * self.settings.batch_size;
        self.target_gradients += evaluated as u64;
        if let Some(Some(energy)) = energies.last_mut().filter(|_| density_weight < 1.0) {
            let prior = self.path.at(0.0);
            let prior = self.batch.energy(last + 1, &prior, density_weight - 1.0);
            energy.value += prior.value;
            energy.gradient += prior.gradient;
        }
        energies
    }

    fn diverged(
        &self,
        iteration: usize,
        transition: usize,
        quantity: &'static str,
        value: f64,
    ) -> TrainingError {
        TrainingError::Diverged {
            iteration,
            transition: transition + 1,
            quantity,
            value,
            last_good: Box::new(self.last_good.clone()),
        }
    }

    fn update(&mut self, gradients: Vec<Gradient>, rate: f64) {
        let transitions = self.flow.transitions.iter_mut().zip(&mut self.optimizers);
        for (mut gradient, (transition, [forward, backward])) in
            gradients.into_iter().zip(transitions)
        {
            clip(
                [&mut gradient.forward, &mut gradient.backward],
                self.settings.clip,
            );
            forward.ascend(transition.forward.parameters_mut(), &gradient.forward, rate);
            backward.ascend(
                transition.backward.parameters_mut(),
                &gradient.backward,
                rate,
            );
        }
    }
}
