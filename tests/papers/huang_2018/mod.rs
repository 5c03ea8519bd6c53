//! Huang, Tan, Lacoste and Courville (2018), *Improving explorability in variational inference with annealed
//! variational objectives*: the bound that learned transitions give, and the gradients that train them.

mod bounds;
mod couplings;
mod proposals;
mod tempered;

use annealed::learned::{
    ConditionalGaussian, ConditionalMixture, Coupling, Family, InvertibleMap, LearnedTransitions,
    Mean, Objective, Training, Transition,
};
use annealed::model::{ExponentialFamily, Gaussian, NormalizedModel, UnnormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dvector};
use proptest::prelude::*;
use rand::RngExt;

use crate::random_models::{
    cases, gaussian, geometric_average, log_weights, mean_and_error, quadratic_mean, schedule,
    streams,
};

/// Objectives that are the same one from first to last.
const STEADY: [Objective; 3] = [
    Objective::Annealed,
    Objective::Hierarchical,
    Objective::LossCalibrated { weight: 0.4 },
];

/// Returns the objectives that change during the training, and become the bound itself after the fraction `until`.
fn turning(until: f64) -> [Objective; 2] {
    let start = 0.2;
    [
        Objective::EnergyTempered { start, until },
        Objective::WarmUp { until },
    ]
}

/// `N(slope z + offset, deviation^2)` given z.
#[derive(Debug, Clone, Copy)]
struct Line {
    slope: f64,
    offset: f64,
    deviation: f64,
}

impl Line {
    fn density(self) -> ConditionalGaussian {
        let parameters = vec![self.slope, 0.0, self.offset, self.deviation.ln()];
        ConditionalGaussian::from_parameters(Mean::Affine, 1, parameters).unwrap()
    }
}

fn line() -> impl Strategy<Value = Line> {
    (-0.9..0.9f64, -1.0..1.0f64, 0.4..1.5f64).prop_map(|(slope, offset, deviation)| Line {
        slope,
        offset,
        deviation,
    })
}

fn flow(lines: &[[Line; 2]]) -> LearnedTransitions {
    let transition = |[q, r]: &[Line; 2]| Transition::new(q.density(), r.density()).unwrap();
    LearnedTransitions::from_transitions(lines.iter().map(transition).collect()).unwrap()
}

/// The joint law of `x_0 ~ N(mean, deviation^2)` and of those that follow by these lines.
fn chain(first: &Gaussian, lines: impl ExactSizeIterator<Item = Line>) -> Gaussian {
    let count = lines.len() + 1;
    let (mut mean, mut root) = (DVector::zeros(count), DMatrix::zeros(count, count));
    mean[0] = first.mean()[0];
    root[(0, 0)] = first.covariance()[(0, 0)].sqrt();
    for (t, line) in lines.enumerate() {
        mean[t + 1] = line.slope * mean[t] + line.offset;
        let row = root.row(t) * line.slope;
        root.row_mut(t + 1).copy_from(&row);
        root[(t + 1, t + 1)] = line.deviation;
    }
    Gaussian::new(mean, &root * root.transpose()).unwrap()
}

/// The same law of the variables in the opposite order.
fn reversed(law: &Gaussian) -> Gaussian {
    let last = law.mean().len() - 1;
    let mean = DVector::from_fn(last + 1, |i, _| law.mean()[last - i]);
    let covariance = law.covariance();
    let covariance = DMatrix::from_fn(last + 1, last + 1, |i, j| covariance[(last - i, last - j)]);
    Gaussian::new(mean, covariance).unwrap()
}

/// `KL(p || q)`.
fn divergence(p: &Gaussian, q: &Gaussian) -> f64 {
    let natural = q.natural_parameters() - p.natural_parameters();
    q.log_partition() - p.log_partition() - natural.dot(&p.moments())
}

fn log_ratio([base, target]: &[Gaussian; 2]) -> f64 {
    target.log_normalizer() - base.log_normalizer()
}

fn path_between([base, target]: &[Gaussian; 2]) -> GaussianPath {
    GaussianPath::new(base.clone(), target.clone()).unwrap()
}

/// The transitions that carry each `p_(t-1)` to `p_t` with this correlation, and their exact reversals.
fn exact_flow([a, b]: &[Gaussian; 2], schedule: &Schedule, correlation: f64) -> LearnedTransitions {
    let at = |beta| {
        let law = geometric_average(a, b, beta);
        (law.mean()[0], law.covariance()[(0, 0)].sqrt())
    };
    let line = |(m, s): (f64, f64), (n, t): (f64, f64)| Line {
        slope: correlation * t / s,
        offset: n - correlation * t / s * m,
        deviation: t * (1.0 - correlation * correlation).sqrt(),
    };
    let stages = schedule.betas().windows(2).map(|b| (at(b[0]), at(b[1])));
    flow(
        &stages
            .map(|(left, reached)| [line(left, reached), line(reached, left)])
            .collect::<Vec<_>>(),
    )
}

proptest! {
    #![proptest_config(cases(32))]

    /// `log w = log f_T + sum_t (log r_t - log q_t) - log f_0 = log(Z_T/Z_0)` on every trajectory, where each `r_t`
    /// is the reversal of `q_t`; every objective then has this value.
    #[test]
    fn exact_reversals_attain_the_bound_on_every_trajectory(
        ends in prop::array::uniform2(gaussian(1)), schedule in schedule(1..=4), correlation in -0.9..0.9f64
    ) {
        let path = path_between(&ends);
        let flow = exact_flow(&ends, &schedule, correlation);
        for weight in log_weights(&path, &flow, &schedule, 20) {
            prop_assert!((weight - log_ratio(&ends)).abs() < 1e-9, "{weight}");
        }
        for objective in STEADY.into_iter().chain(turning(0.0)) {
            let training = Training::new(objective).iterations(1).batch_size(8);
            let trained = training.train(flow.clone(), &path, &schedule).unwrap();
            let found = trained.curve[0].objective;
            prop_assert!((found - log_ratio(&ends)).abs() < 1e-9, "{objective:?}: {found}");
        }
    }

    /// `E[log w] = log(Z_T/Z_0) - KL(q(z_0..z_T) || p_T r_T .. r_1)`, and so at most `log(Z_T/Z_0)`, for any
    /// transitions.
    #[test]
    fn the_bound_falls_short_by_the_divergence(
        ends in prop::array::uniform2(gaussian(1)),
        lines in prop::collection::vec(prop::array::uniform2(line()), 1..4),
    ) {
        let forward = chain(&ends[0], lines.iter().map(|[q, _]| *q));
        let backward = reversed(&chain(&ends[1], lines.iter().rev().map(|[_, r]| *r)));
        let expected = log_ratio(&ends) - divergence(&forward, &backward);
        let (path, flow) = (path_between(&ends), flow(&lines));
        let log_weight = |z: &DVector<f64>| {
            let at = |t: usize| dvector![z[t]];
            let last = lines.len();
            let steps = flow.transitions().iter().enumerate().map(|(t, step)| {
                let (left, reached) = (at(t), at(t + 1));
                let [forward, backward] = densities(step);
                backward.log_density(&left, &reached) - forward.log_density(&reached, &left)
            });
            path.at(1.0).log_density(&at(last)) - path.at(0.0).log_density(&at(0)) + steps.sum::<f64>()
        };
        let bound = quadratic_mean(&forward, log_weight);
        prop_assert!((bound - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{bound} {expected}");
        let schedule = Schedule::linear(lines.len()).unwrap();
        let weights = log_weights(&path, &flow, &schedule, 4_000);
        let (bound, error) = mean_and_error(weights.into_iter());
        prop_assert!((bound - expected).abs() < 4.0 * error, "{bound} +- {error}, {expected}");
        prop_assert!(error < 0.05 * (1.0 + log_ratio(&ends) - expected));
    }
}

proptest! {
    #![proptest_config(cases(3))]

    /// `ELBO <= log(Z_T/Z_0)`, whatever was the objective; nearer to it after training, but for the objectives that
    /// begin with another one.
    #[test]
    fn every_objective_keeps_and_raises_the_bound(
        ends in prop::array::uniform2(gaussian(1)), schedule in schedule(2..=3)
    ) {
        let path = path_between(&ends);
        let start = Line { slope: 0.5, offset: 2.0, deviation: 0.5 };
        let start = flow(&vec![[start; 2]; schedule.stages()]);
        let bound = |flow: &LearnedTransitions| {
            mean_and_error(log_weights(&path, flow, &schedule, 2_000).into_iter())
        };
        let before = bound(&start).0;
        for objective in STEADY.into_iter().chain(turning(0.5)) {
            let training = Training::new(objective).iterations(150).batch_size(32).learning_rate(0.02);
            let trained = training.train(start.clone(), &path, &schedule).unwrap();
            let (after, error) = bound(&trained.flow);
            let rises = after > before + 4.0 * error;
            prop_assert!(rises || !STEADY.contains(&objective), "{objective:?}: {before} to {after}");
            prop_assert!(after < log_ratio(&ends) + 4.0 * error, "{objective:?}: {after}");
        }
    }
}

/// The forward and the backward density of a transition.
fn densities(transition: &Transition) -> [&ConditionalGaussian; 2] {
    match transition {
        Transition::Stochastic {
            forward, backward, ..
        } => [forward, backward],
        _ => panic!("no densities: {transition:?}"),
    }
}

/// The parameters of a transition by its parts: forward densities, then the backward one; or both layers of a map.
fn parts(transition: &Transition) -> Vec<Vec<f64>> {
    let of = |part: &ConditionalGaussian| part.parameters().to_vec();
    match transition {
        Transition::Mixture {
            forward, backward, ..
        } => {
            let forward = forward.components().iter();
            forward.chain([backward]).map(of).collect()
        }
        Transition::Invertible(map) => map.parameters().map(<[f64]>::to_vec).to_vec(),
        _ => densities(transition).map(of).to_vec(),
    }
}

/// The transition of the same form with other parameters.
fn with_parts(transition: &Transition, mut parts: Vec<Vec<f64>>) -> Transition {
    let density = |part: &ConditionalGaussian, parameters| {
        ConditionalGaussian::from_parameters(part.mean(), part.dimension(), parameters).unwrap()
    };
    if let Transition::Invertible(map) = transition {
        let layers = [parts.swap_remove(0), parts.swap_remove(0)];
        let map = InvertibleMap::from_parameters(map.coupling(), map.dimension(), layers);
        return Transition::Invertible(map.unwrap());
    }
    let last = parts.pop().unwrap();
    if let Transition::Mixture {
        forward, backward, ..
    } = transition
    {
        let components = forward.components().iter().zip(parts);
        let components = components.map(|(q, parameters)| density(q, parameters));
        let forward = ConditionalMixture::from_components(components.collect()).unwrap();
        return Transition::mixture(forward, density(backward, last)).unwrap();
    }
    let [q, r] = densities(transition);
    Transition::new(density(q, parts.remove(0)), density(r, last)).unwrap()
}

/// Returns the transitions with entry `i` of the parameters of transition `t` moved by `step`.
fn moved(flow: &LearnedTransitions, t: usize, i: usize, step: f64) -> LearnedTransitions {
    let mut transitions = flow.transitions().to_vec();
    let mut parts = parts(&transitions[t]);
    *parts.iter_mut().flatten().nth(i).unwrap() += step;
    transitions[t] = with_parts(&transitions[t], parts);
    LearnedTransitions::from_transitions(transitions).unwrap()
}

/// The parameters of transition t, forward ones first.
fn parameters(flow: &LearnedTransitions, t: usize) -> DVector<f64> {
    DVector::from_vec(parts(&flow.transitions()[t]).concat())
}

fn training(objective: Objective, seed: u64) -> Training {
    Training::new(objective)
        .iterations(1)
        .batch_size(5)
        .seed(seed)
}

/// The direction of the gradient in the parameters of each transition, from the first update. Adam's is
/// `g / (|g| + 1e-8)` in each entry, and the clip makes g so short that this can be inverted.
fn directions(
    flow: &LearnedTransitions,
    path: &GaussianPath,
    objective: Objective,
    seed: u64,
) -> Vec<DVector<f64>> {
    let training = training(objective, seed).learning_rate(1.0).clip(1e-9);
    let schedule = Schedule::linear(flow.transitions().len()).unwrap();
    let trained = training.train(flow.clone(), path, &schedule).unwrap().flow;
    let update = |t| parameters(&trained, t) - parameters(flow, t);
    let stages = 0..flow.transitions().len();
    stages
        .map(|t| update(t).map(|u| u / (1.0 - u.abs())).normalize())
        .collect()
}

/// The gradient of the evidence lower bound of the first `stages` transitions, in the parameters of transition t,
/// by central differences on one minibatch.
fn differences(
    flow: &LearnedTransitions,
    ends: &[Gaussian; 2],
    stages: usize,
    t: usize,
    seed: u64,
) -> DVector<f64> {
    let share = stages as f64 / flow.transitions().len() as f64;
    let reached = geometric_average(&ends[0], &ends[1], share);
    let path = GaussianPath::new(ends[0].clone(), reached).unwrap();
    let schedule = Schedule::linear(stages).unwrap();
    let bound = |i: usize, step: f64| {
        let transitions = moved(flow, t, i, step).transitions()[..stages].to_vec();
        let flow = LearnedTransitions::from_transitions(transitions).unwrap();
        let trained = training(Objective::Hierarchical, seed).train(flow, &path, &schedule);
        trained.unwrap().curve[0].objective
    };
    let slope = |i| (bound(i, 1e-5) - bound(i, -1e-5)) / 2e-5;
    DVector::from_fn(parameters(flow, t).len(), |i, _| slope(i))
}

proptest! {
    #![proptest_config(cases(8))]

    /// `d/d theta_t E[log f_t(z_t) + log r_t(z_(t-1)|z_t) - log q_t(z_t|z_(t-1))]` with `z_(t-1)` held fixed: the
    /// bound of the first t transitions, in the parameters of the last of them. Through all transitions the
    /// gradient is that of the whole bound, and the loss-calibrated one is their mean.
    #[test]
    fn gradients_are_finite_differences(
        ends in prop::array::uniform2(gaussian(2)), weights in 0..1_000_000u64, seed in 0..1_000_000u64
    ) {
        let path = path_between(&ends);
        for mean in [Mean::Affine, Mean::Gated { hidden: 2 }] {
            let flow = LearnedTransitions::new(mean, 2, 3, weights).unwrap();
            let found = STEADY.map(|objective| directions(&flow, &path, objective, seed));
            for t in 0..3 {
                let detached = differences(&flow, &ends, t + 1, t, seed);
                let through = differences(&flow, &ends, 3, t, seed);
                let mixed = &detached * 0.4 + &through * 0.6;
                for (found, expected) in found.iter().zip([detached, through, mixed]) {
                    let error = (&found[t] - expected.normalize()).norm();
                    prop_assert!(error < 1e-4, "{mean:?}, {}: {error}", t + 1);
                }
            }
        }
    }
}

/// Untrained transitions of a family, and maps away from the identity.
fn random_flow(family: Family, seed: u64) -> LearnedTransitions {
    let flow = LearnedTransitions::new(family, 2, 3, seed).unwrap();
    if !matches!(family, Family::Invertible(_)) {
        return flow;
    }
    let mut rng = streams(1).remove(0);
    let mut random = |t: &Transition| {
        let mut parts = parts(t);
        let entries = parts.iter_mut().flatten();
        entries.for_each(|x| *x += rng.random_range(-0.4..0.4));
        with_parts(t, parts)
    };
    let transitions = flow.transitions().iter().map(&mut random).collect();
    LearnedTransitions::from_transitions(transitions).unwrap()
}

proptest! {
    #![proptest_config(cases(4))]

    /// The same of mixtures, whose draws keep their component, and of maps, for which `log r_t - log q_t` is
    /// `log |det J|`. The gradients of the three objectives are not each other's.
    #[test]
    fn gradients_of_mixtures_and_maps_are_finite_differences(
        ends in prop::array::uniform2(gaussian(2)), weights in 0..1_000_000u64, seed in 0..1_000_000u64
    ) {
        let path = path_between(&ends);
        for family in [
            Family::Mixture { mean: Mean::Affine, components: 2 },
            Family::Mixture { mean: Mean::Gated { hidden: 1 }, components: 2 },
            Coupling { hidden: 2, bins: 2 }.into(),
        ] {
            let flow = random_flow(family, weights);
            let found = STEADY.map(|objective| directions(&flow, &path, objective, seed));
            let mut apart = 0.0_f64;
            for t in 0..3 {
                let detached = differences(&flow, &ends, t + 1, t, seed);
                let through = differences(&flow, &ends, 3, t, seed);
                apart = apart.max((detached.normalize() - through.normalize()).norm());
                let mixed = &detached * 0.4 + &through * 0.6;
                for (found, expected) in found.iter().zip([detached, through, mixed]) {
                    let error = (&found[t] - expected.normalize()).norm();
                    prop_assert!(error < 1e-4, "{family:?}, {}: {error}", t + 1);
                }
            }
            prop_assert!(apart > 1e-2, "{family:?}: {apart}");
        }
    }
}

/// Checks [`differences`] by hand: they are slopes of the bound that the module names.
#[test]
fn the_bound_of_one_transition_has_the_slope_of_its_offset() {
    let ends = [
        Gaussian::standard(1).unwrap(),
        Gaussian::isotropic(dvector![2.0], 1.0).unwrap(),
    ];
    let line = Line {
        slope: 0.0,
        offset: 0.5,
        deviation: 1e-2,
    };
    let flow = flow(&[[
        line,
        Line {
            deviation: 1.0,
            ..line
        },
    ]]);
    // d/d offset of -(z - 2)^2 / 2 at z = .5, but for the noise of z.
    let slope = differences(&flow, &ends, 1, 0, 1)[2];
    assert!((slope - 1.5).abs() < 0.05, "{slope}");
}
