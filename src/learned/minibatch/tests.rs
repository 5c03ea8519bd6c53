//! Tests of the objectives' gradients against finite differences.

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

fn families() -> [Family; 6] {
    let mean = Mean::Gated { hidden: 4 };
    [
        Mean::Affine.into(),
        Mean::Gated { hidden: 4 }.into(),
        Coupling::Affine { hidden: 4 }.into(),
        Coupling::Additive { hidden: 4 }.into(),
        Coupling::Spline { hidden: 4, bins: 3 }.into(),
        Family::Mixture {
            mean,
            components: 3,
        },
    ]
}

/// Creates transitions with random weights; maps would start as the identity.
fn random(family: Family, seed: u64) -> LearnedTransitions {
    let mut flow = LearnedTransitions::new(family, 2, STAGES, seed).unwrap();
    if let Family::Invertible(_) = family {
        let rng = &mut stream(seed, Purpose::FlowWeights, 1);
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

/// Least distance of a `log sigma` from the ends of its clamp: more than the steps of differences move it.
const OFF_CLAMP: f64 = 0.02;

/// Draws trajectories until none has a scale beside the clamp, where the value has a kink and differences mean nothing.
fn drawn(flow: &LearnedTransitions, path: &Path, size: usize, seed: u64) -> Minibatch {
    let mut batch = Minibatch::new(flow, size);
    let rng = &mut stream(seed, Purpose::Training, 0);
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

/// Computes `a F_t + (1 - a) L` up to constants. `F_t` is a function of `z_{t-1}`, held fixed, so that moving
/// transition `t` changes no other `F` that counts.
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
    let weights = Weights {
        local: local_weight,
        energy: 1.0,
        density: DENSITY,
    };
    let gradients = batch.gradient(&flow, &energies(&batch, &path), weights, &[1.0; 7]);
    share_of(&gradients, &flow, |moved, t| {
        objective(&mut batch, moved, &path, t, local_weight)
    })
}

/// Returns the share of the derivatives that agree with the slopes of `value(moved flow, transition)`.
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
    let bound = |weights: &[f64]| mean(&weights.chunks(k).map(log_mean_exp).collect::<Vec<_>>());
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
