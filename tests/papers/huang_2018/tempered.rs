//! Alpha- and beta-annealing before they end, and the gradients of the objectives that are no sum over transitions.

use annealed::learned::{LearnedTransitions, Mean, Objective, TrainingPoint};
use annealed::model::{ExponentialFamily, Gaussian, UnnormalizedModel};
use annealed::path::GaussianPath;
use annealed::schedule::Schedule;
use nalgebra::DVector;
use proptest::prelude::*;

use super::{directions, moved, parameters, path_between, training};
use crate::random_models::{cases, gaussian, geometric_average};

const STAGES: usize = 3;
const MEANS: [Mean; 2] = [Mean::Affine, Mean::Gated { hidden: 2 }];

/// The density with these natural parameters, as far as `Gaussian` knows it: without its constant.
fn with_natural_parameters(gaussian: &Gaussian, natural: &DVector<f64>) -> Gaussian {
    gaussian.with_natural_parameters(natural).unwrap()
}

/// `f_0` times a likelihood to the power so many, whose log is `eta . g(x)`.
fn posterior(prior: &Gaussian, likelihood: &Gaussian, power: f64) -> Gaussian {
    let natural = prior.natural_parameters() + likelihood.natural_parameters() * power;
    with_natural_parameters(prior, &natural)
}

/// The objective of iteration k of so many, which leave the parameters where they are. None where the training ends
/// before.
fn objective_at(
    flow: &LearnedTransitions,
    path: &GaussianPath,
    objective: Objective,
    seed: u64,
    [k, iterations]: [usize; 2],
) -> Option<f64> {
    let training = training(objective, seed)
        .iterations(iterations)
        .learning_rate(1e-13);
    let schedule = Schedule::linear(STAGES).unwrap();
    let mut objectives = Vec::new();
    let keep = |point: &TrainingPoint, _: &LearnedTransitions| {
        objectives.push(point.objective);
    };
    training
        .train_with(flow.clone(), path, &schedule, keep)
        .ok();
    objectives.get(k).copied()
}

/// The slope of the objective of iteration k of so many in the parameters of transition t.
fn slope(
    flow: &LearnedTransitions,
    path: &GaussianPath,
    objective: Objective,
    t: usize,
    seed: u64,
    iteration: [usize; 2],
) -> DVector<f64> {
    let at =
        |i, step| objective_at(&moved(flow, t, i, step), path, objective, seed, iteration).unwrap();
    let count = parameters(flow, t).len();
    DVector::from_fn(count, |i, _| (at(i, 1e-5) - at(i, -1e-5)) / 2e-5)
}

fn same(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9 * (1.0 + expected.abs())
}

proptest! {
    #![proptest_config(cases(16))]

    /// `E_q[log q(z) - alpha log f(z)]`: alpha-annealing at any alpha is the bound with `f_T^alpha` for a target, in
    /// value and gradient. A target cut off along the path at alpha is another one.
    #[test]
    fn alpha_annealing_is_the_bound_of_a_tempered_target(
        ends in prop::array::uniform2(gaussian(2)),
        alpha in 0.05..0.95f64,
        seeds in prop::array::uniform2(0..1_000_000u64),
    ) {
        let [a, b] = &ends;
        let [weights, seed] = seeds;
        let tempered = with_natural_parameters(b, &(b.natural_parameters() * alpha));
        let expected = path_between(&[a.clone(), tempered]);
        let wrong = path_between(&[a.clone(), geometric_average(a, b, alpha)]);
        let path = path_between(&ends);
        let objective = Objective::EnergyTempered { start: alpha, until: 1.0 };
        for mean in MEANS {
            let flow = LearnedTransitions::new(mean, 2, STAGES, weights).unwrap();
            let value = |path, objective| objective_at(&flow, path, objective, seed, [0, 1]).unwrap();
            let found = value(&path, objective);
            prop_assert!(same(found, value(&expected, Objective::Hierarchical)));
            prop_assert!(!same(found, value(&wrong, Objective::Hierarchical)));
            let of = |path, objective| directions(&flow, path, objective, seed);
            let bounds = of(&expected, Objective::Hierarchical);
            for (found, expected) in of(&path, objective).iter().zip(bounds) {
                prop_assert!((found - &expected).norm() < 1e-5, "{mean:?}: {found} {expected}");
            }
        }
    }

    /// `E_q[beta (log q(z) - log p(z)) - log p(x|z)]`: beta-annealing at any beta is beta times the bound of the
    /// posterior whose likelihood is taken to the power `1/beta`. The bound itself is another one.
    #[test]
    fn beta_annealing_is_the_bound_of_a_sharper_posterior(
        ends in prop::array::uniform2(gaussian(2)),
        weights in 0..1_000_000u64,
        seed in 0..1_000_000u64,
        k in 1..4usize,
        slack in 0.0..1.0f64,
    ) {
        let [prior, likelihood] = &ends;
        let progress = k as f64 / 4.0;
        let until = progress + (1.0 - progress) * slack;
        let beta = progress / until;
        let target = posterior(prior, likelihood, 1.0);
        let sharper = posterior(prior, likelihood, 1.0 / beta);
        // log f at 0 is what `Gaussian` adds to `eta . g(x)`.
        let origin = DVector::zeros(2);
        let constant = |g: &Gaussian| g.log_density(&origin) - prior.log_density(&origin);
        let path = path_between(&[prior.clone(), target.clone()]);
        let other = path_between(&[prior.clone(), sharper.clone()]);
        for mean in MEANS {
            let flow = LearnedTransitions::new(mean, 2, STAGES, weights).unwrap();
            let value = |path, objective| objective_at(&flow, path, objective, seed, [k, 4]);
            let found = value(&path, Objective::WarmUp { until });
            let sharp = value(&other, Objective::Hierarchical);
            let wrong = value(&path, Objective::Hierarchical);
            prop_assume!(found.is_some() && sharp.is_some() && wrong.is_some());
            let [found, sharp, wrong] = [found, sharp, wrong].map(Option::unwrap);
            let expected = beta * (sharp - constant(&sharper)) + constant(&target);
            prop_assert!((found - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{found} {expected}");
            prop_assert!(beta > 0.999 || !same(found, wrong), "{found} {wrong}");
        }
    }
}

proptest! {
    #![proptest_config(cases(6))]

    /// Gradients are slopes: of beta-annealing at `beta = 0`, of alpha-annealing at any alpha, and of the
    /// importance-weighted bound `E log (1/k) sum w`, whose gradient is `sum_i w_i / sum_j w_j grad log w_i`.
    #[test]
    fn gradients_of_tempered_and_weighted_bounds_are_slopes(
        ends in prop::array::uniform2(gaussian(2)),
        alpha in 0.05..0.7f64,
        seeds in prop::array::uniform2(0..1_000_000u64),
    ) {
        let path = path_between(&ends);
        let [weights, seed] = seeds;
        let objectives = [
            Objective::WarmUp { until: 1.0 },
            Objective::EnergyTempered { start: alpha, until: 1.0 },
            Objective::ImportanceWeighted { samples: 5 },
        ];
        for mean in MEANS {
            let flow = LearnedTransitions::new(mean, 2, STAGES, weights).unwrap();
            let wrong = directions(&flow, &path, Objective::Hierarchical, seed);
            let mut apart = 0.0_f64;
            for objective in objectives {
                let found = directions(&flow, &path, objective, seed);
                for t in 0..STAGES {
                    let slope = slope(&flow, &path, objective, t, seed, [0, 1]);
                    prop_assume!(slope.norm() > 1e-3);
                    let expected = slope.normalize();
                    let error = (&found[t] - &expected).norm();
                    prop_assert!(error < 1e-3, "{mean:?}, {objective:?}, {}: {error}", t + 1);
                    apart = apart.max((&wrong[t] - expected).norm());
                }
            }
            prop_assert!(apart > 3e-3, "they are not those of the bound: {apart}");
        }
    }
}

/// The transitions after the first of two updates, and the directions of the second one's gradient. Adam's means over both
/// are `(.09 g_1 + .1 g_2) / .19`, and the clip makes its denominator constant.
fn second_directions(
    flow: &LearnedTransitions,
    path: &GaussianPath,
    objective: Objective,
    seed: u64,
) -> (LearnedTransitions, Vec<DVector<f64>>) {
    let training = training(objective, seed).iterations(2);
    let training = training.learning_rate(100.0).clip(1e-13);
    let mut before = Vec::new();
    let keep = |_: &TrainingPoint, flow: &LearnedTransitions| before.push(flow.clone());
    let schedule = Schedule::linear(STAGES).unwrap();
    let trained = training.train_with(flow.clone(), path, &schedule, keep);
    let (middle, last) = (before.pop().unwrap(), trained.unwrap().flow);
    let direction = |t| {
        let [start, middle, last] = [flow, &middle, &last].map(|flow| parameters(flow, t));
        ((last - &middle) * 0.19 - (middle - start) * 0.09).normalize()
    };
    let directions = (0..STAGES).map(direction).collect();
    (middle, directions)
}

proptest! {
    #![proptest_config(cases(4))]

    /// Beta-annealing at `0 < beta < 1`: its gradient is the slope of its objective, and not that of the bound.
    #[test]
    fn gradients_of_beta_annealing_are_slopes(
        ends in prop::array::uniform2(gaussian(2)),
        beta in 0.5..0.9f64,
        seeds in prop::array::uniform2(0..1_000_000u64),
    ) {
        let path = path_between(&ends);
        let [weights, seed] = seeds;
        let objective = Objective::WarmUp { until: 0.5 / beta };
        for mean in MEANS {
            let flow = LearnedTransitions::new(mean, 2, STAGES, weights).unwrap();
            let (flow, found) = second_directions(&flow, &path, objective, seed);
            let mut apart = 0.0_f64;
            for (t, found) in found.iter().enumerate() {
                let of = |objective| slope(&flow, &path, objective, t, seed, [1, 2]);
                let expected = of(objective);
                prop_assume!(expected.norm() > 1e-3);
                let error = (found - expected.normalize()).norm();
                prop_assert!(error < 1e-3, "{mean:?}, {}: {error}", t + 1);
                apart = apart.max((found - of(Objective::Hierarchical).normalize()).norm());
            }
            prop_assert!(apart > 3e-3, "{mean:?}: {apart}");
        }
    }
}
