//! Discrete mixtures and auxiliary variables as proposals: `q(z'|z) = 1/C sum_c q_c(z'|z)` and
//! `q(z'|z) = int q(a) q(z', a'|z, a)`.

use annealed::kernel::{Stage, TransitionKernel};
use annealed::learned::{
    AuxiliaryPath, ConditionalMixture, Coupling, Family, InvertibleMap, LearnedTransitions, Mean,
    Objective, Training, Transition,
};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath, Stationary};
use annealed::schedule::Schedule;
use nalgebra::dvector;
use proptest::prelude::*;

use super::{Line, line, log_ratio, path_between};
use crate::random_models::{cases, gaussian, log_weights, mean_and_error, schedule, streams};

fn mixture(lines: &[Line]) -> ConditionalMixture {
    let components = lines.iter().map(|line| line.density()).collect();
    ConditionalMixture::from_components(components).unwrap()
}

/// One to four forward lines and a backward one.
fn lines() -> impl Strategy<Value = (Vec<Line>, Line)> {
    (prop::collection::vec(line(), 1..5), line())
}

proptest! {
    #![proptest_config(cases(32))]

    /// `sum_c q_c / C` integrates to 1, and a step's correction is that of the whole sum at the state that one component
    /// was drawn to: `log f(z') - log f(z) + log r(z|z') - log q(z'|z)`. With the density of one component in it, it
    /// would be another.
    #[test]
    fn a_mixture_is_weighed_by_all_of_its_components(
        ends in prop::array::uniform2(gaussian(1)), (forward, backward) in lines(), start in -2.0..2.0f64
    ) {
        let q = mixture(&forward);
        let (z, step) = (dvector![start], 0.01);
        let grid = (-1_500..=1_500).map(|i| q.log_density(&dvector![step * f64::from(i)], &z).exp());
        let total = grid.sum::<f64>() * step;
        prop_assert!((total - 1.0).abs() < 1e-9, "{}", total);
        let transition = Transition::mixture(q.clone(), backward.density()).unwrap();
        let flow = LearnedTransitions::from_transitions(vec![transition]).unwrap();
        let path = path_between(&ends);
        let (left, reached) = (path.at(0.3), path.at(1.0));
        for mut rng in streams(8) {
            let (mut moved, mut workspace) = (z.clone(), Default::default());
            let stage = Stage::new(1, &left, &reached);
            let step = flow.step(stage, &mut moved, &mut workspace, &mut rng).unwrap();
            let change = reached.log_density(&moved) - reached.log_density(&z);
            let with = |log_q: f64| change + backward.density().log_density(&z, &moved) - log_q;
            let near = |expected: f64| (step.correction - expected).abs() < 1e-9 * (1.0 + expected.abs());
            prop_assert!(near(with(q.log_density(&moved, &z))), "{}", step.correction);
            let terms = forward.iter().map(|line| line.density().log_density(&moved, &z));
            let largest = terms.fold(f64::NEG_INFINITY, f64::max);
            let others = (q.log_density(&moved, &z) - largest).abs() > 1e-6;
            prop_assert!(!others || !near(with(largest)));
        }
    }

    /// Draws follow the density of the sum: `E[g/q] = 1` for a normalised g.
    #[test]
    fn draws_of_a_mixture_have_its_density((forward, backward) in lines(), start in -2.0..2.0f64) {
        let q = mixture(&forward);
        let transition = Transition::mixture(q.clone(), backward.density()).unwrap();
        let flow = LearnedTransitions::from_transitions(vec![transition]).unwrap();
        let z = dvector![start];
        let model = Stationary(Gaussian::standard(1).unwrap());
        let mut workspace = Default::default();
        let ratios = streams(2_000).into_iter().map(|mut rng| {
            let mut moved = z.clone();
            flow.step(Stage::new(1, &model, &model), &mut moved, &mut workspace, &mut rng).unwrap();
            // The first component alone: at most C times the sum.
            (forward[0].density().log_density(&moved, &z) - q.log_density(&moved, &z)).exp()
        });
        let (mean, error) = mean_and_error(ratios.collect::<Vec<_>>().into_iter());
        prop_assert!((mean - 1.0).abs() < 4.0 * error + 1e-12, "{} +- {}", mean, error);
        prop_assert!(error < 0.05);
    }
}

/// `log mean(w)` of many chains less log Z, in standard errors; and the error of `mean(w)/Z`.
fn deviation(log_weights: &[f64], exact: f64) -> (f64, f64) {
    let weights = log_weights.iter().map(|w| (w - exact).exp());
    let (mean, error) = mean_and_error(weights.collect::<Vec<_>>().into_iter());
    ((mean - 1.0) / error, error)
}

/// From a wide Gaussian to a narrower one beside it, where weights have light tails.
fn narrowing(mean: f64) -> [Gaussian; 2] {
    [
        Gaussian::isotropic(dvector![0.0], 2.0).unwrap(),
        Gaussian::isotropic(dvector![mean], 1.0).unwrap(),
    ]
}

proptest! {
    #![proptest_config(cases(6))]

    /// `E[w] = Z_T/Z_0` for mixtures of any lines on a coarse schedule.
    #[test]
    fn weights_of_mixtures_are_unbiased(
        mean in -1.0..1.0f64,
        schedule in schedule(1..=3),
        (mut forward, mut backward) in lines(),
    ) {
        forward.iter_mut().for_each(|line| line.deviation += 1.0);
        backward.deviation = 0.5 + 0.5 * backward.deviation;
        let ends = narrowing(mean);
        let transition = Transition::mixture(mixture(&forward), backward.density()).unwrap();
        let flow = LearnedTransitions::from_transitions(vec![transition; schedule.stages()]).unwrap();
        let weights = log_weights(path_between(&ends), &flow, &schedule, 20_000);
        let (apart, error) = deviation(&weights, log_ratio(&ends));
        prop_assert!(apart.abs() < 4.0 && error < 0.1, "{} {}", apart, error);
    }

    /// `E[w] = Z_T/Z_0` where the map of a state goes by auxiliary variables, which the weight takes by
    /// `log r(a'|z') - log q(a)`, here both standard normals. Without that part it is biased.
    #[test]
    fn weights_with_auxiliary_variables_are_unbiased(
        mean in -1.0..1.0f64, numbers in prop::array::uniform2(prop::collection::vec(-0.1..0.1f64, 12))
    ) {
        let ends = narrowing(mean);
        let path = AuxiliaryPath::new(path_between(&ends), 1).unwrap();
        prop_assert_eq!(path.base().log_normalizer(), ends[0].log_normalizer());
        let coupling = Coupling { hidden: 1, bins: 2 };
        let map = InvertibleMap::from_parameters(coupling, 2, numbers).unwrap();
        let flow = LearnedTransitions::from_transitions(vec![Transition::Invertible(map.clone())]).unwrap();
        let schedule = Schedule::linear(1).unwrap();
        let weights = log_weights(&path, &flow, &schedule, 20_000);
        let (apart, error) = deviation(&weights, log_ratio(&ends));
        prop_assert!(apart.abs() < 4.0 && error < 0.05, "{} {}", apart, error);
    }
}

/// The same without `log r(a'|z') - log q(a)`.
#[test]
fn without_the_law_of_the_auxiliary_variables_weights_are_biased() {
    let ends = narrowing(0.5);
    let path = AuxiliaryPath::new(path_between(&ends), 1).unwrap();
    let numbers = vec![
        0.4, -0.3, 0.2, 0.3, 0.4, 0.3, -0.2, 0.4, 0.3, 0.4, -0.3, 0.4,
    ];
    let coupling = Coupling { hidden: 1, bins: 2 };
    let map = InvertibleMap::from_parameters(coupling, 2, [numbers.clone(), numbers]).unwrap();
    let transition = Transition::Invertible(map.clone());
    let flow = LearnedTransitions::from_transitions(vec![transition]).unwrap();
    let weights = log_weights(&path, &flow, &Schedule::linear(1).unwrap(), 20_000);
    let starts = streams(20_000)
        .into_iter()
        .map(|mut rng| path.base().sample(&mut rng));
    let without = starts.zip(&weights).map(|(start, weight)| {
        let reached = map.apply(&start).unwrap().0;
        weight + 0.5 * (reached[0].powi(2) - start[0].powi(2))
    });
    let without = deviation(&without.collect::<Vec<_>>(), log_ratio(&ends)).0;
    let with = deviation(&weights, log_ratio(&ends)).0;
    assert!(with.abs() < 4.0 && without.abs() > 8.0, "{with} {without}");
}

/// The path of a Gaussian in one dimension with an auxiliary variable is that of a Gaussian in two.
#[test]
fn auxiliary_variables_add_a_normal_factor() {
    let ends = narrowing(0.7);
    let path = AuxiliaryPath::new(path_between(&ends), 2).unwrap();
    let state = dvector![0.3, -1.1, 0.9];
    let normal = Gaussian::standard(2).unwrap();
    let factor = normal.log_density(&dvector![0.3, -1.1]) - normal.log_normalizer();
    let inner = path_between(&ends);
    for beta in [0.0, 0.4, 1.0] {
        let found = path.at(beta).log_density(&state);
        let expected = inner.at(beta).log_density(&dvector![0.9]) + factor;
        assert!((found - expected).abs() < 1e-12);
        let error = annealed::testing::gradient_error(&path.at(beta), &state).unwrap();
        assert!(error < 1e-6, "{error}");
    }
    assert!(AuxiliaryPath::new(inner, 0).is_err());
}

/// Trained transitions without hidden units reach both of two far modes as a mixture, and lose one as a Gaussian: the
/// best mixture is the target itself.
#[test]
fn a_mixture_finds_modes_that_its_component_loses() {
    let mode = |x: f64| (0.5, Gaussian::isotropic(dvector![x], 0.6).unwrap());
    let target = GaussianMixture::new([mode(-3.0), mode(3.0)]).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
    let schedule = Schedule::linear(2).unwrap();
    let mean = Mean::Affine;
    let bound = |family: Family| {
        let flow = LearnedTransitions::new(family, 1, 2, 1).unwrap();
        let training = Training::new(Objective::Annealed)
            .iterations(300)
            .batch_size(64);
        let trained = training
            .learning_rate(0.03)
            .train(flow, &path, &schedule)
            .unwrap();
        let start = path.base().log_normalizer();
        mean_and_error(log_weights(&path, &trained.flow, &schedule, 2_000).into_iter()).0 + start
    };
    let [one, two] = [
        mean.into(),
        Family::Mixture {
            mean,
            components: 2,
        },
    ]
    .map(bound);
    assert!(one < -0.6 && two > -0.4, "{one} {two}");
}
