//! Tests of maps against their inverses and finite differences.

use super::*;
use crate::learned::network::differences::{agree, share};
use crate::random::{Purpose, StreamRng, stream};
use rand::RngExt;

const COUPLING: Coupling = Coupling { hidden: 7, bins: 4 };

fn map(dimension: usize, context: usize, rng: &mut StreamRng) -> InvertibleMap {
    let mut map = InvertibleMap::with_context(COUPLING, dimension, context, rng).unwrap();
    let parameters = map.parameters_mut().into_iter().flatten();
    // Splines smooth enough for differences with steps of 1e-5.
    parameters.for_each(|p| *p = rng.random_range(-0.4..0.4));
    map
}

fn state(dimension: usize, rng: &mut StreamRng) -> DVector<f64> {
    DVector::from_fn(dimension, |_, _| rng.random_range(-3.0..3.0))
}

#[test]
fn a_map_and_its_inverse_cancel() {
    let mut rng = stream(1, Purpose::RUN, 0);
    for dimension in 2..7 {
        let map = map(dimension, 0, &mut rng);
        let z = state(dimension, &mut rng);
        let (reached, _) = map.apply(&z).unwrap();
        assert!((&reached - &z).amin() > 1e-6, "all move: {reached}");
        assert!((map.invert(&reached).unwrap() - &z).amax() < 1e-11);
        let (back, _) = map.apply(&map.invert(&z).unwrap()).unwrap();
        assert!((back - z).amax() < 1e-11, "{dimension}");
    }
}

#[test]
fn the_log_determinant_is_that_of_the_jacobian() {
    let mut rng = stream(2, Purpose::RUN, 0);
    let (step, mut agrees, mut moved) = (1e-5, Vec::new(), 0.0_f64);
    for _ in 0..100 {
        let dimension = rng.random_range(2..6);
        let map = map(dimension, 0, &mut rng);
        let z = state(dimension, &mut rng);
        let at = |i: usize, step: f64| {
            let mut z = z.clone();
            z[i] += step;
            map.apply(&z).unwrap().0
        };
        let slope = |i| (at(i, step) - at(i, -step)) / (2.0 * step);
        let slopes: Vec<_> = (0..dimension).map(slope).collect();
        let exact = map.apply(&z).unwrap().1;
        let found = DMatrix::from_columns(&slopes).determinant().ln();
        agrees.push((found - exact).abs() < 1e-7);
        moved = moved.max(exact.abs());
    }
    // The kink of a rectifier within a step makes a few disagree.
    let share = share(&agrees);
    assert!(share > 0.97 && moved > 1.0, "{share}, {moved}");
}

#[test]
fn gradients_agree_with_finite_differences() {
    let mut rng = stream(3, Purpose::RUN, 0);
    for (dimension, context) in [(5, 2), (4, 0), (2, 1), (2, 0)] {
        let map = map(dimension, context, &mut rng);
        let rows = dimension + context;
        let left = DMatrix::from_fn(rows, 3, |_, _| rng.random_range(-2.0..2.0));
        let by_reached =
            DMatrix::from_fn(dimension, 3, |i, j| (0.3 + i as f64 + 2.3 * j as f64).sin());
        let weights = [0.7, -1.2, 0.4];
        let value = |map: &InvertibleMap, left: &DMatrix<f64>| {
            let (mut reached, mut passes) = (left.clone(), <[Pass; 2]>::default());
            map.forward(left, &mut reached, &mut passes);
            let volume = |j: usize| passes[0].log_volume(j) + passes[1].log_volume(j);
            let volumes: f64 = (0..3).map(|j| weights[j] * volume(j)).sum();
            volumes + reached.rows(0, dimension).dot(&by_reached)
        };
        let (mut reached, mut passes) = (left.clone(), <[Pass; 2]>::default());
        map.forward(&left, &mut reached, &mut passes);
        let mut gradient = map.parameters().map(|p| vec![0.0; p.len()]);
        let ends = [&left, &reached];
        let by_left = map.backward(ends, &passes, by_reached.clone(), &weights, &mut gradient);
        let mut agrees = agree(by_left.as_slice(), 1e-6, |k, step| {
            let mut moved = left.clone();
            moved[(k % dimension, k / dimension)] += step;
            value(&map, &moved)
        });
        for (layer, derivatives) in gradient.iter().enumerate() {
            agrees.extend(agree(derivatives, 1e-6, |i, step| {
                let mut moved = map.clone();
                moved.parameters_mut()[layer][i] += step;
                value(&moved, &left)
            }));
        }
        assert!(share(&agrees) > 0.97, "{}", share(&agrees));
    }
}

#[test]
fn fixing_the_observation_changes_no_output() {
    let mut rng = stream(4, Purpose::RUN, 0);
    let map = map(3, 2, &mut rng);
    let (z, x) = (state(3, &mut rng), [2.0, -0.7]);
    let stacked = DMatrix::from_column_slice(5, 1, &[z.as_slice(), &x].concat());
    let (mut reached, mut passes) = (stacked.clone(), <[Pass; 2]>::default());
    map.forward(&stacked, &mut reached, &mut passes);
    let (fixed, log_det) = map.given(&x).apply(&z).unwrap();
    assert!((fixed - reached.rows(0, 3)).amax() < 1e-14);
    let both: f64 = passes.iter().map(|pass| pass.log_volume(0)).sum();
    assert!((log_det - both).abs() < 1e-14, "{log_det}, {both}");
}

#[test]
fn a_map_starts_as_the_identity() {
    let mut rng = stream(6, Purpose::RUN, 0);
    let map = InvertibleMap::new(COUPLING, 5, &mut rng).unwrap();
    let z = state(5, &mut rng);
    let (reached, log_det) = map.apply(&z).unwrap();
    assert!((reached - z).amax() < 1e-14 && log_det.abs() < 1e-14);
}

#[test]
fn wrong_shapes_are_refused() {
    let mut rng = stream(5, Purpose::RUN, 0);
    let without = Coupling { hidden: 0, bins: 4 };
    let without_bins = Coupling { hidden: 7, bins: 0 };
    for (coupling, dimension) in [
        (COUPLING, 1),
        (COUPLING, 0),
        (without, 2),
        (without_bins, 2),
    ] {
        assert!(InvertibleMap::new(coupling, dimension, &mut rng).is_err());
    }
    let map = InvertibleMap::new(COUPLING, 2, &mut rng).unwrap();
    assert!(map.apply(&DVector::zeros(3)).is_err() && map.invert(&DVector::zeros(1)).is_err());
    let amortized = InvertibleMap::with_context(COUPLING, 2, 1, &mut rng).unwrap();
    assert!(amortized.apply(&DVector::zeros(2)).is_err());
    assert!(amortized.apply(&DVector::zeros(3)).is_err());
    let [first, second] = map.parameters().map(<[f64]>::to_vec);
    let build = |parameters| InvertibleMap::from_parameters(COUPLING, 2, parameters);
    assert_eq!(build([first.clone(), second.clone()]).unwrap(), map);
    assert!(build([first.clone(), vec![]]).is_err());
    assert!(build([vec![f64::NAN; first.len()], second]).is_err());
}
