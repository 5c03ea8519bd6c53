//! Stochastic gradient ascent: each iteration evaluates a minibatch, then updates the transitions.

use nalgebra::DVector;
use rand::RngExt;

use crate::Result;
use crate::learned::adam::{Adam, clip};
use crate::learned::crossing::TransitionGradient;
use crate::learned::flow::LearnedTransitions;
use crate::learned::importance::Groups;
use crate::learned::minibatch::{Energy, Minibatch, mean};
use crate::learned::objective::Weights;
use crate::learned::training::{TrainedTransitions, Training, TrainingError, TrainingPoint};
use crate::model::Differentiable;
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng, stream};
use crate::schedule::Schedule;

/// The largest number of points of a training curve.
const CURVE: usize = 1_000;
/// An objective has exploded when it lies below 0 by more than this many times its first magnitude.
const EXPLOSION: f64 = 1e4;

/// A training in progress.
pub(super) struct Ascent<'s> {
    settings: Training,
    schedule: &'s Schedule,
    pub(super) trained: TrainedTransitions,
    last_good: LearnedTransitions,
    optimizers: Vec<[Adam; 2]>,
    batch: Minibatch,
    /// How much each trajectory of the minibatch counts; 1 on average.
    pub(super) shares: Vec<f64>,
    rng: StreamRng,
    iteration: usize,
    first_objective: Option<f64>,
}

impl<'s> Ascent<'s> {
    pub(super) fn new(
        settings: Training,
        flow: LearnedTransitions,
        schedule: &'s Schedule,
    ) -> Result<Self> {
        settings.check()?;
        flow.check_steps(schedule)?;
        let adam = |parameters: &[f64]| Adam::new(parameters.len());
        let transitions = flow.transitions.iter();
        Ok(Self {
            settings,
            schedule,
            optimizers: transitions.map(|t| t.parameters().map(adam)).collect(),
            batch: Minibatch::new(&flow, settings.batch_size),
            shares: Vec::new(),
            last_good: flow.clone(),
            trained: TrainedTransitions {
                flow,
                curve: Vec::new(),
                target_gradients: 0,
            },
            rng: stream(settings.seed, Purpose::FlowTraining, 0),
            iteration: 0,
            first_objective: None,
        })
    }

    /// Conditions each trajectory of the next minibatch on an observation drawn from the data; those
    /// of a group have the same one.
    pub(super) fn observe<'d>(&mut self, data: &'d [DVector<f64>]) -> Vec<&'d DVector<f64>> {
        let group = self.settings.objective.group();
        let draw = |_| &data[self.rng.random_range(0..data.len())];
        let drawn = (0..self.batch.size() / group).map(draw);
        let drawn: Vec<_> = drawn.flat_map(|x| std::iter::repeat_n(x, group)).collect();
        self.batch.observe(&drawn);
        drawn
    }

    /// The last states `z_T` of the trajectories in the current minibatch.
    pub(super) fn reached(&self) -> impl Iterator<Item = DVector<f64>> {
        self.batch.states_at(self.schedule.steps())
    }

    /// The objective and its gradient on a new minibatch, along one path or one for each
    /// trajectory.
    pub(super) fn judge<'p, P>(
        &mut self,
        paths: &'p [P],
    ) -> Result<(TrainingPoint, Vec<TransitionGradient>), TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: Differentiable,
    {
        let flow = &self.trained.flow;
        let departures = self.batch.draw(paths, flow.noise, &mut self.rng);
        self.batch.follow(flow);
        let energies = self.energies(paths);
        let objective = self.objective(departures, &energies)?;
        let (flow, weights) = (&self.trained.flow, self.weights());
        let gradients = self.batch.gradient(flow, &energies, weights, &self.shares);
        for (t, gradient) in gradients.iter().enumerate().rev() {
            if let Some(&value) = gradient.iter().flatten().find(|x| !x.is_finite()) {
                return Err(self.diverged(t, "gradient", value));
            }
        }
        self.last_good.clone_from(&self.trained.flow);
        let point = TrainingPoint {
            iteration: self.iteration,
            objective,
            target_gradients: self.trained.target_gradients,
        };
        let every = self.settings.iterations.div_ceil(CURVE);
        if self.iteration.is_multiple_of(every) {
            self.trained.curve.push(point);
        }
        Ok((point, gradients))
    }

    /// The weights of the objective's parts at this iteration.
    pub(super) fn weights(&self) -> Weights {
        let progress = self.settings.progress_at(self.iteration);
        self.settings.objective.weights(progress)
    }

    /// `log f_t` at `z_t` for each transition whose energy the objective needs.
    fn energies<'p, P>(&mut self, paths: &'p [P]) -> Vec<Option<Energy>>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At<'p>: Differentiable,
    {
        let energy = |t: usize, beta: f64, scale: f64| {
            let models: Vec<_> = paths.iter().map(|path| path.at(beta)).collect();
            self.batch.energy(t, &models, scale)
        };
        let (last, weights) = (self.schedule.steps(), self.weights());
        let needed = (1..=last).map(|t| {
            let scale = if t == last { weights.energy } else { 1.0 };
            let beta = self.schedule.betas()[t];
            (weights.local > 0.0 || t == last).then(|| energy(t, beta, scale))
        });
        let mut energies: Vec<_> = needed.collect();
        if let Some(Some(reached)) = energies.last_mut().filter(|_| weights.density < 1.0) {
            let prior = energy(last, 0.0, weights.density - 1.0);
            reached.mean += prior.mean;
            let values = reached.values.iter_mut().zip(prior.values);
            values.for_each(|(value, prior)| *value += prior);
            reached.gradient += prior.gradient;
        }
        let evaluated = energies.iter().flatten().count() * self.settings.batch_size;
        self.trained.target_gradients += evaluated as u64;
        energies
    }

    /// The mean log weight, or the bound of each group, from the `log f_0(z_0)` and the energies. Sets
    /// the shares of the trajectories.
    fn objective(
        &mut self,
        departures: Vec<f64>,
        energies: &[Option<Energy>],
    ) -> Result<f64, TrainingError> {
        let density_weight = self.weights().density;
        let mut densities = -mean(&departures);
        let mut log_weights = departures;
        log_weights.iter_mut().for_each(|w| *w = -*w);
        let mut objective = f64::NAN;
        for (t, energy) in energies.iter().enumerate() {
            let differences = self.batch.log_backward_over_forward(t, &self.trained.flow);
            densities += mean(&differences);
            let sums = log_weights.iter_mut().zip(differences);
            sums.for_each(|(sum, difference)| *sum += difference);
            let energy = energy.as_ref().map_or(0.0, |energy| energy.mean);
            objective = density_weight * densities + energy;
            if !objective.is_finite() {
                return Err(self.diverged(t, "objective", objective));
            }
        }
        if let Some(Some(last)) = energies.last() {
            let sums = log_weights.iter_mut().zip(&last.values);
            sums.for_each(|(sum, energy)| *sum += energy);
        }
        let groups = Groups::new(&log_weights, self.settings.objective.group());
        self.shares = groups.shares;
        let objective = objective + groups.gap;
        let first = *self.first_objective.get_or_insert(objective);
        if objective < -EXPLOSION * (1.0 + first.abs()) {
            return Err(self.diverged(energies.len() - 1, "objective", objective));
        }
        Ok(objective)
    }

    /// The error of transition `t`, from 0.
    pub(super) fn diverged(&self, t: usize, quantity: &'static str, value: f64) -> TrainingError {
        TrainingError::Diverged {
            iteration: self.iteration,
            transition: t + 1,
            quantity,
            value,
            last_good: Box::new(self.last_good.clone()),
        }
    }

    /// One step up the gradients, which ends the iteration.
    pub(super) fn update(&mut self, gradients: Vec<TransitionGradient>) {
        let rate = self.settings.learning_rate_at(self.iteration);
        let transitions = self.trained.flow.transitions.iter_mut();
        let transitions = transitions.zip(&mut self.optimizers);
        for (mut gradient, (transition, adams)) in gradients.into_iter().zip(transitions) {
            clip(&mut gradient, self.settings.clip);
            let parts = transition.parameters_mut().into_iter().zip(adams);
            for ((parameters, adam), gradient) in parts.zip(&gradient) {
                adam.ascend(parameters, gradient, rate);
            }
        }
        self.iteration += 1;
    }
}
