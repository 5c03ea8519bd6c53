//! Ridge superpositions: log Z and expectations of the augmented model against quadrature.

use std::f64::consts::TAU;

use annealed::ais::Ais;
use annealed::drift::{Bounded, RidgeFunction, RidgeGibbs, RidgePath, RidgePrior, Sinusoid, Tanh};
use annealed::estimate::{LogZ, WeightedSample};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::schedule::Schedule;
use annealed::testing;
use nalgebra::{DMatrix, dmatrix};

const LOG_Z: f64 = 1.880842;

/// `X = [[1,0],[0,1],[1,1]]`, `f_i = y_i sin 2z`, `y = (1,-1,.5)`, `delta = .3`, `sigma0 = 1`,
/// `gamma = 6`.
fn waves() -> RidgePath<Sinusoid> {
    let wave = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    RidgePath::new(design(), [1.0, -1.0, 0.5].map(wave), 6.0, 1.0, 0.3).unwrap()
}

fn design() -> DMatrix<f64> {
    dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0]
}

/// `log E exp(gamma/n sum f~_i)` and `E w` by the trapezoid rule over w.
fn quadrature(path: &RidgePath<impl RidgeFunction>) -> (f64, [f64; 2]) {
    let scale = path.gain() / 3.0;
    let (mut z, mut mean) = (0.0, [0.0; 2]);
    let table = |index: usize| -> Vec<f64> {
        (-240..=240)
            .map(|i| path.smoothed(index, f64::from(i) * 0.05).unwrap())
            .collect()
    };
    let tables = [0, 1, 2].map(table);
    for i in -120..=120 {
        for j in -120..=120 {
            let (a, b) = (f64::from(i) * 0.05, f64::from(j) * 0.05);
            let nodes = [i, j, i + j].into_iter().zip(&tables);
            let objective: f64 = nodes.map(|(i, table)| table[(i + 240) as usize]).sum();
            let mass = (scale * objective - 0.5 * (a * a + b * b)).exp();
            z += mass;
            mean[0] += a * mass;
            mean[1] += b * mass;
        }
    }
    let log_z = (z * 0.05 * 0.05 / std::f64::consts::TAU).ln();
    (log_z, mean.map(|m| m / z))
}

#[test]
fn the_smoothed_objective_gives_the_known_log_z() {
    let (log_z, mean) = quadrature(&waves());
    assert!((log_z - LOG_Z).abs() < 2e-6, "{log_z}");
    assert!((mean[0] - 0.34041).abs() < 1e-5 && (mean[1] + 0.28746).abs() < 1e-5);
}

/// Against closed forms, where an even grid sees no wave at all, where f is steep and where it jumps.
#[test]
fn smoothing_is_exact_for_waves_and_steps_of_any_steepness() {
    let prior = |deviation| RidgePrior::new(dmatrix![1.0], 1.0, deviation).unwrap();
    // `E exp(sin(u + s xi)) = I_0(1) + 2 sum_k I_k(1) exp(-k^2 s^2 / 2) cos(k (u - pi/2))`.
    let bessel = [
        1.266_065_877_752_008_4,
        0.565_159_103_992_485,
        0.135_747_669_767_038_3,
        0.022_168_424_924_331_9,
        0.002_737_120_221_046_87,
    ];
    for (waves, deviation, u) in [
        (4.0, 1.0, 0.0),
        (4.0, 1.0, 0.07),
        (64.0, 2.0, 0.3),
        (0.25, 1.0, 0.4),
    ] {
        let frequency = TAU * waves;
        let wave = Sinusoid {
            amplitude: 1.0,
            frequency,
            phase: 0.0,
        };
        let term = |(k, bessel): (usize, &f64)| {
            let k = k as f64;
            let damping = (-0.5 * (k * frequency * deviation).powi(2)).exp();
            let twice = if k == 0.0 { 1.0 } else { 2.0 };
            twice * bessel * damping * (k * (frequency * u - 0.25 * TAU)).cos()
        };
        let exact = bessel.iter().enumerate().map(term).sum::<f64>().ln();
        let found = prior(deviation).log_smoothed(&wave, u, 1.0).unwrap();
        assert!((found - exact).abs() < 1e-7, "{waves}: {found} {exact}");
    }
    // A step at a distance d from u: `log[P(xi < d) + e^3 P(xi > d)]`, with P(xi > 1) known.
    let tail: f64 = 0.158_655_253_931_457_05;
    let exact = (1.0 - tail + 3f64.exp() * tail).ln();
    let jump = Bounded::new(|z: f64| if z > 1.0 { 3.0 } else { 0.0 }, 3.0);
    let steep = Tanh {
        amplitude: 1.5,
        slope: 1e9,
        offset: -1e9,
    };
    let found = prior(1.0).log_smoothed(&jump, 0.0, 1.0).unwrap();
    assert!((found - exact).abs() < 1e-7, "{found} {exact}");
    let found = prior(1.0).log_smoothed(&steep, 0.0, 1.0).unwrap();
    assert!((found + 1.5 - exact).abs() < 1e-7, "{found} {exact}");
}

#[test]
fn a_function_that_no_quadrature_resolves_is_an_error() {
    let noise = |_| Sinusoid {
        amplitude: 1.0,
        frequency: 1e9,
        phase: 0.0,
    };
    let path = RidgePath::new(design(), [0, 1, 2].map(noise), 3.0, 1.0, 1.0).unwrap();
    let error = path.smoothed(0, 0.0).unwrap_err().to_string();
    assert!(error.contains("smoothing of a ridge function"), "{error}");
    let run = |kernel| {
        Ais::new(&path, kernel)
            .schedule(Schedule::linear(2).unwrap())
            .chains(2)
            .run()
    };
    let error = run(RidgeGibbs::collapsed()).unwrap_err().to_string();
    assert!(
        error.contains("quadrature") && error.contains("stage 1"),
        "{error}"
    );
    assert!(run(RidgeGibbs::augmented()).is_ok());
}

fn finds_log_z_and_the_mean(kernel: RidgeGibbs, steps: usize, chains: usize) {
    let path = waves();
    let run = Ais::new(&path, kernel)
        .schedule(Schedule::linear(steps).unwrap())
        .chains(chains)
        .seed(1)
        .run()
        .unwrap();
    let error = (run.log_z() - LOG_Z).abs();
    assert!(
        error < 4.0 * run.standard_error() && error < 0.02,
        "{error}"
    );
    assert!(run.standard_error() < 0.01);
    for (i, exact) in [0.34041, -0.28746].into_iter().enumerate() {
        let (mean, standard_error) = run.expectation(|state| state.w[i]);
        assert!((mean - exact).abs() < 4.0 * standard_error, "{mean}");
        assert!(standard_error < 0.03);
    }
}

#[test]
fn augmented_gibbs_finds_log_z_and_the_mean() {
    finds_log_z_and_the_mean(RidgeGibbs::augmented(), 50, 6_000);
}

#[test]
fn collapsed_gibbs_finds_log_z_and_the_mean() {
    finds_log_z_and_the_mean(RidgeGibbs::collapsed(), 30, 7_500);
}

#[test]
fn integrating_the_projections_out_lowers_the_variance() {
    let path = waves();
    let variance = |kernel| {
        let schedule = Schedule::linear(30).unwrap();
        let ais = Ais::new(&path, kernel).schedule(schedule).chains(2_000);
        ais.run().unwrap().estimate().var_log_weight()
    };
    let (augmented, collapsed) = (
        variance(RidgeGibbs::augmented()),
        variance(RidgeGibbs::collapsed()),
    );
    assert!(collapsed < 0.9 * augmented, "{collapsed} of {augmented}");
    let tilted = variance(RidgeGibbs::tilted());
    assert!(tilted < 0.9 * collapsed, "{tilted} of {collapsed}");
}

#[test]
fn coarse_schedules_are_unbiased() {
    let path = waves();
    for kernel in [
        RidgeGibbs::augmented(),
        RidgeGibbs::collapsed(),
        RidgeGibbs::tilted(),
    ] {
        for steps in [1, 3] {
            let schedule = Schedule::linear(steps).unwrap();
            let check = testing::unbiasedness(&path, kernel, schedule, LOG_Z, 5_000, 2).unwrap();
            assert!(check.passes() && check.standard_error < 0.05, "{check}");
        }
    }
}

#[test]
fn other_functions_agree_with_quadrature() {
    let step = |amplitude| Tanh {
        amplitude,
        slope: 2.0,
        offset: 0.3,
    };
    let tanh = RidgePath::new(design(), [1.0, -1.0, 0.5].map(step), 4.0, 1.0, 0.3).unwrap();
    agrees(&tanh);
    let target = |y: f64| Bounded::new(move |z: f64| -(y - z.tanh()).powi(2), 0.0);
    let squares = RidgePath::new(design(), [0.5, -0.2, 0.9].map(target), 5.0, 1.0, 0.2).unwrap();
    agrees(&squares);
}

/// A range of `gamma/n f` of 40, where plain rejection from the Gaussian would take `e^40` proposals
/// at worst.
#[test]
fn large_gains_are_within_reach() {
    let wave = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let path = RidgePath::new(design(), [1.0, -1.0, 0.5].map(wave), 60.0, 1.0, 0.3).unwrap();
    let exact = quadrature(&path).0;
    for kernel in [RidgeGibbs::augmented(), RidgeGibbs::collapsed()] {
        let ais = Ais::new(&path, kernel).schedule(Schedule::linear(200).unwrap());
        let run = ais.chains(250).seed(1).run().unwrap();
        let error = (run.log_z() - exact).abs();
        assert!(
            error < 4.0 * run.standard_error() && run.standard_error() < 0.1,
            "{error}"
        );
    }
}

fn agrees(path: &RidgePath<impl RidgeFunction + Sync>) {
    let ais = Ais::new(path, RidgeGibbs::augmented()).schedule(Schedule::linear(50).unwrap());
    let run = ais.chains(3_000).run().unwrap();
    let error = (run.log_z() - quadrature(path).0).abs();
    assert!(
        error < 4.0 * run.standard_error() && run.standard_error() < 0.02,
        "{error}"
    );
}

#[test]
fn the_prior_is_normalised_and_both_ends_of_the_path_agree() {
    let path = waves();
    let state = path.base().sample(&mut annealed::random::stream(
        1,
        annealed::random::Purpose::RUN,
        0,
    ));
    assert_eq!(path.base().log_normalizer(), 0.0);
    assert_eq!(
        path.at(0.0).log_density(&state),
        path.base().log_density(&state)
    );
    let by_hand = path.gain() * path.objective(&state.z);
    let ratio = path.at(1.0).log_density(&state) - path.at(0.0).log_density(&state);
    assert!((ratio - by_hand).abs() < 1e-12);
}

#[test]
fn bad_settings_and_bounds_are_refused() {
    let f = || Bounded::new(|z: f64| -z * z, 0.0);
    assert!(f().with_slope(0.0).is_err() && f().with_slope(f64::NAN).is_err());
    let unbounded = || Bounded::new(|z: f64| z, f64::INFINITY);
    let path = RidgePath::new(
        design(),
        [unbounded(), unbounded(), unbounded()],
        1.0,
        1.0,
        0.1,
    );
    assert!(path.is_err_and(|error| error.to_string().contains("upper bounds")));
    assert!(RidgePath::new(DMatrix::zeros(0, 0), [] as [Sinusoid; 0], 1.0, 1.0, 0.1).is_err());
    assert!(RidgePath::new(design() * f64::NAN, [f(), f(), f()], 1.0, 1.0, 0.1).is_err());
    assert!(RidgePath::new(design(), [f(), f()], 1.0, 1.0, 0.1).is_err());
    assert!(RidgePath::new(design(), [f(), f(), f()], 0.0, 1.0, 0.1).is_err());
    assert!(RidgePath::new(design(), [f(), f(), f()], 1.0, -1.0, 0.1).is_err());
    assert!(RidgePath::new(design(), [f(), f(), f()], 1.0, 1.0, f64::NAN).is_err());
    let error = |bound: f64, value: f64| {
        let wrong = || Bounded::new(move |_: f64| value, bound);
        let path = RidgePath::new(design(), [wrong(), wrong(), wrong()], 1.0, 1.0, 0.1).unwrap();
        let run = Ais::new(&path, RidgeGibbs::augmented()).chains(10).run();
        run.unwrap_err().to_string()
    };
    assert!(error(0.0, 0.5).contains("upper bound"));
    assert!(error(0.0, f64::NAN).contains("NaN"));
    assert!(error(1e6, 0.0).contains("refused proposals"));
}
