//! Ridge superpositions over vectors (w, z), and the drift modifier made of one table a projection.

use annealed::ais::Ais;
use annealed::drift::{
    Bounded, DriftModifiedLangevin, DriftModifier, RidgeFunction, RidgeGibbs, RidgeModifier,
    RidgePath, RidgeState, RidgeVectorPath, Sinusoid, Tanh,
};
use annealed::estimate::LogZ;
use annealed::kernel::{Sequence, TransitionKernel, UnadjustedLangevin};
use annealed::model::{Differentiable, UnnormalizedModel};
use annealed::path::{AnnealingPath, BetaDerivative};
use annealed::schedule::Schedule;
use annealed::testing::{self, gradient_error};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

/// Log Z of the three waves, as in `ridge`.
const LOG_Z: f64 = 1.880842;

fn path(design: DMatrix<f64>) -> RidgePath<Sinusoid> {
    let wave = |&amplitude: &f64| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let waves = [1.0, -1.0, 0.5];
    let functions = waves[..design.nrows()].iter().map(wave);
    RidgePath::new(design, functions, 6.0, 1.0, 0.3).unwrap()
}

fn waves() -> RidgePath<Sinusoid> {
    path(dmatrix![1.0, 0.0; 0.0, 1.0; 1.0, 1.0])
}

#[test]
fn both_forms_of_the_path_have_the_same_densities() {
    let (parts, vectors) = (waves(), waves().into_vectors().unwrap());
    let state = dvector![0.3, -0.7, 0.5, -0.4, -0.9];
    let split = RidgeState {
        w: dvector![0.3, -0.7],
        z: dvector![0.5, -0.4, -0.9],
    };
    for beta in [0.0, 0.4, 1.0] {
        let (parts, vectors) = (parts.at(beta), vectors.at(beta));
        let off = parts.log_density(&split) - vectors.log_density(&state);
        assert!(off.abs() < 1e-12, "{beta}: {off}");
        assert!(gradient_error(&vectors, &state).unwrap() < 1e-6);
        let derivatives = parts.beta_derivative(&split) - vectors.beta_derivative(&state);
        assert!(derivatives.abs() < 1e-12);
    }
}

#[test]
fn derivatives_agree_with_differences() {
    let wave = Sinusoid {
        amplitude: -1.3,
        frequency: 2.0,
        phase: 0.4,
    };
    let step = Tanh {
        amplitude: 0.7,
        slope: -3.0,
        offset: 0.1,
    };
    for z in [-2.0, -0.1, 0.0, 0.6, 30.0] {
        let provided = Bounded::new(|z| wave.value(z), 1.3).derivative(z);
        assert!(
            (wave.derivative(z) - provided).abs() < 1e-6,
            "{z}: {provided}"
        );
        let provided = Bounded::new(|z| step.value(z), 0.7).derivative(z);
        assert!(
            (step.derivative(z) - provided).abs() < 1e-6,
            "{z}: {provided}"
        );
    }
}

/// `s - div(G p) / p` at several points at the middle `beta < 1/2` of the first stage, which is `E s` at all of them for an exact G.
fn residuals(path: RidgePath<Sinusoid>, beta: f64) -> Vec<f64> {
    let schedule = Schedule::new([0.0, 2.0 * beta, 1.0]).unwrap();
    let modifier = RidgeModifier::new(&path, &schedule, 10_001).unwrap();
    let path = path.into_vectors().unwrap();
    let model = path.at(beta);
    let dimension = path.likelihood().state_dimension().unwrap();
    let residual = |seed: f64| {
        let x = DVector::from_fn(dimension, |i, _| (seed + 1.7 * i as f64).sin());
        // Several nodes of the tables, between which they are linear.
        let step = 0.02;
        let derivative = |i: usize| {
            let at = |sign: f64| {
                let mut moved = x.clone();
                moved[i] += sign * step;
                modifier.modifier(beta, &moved)[i]
            };
            (at(1.0) - at(-1.0)) / (2.0 * step)
        };
        let divergence: f64 = (0..dimension).map(derivative).sum();
        let field = modifier.modifier(beta, &x);
        model.beta_derivative(&x) - divergence - field.dot(&model.gradient(&x))
    };
    (0..8).map(|seed| residual(f64::from(seed))).collect()
}

fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest - values.iter().copied().fold(f64::INFINITY, f64::min)
}

#[test]
fn the_modifier_solves_its_equation_at_the_start_and_for_orthogonal_rows() {
    let orthogonal = || path(dmatrix![1.0, 0.5; -1.0, 2.0]);
    let exact = [
        residuals(waves(), 1e-9),
        residuals(orthogonal(), 1e-9),
        residuals(orthogonal(), 0.25),
        residuals(orthogonal(), 0.4),
    ];
    for residuals in exact {
        assert!(spread(&residuals) < 0.01, "{residuals:?}");
    }
    let oblique = spread(&residuals(waves(), 0.4));
    assert!(oblique > 0.5, "{oblique}");
}

fn drift(steps: usize, eps: f64) -> DriftModifiedLangevin<RidgeModifier> {
    let schedule = Schedule::linear(steps).unwrap();
    let modifier = RidgeModifier::new(&waves(), &schedule, 401).unwrap();
    DriftModifiedLangevin::new(modifier, eps).unwrap()
}

fn unbiased<K>(kernel: K, steps: usize)
where
    K: for<'p> TransitionKernel<<&'p RidgeVectorPath<Sinusoid> as AnnealingPath>::At> + Sync,
{
    let path = waves().into_vectors().unwrap();
    let schedule = Schedule::linear(steps).unwrap();
    let check = testing::unbiasedness(&path, kernel, schedule, LOG_Z, 5_000, 2).unwrap();
    assert!(check.passes() && check.standard_error < 0.1, "{check}");
}

#[test]
fn coarse_schedules_are_unbiased() {
    for steps in [10, 30] {
        unbiased(drift(steps, 0.03), steps);
        unbiased(Sequence(drift(steps, 0.01), RidgeGibbs::augmented()), steps);
    }
    unbiased(RidgeGibbs::augmented(), 3);
    unbiased(RidgeGibbs::collapsed(), 3);
}

/// Var[log w] is 3.0, .32, .28 and .14 in this order.
#[test]
fn the_modifier_lowers_the_variance_of_langevin_steps_and_of_gibbs() {
    fn variance<K>(kernel: K) -> f64
    where
        K: for<'p> TransitionKernel<<&'p RidgeVectorPath<Sinusoid> as AnnealingPath>::At> + Sync,
    {
        let path = waves().into_vectors().unwrap();
        let ais = Ais::new(&path, kernel).schedule(Schedule::linear(100).unwrap());
        let run = ais.chains(1_000).seed(1).run().unwrap();
        let error = (run.log_z() - LOG_Z).abs();
        assert!(error < 4.0 * run.standard_error(), "{run}");
        run.estimate().var_log_weight()
    }
    let langevin = variance(UnadjustedLangevin::new(0.01).unwrap());
    let modified = variance(drift(100, 0.01));
    assert!(modified < 0.2 * langevin, "{modified} of {langevin}");
    let gibbs = variance(RidgeGibbs::augmented());
    assert!((0.2..0.4).contains(&gibbs), "{gibbs}");
    let both = variance(Sequence(drift(100, 0.002), RidgeGibbs::augmented()));
    assert!(both < 0.7 * gibbs, "{both} of {gibbs}");
}

#[cfg(feature = "serde")]
#[test]
fn a_modifier_survives_and_is_validated_as_it_is_read() {
    use serde_json::{Value, from_value, json, to_value};
    let schedule = Schedule::linear(2).unwrap();
    let modifier = RidgeModifier::new(&waves(), &schedule, 11).unwrap();
    let written = to_value(&modifier).unwrap();
    assert_eq!(
        from_value::<RidgeModifier>(written.clone()).unwrap(),
        modifier
    );
    let refused = |key: &str, value: Value| {
        let mut wrong = written.clone();
        *wrong.pointer_mut(key).unwrap() = value;
        assert!(from_value::<RidgeModifier>(wrong).is_err(), "{key}");
    };
    refused("/tables", json!([]));
    refused("/tables/0/grid/points", json!(2));
    refused("/lift", to_value(DMatrix::<f64>::zeros(3, 3)).unwrap());
    refused("/lift", to_value(DMatrix::<f64>::zeros(5, 2)).unwrap());
}
