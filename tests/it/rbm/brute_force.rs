//! RBMs against brute force: densities, conditionals, log Z, moments, exact samples, the path.

use annealed::Error;
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{BetaDerivative, Intermediate};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, EnumeratedRbm, Rbm, RbmPath, Scalar, sigmoid};
use nalgebra::{DMatrix, DVector};
use rand::RngExt;

use crate::shared::block_gibbs::bits;

fn vector<T: Scalar, const N: usize>(entries: [T; N]) -> DVector<T> {
    DVector::from_row_slice(&entries)
}

/// An asymmetric machine of any shape.
fn machine(hidden: usize, visible: usize) -> Rbm<f64> {
    let mut rng = stream(5, Purpose::PILOT, hidden * 100 + visible);
    let mut draw = |scale: f64| scale * (rng.random::<f64>() - 0.4);
    Rbm::new(
        DMatrix::from_fn(hidden, visible, |_, _| draw(3.0)),
        DVector::from_fn(hidden, |_, _| draw(2.0)),
        DVector::from_fn(visible, |_, _| draw(2.0)),
    )
    .unwrap()
}

fn states(units: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1 << units).map(move |state| bits(state, units))
}

fn as_vector(units: &[bool]) -> DVector<f64> {
    DVector::from_iterator(units.len(), units.iter().map(|&on| f64::from(on)))
}

fn log_sum_exp(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + values.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

#[test]
fn summing_the_hidden_units_out_of_the_energy_gives_the_density() {
    let rbm = machine(4, 3);
    for v in states(3) {
        let sum = log_sum_exp(states(4).map(|h| -rbm.energy(&v, &h)));
        assert!((rbm.log_density(&v) - sum).abs() < 1e-12);
    }
}

#[test]
fn conditionals_are_ratios_of_the_joint_density() {
    let rbm = machine(3, 4);
    let f = |v: &[bool], h: &[bool]| (-rbm.energy(v, h)).exp();
    for (v, h) in states(4).flat_map(|v| states(3).map(move |h| (v.clone(), h))) {
        let total: f64 = states(3).map(|h| f(&v, &h)).sum();
        let p = rbm.hidden_probabilities(&v);
        let product: f64 = (0..3)
            .map(|j| if h[j] { p[j] } else { 1.0 - p[j] })
            .product();
        assert!((f(&v, &h) / total - product).abs() < 1e-12);
        let total: f64 = states(4).map(|v| f(&v, &h)).sum();
        let p = rbm.visible_probabilities(&h);
        let product: f64 = (0..4)
            .map(|i| if v[i] { p[i] } else { 1.0 - p[i] })
            .product();
        assert!((f(&v, &h) / total - product).abs() < 1e-12);
    }
}

/// Both orientations, with fewer and with more states than one chunk of the enumeration.
const SHAPES: [(usize, usize); 4] = [(3, 5), (6, 2), (12, 13), (14, 11)];

#[test]
fn log_z_equals_brute_force() {
    for (hidden, visible) in SHAPES {
        let rbm = machine(hidden, visible);
        let brute = log_sum_exp(states(visible).map(|v| rbm.log_density(&v)));
        let exact = rbm.exact_log_normalizer().unwrap();
        assert!(
            (exact - brute).abs() < 1e-11,
            "{hidden} x {visible}: {exact} {brute}"
        );
    }
}

#[test]
fn moments_equal_brute_force() {
    for (hidden, visible) in SHAPES {
        let rbm = machine(hidden, visible);
        let moments = rbm.exact_moments().unwrap();
        let log_z = rbm.exact_log_normalizer().unwrap();
        let mut expected_visible = DVector::zeros(visible);
        let mut expected_hidden = DVector::zeros(hidden);
        let mut interaction = DMatrix::zeros(hidden, visible);
        for v in states(visible) {
            let p = (rbm.log_density(&v) - log_z).exp();
            let (h, v) = (rbm.hidden_probabilities(&v), as_vector(&v));
            interaction += &h * v.transpose() * p;
            expected_visible += v * p;
            expected_hidden += h * p;
        }
        assert!((moments.visible - expected_visible).amax() < 1e-12);
        assert!((moments.hidden - expected_hidden).amax() < 1e-12);
        assert!((moments.interaction - interaction).amax() < 1e-12);
    }
}

#[test]
fn exact_samples_have_the_exact_frequencies() {
    let draws = 40_000;
    for (hidden, visible) in [(2, 4), (5, 4)] {
        let exact = EnumeratedRbm::new(machine(hidden, visible)).unwrap();
        let mut rng = stream(2, Purpose::RUN, hidden);
        let by_table = (0..draws).map(|_| exact.sample(&mut rng)).collect();
        let streamed = exact.rbm().exact_samples(draws, 2).unwrap();
        for samples in [by_table, streamed] {
            let mut counts = vec![0.0; 1 << visible];
            for v in samples {
                let units = v.iter().enumerate();
                let state: usize = units.map(|(i, &on)| usize::from(on) << i).sum();
                counts[state] += 1.0;
            }
            for (v, count) in states(visible).zip(counts) {
                let p = (exact.log_density(&v) - exact.log_normalizer()).exp();
                let se = (p * (1.0 - p) / draws as f64).sqrt();
                assert!((count / draws as f64 - p).abs() < 4.0 * se, "{v:?}");
            }
        }
    }
}

/// Where the enumeration has several tasks, in both orientations.
#[test]
fn exact_samples_have_the_exact_moments() {
    let draws = 20_000;
    for (hidden, visible) in [(13, 15), (15, 13)] {
        let rbm = machine(hidden, visible);
        let moments = rbm.exact_moments().unwrap();
        let samples = rbm.exact_samples(draws, 1).unwrap();
        let mut found = DMatrix::zeros(hidden, visible);
        let mut squares = DMatrix::zeros(hidden, visible);
        for v in &samples {
            let product = rbm.hidden_probabilities(v) * as_vector(v).transpose();
            squares += product.map(|x| x * x) / draws as f64;
            found += product / draws as f64;
        }
        let variance = squares - found.map(|x| x * x);
        let errors = (found - &moments.interaction).zip_map(&variance, |error: f64, variance| {
            error.abs() / (variance / draws as f64).sqrt()
        });
        assert!(errors.max() < 4.0, "{}", errors.max());
        assert!(variance.max() < 0.25);
    }
}

#[test]
fn exact_samples_depend_on_the_seed_alone() {
    let rbm = machine(14, 30);
    let samples = rbm.exact_samples(300, 5).unwrap();
    assert_eq!(rbm.exact_samples(100, 5).unwrap(), samples[..100]);
    assert_ne!(rbm.exact_samples(300, 6).unwrap(), samples);
    assert!(rbm.exact_samples(0, 5).unwrap().is_empty());
    #[cfg(feature = "rayon")]
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let found = pool.build().unwrap().install(|| rbm.exact_samples(300, 5));
        assert_eq!(found.unwrap(), samples);
    }
    let message = rbm.exact_samples(1 << 40, 5).unwrap_err().to_string();
    assert!(message.contains("number of samples"), "{message}");
}

#[cfg(feature = "rayon")]
#[test]
fn enumeration_gives_the_same_bits_on_any_number_of_threads() {
    let rbm = machine(13, 40);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| rbm.exact_moments().unwrap())
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn too_many_units_to_enumerate_is_an_error() {
    let rbm = Rbm::<f32>::new(
        DMatrix::zeros(26, 30),
        DVector::zeros(26),
        DVector::zeros(30),
    );
    let rbm = rbm.unwrap();
    for error in [
        rbm.exact_log_normalizer().unwrap_err(),
        rbm.exact_samples(3, 1).unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "invalid units of the smaller layer: got 26, expected at most 25, to enumerate their states"
        );
    }
}

#[test]
fn an_overflowing_log_z_is_an_error() {
    for weight in [1e308, -1e308] {
        let weights = DMatrix::from_element(2, 3, weight);
        let rbm = Rbm::new(weights, vector([1e308, -1e308]), vector([1e308; 3])).unwrap();
        let message = rbm.exact_log_normalizer().unwrap_err().to_string();
        assert!(message.contains("parameters of the RBM"), "{message}");
        assert!(rbm.exact_moments().is_err() && rbm.exact_samples(1, 1).is_err());
        assert!(EnumeratedRbm::new(rbm).is_err());
    }
}

#[test]
fn bad_parameters_are_named() {
    let (a, b) = (vector([0.0, 0.0]), vector([0.0, 0.0, 0.0]));
    let weights = DMatrix::<f64>::zeros(2, 3);
    let new = |w: &DMatrix<f64>, a: &DVector<f64>, b: &DVector<f64>| {
        Rbm::new(w.clone(), a.clone(), b.clone())
    };
    assert!(new(&weights, &a, &b).is_ok());
    let mut bad = weights.clone();
    bad[(1, 2)] = f64::NAN;
    let message = new(&bad, &a, &b).unwrap_err().to_string();
    assert!(
        message.contains("weights") && message.contains("NaN"),
        "{message}"
    );
    let infinite = vector([0.0, f64::INFINITY]);
    assert!(
        new(&weights, &infinite, &b)
            .unwrap_err()
            .to_string()
            .contains("hidden_bias")
    );
    assert_eq!(
        new(&weights, &b, &b).unwrap_err(),
        Error::DimensionMismatch {
            argument: "hidden_bias",
            found: 3,
            expected: 2
        }
    );
    assert!(new(&weights, &a, &a).is_err());
    assert!(new(&DMatrix::zeros(0, 3), &DVector::zeros(0), &b).is_err());
    let overflow = Rbm::new(weights.add_scalar(1e300), a, b)
        .unwrap()
        .cast::<f32>();
    assert!(overflow.is_err());
}

#[test]
fn the_base_rate_model_is_the_rbm_without_weights() {
    let bias = vector([0.4, -1.2, 3.0]);
    let base = BaseRate::new(2, bias.clone()).unwrap();
    let rbm = Rbm::new(DMatrix::zeros(2, 3), DVector::zeros(2), bias).unwrap();
    for v in states(3) {
        assert!((base.log_density(&v) - rbm.log_density(&v)).abs() < 1e-14);
    }
    assert!((base.log_normalizer() - rbm.exact_log_normalizer().unwrap()).abs() < 1e-13);
    let uniform = BaseRate::<f64>::uniform(2, 3).unwrap();
    assert!((uniform.log_normalizer() - 32.0_f64.ln()).abs() < 1e-14);
}

#[test]
fn base_rates_are_smoothed() {
    let data = vec![vec![true, false], vec![true, false], vec![false, false]];
    let base = BaseRate::<f64>::from_data(4, &data, 0.5).unwrap();
    let p = base.visible_bias().map(sigmoid);
    assert!((p - vector([2.5 / 4.0, 0.5 / 4.0])).amax() < 1e-15);
    assert!(BaseRate::<f64>::from_data(4, &[], 1.0).is_err());
    assert!(BaseRate::<f64>::from_data(4, &[vec![true], vec![]], 1.0).is_err());
    assert!(BaseRate::<f64>::from_data(4, &data, 0.0).is_err());
    assert!(BaseRate::<f64>::from_data(0, &data, 1.0).is_err());
    assert!(BaseRate::<f64>::new(1, vector([f64::NAN])).is_err());
}

fn path() -> RbmPath<f64> {
    let base = BaseRate::new(3, vector([0.7, -0.4, 1.1, -2.0])).unwrap();
    RbmPath::new(base, machine(3, 4)).unwrap()
}

#[test]
fn the_path_leads_from_the_base_to_the_target() {
    let path = path();
    for v in states(4) {
        let (base, target) = (path.base().log_density(&v), path.target().log_density(&v));
        assert!((path.at(0.0).log_density(&v) - base).abs() < 1e-13);
        assert!((path.at(1.0).log_density(&v) - target).abs() < 1e-13);
        let at = path.at(0.3);
        assert!((at.log_density(&v) - at.to_rbm().unwrap().log_density(&v)).abs() < 1e-13);
    }
}

#[test]
fn ratios_and_derivatives_agree_with_differences() {
    let path = path();
    for v in states(4) {
        for (from, to) in [(0.0, 1.0), (0.2, 0.7), (0.5, 0.500001), (0.9, 0.1)] {
            let (from, to) = (path.at(from), path.at(to));
            let difference = to.log_density(&v) - from.log_density(&v);
            assert!((to.log_ratio(&from, &v) - difference).abs() < 1e-13);
        }
        let step = 1e-5;
        let slope = path.at(0.4 + step).log_ratio(&path.at(0.4 - step), &v) / (2.0 * step);
        assert!((path.at(0.4).beta_derivative(&v) - slope).abs() < 1e-8);
    }
}

#[test]
fn the_path_refuses_ends_of_different_shapes() {
    let target = machine(3, 4);
    for base in [BaseRate::uniform(2, 4), BaseRate::uniform(3, 5)] {
        assert!(RbmPath::new(base.unwrap(), target.clone()).is_err());
    }
    let base = BaseRate::new(1, vector([-3e38_f32])).unwrap();
    let target = Rbm::new(
        DMatrix::from_row_slice(1, 1, &[1.0]),
        vector([0.0]),
        vector([3e38_f32]),
    )
    .unwrap();
    assert!(RbmPath::new(base, target).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn serialisation_keeps_the_machine_and_validates() {
    // In single precision, because serde_json reads doubles to within the last bit only.
    let rbm = machine(3, 4).cast::<f32>().unwrap();
    let json = serde_json::to_string(&rbm).unwrap();
    assert_eq!(serde_json::from_str::<Rbm<f32>>(&json).unwrap(), rbm);
    for bad in [
        r#"{"weights":[[1.0]],"hidden_bias":[0.0,1.0],"visible_bias":[0.0]}"#,
        r#"{"weights":[[1.0],[1.0,2.0]],"hidden_bias":[0.0,1.0],"visible_bias":[0.0]}"#,
        r#"{"weights":[],"hidden_bias":[],"visible_bias":[]}"#,
    ] {
        assert!(serde_json::from_str::<Rbm<f64>>(bad).is_err(), "{bad}");
    }
}
