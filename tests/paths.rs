//! Paths: their ends, their ratios, and what they make of -inf and NaN.

use annealed::model::{FunctionModel, Gaussian, UnnormalizedModel};
use annealed::path::{AnnealingPath, BetaDerivative, GeometricPath, Intermediate};
use nalgebra::{dmatrix, dvector};
use rand::Rng;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// A model over `()` whose log density is a constant, NaN and -inf included.
fn constant(value: f64) -> impl annealed::model::Sampleable<State = ()> {
    FunctionModel::new(move |_: &()| value).with_sampler(|_: &mut dyn Rng| ())
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

#[test]
fn geometric_densities_at_the_edge_of_the_supports() {
    // base, target, log f at beta = 0, 1/2, 1
    let table = [
        (-1.0, -3.0, [-1.0, -2.0, -3.0]),
        (-1.0, -INF, [-1.0, -INF, -INF]),
        (-INF, -3.0, [-INF, -INF, -3.0]),
        (-INF, -INF, [-INF, -INF, -INF]),
        (-1.0, NAN, [-1.0, NAN, NAN]),
        (NAN, -3.0, [NAN, NAN, -3.0]),
        (-INF, NAN, [-INF, NAN, NAN]),
        (NAN, -INF, [NAN, NAN, -INF]),
    ];
    for (base, target, expected) in table {
        let path = GeometricPath::new(constant(base), constant(target));
        for (beta, expected) in [0.0, 0.5, 1.0].into_iter().zip(expected) {
            let found = path.at(beta).log_density(&());
            assert!(same(found, expected), "{base} {target} {beta}: {found}");
        }
    }
}

#[test]
fn geometric_ratios_at_the_edge_of_the_supports() {
    // base, target, log ratio for beta' -> beta: 0 -> .5, .5 -> .75, .5 -> 1, 0 -> 1, 1 -> .5, .5 -> 0
    let table = [
        (-1.0, -3.0, [-1.0, -0.5, -1.0, -2.0, 1.0, 1.0]),
        (-1.0, -INF, [-INF, -INF, -INF, -INF, -INF, INF]),
        (-INF, -3.0, [-INF, -INF, INF, INF, -INF, -INF]),
        (-INF, -INF, [-INF; 6]),
        (-1.0, NAN, [NAN; 6]),
        (NAN, -3.0, [NAN; 6]),
        (-INF, NAN, [NAN; 6]),
        (NAN, -INF, [NAN; 6]),
        (-1.0, INF, [INF; 6]),
        (-INF, INF, [NAN; 6]),
    ];
    let stages = [
        (0.0, 0.5),
        (0.5, 0.75),
        (0.5, 1.0),
        (0.0, 1.0),
        (1.0, 0.5),
        (0.5, 0.0),
    ];
    for (base, target, expected) in table {
        let path = GeometricPath::new(constant(base), constant(target));
        for ((from, to), expected) in stages.into_iter().zip(expected) {
            let found = path.at(to).log_ratio(&path.at(from), &());
            let accepted = same(found, expected);
            assert!(accepted, "{base} {target} {from} -> {to}: {found}");
        }
    }
}

#[test]
fn geometric_ratio_is_the_difference_of_log_densities() {
    let base = Gaussian::new(dvector![0.5, -1.0], dmatrix![2.0, 0.3; 0.3, 1.0]).unwrap();
    let target = FunctionModel::new(|x: &nalgebra::DVector<f64>| -x[0].powi(4) - x[1].exp());
    let path = GeometricPath::new(&base, &target);
    let x = dvector![0.7, 1.1];
    for (from, to) in [(0.0, 0.1), (0.3, 0.8), (0.5, 1.0), (0.0, 1.0), (0.9, 0.2)] {
        let (here, there) = (path.at(to), path.at(from));
        let difference = here.log_density(&x) - there.log_density(&x);
        assert!((here.log_ratio(&there, &x) - difference).abs() < 1e-12);
        let slope = here.beta_derivative(&x);
        assert!(((to - from) * slope - difference).abs() < 1e-12);
    }
    assert_eq!(path.at(0.0).log_density(&x), base.log_density(&x));
    assert_eq!(path.at(1.0).log_density(&x), target.log_density(&x));
}
