//! A minibatch of trajectories through the transitions, and the gradient of an objective.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::learned::crossing::{Crossing, TransitionGradient};
use crate::learned::flow::LearnedTransitions;
use crate::learned::objective::ObjectiveWeights;
use crate::learned::transition::Transition;
use crate::model::{Differentiable, Sampleable, UnnormalizedModel};
use crate::path::AnnealingPath;
use crate::random::{Purpose, stream};
use crate::{Error, Result};

/// Trajectories `z_0, ..., z_T`, a column for each, with their forward passes through the transitions. If a method
/// takes fewer paths or models than there are columns, it repeats the paths or models in turn.
#[derive(Debug)]
pub(super) struct Minibatch {
    dimension: usize,
    /// The states `z_t`, a matrix for each t. The rows below the first d contain the trajectories' observations.
    states: Vec<DMatrix<f64>>,
    crossings: Vec<Crossing>,
}

/// Log densities of all trajectories at one t, their mean and their gradients.
pub(super) struct Energy {
    pub(super) mean: f64,
    pub(super) values: Vec<f64>,
    pub(super) gradient: DMatrix<f64>,
}

impl Energy {
    fn gradient_of(&self, shares: &[f64]) -> DMatrix<f64> {
        let mut gradient = self.gradient.clone();
        for (mut column, share) in gradient.column_iter_mut().zip(shares) {
            column *= *share;
        }
        gradient
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Minibatch {
    pub(super) fn new(flow: &LearnedTransitions, size: usize) -> Self {
        let (stages, dimension) = (flow.transitions.len(), flow.dimension());
        let crossing = |transition: &Transition| Crossing::new(transition, size);
        Self {
            dimension,
            states: vec![DMatrix::zeros(dimension + flow.context(), size); stages + 1],
            crossings: flow.transitions.iter().map(crossing).collect(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.states[0].ncols()
    }

    /// Conditions each trajectory on an observation.
    pub(super) fn observe(&mut self, observations: &[&DVector<f64>]) {
        for states in &mut self.states {
            for (mut column, observation) in states.column_iter_mut().zip(observations) {
                let mut context = column.rows_mut(self.dimension, observation.len());
                context.copy_from(observation);
            }
        }
    }

    /// Draws the starts and the noise of the trajectories, and returns `log f_0(z_0)` of each.
    pub(super) fn draw<P, R>(
        &mut self,
        paths: &[P],
        flow: &LearnedTransitions,
        rng: &mut R,
    ) -> Vec<f64>
    where
        P: AnnealingPath<State = DVector<f64>>,
        R: Rng + ?Sized,
    {
        let mut departures = Vec::with_capacity(self.size());
        for (mut column, path) in self.states[0].column_iter_mut().zip(paths.iter().cycle()) {
            let state = path.base().sample(rng);
            departures.push(path.base().log_density(&state));
            column.rows_mut(0, self.dimension).copy_from(&state);
        }
        for (crossing, transition) in self.crossings.iter_mut().zip(&flow.transitions) {
            for mut column in crossing.noise.column_iter_mut() {
                transition.fill(column.as_mut_slice(), flow.noise, rng);
            }
        }
        departures
    }

    /// Returns the states `z_t`; `t` counts from 0 at the base.
    pub(super) fn states_at(&self, t: usize) -> impl Iterator<Item = DVector<f64>> {
        let columns = self.states[t].column_iter();
        columns.map(|column| column.rows(0, self.dimension).into_owned())
    }

    pub(super) fn follow(&mut self, flow: &LearnedTransitions) {
        let crossings = self.crossings.iter_mut().zip(&flow.transitions);
        for (t, (crossing, transition)) in crossings.enumerate() {
            let (left, reached) = self.states.split_at_mut(t + 1);
            crossing.follow(transition, &left[t], &mut reached[0]);
        }
    }

    /// Returns `log r_t(z_{t-1}|z_t) - log q_t(z_t|z_{t-1})` of each trajectory; transition `t` counts from 0.
    pub(super) fn log_backward_over_forward(
        &self,
        t: usize,
        flow: &LearnedTransitions,
    ) -> Vec<f64> {
        let (crossing, transition) = (&self.crossings[t], &flow.transitions[t]);
        let ends = [&self.states[t], &self.states[t + 1]];
        let of_column = |j| crossing.log_backward_over_forward(transition, j, ends, flow.noise);
        (0..self.size()).map(of_column).collect()
    }

    /// Computes `scale log f(z_t)` and its gradient for each trajectory with its model f; `t` is 0 at the base.
    pub(super) fn energy(&self, t: usize, models: &[impl Differentiable], scale: f64) -> Energy {
        let mut energy = Energy {
            mean: 0.0,
            values: Vec::with_capacity(self.size()),
            gradient: DMatrix::zeros(self.dimension, self.size()),
        };
        let mut state = DVector::zeros(self.dimension);
        let mut gradient = state.clone();
        let columns = self.states[t].column_iter().zip(models.iter().cycle());
        for (j, (column, model)) in columns.enumerate() {
            state.copy_from(&column.rows(0, self.dimension));
            let value = model.gradient_into(&state, &mut gradient);
            energy.mean += scale * value;
            energy.values.push(scale * value);
            energy.gradient.set_column(j, &(&gradient * scale));
        }
        energy.mean /= self.size() as f64;
        energy
    }

    /// Returns the gradient of `a sum_t F_t + (1 - a) L` by each transition's parameters. Trajectories are weighted by
    /// `shares`. If `a` is 0, only the last energy is needed.
    pub(super) fn gradient(
        &self,
        flow: &LearnedTransitions,
        energies: &[Option<Energy>],
        weights: ObjectiveWeights,
        shares: &[f64],
    ) -> Vec<TransitionGradient> {
        let (local_weight, density_weight) = (weights.local, weights.density);
        let through_weight = 1.0 - local_weight;
        let of_shares = |weight: f64| -> Vec<f64> { shares.iter().map(|s| weight * s).collect() };
        let zeros = |parameters: &[f64]| vec![0.0; parameters.len()];
        let transitions = flow.transitions.iter();
        let zeros = |t: &Transition| t.parameters().into_iter().map(zeros).collect();
        let mut gradients: Vec<TransitionGradient> = transitions.map(zeros).collect();
        // The derivative of (1 - a) L by z_t, without the part of log r_t.
        let mut through = DMatrix::zeros(self.dimension, self.size());
        if let Some(Some(last)) = energies.last() {
            through = last.gradient_of(shares) * through_weight;
        }
        for (t, transition) in flow.transitions.iter().enumerate().rev() {
            let (crossing, gradient) = (&self.crossings[t], &mut gradients[t]);
            let ends = [&self.states[t], &self.states[t + 1]];
            // `F_t` and L both contain `log r_t`, so their factors a and 1 - a add up to 1.
            let [by_left, by_reached] =
                crossing.by_reverse(transition, ends, &of_shares(density_weight), gradient);
            if let Some(energy) = energies[t].as_ref().filter(|_| local_weight > 0.0) {
                // `F_t` holds z_{t-1} fixed, so the derivative by it is dropped.
                let local = (energy.gradient_of(shares) + &by_reached) * local_weight;
                let weights = of_shares(local_weight * density_weight);
                crossing.by_move(transition, ends, local, (&weights, flow.noise), gradient);
            }
            if through_weight > 0.0 {
                through += &by_reached * through_weight;
                let weights = of_shares(through_weight * density_weight);
                through =
                    crossing.by_move(transition, ends, through, (&weights, flow.noise), gradient)
                        + by_left * through_weight;
            }
        }
        let scale = 1.0 / self.size() as f64;
        let entries = gradients.iter_mut().flatten().flatten();
        entries.for_each(|x| *x *= scale);
        gradients
    }
}

impl LearnedTransitions {
    /// Draws `count` unweighted trajectories. Entry t holds their states `z_t`, from the base's `z_0` to `z_T`. A run
    /// of [`Ais`](crate::ais::Ais) gives weighted samples.
    ///
    /// # Errors
    /// A `count` of 0 or above 2^30; a base of another dimension.
    pub fn samples<P>(&self, path: P, count: usize, seed: u64) -> Result<Vec<Vec<DVector<f64>>>>
    where
        P: AnnealingPath<State = DVector<f64>>,
    {
        Error::check_count("count", count, 1)?;
        self.check_base(&path, seed)?;
        let mut batch = Minibatch::new(self, count);
        let mut rng = stream(seed, Purpose::EVALUATION, 0);
        batch.draw(std::slice::from_ref(&path), self, &mut rng);
        batch.follow(self);
        let stages = 0..=self.transitions.len();
        Ok(stages.map(|t| batch.states_at(t).collect()).collect())
    }
}

/// Gradients of the objectives against finite differences.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::ascent::Groups;
    use crate::learned::conditional::Mean;
    use crate::learned::coupling::Coupling;
    use crate::learned::network::differences::{agree, share};
    use crate::learned::objective::Objective;
    use crate::learned::transition::Family;
    use crate::model::{Gaussian, GaussianMixture};
    use crate::num::log_mean_exp;
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};
    use nalgebra::dvector;
    use proptest::prelude::*;
    use rand::RngExt;

    const STAGES: usize = 3;
    const DENSITY: f64 = 0.7;

    type Path = GeometricPath<Gaussian, GaussianMixture>;

    fn families() -> [Family; 4] {
        let mean = Mean::Gated { hidden: 4 };
        [
            Mean::Affine.into(),
            Mean::Gated { hidden: 4 }.into(),
            Coupling { hidden: 4, bins: 3 }.into(),
            Family::Mixture {
                mean,
                components: 3,
            },
        ]
    }

    /// Creates transitions with random weights, also for maps, which `new` makes the identity.
    fn random(family: Family, seed: u64) -> LearnedTransitions {
        let mut flow = LearnedTransitions::new(family, 2, STAGES, seed).unwrap();
        if let Family::Invertible(_) = family {
            let rng = &mut stream(seed, Purpose::FLOW_WEIGHTS, 1);
            let transitions = flow.transitions.iter_mut();
            for parameter in transitions.flat_map(Transition::parameters_mut).flatten() {
                *parameter = rng.random_range(-0.7..0.7);
            }
        }
        flow
    }

    fn path() -> Path {
        let gaussian = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let target = GaussianMixture::new([
            (1.0, gaussian(dvector![2.0, -1.0], 0.7)),
            (2.0, gaussian(dvector![-1.0, 0.5], 1.2)),
        ]);
        GeometricPath::new(gaussian(dvector![0.2, 0.0], 1.3), target.unwrap())
    }

    /// Least distance of a `log sigma` from the ends of its clamp. The steps of finite differences move it by less.
    const OFF_CLAMP: f64 = 0.02;

    /// Draws trajectories until no `log sigma` is near an end of its clamp. A kink of the value there makes finite
    /// differences useless.
    fn drawn(flow: &LearnedTransitions, path: &Path, size: usize, seed: u64) -> Minibatch {
        let mut batch = Minibatch::new(flow, size);
        let rng = &mut stream(seed, Purpose::TRAINING, 0);
        loop {
            batch.draw(&[path], flow, rng);
            batch.follow(flow);
            let mut crossings = batch.crossings.iter().zip(&flow.transitions);
            if crossings
                .all(|(crossing, transition)| crossing.distance_from_clamp(transition) > OFF_CLAMP)
            {
                return batch;
            }
        }
    }

    fn energies(batch: &Minibatch, path: &Path) -> Vec<Option<Energy>> {
        let at = |t: usize| path.at((t + 1) as f64 / STAGES as f64);
        let energy = |t| Some(batch.energy(t + 1, &[at(t)], 1.0));
        (0..STAGES).map(energy).collect()
    }

    /// Computes `a F_t + (1 - a) L` up to constants. Since each `F` holds its starting state `z_{t-1}` fixed, no other
    /// `F` depends on transition `t`.
    fn objective(
        batch: &mut Minibatch,
        flow: &LearnedTransitions,
        path: &Path,
        t: usize,
        local_weight: f64,
    ) -> f64 {
        batch.follow(flow);
        let energies = energies(batch, path);
        let value = |t: usize| energies[t].as_ref().unwrap().mean;
        let density = |t: usize| mean(&batch.log_backward_over_forward(t, flow));
        let local = value(t) + DENSITY * density(t);
        let densities = (0..STAGES).map(density);
        let through = value(STAGES - 1) + DENSITY * densities.sum::<f64>();
        local_weight * local + (1.0 - local_weight) * through
    }

    fn agreement(seed: u64, family: Family, local_weight: f64) -> f64 {
        let path = path();
        let flow = random(family, seed);
        let mut batch = drawn(&flow, &path, 7, seed);
        let weights = ObjectiveWeights {
            local: local_weight,
            energy: 1.0,
            density: DENSITY,
        };
        let gradients = batch.gradient(&flow, &energies(&batch, &path), weights, &[1.0; 7]);
        share_of(&gradients, &flow, |moved, t| {
            objective(&mut batch, moved, &path, t, local_weight)
        })
    }

    /// Returns the share of the derivatives that agree with finite differences of `value(moved flow, transition)`.
    fn share_of(
        gradients: &[TransitionGradient],
        flow: &LearnedTransitions,
        mut value: impl FnMut(&LearnedTransitions, usize) -> f64,
    ) -> f64 {
        let mut agrees = Vec::new();
        for (t, gradient) in gradients.iter().enumerate() {
            for (part, derivatives) in gradient.iter().enumerate() {
                agrees.extend(agree(derivatives, 1e-5, |i, step| {
                    let mut moved = flow.clone();
                    moved.transitions[t].parameters_mut()[part][i] += step;
                    value(&moved, t)
                }));
            }
        }
        share(&agrees)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn objectives_gradients_agree_with_finite_differences(
            seed in 0u64..1_000_000,
            weight in 0.1f64..0.9,
        ) {
            for local_weight in [0.0, weight, 1.0] {
                for family in families() {
                    let agreement = agreement(seed, family, local_weight);
                    prop_assert!(agreement > 0.97, "{family:?}, {local_weight}: {agreement}");
                }
            }
        }
    }

    fn log_weights(batch: &Minibatch, flow: &LearnedTransitions, path: &Path) -> Vec<f64> {
        let last = batch.energy(STAGES, &[path.at(1.0)], 1.0).values;
        let of_column = |j: usize| {
            let ratio = |t: usize| batch.log_backward_over_forward(t, flow)[j];
            let start = DVector::from_column_slice(batch.states[0].column(j).as_slice());
            last[j] + (0..STAGES).map(ratio).sum::<f64>() - path.base().log_density(&start)
        };
        (0..batch.size()).map(of_column).collect()
    }

    #[test]
    fn the_gradient_of_the_importance_weighted_bound_agrees_with_finite_differences() {
        let (path, k) = (path(), 4);
        let bound =
            |weights: &[f64]| mean(&weights.chunks(k).map(log_mean_exp).collect::<Vec<_>>());
        for (seed, family) in families().into_iter().enumerate() {
            let flow = random(family, seed as u64);
            let mut batch = drawn(&flow, &path, 2 * k, seed as u64);
            let weights = Objective::ImportanceWeighted { samples: k }.weights(0.5);
            let groups = Groups::new(&log_weights(&batch, &flow, &path), k);
            assert!(groups.gap > 0.1, "unequal weights: {}", groups.gap);
            let energies = energies(&batch, &path);
            let gradients = batch.gradient(&flow, &energies, weights, &groups.shares);
            let share = share_of(&gradients, &flow, |moved, _| {
                batch.follow(moved);
                bound(&log_weights(&batch, moved, &path))
            });
            assert!(share > 0.97, "{family:?}: {share}");
        }
    }
}
