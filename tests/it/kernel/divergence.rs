//! Trajectories that diverge: the model is not asked for sense where no chain comes, and everywhere else it is.

use std::f64::consts::TAU;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shared;
use annealed::Error;
use annealed::ais::Ais;
use annealed::drift::{DriftModifiedLangevin, DriftModifier};
use annealed::estimate::LogZ;
use annealed::kernel::{
    Hmc, Mala, Preconditioner, RandomWalkMetropolis, Repeat, Slice, TransitionKernel, Tunable,
    UnadjustedLangevin,
};
use annealed::model::{Differentiable, Gaussian, UnnormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dvector};

type Vector = DVector<f64>;

/// Neal's funnel in three dimensions, written plainly: 0 times infinity far up its axis, and infinity less infinity.
fn funnel() -> impl Differentiable<State = Vector> + Sync {
    let funnel = |x: &[f64], gradient: &mut [f64]| {
        let (v, squares) = (x[0], x[1] * x[1] + x[2] * x[2]);
        let precision = (-v).exp();
        gradient[0] = -v / 4.0 - 1.0 + 0.5 * squares * precision;
        gradient[1] = -x[1] * precision;
        gradient[2] = -x[2] * precision;
        -v * v / 8.0 - v - 0.5 * squares * precision
    };
    shared::gradient_model(3, funnel).unwrap()
}

fn base(dimension: usize) -> Gaussian {
    Gaussian::isotropic(DVector::zeros(dimension), 2.0).unwrap()
}

/// A model that is evaluated in batches, as those that gain by it.
struct InBatches<M>(M);

impl<M: UnnormalizedModel> UnnormalizedModel for InBatches<M> {
    type State = M::State;

    fn log_density(&self, state: &M::State) -> f64 {
        self.0.log_density(state)
    }

    fn evaluates_batches(&self) -> bool {
        true
    }
}

impl<M: Differentiable> Differentiable for InBatches<M> {
    fn accumulate_gradient(&self, state: &Vector, scale: f64, gradient: &mut Vector) -> f64 {
        self.0.accumulate_gradient(state, scale, gradient)
    }
}

fn schedule(steps: usize) -> Schedule {
    Schedule::linear(steps).unwrap()
}

/// Refuses a log Z of the funnel that is not the exact one.
fn assert_funnel<P, K>(path: P, kernel: K, seed: u64)
where
    P: AnnealingPath<State = Vector, Base = Gaussian> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(schedule(100));
    let run = ais.chains(256).seed(seed).run().unwrap();
    let exact = 1.5 * TAU.ln() + 2f64.ln();
    let error = (run.log_z() - exact).abs();
    assert!(error < 4.0 * run.standard_error(), "{run}, exact {exact}");
    assert!(run.standard_error() < 0.2, "{run}");
}

/// Steps that are far too long for the neck.
#[test]
fn a_funnel_written_plainly_is_passed() {
    let path = GeometricPath::new(base(3), funnel());
    let batches = GeometricPath::new(base(3), InBatches(funnel()));
    for (size, steps) in [(0.5, 50), (1.0, 20), (2.0, 10)] {
        let hmc = Hmc::new(size, steps).unwrap();
        for seed in 0..3 {
            assert_funnel(&path, hmc.clone(), seed);
        }
        assert_funnel(&batches, hmc.clone(), 0);
        let shape = Preconditioner::deviations(dvector![2.0, 1.0, 1.0]).unwrap();
        assert_funnel(&path, hmc.preconditioned(shape.clone()), 0);
        assert_funnel(&batches, hmc.preconditioned(shape), 0);
    }
}

/// `-x^4 / 4` up to a radius, and a NaN beyond it.
fn quartic(radius: f64) -> impl Differentiable<State = Vector> + Sync {
    let quartic = move |x: &[f64], gradient: &mut [f64]| {
        gradient[0] = -x[0].powi(3);
        match x[0].abs() < radius {
            true => -0.25 * x[0].powi(4),
            false => f64::NAN,
        }
    };
    shared::gradient_model(1, quartic).unwrap()
}

struct Still;

impl DriftModifier for Still {
    fn modifier_into(&self, _: f64, _: &Vector, modifier: &mut Vector) {
        modifier.fill(0.0);
    }
}

fn run<P, K>(path: P, kernel: K) -> Result<(), Error>
where
    P: AnnealingPath<State = Vector, Base = Gaussian> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(schedule(20)).chains(200);
    ais.run().map(drop)
}

/// The drift of one step leads from 8 to beyond a thousand.
#[test]
fn one_step_of_langevin_may_diverge() {
    let path = GeometricPath::new(base(1), quartic(1_000.0));
    let batches = GeometricPath::new(base(1), InBatches(quartic(1_000.0)));
    run(&path, Mala::new(16.0).unwrap()).unwrap();
    let shape = Preconditioner::deviations(dvector![2.0]).unwrap();
    run(&path, Mala::new(4.0).unwrap().preconditioned(shape)).unwrap();
    run(&path, UnadjustedLangevin::new(16.0).unwrap()).unwrap();
    let modified = DriftModifiedLangevin::new(Still, 16.0).unwrap();
    run(&path, modified).unwrap();
    run(&path, Hmc::new(4.0, 1).unwrap()).unwrap();
    run(&batches, Hmc::new(4.0, 1).unwrap()).unwrap();
}

/// A Gaussian whose gradient has an entry `spoilt` after some calls.
fn gaussian_until(
    calls: usize,
    spoilt: f64,
    dimension: usize,
) -> impl Differentiable<State = Vector> + Sync {
    let made = AtomicUsize::new(0);
    let gaussian = move |x: &[f64], gradient: &mut [f64]| {
        gradient
            .iter_mut()
            .zip(x)
            .for_each(|(slope, x)| *slope = -x);
        if made.fetch_add(1, Ordering::Relaxed) >= calls {
            gradient[x.len() - 1] = spoilt;
        }
        -0.5 * x.iter().map(|x| x * x).sum::<f64>()
    };
    shared::gradient_model(dimension, gaussian).unwrap()
}

/// Gradients are checked at starts and proposals, within a trajectory and at its end, and where only one end of the path
/// has weight (the last stage of a kernel with one gradient a move, after 4,000 calls).
#[test]
fn a_gradient_that_is_not_finite_is_an_error_where_the_density_is_finite() {
    for dimension in [2, 9] {
        for (calls, spoilt) in [(100, f64::NAN), (300, f64::INFINITY), (4_100, f64::NAN)] {
            let refused = |kernel: &dyn Fn(bool) -> Result<(), Error>| {
                for in_batches in [false, true] {
                    let error = kernel(in_batches).unwrap_err();
                    let Error::NonFinite { quantity, .. } = error else {
                        panic!("{dimension}, {calls}, {in_batches}: {error}");
                    };
                    assert_eq!(quantity, "gradient of the log density");
                }
            };
            macro_rules! refuses {
                ($kernel:expr) => {
                    refused(&|in_batches| {
                        let target = gaussian_until(calls, spoilt, dimension);
                        match in_batches {
                            true => run(
                                &GeometricPath::new(base(dimension), InBatches(target)),
                                $kernel,
                            ),
                            false => run(&GeometricPath::new(base(dimension), target), $kernel),
                        }
                    })
                };
            }
            let mala = Mala::new(0.1).unwrap();
            let shape = Preconditioner::deviations(DVector::from_element(dimension, 2.0)).unwrap();
            refuses!(mala.clone());
            refuses!(mala.preconditioned(shape.clone()));
            refuses!(UnadjustedLangevin::new(0.1).unwrap());
            refuses!(Hmc::new(0.2, 3).unwrap());
        }
    }
}

/// Where chains come a NaN is an error, and says where.
#[test]
fn a_nan_at_an_ordinary_point_is_an_error() {
    let path = GeometricPath::new(base(1), quartic(2.5));
    let batches = GeometricPath::new(base(1), InBatches(quartic(2.5)));
    let hmc = || Hmc::new(0.3, 5).unwrap();
    let errors = [
        run(&path, hmc()),
        run(&batches, hmc()),
        run(&path, Mala::new(0.1).unwrap()),
        run(&path, UnadjustedLangevin::new(0.1).unwrap()),
        run(&path, DriftModifiedLangevin::new(Still, 0.1).unwrap()),
        run(&path, RandomWalkMetropolis::new(0.5).unwrap()),
        run(&batches, RandomWalkMetropolis::new(0.5).unwrap()),
        run(&path, Slice::new(1.0).unwrap()),
        run(&path, Repeat::new(hmc(), 2).unwrap()),
    ];
    for (kernel, error) in errors.into_iter().enumerate() {
        let error = error.unwrap_err();
        let Error::NonFinite { largest, .. } = error else {
            panic!("{kernel}: {error}");
        };
        let (index, x) = largest.unwrap();
        assert!(
            index == 0 && (2.5..15.0).contains(&x.abs()),
            "{kernel}: {error}"
        );
        assert!(error.to_string().contains("largest coordinate"), "{error}");
    }
    // At a proposal, from starts that are all within.
    let narrow = Gaussian::isotropic(dvector![0.0], 0.3).unwrap();
    let path = GeometricPath::new(narrow.clone(), quartic(2.5));
    let batches = GeometricPath::new(narrow, InBatches(quartic(2.5)));
    let hmc = || Hmc::new(1.5, 1).unwrap();
    let errors = [
        run(&path, hmc()),
        run(&batches, hmc()),
        run(&path, Mala::new(1.5).unwrap()),
        run(&path, RandomWalkMetropolis::new(1.5).unwrap()),
        run(&batches, RandomWalkMetropolis::new(1.5).unwrap()),
    ];
    for error in errors {
        let text = error.unwrap_err().to_string();
        assert!(text.contains("of the proposal is NaN"), "{text}");
        assert!(text.contains("largest coordinate"), "{text}");
    }
}
