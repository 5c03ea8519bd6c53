//! Lower bounds on log Z of random RBMs: never above the exact value, and what they are made of.

use annealed::Error;
use annealed::model::UnnormalizedModel;
use annealed::random::{Purpose, stream};
use annealed::rbm::{Rbm, Scalar, sigmoid, softplus};
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::RngExt;

use crate::shared::lower_bound::{check_bound, log_sum};

fn exact<T: Scalar>(rbm: &Rbm<T>) -> f64 {
    let units = rbm.visible_units();
    let state = |state: usize| (0..units).map(|i| state >> i & 1 == 1).collect();
    let log_f = (0..1 << units).map(|v| rbm.log_density(&state(v)));
    log_sum(log_f.collect())
}

/// How biases are drawn.
#[derive(Debug, Clone, Copy)]
enum Biases {
    Random(f64),
    Constant(f64),
    /// One that a unit can hardly overcome, or 0.
    Extreme(f64),
}

fn biases() -> impl Strategy<Value = Biases> {
    prop_oneof![
        (0.0..10.0).prop_map(Biases::Random),
        (-40.0..40.0).prop_map(Biases::Constant),
        prop_oneof![Just(-1e3), Just(-40.0), Just(40.0), Just(1e3)].prop_map(Biases::Extreme),
    ]
}

fn machine(hidden: usize, visible: usize, size: f64, biases: [Biases; 2], seed: u64) -> Rbm<f64> {
    let mut rng = stream(seed, Purpose::TESTING, 0);
    let weights = DMatrix::from_fn(hidden, visible, |_, _| rng.random_range(-1.0..=1.0) * size);
    let [a, b] = [(hidden, biases[0]), (visible, biases[1])].map(|(units, biases)| {
        DVector::from_fn(units, |_, _| match biases {
            Biases::Random(size) => rng.random_range(-1.0..=1.0) * size,
            Biases::Constant(bias) => bias,
            Biases::Extreme(bias) => bias * f64::from(rng.random::<bool>()),
        })
    });
    Rbm::new(weights, a, b).unwrap()
}

fn states(units: usize, count: usize, seed: u64) -> Vec<Vec<bool>> {
    let mut rng = stream(seed, Purpose::TESTING, 1);
    let mut state = |_| (0..units).map(|_| rng.random()).collect();
    (0..count).map(&mut state).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn no_bound_is_above_the_exact_value(
        (hidden, visible) in (1..=12_usize, 1..=12_usize),
        size in 0.0..10.0_f64,
        biases in [biases(), biases()],
        (given, starts) in (0..4_usize, 1..4_usize),
        seed: u64,
    ) {
        let rbm = machine(hidden, visible, size, biases, seed);
        let given = states(visible, given, seed);
        let bound = rbm.lower_bound(&given, starts, seed).unwrap();
        check_bound(&bound, exact(&rbm), 0.0)?;
        let single = rbm.cast::<f32>().unwrap();
        check_bound(&single.lower_bound(&given, starts, seed).unwrap(), exact(&single), 0.0)?;
    }

    #[test]
    fn without_weights_the_bound_is_exact(
        (hidden, visible) in (1..=12_usize, 1..=12_usize),
        biases in [biases(), biases()],
        seed: u64,
    ) {
        let rbm = machine(hidden, visible, 0.0, biases, seed);
        let bound = rbm.lower_bound(&[], 1, seed).unwrap();
        let units = rbm.hidden_bias().iter().chain(rbm.visible_bias());
        let exact: f64 = units.map(|&bias| softplus(bias)).sum();
        prop_assert!((bound.value - exact).abs() <= 1e-12 * exact, "{bound:?} {exact}");
        prop_assert_eq!(bound.modes.len(), 1);
    }
}

/// `a.mu + H(mu) + sum_i softplus(b_i + (W^T mu)_i)`.
fn mean_field_bound(rbm: &Rbm<f64>, mu: &DVector<f64>) -> f64 {
    let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
    let visible = rbm.visible_bias() + rbm.weights().tr_mul(mu);
    rbm.hidden_bias().dot(mu)
        + mu.iter().map(|&p| entropy(p)).sum::<f64>()
        + visible.iter().map(|&x| softplus(x)).sum::<f64>()
}

#[test]
fn modes_are_solutions_with_their_bounds() {
    for seed in 0..20 {
        let rbm = machine(7, 9, 2.0, [Biases::Random(1.0); 2], seed);
        let bound = rbm.lower_bound(&[], 40, seed).unwrap();
        for mode in &bound.modes {
            assert!((mean_field_bound(&rbm, &mode.hidden) - mode.bound).abs() < 1e-10);
            let visible = (rbm.visible_bias() + rbm.weights().tr_mul(&mode.hidden)).map(sigmoid);
            assert!((visible - &mode.visible).amax() < 1e-12);
            let hidden = (rbm.hidden_bias() + rbm.weights() * &mode.visible).map(sigmoid);
            assert!((hidden - &mode.hidden).amax() < 0.02, "{seed}");
        }
        for (i, mode) in bound.modes.iter().enumerate() {
            let others = bound.modes[..i].iter();
            let nearest = others.map(|other| (&other.hidden - &mode.hidden).amax());
            assert!(nearest.fold(1.0, f64::min) > 1e-4, "{seed}");
        }
    }
}

/// Every hidden configuration is a neighbour of one that is found.
#[test]
fn the_search_finds_all_configurations_of_a_small_machine() {
    for seed in 0..20 {
        let rbm = machine(5, 9, 1.0, [Biases::Random(1.0); 2], seed);
        let bound = rbm.lower_bound(&[], 1, seed).unwrap();
        assert!((bound.configurations - exact(&rbm)).abs() < 1e-12, "{seed}");
    }
}

/// Four hidden units that hold the mass when all are on, and next to none where only some are: a state of the mode finds
/// it, and so do cooled configurations.
#[test]
fn states_and_cooled_configurations_find_a_mode() {
    let weights = DMatrix::repeat(4, 60, 1.5);
    let rbm = Rbm::new(weights, DVector::repeat(4, -78.0), DVector::zeros(60)).unwrap();
    let exact = rbm.exact_log_normalizer().unwrap();
    let bound = |states: &[Vec<bool>], starts| rbm.lower_bound(states, starts, 0).unwrap().value;
    assert!(bound(&[vec![false; 60]], 0) < exact - 5.0);
    assert!((bound(&[vec![true; 60]], 0) - exact).abs() < 0.01);
    assert!((bound(&[], 64) - exact).abs() < 0.01);
}

#[test]
fn bad_input_is_refused() {
    let rbm = machine(2, 3, 1.0, [Biases::Constant(0.0); 2], 0);
    let none = rbm.lower_bound(&[], 0, 0).unwrap_err();
    let Error::InvalidArgument { argument, .. } = none else {
        panic!("{none}");
    };
    assert_eq!(argument, "states and starts");
    let short = rbm.lower_bound(&[vec![true; 2]], 1, 0).unwrap_err();
    assert!(
        matches!(
            short,
            Error::DimensionMismatch {
                found: 2,
                expected: 3,
                ..
            }
        ),
        "{short}"
    );
    for sign in [1.0, -1.0] {
        let huge = DMatrix::from_row_slice(2, 2, &[f64::MAX, sign * f64::MAX, f64::MAX, f64::MAX]);
        let huge = Rbm::new(huge, DVector::zeros(2), DVector::zeros(2)).unwrap();
        let overflow = huge.lower_bound(&[vec![true; 2]], 1, 0).unwrap_err();
        assert!(
            matches!(overflow, Error::InvalidArgument { .. }),
            "{overflow}"
        );
    }
}
