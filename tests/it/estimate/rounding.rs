//! Log densities so large that double precision is too coarse for log Z: a warning, and none on ordinary ones.

use crate::shared;
use annealed::adaptive::Rounds;
use annealed::ais::{Ais, Run};
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::{LogZ, Warning};
use annealed::kernel::{Hmc, PerfectTransitions, RandomWalkMetropolis};
use annealed::model::{
    Differentiable, Gaussian, NormalizedModel, Prior, Priors, Sampleable, UnnormalizedModel,
};
use annealed::nested::NestedSmc;
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, TemperedPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DVector, dvector};
use rand::RngExt;
use rand_distr::StandardNormal;

type Vectors = Run<DVector<f64>>;

fn base() -> Gaussian {
    Gaussian::standard(1).unwrap()
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.7).unwrap()
}

/// `exp(constant)` times `exp(-1.5 x^2)`: along a tempered path from the standard normal `log Z = constant - log 2`.
fn likelihood(constant: f64) -> impl UnnormalizedModel<State = DVector<f64>> + Sync {
    shared::function(move |x: &DVector<f64>| constant - 1.5 * x[0] * x[0])
}

/// The same constant in both ends, which their ratio does not show.
fn ends(
    constant: f64,
) -> (
    impl Sampleable<State = DVector<f64>> + Sync,
    impl UnnormalizedModel<State = DVector<f64>> + Sync,
) {
    let normal = shared::function(move |x: &DVector<f64>| constant - 0.5 * x[0] * x[0]);
    let target = shared::function(move |x: &DVector<f64>| constant - 2.0 * (x[0] - 1.0).powi(2));
    let normal = normal.with_sampler(shared::sampler(|rng| {
        dvector![rng.sample::<f64, _>(StandardNormal)]
    }));
    (normal, target)
}

fn run<P: AnnealingPath<State = DVector<f64>> + Send + Sync>(path: P, stages: usize) -> Vectors
where
    RandomWalkMetropolis: annealed::kernel::TransitionKernel<P::At>,
{
    let ais = Ais::with_base_log_z(path, walk(), 0.0).chains(1_000);
    ais.schedule(Schedule::linear(stages).unwrap())
        .run()
        .unwrap()
}

fn warned(warnings: &[Warning]) -> bool {
    let rounding = |warning: &Warning| matches!(warning, Warning::Rounding { .. });
    warnings.iter().any(rounding)
}

/// How far rounding may move log Z, as the warning says.
fn stated(run: &Vectors) -> f64 {
    let mut warnings = run.warnings().iter();
    let stated = warnings.find_map(|warning| match warning {
        Warning::Rounding { rounding_error, .. } => Some(*rounding_error),
        _ => None,
    });
    stated.expect("a warning")
}

#[test]
fn what_rounding_does_to_log_z_is_stated() {
    for (constant, stages) in [
        (1e13, 1_000),
        (1e14, 1_000),
        (1e15, 10),
        (1e15, 1_000),
        (1e16, 1_000),
    ] {
        let path = TemperedPath::new(base(), likelihood(constant));
        let run = run(&path, stages);
        let error = (run.log_z() - (constant - 2f64.ln())).abs();
        assert!(
            error <= stated(&run) + 4.0 * run.standard_error(),
            "{constant:e}, {stages}: {error}, {run}"
        );
        assert!(stated(&run) < 1e-13 * constant, "{run}");
        // The errors of chains alone do not cover it.
        assert!(stated(&run) > run.standard_error(), "{run}");
    }
}

#[test]
fn a_constant_in_both_ends_is_seen() {
    for (constant, expected) in [(0.0, false), (1e9, false), (1e15, true)] {
        let (base, target) = ends(constant);
        let path = GeometricPath::new(base, target);
        assert_eq!(warned(run(&path, 100).warnings()), expected, "{constant:e}");
    }
}

#[test]
fn every_method_warns() {
    let path = TemperedPath::new(base(), likelihood(1e15));
    let rounds = Rounds::new(&path, walk()).budget(300_000).run().unwrap();
    assert!(warned(rounds.run().warnings()), "{rounds}");
    let tempering = Tempering::new(&path, walk()).rounds(6).run().unwrap();
    assert!(warned(tempering.warnings()), "{tempering}");
    let path = TemperedPath::new(base(), likelihood(1e14));
    let levels = NestedSmc::new(&path, walk()).chains(100).islands(25);
    let levels = levels.run().unwrap();
    assert!(warned(levels.warnings()), "{levels}");
}

/// Neither direction alone is so sure that rounding matters.
#[test]
fn a_joint_error_is_held_against_rounding_too() {
    let posterior = Gaussian::isotropic(dvector![0.0], 0.5).unwrap();
    let samples = TargetSamples::draw(&posterior, 300, 1);
    let joined = |constant: f64| {
        let path = TemperedPath::new(base(), likelihood(constant));
        let ais = Ais::new(&path, walk()).chains(300);
        let ais = ais.schedule(Schedule::linear(2).unwrap());
        let (forward, reverse) = (ais.run().unwrap(), ais.reverse(&samples).unwrap());
        let bridge = Bridge::new(&forward, &reverse).unwrap();
        (forward, reverse, bridge)
    };
    // Rounding is in proportion to the constant: between what warns of the joint error and of one direction's.
    let of_large = stated(&joined(1e15).0) / 1e15;
    let (forward, reverse, bridge) = joined(0.0);
    let alone = forward.standard_error().min(reverse.standard_error());
    assert!(bridge.standard_error() < 0.95 * alone, "{bridge}");
    let rounding = 0.25 * (alone * bridge.standard_error()).sqrt();
    let (forward, reverse, bridge) = joined(rounding / of_large);
    assert!(!warned(forward.warnings()), "{forward}");
    assert!(!warned(reverse.backward().warnings()), "{reverse}");
    assert!(warned(bridge.warnings()), "{bridge}");
}

#[test]
fn ordinary_problems_are_not_warned_of() {
    for constant in [0.0, -1e6, 1e9] {
        for stages in [10, 1_000] {
            let tempered = TemperedPath::new(base(), likelihood(constant));
            assert!(!warned(run(&tempered, stages).warnings()), "{constant:e}");
        }
        let path = TemperedPath::new(base(), likelihood(constant));
        let tempering = Tempering::new(&path, walk()).rounds(6).run().unwrap();
        assert!(!warned(tempering.warnings()), "{tempering}");
    }
    // Log densities of 1e15 at samples of the base, at no state that counts.
    for deviation in [1e-3_f64, 1e-8] {
        let target = Gaussian::isotropic(dvector![0.3], deviation).unwrap();
        let path = GaussianPath::new(base(), target.clone()).unwrap();
        let betas = (0..=200).map(|i| deviation.powf(2.5 * (1.0 - f64::from(i) / 200.0)));
        let betas = Schedule::new(std::iter::once(0.0).chain(betas)).unwrap();
        for schedule in [Schedule::linear(100).unwrap(), betas] {
            let run = Ais::new(&path, PerfectTransitions).chains(1_000);
            let run = run.schedule(schedule).run().unwrap();
            assert!(
                !warned(run.warnings()),
                "{run}, {}",
                target.log_normalizer()
            );
        }
    }
}

/// `constant - |x - 1|^2 / 2` in ten dimensions, in single precision.
fn single(constant: f32) -> impl Differentiable<State = DVector<f64>> + Sync + Send {
    let rows = move |states: &[f32], _| {
        let square = |x: &[f32]| x.iter().map(|x| (x - 1.0).powi(2)).sum::<f32>();
        let log_densities = states.chunks(10).map(|x| constant - 0.5 * square(x));
        let slopes = states.iter().map(|x| 1.0 - x).collect();
        Ok((log_densities.collect(), slopes))
    };
    shared::batch_model(10, rows).unwrap()
}

/// A large constant in single precision: no right gradient is refused, and what rounding does to log Z is stated.
#[test]
fn large_energies_in_single_precision_warn_and_keep_their_gradients() {
    let hmc = || Hmc::new(0.3, 3).unwrap();
    for (constant, expected) in [
        (0.0, false),
        (-1e3, false),
        (1e4, false),
        (-1e6, true),
        (1e8, true),
    ] {
        let path = GeometricPath::new(Gaussian::standard(10).unwrap(), single(constant));
        let exact = f64::from(constant) + 5.0 * std::f64::consts::TAU.ln();
        let rounds = Rounds::new(&path, hmc())
            .budget(200_000)
            .seed(1)
            .run()
            .unwrap();
        let run = Ais::new(&path, hmc()).chains(500).seed(1);
        let run = run.schedule(Schedule::linear(60).unwrap()).run().unwrap();
        let tempering = Tempering::new(&path, hmc())
            .rounds(5)
            .seed(1)
            .run()
            .unwrap();
        for result in [&rounds as &dyn LogZ, &run, &tempering] {
            assert_eq!(warned(result.warnings()), expected, "{result}");
            let off = (result.log_z() - exact).abs();
            assert!(
                off < 4.0 * result.standard_error() + 0.6e-7 * f64::from(constant.abs()),
                "{result}"
            );
        }
    }
}

/// Wrappers hand on the number type of the model inside.
#[test]
fn wrappers_keep_the_precision() {
    let model = single(0.0);
    assert_eq!(model.epsilon(), f64::from(f32::EPSILON));
    let priors = Priors::new(vec![Prior::normal(0.0, 1.0).unwrap(); 10]).unwrap();
    let path = TemperedPath::new(&priors, priors.likelihood(&model));
    assert_eq!(path.at(0.5).epsilon(), f64::from(f32::EPSILON));
    let path = GeometricPath::new(Gaussian::standard(10).unwrap(), Box::new(model));
    assert_eq!(path.at(1.0).epsilon(), f64::from(f32::EPSILON));
    assert_eq!(path.base().epsilon(), f64::EPSILON);
    let levels = TemperedPath::new(Gaussian::standard(10).unwrap(), single(1e6));
    let levels = NestedSmc::new(&levels, walk())
        .chains(100)
        .islands(10)
        .run()
        .unwrap();
    assert!(warned(levels.warnings()), "{levels}");
}
