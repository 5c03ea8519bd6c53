//! Stochastic gradient ascent: each iteration evaluates a minibatch, then updates the transitions.

use nalgebra::DVector;
use rand::RngExt;

use crate::Result;
use crate::learned::crossing::TransitionGradient;
use crate::learned::flow::LearnedTransitions;
use crate::learned::minibatch::{Energy, Minibatch, mean};
use crate::learned::objective::ObjectiveWeights;
use crate::learned::training::{TrainedTransitions, Training, TrainingError, TrainingPoint};
use crate::learned::transition::Transition;
use crate::model::Differentiable;
use crate::num::log_mean_exp;
use crate::path::AnnealingPath;
use crate::random::{Purpose, StreamRng, stream};
use crate::schedule::Schedule;

/// Maximum number of points of a training curve.
const CURVE: usize = 1_000;
/// An objective has exploded if it lies below minus this factor times `1 + |first objective|`.
const EXPLOSION: f64 = 1e4;
const MEAN_DECAY: f64 = 0.9;
const SQUARE_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

impl Training {
    /// Trains `flow` to carry the base of `path` through the models at the schedule's betas. The models need gradients,
    /// so this does not compile:
    ///
    /// ```compile_fail
    /// # use annealed::learned::{LearnedTransitions, Mean, Objective, Training};
    /// # use annealed::model::{FunctionModel, Gaussian};
    /// # use annealed::path::GeometricPath;
    /// # use annealed::schedule::Schedule;
    /// # use nalgebra::DVector;
    /// # let flow = LearnedTransitions::new(Mean::Affine, 1, 2, 1).unwrap();
    /// let target = FunctionModel::new(|x: &DVector<f64>| -x[0].powi(4)); // .with_gradient(..)
    /// let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
    /// Training::new(Objective::Annealed).train(flow, &path, &Schedule::linear(2).unwrap());
    /// ```
    ///
    /// # Errors
    /// A setting out of its range; a schedule or a base that does not fit the flow; a NaN, an infinity or an exploding
    /// objective ([`TrainingError::Diverged`], which keeps the last good parameters).
    pub fn train<P>(
        &self,
        flow: LearnedTransitions,
        path: P,
        schedule: &Schedule,
    ) -> Result<TrainedTransitions, TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        self.train_with(flow, path, schedule, |_, _| ())
    }

    /// Trains as [`train`](Self::train) does, and calls `progress` with each iteration's point and transitions.
    ///
    /// # Errors
    /// As [`train`](Self::train).
    pub fn train_with<P>(
        &self,
        flow: LearnedTransitions,
        path: P,
        schedule: &Schedule,
        mut progress: impl FnMut(&TrainingPoint, &LearnedTransitions),
    ) -> Result<TrainedTransitions, TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        flow.check_base(&path, self.seed)?;
        let mut ascent = Ascent::new(*self, flow, schedule)?;
        for _ in 0..self.iterations {
            let (point, gradients) = ascent.judge(std::slice::from_ref(&path))?;
            progress(&point, &ascent.trained.flow);
            ascent.update(gradients);
        }
        Ok(ascent.trained)
    }
}

pub(super) struct Ascent<'s> {
    settings: Training,
    schedule: &'s Schedule,
    pub(super) trained: TrainedTransitions,
    last_good: LearnedTransitions,
    optimizers: Vec<Vec<Adam>>,
    batch: Minibatch,
    /// Weight of each trajectory of the minibatch in the gradient; 1 on average.
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
        let adams = |t: &Transition| t.parameters().into_iter().map(adam).collect();
        let transitions = flow.transitions.iter();
        Ok(Self {
            settings,
            schedule,
            optimizers: transitions.map(adams).collect(),
            batch: Minibatch::new(&flow, settings.batch_size),
            shares: Vec::new(),
            last_good: flow.clone(),
            trained: TrainedTransitions {
                flow,
                curve: Vec::new(),
                target_gradients: 0,
            },
            rng: stream(settings.seed, Purpose::FLOW_TRAINING, 0),
            iteration: 0,
            first_objective: None,
        })
    }

    /// Draws an observation for each group of trajectories, and conditions the group on it. Returns the observation of
    /// each trajectory.
    pub(super) fn observe<'d>(&mut self, data: &'d [DVector<f64>]) -> Vec<&'d DVector<f64>> {
        let group = self.settings.objective.group();
        let draw = |_| &data[self.rng.random_range(0..data.len())];
        let drawn = (0..self.batch.size() / group).map(draw);
        let drawn: Vec<_> = drawn.flat_map(|x| std::iter::repeat_n(x, group)).collect();
        self.batch.observe(&drawn);
        drawn
    }

    pub(super) fn reached(&self) -> impl Iterator<Item = DVector<f64>> {
        self.batch.states_at(self.schedule.stages())
    }

    /// Computes the objective and its gradient on a new minibatch. `paths` has one path, or one for each trajectory.
    pub(super) fn judge<P>(
        &mut self,
        paths: &[P],
    ) -> Result<(TrainingPoint, Vec<TransitionGradient>), TrainingError>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        let flow = &self.trained.flow;
        let departures = self.batch.draw(paths, flow, &mut self.rng);
        self.batch.follow(flow);
        let energies = self.energies(paths);
        let objective = self.objective(departures, &energies)?;
        let (flow, weights) = (&self.trained.flow, self.weights());
        let gradients = self.batch.gradient(flow, &energies, weights, &self.shares);
        // The last transition comes first, because backpropagation carries a NaN to the transitions before it.
        for (t, gradient) in gradients.iter().enumerate().rev() {
            if let Some(&value) = gradient.iter().flatten().find(|x| !x.is_finite()) {
                return Err(self.diverged(t, "gradient", value));
            }
        }
        // Objective and gradient of these parameters are finite. The coming update may end that.
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

    pub(super) fn weights(&self) -> ObjectiveWeights {
        let progress = self.settings.progress_at(self.iteration);
        self.settings.objective.weights(progress)
    }

    /// Computes the energy `log f_t(z_t)` after each transition t; `None` if the objective does not need it.
    fn energies<P>(&mut self, paths: &[P]) -> Vec<Option<Energy>>
    where
        P: AnnealingPath<State = DVector<f64>>,
        P::At: Differentiable,
    {
        let energy = |t: usize, beta: f64, scale: f64| {
            let models: Vec<_> = paths.iter().map(|path| path.at(beta)).collect();
            self.batch.energy(t, &models, scale)
        };
        let (last, weights) = (self.schedule.stages(), self.weights());
        let needed = (1..=last).map(|t| {
            let scale = if t == last { weights.energy } else { 1.0 };
            let beta = self.schedule.betas()[t];
            (weights.local > 0.0 || t == last).then(|| energy(t, beta, scale))
        });
        let mut energies: Vec<_> = needed.collect();
        // Warm-up: the prior within `log f_T` gets the factor beta instead of 1.
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

    /// Computes the objective from `departures`, the `log f_0(z_0)` of each trajectory, and from the energies. Sets the
    /// shares of the trajectories.
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
            // Checked after each transition, so that the error can name the first bad one.
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

    /// Returns the error that the training diverged at transition `t`, counted from 0.
    fn diverged(&self, t: usize, quantity: &'static str, value: f64) -> TrainingError {
        TrainingError::Diverged {
            iteration: self.iteration,
            transition: t + 1,
            quantity,
            value,
            last_good: Box::new(self.last_good.clone()),
        }
    }

    pub(super) fn learning_rate(&self) -> Option<f64> {
        let rate = self.settings.learning_rate_at(self.iteration);
        (self.iteration < self.settings.iterations).then_some(rate)
    }

    /// Moves the parameters along the `gradients`, and ends the iteration.
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

/// The Adam optimizer (Kingma and Ba 2015) for one flat vector of parameters, with the paper's constants.
#[derive(Debug, Clone)]
pub(super) struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
    step: i32,
}

impl Adam {
    pub(super) fn new(len: usize) -> Self {
        Self {
            mean: vec![0.0; len],
            square: vec![0.0; len],
            step: 0,
        }
    }

    pub(super) fn ascend(&mut self, parameters: &mut [f64], gradient: &[f64], rate: f64) {
        self.step = self.step.saturating_add(1);
        let rate = rate / (1.0 - MEAN_DECAY.powi(self.step));
        let square_scale = 1.0 / (1.0 - SQUARE_DECAY.powi(self.step));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments)
        {
            *mean += (1.0 - MEAN_DECAY) * (slope - *mean);
            *square += (1.0 - SQUARE_DECAY) * (slope * slope - *square);
            *parameter += rate * *mean / ((*square * square_scale).sqrt() + EPSILON);
        }
    }
}

/// Scales a gradient in several parts down to a norm of at most `bound`.
pub(super) fn clip(parts: &mut [Vec<f64>], bound: f64) {
    let squares = parts.iter().flatten().map(|x| x * x);
    let norm = squares.sum::<f64>().sqrt();
    if norm > bound {
        let scale = bound / norm;
        parts.iter_mut().flatten().for_each(|x| *x *= scale);
    }
}

#[derive(Debug)]
pub(super) struct Groups {
    /// `w / mean(w)` of each trajectory of weight w, with the mean over its group. Exactly 1 if a group is one
    /// trajectory.
    pub(super) shares: Vec<f64>,
    /// Mean over the groups of `log mean(w) - mean(log w)`. Exactly 0 if a group is one trajectory.
    pub(super) gap: f64,
}

impl Groups {
    pub(super) fn new(log_weights: &[f64], k: usize) -> Self {
        let mut gap = 0.0;
        let mut shares = Vec::with_capacity(log_weights.len());
        for group in log_weights.chunks(k) {
            let log_mean = log_mean_exp(group);
            gap += log_mean - group.iter().sum::<f64>() / group.len() as f64;
            shares.extend(group.iter().map(|log_weight| (log_weight - log_mean).exp()));
        }
        let gap = gap / log_weights.len().div_ceil(k) as f64;
        Self { shares, gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_step_is_the_rate_in_the_direction_of_the_gradient() {
        let mut parameters = [1.0, 1.0, 1.0];
        Adam::new(3).ascend(&mut parameters, &[1e-3, -50.0, 0.0], 0.1);
        for (found, expected) in parameters.iter().zip([1.1, 0.9, 1.0]) {
            assert!((found - expected).abs() < 1e-5, "{found}");
        }
    }

    #[test]
    fn finds_the_top_of_a_parabola() {
        let mut adam = Adam::new(1);
        let mut parameter = [0.0];
        for _ in 0..2_000 {
            let gradient = [3.0 - parameter[0]];
            adam.ascend(&mut parameter, &gradient, 0.01);
        }
        assert!((parameter[0] - 3.0).abs() < 1e-3, "{}", parameter[0]);
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let mut parts = [vec![3.0], vec![4.0]];
        clip(&mut parts, 10.0);
        assert_eq!(parts, [[3.0], [4.0]]);
        clip(&mut parts, 1.0);
        assert!((parts[0][0] - 0.6).abs() < 1e-15 && (parts[1][0] - 0.8).abs() < 1e-15);
    }

    #[test]
    fn shares_are_relative_to_the_mean_of_a_group() {
        let log_weights = [1.0_f64, 3.0, 5.0, 5.0].map(|w| w.ln() + 900.0);
        let Groups { shares, gap } = Groups::new(&log_weights, 2);
        for (share, expected) in shares.iter().zip([0.5, 1.5, 1.0, 1.0]) {
            assert!((share - expected).abs() < 1e-12, "{share}");
        }
        let expected = 0.5 * (2f64.ln() - 0.5 * 3f64.ln());
        assert!((gap - expected).abs() < 1e-12, "{gap}");
    }

    #[test]
    fn groups_of_one_change_nothing() {
        let Groups { shares, gap } = Groups::new(&[-0.1, 1e300, 3.7e-9, -712.3], 1);
        assert_eq!((shares, gap), (vec![1.0; 4], 0.0));
    }
}
