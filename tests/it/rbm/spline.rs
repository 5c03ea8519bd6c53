//! Paths of RBMs through knots: against dense matrices and against the reference step.

use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::kernel::Block;
use annealed::model::{Sampleable, UnnormalizedModel};
use annealed::path::{BetaDerivative, Intermediate};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Scalar};
use annealed::schedule::Schedule;
use annealed::{Error, testing};
use nalgebra::{DMatrix, DVector};
use rand::RngExt;

use crate::shared::block_gibbs::{block_of, check_fused_moves, check_fused_ratios};

fn machine<T: Scalar>(hidden: usize, visible: usize, scale: f64, seed: u64) -> Rbm<T> {
    let mut rng = stream(seed, Purpose::TRAINING, 1);
    let mut draw = || T::nearest(scale * (rng.random::<f64>() - 0.4));
    let weights = DMatrix::from_fn(hidden, visible, |_, _| draw());
    let hidden_bias = DVector::from_fn(hidden, |_, _| draw());
    Rbm::new(
        weights,
        hidden_bias,
        DVector::from_fn(visible, |_, _| draw()),
    )
    .unwrap()
}

/// Two inner knots that lie on no straight line.
fn path<T: Scalar>(hidden: usize, visible: usize, scale: f64) -> RbmPath<T> {
    let models = (1..4).map(|seed| machine(hidden, visible, scale, seed));
    let base = machine::<T>(1, visible, 1.0, 9).visible_bias().clone();
    let knots = Schedule::new([0.0, 0.3, 0.8, 1.0]).unwrap();
    RbmPath::through(
        BaseRate::new(hidden, base).unwrap(),
        models.collect(),
        knots,
    )
    .unwrap()
}

fn states(units: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_usize << units).map(move |s| (0..units).map(|i| s >> i & 1 == 1).collect())
}

#[test]
fn every_point_is_the_blend_of_its_neighbours() {
    let path = path::<f64>(3, 4, 2.0);
    let model = |k: usize| path.model_at_knot(k).unwrap();
    assert!(path.model_at_knot(0).is_none() && path.model_at_knot(4).is_none());
    assert_eq!(model(3), path.target());
    let blend = path.at(0.45).to_rbm().unwrap();
    let (from, to) = (model(1), model(2));
    assert!((blend.weights() - (from.weights() * 0.7 + to.weights() * 0.3)).amax() < 1e-15);
    assert!(
        (blend.hidden_bias() - (from.hidden_bias() * 0.7 + to.hidden_bias() * 0.3)).amax() < 1e-15
    );
    for v in states(4) {
        for (beta, exact) in [
            (0.3, model(1)),
            (0.8, model(2)),
            (0.45, &blend),
            (1.0, model(3)),
        ] {
            assert!((path.at(beta).log_density(&v) - exact.log_density(&v)).abs() < 1e-13);
        }
        assert!((path.at(0.0).log_density(&v) - path.base().log_density(&v)).abs() < 1e-13);
        for (from, to) in [
            (0.0, 0.2),
            (0.1, 0.3),
            (0.3, 0.1),
            (0.2, 0.9),
            (0.5, 0.500001),
        ] {
            let (from, to) = (path.at(from), path.at(to));
            let difference = to.log_density(&v) - from.log_density(&v);
            assert!((to.log_ratio(&from, &v) - difference).abs() < 1e-13);
        }
        for (beta, left, right) in [(0.5, 1e-5, 1e-5), (0.3, 0.0, 1e-5), (1.0, 1e-5, 0.0)] {
            let ratio = path.at(beta + right).log_ratio(&path.at(beta - left), &v);
            let error = path.at(beta).beta_derivative(&v) - ratio / (left + right);
            assert!(error.abs() < 1e-3, "{beta}: {error}");
        }
    }
}

/// `E[w] = Z_K / Z_0` by dense matrices, with the stages' own ratios and an enumerated transition.
#[test]
fn the_expected_weight_is_the_ratio_of_normalisers() {
    let path = path::<f64>(2, 3, 2.0);
    let all: Vec<_> = states(3).collect();
    let base = path.at(0.0).to_rbm().unwrap();
    let log_z = |rbm: &Rbm<f64>| rbm.exact_log_normalizer().unwrap();
    let exact = log_z(path.target()) - log_z(&base);
    for steps in [1, 4, 10] {
        let schedule = Schedule::linear(steps).unwrap();
        let p = |v: &Vec<bool>| (base.log_density(v) - log_z(&base)).exp();
        let mut row = DVector::from_iterator(8, all.iter().map(p)).transpose();
        for betas in schedule.betas().windows(2) {
            let (from, to) = (path.at(betas[0]), path.at(betas[1]));
            for (entry, v) in row.iter_mut().zip(&all) {
                *entry *= to.log_ratio(&from, v).exp();
            }
            row *= transition(&to.to_rbm().unwrap(), &all);
        }
        assert!((row.sum().ln() - exact).abs() < 1e-12, "{steps}");
    }
}

fn transition(rbm: &Rbm<f64>, all: &[Vec<bool>]) -> DMatrix<f64> {
    let product = |p: &DVector<f64>, units: &[bool]| -> f64 {
        let factors = p.iter().zip(units);
        factors
            .map(|(p, &on)| if on { *p } else { 1.0 - p })
            .product()
    };
    DMatrix::from_fn(all.len(), all.len(), |from, to| {
        let hidden = rbm.hidden_probabilities(&all[from]);
        let through =
            |h: Vec<bool>| product(&hidden, &h) * product(&rbm.visible_probabilities(&h), &all[to]);
        states(rbm.hidden_units()).map(through).sum()
    })
}

/// Stages that meet the knots and stages that pass them.
#[test]
fn sampled_weights_are_unbiased() {
    let exact = |rbm: Rbm<f64>| rbm.exact_log_normalizer().unwrap();
    let double = path::<f64>(2, 3, 2.0);
    let ratio = exact(double.target().clone()) - exact(double.at(0.0).to_rbm().unwrap());
    for steps in [3, 10] {
        let linear = Schedule::linear(steps).unwrap();
        let check = testing::unbiasedness(&double, BlockGibbs, linear, ratio, 10_000, 5).unwrap();
        assert!(check.passes() && check.standard_error < 0.02, "{check}");
    }
    let linear = Schedule::linear(10).unwrap();
    let single = path::<f32>(2, 3, 2.0);
    let check = testing::unbiasedness(&single, BlockGibbs, linear, ratio, 10_000, 5).unwrap();
    assert!(check.passes() && check.standard_error < 0.02, "{check}");
}

fn block<T: Scalar>(path: &RbmPath<T>, chains: usize) -> Block<Vec<bool>> {
    let mut rng = stream(3, Purpose::PILOT, 0);
    block_of(
        (0..chains).map(|_| path.base().sample(&mut rng)).collect(),
        3,
    )
}

fn check_ratios<T: Scalar>(tolerance: f64) {
    let path = path::<T>(19, 37, 6.0);
    for (from, to) in [
        (0.0, 0.1),
        (0.2, 0.3),
        (0.3, 0.301),
        (0.5, 0.8),
        (0.8, 1.0),
        (0.7, 0.5),
    ] {
        check_fused_ratios(&path, block(&path, 9), (from, to), tolerance);
    }
}

#[test]
fn fused_weights_equal_the_reference() {
    check_ratios::<f32>(2e-3);
    check_ratios::<f64>(1e-10);
}

#[test]
fn fused_moves_agree_with_the_reference_on_every_unit() {
    let path = path::<f32>(19, 37, 1.0);
    // 148 units: 4.5 standard errors are exceeded once in 1,000 runs.
    for betas in [(0.2, 0.3), (0.3, 0.5), (0.75, 0.8), (0.85, 0.95)] {
        check_fused_moves(&path, betas, 4_096, 4.5);
    }
}

/// A path with knots on the straight line is the straight path.
#[test]
fn knots_on_the_straight_path_change_nothing() {
    let target = machine::<f64>(3, 5, 3.0, 2);
    let base = BaseRate::uniform(3, 5).unwrap();
    let straight = RbmPath::new(base.clone(), target.clone()).unwrap();
    let half = straight.at(0.5).to_rbm().unwrap();
    let knots = Schedule::linear(2).unwrap();
    let bent = RbmPath::through(base, vec![half, target], knots).unwrap();
    for v in states(5) {
        for beta in [0.2, 0.5, 0.9] {
            let difference = bent.at(beta).log_density(&v) - straight.at(beta).log_density(&v);
            assert!(difference.abs() < 1e-13);
        }
    }
    let ais = Ais::new(&bent, BlockGibbs).schedule(Schedule::linear(10).unwrap());
    let run = ais.seed(1).run().unwrap();
    let error = run.log_z() - straight.target().exact_log_normalizer().unwrap();
    assert!(error.abs() < 4.0 * run.standard_error() && run.standard_error() < 0.05);
}

#[test]
fn knots_that_do_not_fit_are_errors() {
    let base = BaseRate::<f64>::uniform(3, 5).unwrap();
    let target = machine::<f64>(3, 5, 3.0, 2);
    let two = Schedule::linear(2).unwrap();
    let error = RbmPath::through(base.clone(), vec![target.clone()], two.clone()).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DimensionMismatch {
                expected: 2,
                found: 1,
                ..
            }
        ),
        "{error}"
    );
    let models = vec![machine(3, 4, 1.0, 1), target];
    assert!(RbmPath::through(base.clone(), models, two).is_err());
    assert!(RbmPath::through(base, vec![], Schedule::linear(1).unwrap()).is_err());
}
