//! Deep Boltzmann machines against enumeration of all layers.

use annealed::prelude::*;
use annealed::random::{Purpose, stream};
use annealed::rbm::DeepBoltzmann;
use nalgebra::dvector;
use rand::RngExt;

/// A machine of these layers, with uniform parameters.
fn machine(units: &[usize], scale: f64, seed: u64) -> DeepBoltzmann<f64> {
    let mut rng = stream(seed, Purpose::TESTING, 0);
    let mut number = || rng.random_range(-scale..scale);
    let pairs = units.windows(2);
    let weights = pairs.map(|pair| DMatrix::from_fn(pair[1], pair[0], |_, _| number()));
    let weights = weights.collect();
    let biases = units.iter().map(|&n| DVector::from_fn(n, |_, _| number()));
    DeepBoltzmann::new(weights, biases.collect()).unwrap()
}

fn bits(units: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_u32 << units).map(move |code| (0..units).map(|i| code >> i & 1 == 1).collect())
}

/// Returns `log sum f(v, h_1, ..)` over all layers above `layers`, by the definition.
fn log_sum(deep: &DeepBoltzmann<f64>, layers: &mut Vec<Vec<bool>>) -> f64 {
    let l = layers.len();
    let vector =
        |units: &[bool]| DVector::from_iterator(units.len(), units.iter().map(|&on| f64::from(on)));
    if l == deep.biases().len() {
        let h: Vec<_> = layers.iter().map(|units| vector(units)).collect();
        let biases = deep.biases().iter().zip(&h).map(|(b, h)| b.dot(h));
        let pairs = deep.weights().iter().zip(h.windows(2));
        return biases.sum::<f64>() + pairs.map(|(w, h)| h[1].dot(&(w * &h[0]))).sum::<f64>();
    }
    let mut sum = 0.0;
    for units in bits(deep.biases()[l].len()) {
        layers.push(units);
        sum += log_sum(deep, layers).exp();
        layers.pop();
    }
    sum.ln()
}

#[test]
fn log_z_is_that_of_the_rbm_and_bounds_lie_below_log_p() {
    for (units, seed) in [
        (vec![4, 3, 2], 0),
        (vec![3, 2, 2, 3], 1),
        (vec![2, 3, 2, 2, 2], 2),
        (vec![5, 3], 3),
    ] {
        let deep = machine(&units, 1.5, seed);
        let log_z = log_sum(&deep, &mut Vec::new());
        let rbm = deep.to_rbm().unwrap();
        assert!(
            (rbm.exact_log_normalizer().unwrap() - log_z).abs() < 1e-10,
            "{units:?}"
        );
        let mut gaps = Vec::new();
        for v in bits(units[0]) {
            let exact = log_sum(&deep, &mut vec![v.clone()]) - log_z;
            let found = deep.log_likelihood_bound(&[v], log_z).unwrap();
            assert!(found.mean < exact + 1e-10, "{units:?}: {found:?} {exact}");
            gaps.push(exact - found.mean);
        }
        let largest = gaps.iter().copied().fold(0.0, f64::max);
        // Summing out the odd layers leaves little, and nothing where there is no even layer above.
        assert!(
            largest < if units.len() == 2 { 1e-10 } else { 0.6 },
            "{units:?}: {largest}"
        );
        assert!(units.len() == 2 || largest > 1e-4, "{units:?}: {largest}");
    }
}

/// Without weights between the upper layers the posterior has independent units.
#[test]
fn the_bound_is_exact_where_the_posterior_has_independent_units() {
    let deep = machine(&[4, 3, 2], 1.0, 4);
    let weights = vec![deep.weights()[0].clone(), DMatrix::zeros(2, 3)];
    let deep = DeepBoltzmann::new(weights, deep.biases().to_vec()).unwrap();
    let log_z = log_sum(&deep, &mut Vec::new());
    let rows: Vec<_> = bits(4).collect();
    let exact = rows
        .iter()
        .map(|v| log_sum(&deep, &mut vec![v.clone()]) - log_z);
    let exact = exact.sum::<f64>() / 16.0;
    let found = deep.log_likelihood_bound(&rows, log_z).unwrap();
    assert!((found.mean - exact).abs() < 1e-10, "{found:?} {exact}");
    assert_eq!((found.rows, found.log_z), (16, log_z));
}

/// Returns what the equations say of a layer, given its neighbours.
#[test]
fn mean_fields_solve_their_equations() {
    let deep = machine(&[4, 3, 3, 2], 1.0, 5);
    let rows: Vec<_> = bits(4).collect();
    let found = deep.mean_fields(&rows).unwrap();
    assert_eq!(
        found.iter().map(DMatrix::nrows).collect::<Vec<_>>(),
        [3, 3, 2]
    );
    let visible = DMatrix::from_fn(4, 16, |i, row| f64::from(rows[row][i]));
    for l in 0..3 {
        let below = if l == 0 { &visible } else { &found[l - 1] };
        let mut fields = &deep.weights()[l] * below;
        if let Some(above) = found.get(l + 1) {
            fields += deep.weights()[l + 1].transpose() * above;
        }
        fields
            .column_iter_mut()
            .for_each(|mut column| column += &deep.biases()[l + 1]);
        let expected = fields.map(annealed::rbm::sigmoid);
        assert!((expected - &found[l]).amax() < 1e-3, "layer {}", l + 1);
    }
}

#[test]
fn a_search_for_a_start_serves_a_deep_machine() {
    let deep = machine(&[12, 8, 6], 1.0, 6);
    let rbm = deep.to_rbm().unwrap();
    let data: Vec<_> = bits(12).step_by(97).collect();
    let base = deep.base_from_data(&data, 1.0).unwrap();
    assert_eq!((base.visible_units(), base.hidden_units()), (18, 8));
    let rates = BaseRate::<f64>::from_data(8, &data, 1.0).unwrap();
    assert!((base.visible_bias().rows(0, 12) - rates.visible_bias()).amax() < 1e-12);
    let means = deep.mean_fields(&data).unwrap()[1].column_sum();
    let logit = |n: f64| ((n + 1.0) / (data.len() as f64 - n + 1.0)).ln();
    assert!((base.visible_bias().rows(12, 6) - means.map(logit)).amax() < 1e-9);
    let exact = rbm.exact_log_normalizer().unwrap();
    for given in [None, Some(base)] {
        let mut search = StartSearch::new(200);
        if let Some(base) = given {
            search = search.given(base);
        }
        let start = search.run(&rbm).unwrap();
        let path = RbmPath::new(start.base().clone(), rbm.clone()).unwrap();
        let run = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(200).unwrap());
        let run = run.chains(256).run().unwrap();
        let error = run.log_z() - exact;
        assert!(
            error.abs() < 4.0 * run.standard_error() && run.standard_error() < 0.1,
            "{error} {run}"
        );
    }
}

#[test]
fn bad_input_is_named() {
    let weights = || vec![DMatrix::<f64>::zeros(2, 3), DMatrix::zeros(1, 2)];
    let text = |weights, biases: Vec<DVector<f64>>| {
        DeepBoltzmann::new(weights, biases).unwrap_err().to_string()
    };
    let biases = || vec![DVector::zeros(3), DVector::zeros(2), DVector::zeros(1)];
    assert_eq!(
        text(vec![], biases()),
        "invalid weights of the layers: got none, expected at least one"
    );
    let few = biases()[..2].to_vec();
    assert_eq!(
        text(weights(), few),
        "dimension mismatch in biases of the layers: got 2, expected 3"
    );
    let mut wrong = weights();
    wrong[1] = DMatrix::zeros(1, 3);
    assert_eq!(
        text(wrong, biases()),
        "dimension mismatch in columns of weights: got 3, expected 2"
    );
    let mut wrong = biases();
    wrong[2] = dvector![f64::NAN];
    assert!(text(weights(), wrong).contains("biases of a layer: got NaN at index 0"));
    let deep = DeepBoltzmann::new(weights(), biases()).unwrap();
    assert!(deep.log_likelihood_bound(&[vec![true; 4]], 0.0).is_err());
    assert!(deep.log_likelihood_bound(&[], 0.0).is_err());
    assert!(
        deep.log_likelihood_bound(&[vec![true; 3]], f64::NAN)
            .is_err()
    );
    assert!(deep.base_from_data(&[vec![true; 3]], 0.0).is_err());
    assert!(deep.mean_fields(&[vec![true; 2]]).is_err());
}
