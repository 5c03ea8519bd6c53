//! A minibatch of trajectories through the transitions, and the gradient of an objective.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use crate::learned::conditional::ConditionalGaussian;
use crate::learned::crossing::Crossing;
use crate::learned::flow::LearnedTransitions;
use crate::learned::noise::Noise;
use crate::learned::objective::Weights;
use crate::model::{Differentiable, Sampleable, UnnormalizedModel};
use crate::path::AnnealingPath;

/// Trajectories `z_0, ..., z_T`, one column each, with the passes that made them.
///
/// Paths and models come as a slice: one entry for all columns, or one for each. Column j takes entry
/// j, cyclically.
#[derive(Debug)]
pub(super) struct Minibatch {
    dimension: usize,
    /// `z_t`, above the observation that the transitions are conditioned on, if any.
    states: Vec<DMatrix<f64>>,
    crossings: Vec<Crossing>,
}

/// A mean log density over the minibatch, and its gradient at each trajectory.
pub(super) struct Energy {
    pub(super) value: f64,
    pub(super) gradient: DMatrix<f64>,
}

/// Derivatives in the parameters of one transition: of its forward density, then of its backward one.
pub(super) type TransitionGradient = [Vec<f64>; 2];

impl Minibatch {
    /// Buffers for `size` trajectories.
    pub(super) fn new(flow: &LearnedTransitions, size: usize) -> Self {
        let (stages, dimension) = (flow.transitions.len(), flow.dimension());
        let crossing = Crossing {
            noise: DMatrix::zeros(dimension, size),
            ..Crossing::default()
        };
        Self {
            dimension,
            states: vec![DMatrix::zeros(dimension + flow.context(), size); stages + 1],
            crossings: vec![crossing; stages],
        }
    }

    /// Number of trajectories.
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

    /// Draws the starts of the trajectories and their noise, and returns the mean `log f_0(z_0)`.
    pub(super) fn draw<P, R>(&mut self, paths: &[P], law: Noise, rng: &mut R) -> f64
    where
        P: AnnealingPath<State = DVector<f64>>,
        R: Rng + ?Sized,
    {
        let mut sum = 0.0;
        for (mut column, path) in self.states[0].column_iter_mut().zip(paths.iter().cycle()) {
            let state = path.base().sample(rng);
            sum += path.base().log_density(&state);
            column.rows_mut(0, self.dimension).copy_from(&state);
        }
        for crossing in &mut self.crossings {
            for mut column in crossing.noise.column_iter_mut() {
                law.fill(column.as_mut_slice(), rng);
            }
        }
        sum / self.size() as f64
    }

    /// The states `z_t`; `t` counts from 0 at the base.
    pub(super) fn states_at(&self, t: usize) -> impl Iterator<Item = DVector<f64>> {
        self.states[t]
            .column_iter()
            .map(|column| column.rows(0, self.dimension).into_owned())
    }

    /// Follows the trajectories, with the noise drawn.
    pub(super) fn follow(&mut self, flow: &LearnedTransitions) {
        let crossings = self.crossings.iter_mut().zip(&flow.transitions);
        for (t, (crossing, transition)) in crossings.enumerate() {
            let (left, reached) = self.states.split_at_mut(t + 1);
            crossing.follow(transition, &left[t], &mut reached[0]);
        }
    }

    /// Mean of `log r_t(z_{t-1}|z_t) - log q_t(z_t|z_{t-1})` for transition `t`, from 0.
    pub(super) fn log_backward_over_forward(&self, t: usize, law: Noise) -> f64 {
        let columns = self.states[t].column_iter().enumerate();
        let differences = columns
            .map(|(j, left)| self.crossings[t].log_backward_over_forward(j, left.as_slice(), law));
        differences.sum::<f64>() / self.size() as f64
    }

    /// `scale log f` and its gradient at `z_t`; `t` counts from 0 at the base.
    pub(super) fn energy(&self, t: usize, models: &[impl Differentiable], scale: f64) -> Energy {
        let mut energy = Energy {
            value: 0.0,
            gradient: DMatrix::zeros(self.dimension, self.size()),
        };
        let mut state = DVector::zeros(self.dimension);
        let mut gradient = state.clone();
        let columns = self.states[t].column_iter().zip(models.iter().cycle());
        for (j, (column, model)) in columns.enumerate() {
            state.copy_from(&column.rows(0, self.dimension));
            energy.value += scale * model.gradient_into(&state, &mut gradient);
            energy.gradient.set_column(j, &(&gradient * scale));
        }
        energy.value /= self.size() as f64;
        energy
    }

    /// Gradient, in each transition's parameters, of `a sum_t F_t + (1 - a) L` with the energies
    /// `log f_t(z_t)`. Those before the last may be missing where `a` is 0.
    pub(super) fn gradient(
        &self,
        flow: &LearnedTransitions,
        energies: &[Option<Energy>],
        weights: Weights,
    ) -> Vec<TransitionGradient> {
        let (local_weight, density_weight) = (weights.local, weights.density);
        let through_weight = 1.0 - local_weight;
        let zeros = |density: &ConditionalGaussian| vec![0.0; density.parameters().len()];
        let transitions = flow.transitions.iter();
        let mut gradients: Vec<TransitionGradient> =
            transitions.map(|t| t.parts().map(zeros)).collect();
        // The derivative of (1 - a) L in z_t, but for the part of log r_t.
        let mut through = DMatrix::zeros(self.dimension, self.size());
        if let Some(Some(last)) = energies.last() {
            through = &last.gradient * through_weight;
        }
        for t in (0..flow.transitions.len()).rev() {
            let [forward, backward] = &mut gradients[t];
            let (by_left, by_reached) = self.backward_density(t, flow, density_weight, backward);
            if let Some(energy) = energies[t].as_ref().filter(|_| local_weight > 0.0) {
                let local = (&energy.gradient + &by_reached) * local_weight;
                self.forward_density(t, flow, local, local_weight * density_weight, forward);
            }
            if through_weight > 0.0 {
                through += &by_reached * through_weight;
                let weight = through_weight * density_weight;
                through = self.forward_density(t, flow, through, weight, forward)
                    + by_left * through_weight;
            }
        }
        let scale = 1.0 / self.size() as f64;
        let entries = gradients.iter_mut().flatten().flatten();
        entries.for_each(|x| *x *= scale);
        gradients
    }

    /// Derivatives of `weight log r_t(z_{t-1} | z_t)`: adds those in its parameters, returns those in
    /// `z_{t-1}` and in `z_t`.
    fn backward_density(
        &self,
        t: usize,
        flow: &LearnedTransitions,
        weight: f64,
        gradient: &mut [f64],
    ) -> (DMatrix<f64>, DMatrix<f64>) {
        let pass = &self.crossings[t].backward;
        let mut by_means = self.states[t].rows(0, self.dimension) - &pass.means;
        let mut by_log_deviations = by_means.clone();
        for (k, by_mean) in by_means.iter_mut().enumerate() {
            let precision = (-2.0 * pass.log_deviations[k]).exp();
            by_log_deviations[k] = weight * (*by_mean * *by_mean * precision - 1.0);
            *by_mean *= weight * precision;
        }
        let by_reached = flow.transitions[t].backward.backward(
            &self.states[t + 1],
            pass,
            &by_means,
            &by_log_deviations,
            gradient,
        );
        (-by_means, by_reached)
    }

    /// Through `z_t = mu + sigma eps`, from the derivatives in `z_t`, and of
    /// `-weight log q_t = weight sum log sigma + ...`: adds those in the parameters of `q_t`,
    /// returns those in `z_{t-1}`.
    fn forward_density(
        &self,
        t: usize,
        flow: &LearnedTransitions,
        by_reached: DMatrix<f64>,
        weight: f64,
        gradient: &mut [f64],
    ) -> DMatrix<f64> {
        let Crossing {
            noise,
            forward: pass,
            ..
        } = &self.crossings[t];
        let mut by_log_deviations = by_reached.component_mul(noise);
        by_log_deviations.zip_apply(&pass.log_deviations, |derivative, log_deviation| {
            *derivative = *derivative * log_deviation.exp() + weight;
        });
        flow.transitions[t].forward.backward(
            &self.states[t],
            pass,
            &by_reached,
            &by_log_deviations,
            gradient,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::conditional::Mean;
    use crate::learned::differences::{agree, share};
    use crate::model::{Gaussian, GaussianMixture};
    use crate::path::GeometricPath;
    use crate::random::{Purpose, stream};
    use nalgebra::dvector;
    use proptest::prelude::*;

    const STAGES: usize = 3;
    const DENSITY: f64 = 0.7;

    type Path = GeometricPath<Gaussian, GaussianMixture>;

    fn path() -> Path {
        let gaussian = |mean, deviation| Gaussian::isotropic(mean, deviation).unwrap();
        let target = GaussianMixture::new([
            (1.0, gaussian(dvector![2.0, -1.0], 0.7)),
            (2.0, gaussian(dvector![-1.0, 0.5], 1.2)),
        ]);
        GeometricPath::new(gaussian(dvector![0.2, 0.0], 1.3), target.unwrap())
    }

    fn energies(batch: &Minibatch, path: &Path) -> Vec<Option<Energy>> {
        let at = |t: usize| path.at((t + 1) as f64 / STAGES as f64);
        let energy = |t| Some(batch.energy(t + 1, &[at(t)], 1.0));
        (0..STAGES).map(energy).collect()
    }

    /// `a F_t + (1 - a) L` but for constants, where moving transition `t` moves no other `F`
    /// that counts: `F_t` is a function of `z_{t-1}`, held fixed.
    fn objective(
        batch: &mut Minibatch,
        flow: &LearnedTransitions,
        path: &Path,
        t: usize,
        local_weight: f64,
    ) -> f64 {
        batch.follow(flow);
        let energies = energies(batch, path);
        let value = |t: usize| energies[t].as_ref().unwrap().value;
        let local = value(t) + DENSITY * batch.log_backward_over_forward(t, Noise::Gaussian);
        let densities = (0..STAGES).map(|s| batch.log_backward_over_forward(s, Noise::Gaussian));
        let through = value(STAGES - 1) + DENSITY * densities.sum::<f64>();
        local_weight * local + (1.0 - local_weight) * through
    }

    fn agreement(seed: u64, mean: Mean, local_weight: f64) -> f64 {
        let path = path();
        let flow = LearnedTransitions::new(mean, 2, STAGES, seed).unwrap();
        let mut batch = Minibatch::new(&flow, 7);
        let paths = std::slice::from_ref(&path);
        batch.draw(
            paths,
            Noise::Gaussian,
            &mut stream(seed, Purpose::Training, 0),
        );
        batch.follow(&flow);
        let weights = Weights {
            local: local_weight,
            energy: 1.0,
            density: DENSITY,
        };
        let gradients = batch.gradient(&flow, &energies(&batch, &path), weights);
        let mut agrees = Vec::new();
        for (t, gradient) in gradients.iter().enumerate() {
            for (part, derivatives) in gradient.iter().enumerate() {
                agrees.extend(agree(derivatives, 1e-5, |i, step| {
                    let mut moved = flow.clone();
                    moved.transitions[t].parts_mut()[part].parameters_mut()[i] += step;
                    objective(&mut batch, &moved, &path, t, local_weight)
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
                for mean in [Mean::Affine, Mean::Gated { hidden: 4 }] {
                    let agreement = agreement(seed, mean, local_weight);
                    prop_assert!(agreement > 0.97, "{mean:?}, {local_weight}: {agreement}");
                }
            }
        }
    }
}
