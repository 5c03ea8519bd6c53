//! Bases of RBMs: by mean-field theory, and of given moments.

use annealed::Error;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, Rbm, RbmMoments, sigmoid, softplus};
use nalgebra::{DMatrix, DVector, dmatrix};
use rand::RngExt;

fn machine(hidden: usize, visible: usize, scale: f64, index: usize) -> Rbm<f64> {
    let mut rng = stream(3, Purpose::TESTING, index);
    let mut draw = |_, _| scale * (rng.random::<f64>() - 0.5);
    Rbm::new(
        DMatrix::from_fn(hidden, visible, &mut draw),
        DVector::from_fn(hidden, &mut draw),
        DVector::from_fn(visible, &mut draw),
    )
    .unwrap()
}

/// The mean-field bound on log Z at these visible logits, with the best hidden probabilities.
fn bound(rbm: &Rbm<f64>, logits: &DVector<f64>) -> f64 {
    let m = logits.map(sigmoid);
    let entropy: f64 = logits.iter().map(|&x| softplus(x) - x * sigmoid(x)).sum();
    let hidden = rbm.hidden_bias() + rbm.weights() * &m;
    rbm.visible_bias().dot(&m) + entropy + hidden.iter().map(|&x| softplus(x)).sum::<f64>()
}

#[test]
fn the_mean_field_of_a_machine_without_weights_is_the_machine() {
    let biases: Vec<f64> = vec![-3.0, 0.25, 40.0, -600.0];
    let rbm = Rbm::new(
        DMatrix::zeros(2, 4),
        vec![1.0, -1.0].into(),
        biases.clone().into(),
    );
    for starts in [1, 40] {
        let base = BaseRate::mean_field(rbm.as_ref().unwrap(), starts, 0).unwrap();
        assert_eq!(base.hidden_units(), 2);
        for (found, expected) in base.visible_bias().iter().zip(&biases) {
            assert!((found - expected).abs() < 1e-12 * expected.abs(), "{found}");
        }
    }
}

#[test]
fn one_solution_solves_the_equations_and_is_the_highest_bound_nearby() {
    for index in 0..20 {
        let rbm = machine(6, 5, 8.0, index);
        let base = BaseRate::mean_field(&rbm, 1, index as u64).unwrap();
        let logits = base.visible_bias();
        let hidden = (rbm.hidden_bias() + rbm.weights() * logits.map(sigmoid)).map(sigmoid);
        let expected = rbm.visible_bias() + rbm.weights().tr_mul(&hidden);
        assert!((logits - expected).amax() < 1e-4, "machine {index}");
        let highest = bound(&rbm, logits);
        assert!(highest <= rbm.exact_log_normalizer().unwrap());
        for (i, step) in (0..5).flat_map(|i| [(i, -0.2), (i, 0.2)]) {
            let mut moved = logits.clone();
            moved[i] += step;
            assert!(bound(&rbm, &moved) < highest, "machine {index}, unit {i}");
        }
    }
}

/// All units on or all off, with equal mass. There is no start halfway, because the number of visible units is odd.
#[test]
fn one_start_finds_one_mode_and_many_starts_cover_both() {
    let weights = DMatrix::from_element(2, 7, 3.0);
    let rbm = Rbm::<f64>::new(
        weights,
        DVector::from_element(2, -10.5),
        DVector::from_element(7, -3.0),
    )
    .unwrap();
    let probabilities = |starts, seed| {
        let base = BaseRate::mean_field(&rbm, starts, seed).unwrap();
        base.visible_bias().map(sigmoid)
    };
    for seed in 0..10 {
        let one = probabilities(1, seed);
        assert!(one.min() > 0.9 || one.max() < 0.1, "{one}");
    }
    let many = probabilities(400, 0);
    assert!(many.min() > 0.4 && many.max() < 0.6, "{many}");
    assert_ne!(many, probabilities(400, 1));
}

#[test]
fn a_base_has_the_visible_moments_that_it_was_given() {
    let rbm = machine(4, 5, 4.0, 0);
    let exact = rbm.exact_moments().unwrap();
    let base = BaseRate::<f64>::from_moments(&exact, 1e-12).unwrap();
    assert_eq!(base.hidden_units(), 4);
    assert!((base.moments().visible - &exact.visible).amax() < 1e-10);
    let smooth = BaseRate::<f64>::from_moments(&exact, 0.5).unwrap();
    let expected = exact.visible.map(|p| (p + 0.5) / 2.0);
    assert!((smooth.moments().visible - expected).amax() < 1e-14);
}

#[test]
fn the_moments_of_data_give_the_base_rates_of_data() {
    let rbm = machine(3, 4, 2.0, 0);
    let row = |k: usize| (0..4).map(|i| k.is_multiple_of(i + 1)).collect();
    let data: Vec<Vec<bool>> = (0..10).map(row).collect();
    let moments = RbmMoments::from_data(&rbm, &data).unwrap();
    let found = BaseRate::<f64>::from_moments(&moments, 1.0 / 10.0).unwrap();
    let expected = BaseRate::<f64>::from_data(3, &data, 1.0).unwrap();
    let error = (found.visible_bias() - expected.visible_bias()).amax();
    assert!(error < 1e-5, "{error}");
}

#[test]
fn bad_input_is_refused_and_huge_weights_are_not() {
    let refused = |result: Result<BaseRate<f64>, Error>, argument: &str| match result {
        Err(Error::InvalidArgument {
            argument: found, ..
        }) => assert_eq!(found, argument),
        other => panic!("{other:?}"),
    };
    let rbm = machine(2, 2, 1.0, 0);
    refused(BaseRate::mean_field(&rbm, 0, 0), "starts");
    let zero = DVector::zeros(2);
    let huge = DMatrix::from_element(2, 2, f64::MAX);
    let huge = Rbm::new(huge, zero.clone(), zero).unwrap();
    for starts in [1, 64] {
        let base = BaseRate::mean_field(&huge, starts, 0).unwrap();
        assert!(base.visible_bias().iter().all(|x| x.is_finite()));
    }
    for smoothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let moments = rbm.exact_moments().unwrap();
        refused(BaseRate::from_moments(&moments, smoothing), "smoothing");
    }
    for moment in [-0.1, 1.1, f64::NAN] {
        let moments = RbmMoments {
            visible: vec![0.5, moment].into(),
            hidden: vec![0.5].into(),
            interaction: dmatrix![0.2, 0.2],
        };
        refused(BaseRate::from_moments(&moments, 0.1), "visible moments");
    }
    let none = RbmMoments {
        visible: vec![0.5].into(),
        hidden: DVector::zeros(0),
        interaction: DMatrix::zeros(0, 1),
    };
    refused(BaseRate::from_moments(&none, 0.1), "units");
}
