//! Every kernel leaves its model invariant (or corrects for it exactly), and gives unbiased
//! weights on coarse schedules; deliberately wrong kernels fail the same checks.
//!
//! A check averages over 60,000 or 70,000 chains and passes where `|z| < 4`. With correct code one
//! z-score in 16,000 exceeds 4; there are about 300 here, and the seeds are fixed.

mod models;
mod wrong;

use annealed::adaptive::FirstPass;
use annealed::kernel::{
    CoordinateGibbs, Hmc, Mala, Mixture, PerfectTransitions, Preconditioner, RandomWalkMetropolis,
    Repeat, Sequence, Slice, StepSize, TransitionKernel, Tunable, UnadjustedLangevin,
};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, GeometricPath, Stationary};
use annealed::schedule::Schedule;
use annealed::testing;
use annealed::testing::Check;
use nalgebra::{DMatrix, DVector};

use models::{AtBeta, Gamma, GaussianPair, HalfLine, TwoGaussians};

/// Chains of a check of invariance: as many as the bound on the standard error of the cube asks for.
const CHAINS: usize = 70_000;
/// Chains of a mean weight: as many as put every wrong kernel more than 8 standard errors off.
const WEIGHTS: usize = 60_000;

/// The worst of six functions of the state, the constant 1 and the log density among them, whose
/// means four steps from exact samples of the two Gaussians should not change.
fn invariance<K: TransitionKernel<Stationary<TwoGaussians>>>(kernel: &K) -> Worst {
    let model = Stationary(TwoGaussians::new());
    type Statistic<'a> = &'a dyn Fn(&DVector<f64>) -> f64;
    let statistics: [Statistic<'_>; 6] = [
        &|_| 1.0,
        &|x| x[0],
        &|x| x[0].powi(2),
        &|x| x[0] * x[1],
        &|x| x[0].powi(3),
        &|x| model.log_density(x),
    ];
    let sample = |rng: &mut _| model.sample(rng);
    Worst::of(testing::invariances(&model, kernel, sample, statistics, 4, CHAINS, 1).unwrap())
}

/// The mean weight on `steps` equal stages.
fn unbiasedness<P, K>(path: P, kernel: K, steps: usize, log_z_ratio: f64) -> Worst
where
    P: AnnealingPath<State: Send> + Send + Sync,
    K: TransitionKernel<P::At> + Sync,
{
    let schedule = Schedule::linear(steps).unwrap();
    Worst::of([testing::unbiasedness(path, kernel, schedule, log_z_ratio, WEIGHTS, 2).unwrap()])
}

/// The worst of several checks.
#[derive(Debug, Clone, Copy)]
struct Worst {
    z: f64,
    standard_error: f64,
}

impl Worst {
    fn of<const N: usize>(checks: [Check; N]) -> Self {
        let largest = |f: fn(&Check) -> f64| checks.iter().map(f).fold(0.0, f64::max);
        Self {
            z: largest(|check| check.z().abs()),
            standard_error: largest(|check| check.standard_error),
        }
    }

    /// Whether all is right, and not for lack of precision.
    fn passes(self) -> bool {
        self.z < 4.0 && self.standard_error < 0.03
    }

    /// Whether something is wrong by far.
    fn fails(self) -> bool {
        self.z > 6.0
    }
}

fn assert_invariant<K: TransitionKernel<Stationary<TwoGaussians>>>(kernel: K) {
    let worst = invariance(&kernel);
    assert!(worst.passes(), "{worst:?}");
}

fn gaussian_pair<K: TransitionKernel<AtBeta> + Sync>(kernel: K, steps: usize) -> Worst {
    let path = GaussianPair::new();
    unbiasedness(&path, kernel, steps, path.log_ratio_of_normalizers())
}

fn assert_unbiased<K: TransitionKernel<AtBeta> + Sync + Clone>(kernel: K) {
    for steps in [1, 3, 10] {
        let worst = gaussian_pair(kernel.clone(), steps);
        assert!(worst.passes(), "K = {steps}: {worst:?}");
    }
}

/// Both checks of each kernel, at a step size coarse enough for mistakes to show.
macro_rules! kernels {
    ($($name:ident: $kernel:expr;)*) => {
        mod invariant {
            use super::*;
            $(#[test] fn $name() { assert_invariant($kernel); })*
        }
        mod unbiased {
            use super::*;
            $(#[test] fn $name() { assert_unbiased($kernel); })*
        }
    };
}

fn varying(start: f64, end: f64) -> StepSize {
    StepSize::knots([(0.0, start), (1.0, end)]).unwrap()
}

fn random_walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(varying(2.0, 1.2)).unwrap()
}

fn mala() -> Mala {
    Mala::new(varying(1.5, 0.9)).unwrap()
}

fn langevin() -> UnadjustedLangevin {
    UnadjustedLangevin::new(varying(0.5, 0.2)).unwrap()
}

fn hmc() -> Hmc {
    Hmc::new(varying(0.9, 0.8), 3).unwrap()
}

/// Returns a preconditioner with other correlations than the models have, and another factor at each end.
fn shape() -> Preconditioner {
    let covariance = |[xx, xy, yy]: [f64; 3]| {
        let covariance = DMatrix::from_row_slice(2, 2, &[xx, xy, xy, yy]);
        Preconditioner::covariance(&covariance).unwrap()
    };
    let ends = [covariance([1.4, -0.5, 0.8]), covariance([0.5, 0.45, 1.2])];
    Preconditioner::knots([0.0, 1.0].into_iter().zip(ends)).unwrap()
}

kernels! {
    preconditioned_walk: random_walk().preconditioned(shape());
    preconditioned_langevin: mala().preconditioned(shape());
    preconditioned_hmc: hmc().preconditioned(shape());
    scaled_langevin: mala().preconditioned(
        Preconditioner::deviations(DVector::from_row_slice(&[0.6, 1.3])).unwrap(),
    );
    random_walk_metropolis: random_walk();
    metropolis_adjusted_langevin: mala();
    unadjusted_langevin: langevin();
    hamiltonian: hmc();
    systematic_gibbs: CoordinateGibbs::systematic();
    random_scan_gibbs: CoordinateGibbs::random_scan();
    perfect_transitions: PerfectTransitions;
    slice_sampling: Slice::new(varying(3.0, 0.5)).unwrap();
    slice_sampling_by_narrow_steps: Slice::new(0.2).unwrap();
    langevin_then_random_walk: Sequence(langevin(), random_walk());
    random_walk_then_langevin: Sequence(random_walk(), langevin());
    repeated_langevin: Repeat::new(langevin(), 2).unwrap();
    repeated_hmc: Repeat::new(hmc(), 3).unwrap();
    mixture_of_langevin_and_gibbs:
        Mixture::new(0.6, langevin(), CoordinateGibbs::systematic()).unwrap();
    nested: Sequence(
        Mixture::new(0.5, hmc(), mala()).unwrap(),
        Repeat::new(langevin(), 1).unwrap(),
    );
}

fn half_line<K: TransitionKernel<Gamma> + Sync>(kernel: K, steps: usize) -> Worst {
    unbiasedness(&HalfLine::new(), kernel, steps, 2_f64.ln())
}

/// Proposals and trajectories that leave the support, and gradients that are NaN there.
#[test]
fn kernels_are_unbiased_on_a_bounded_support() {
    // The weights of longer unadjusted steps have tails so heavy that most seeds look biased.
    let short = || UnadjustedLangevin::new(0.05).unwrap();
    for steps in [1, 2, 5] {
        let all = [
            half_line(RandomWalkMetropolis::new(1.5).unwrap(), steps),
            half_line(Mala::new(0.8).unwrap(), steps),
            half_line(UnadjustedLangevin::new(0.3).unwrap(), steps),
            half_line(Hmc::new(0.7, 3).unwrap(), steps),
            half_line(Slice::new(1.0).unwrap(), steps),
            half_line(Sequence(short(), short()), steps),
        ];
        assert!(
            all.iter().all(|worst| worst.passes()),
            "K = {steps}: {all:?}"
        );
    }
}

/// The library's own models and path, with a target that is no Gaussian and overlaps the base
/// little, and kernels tuned by a first pass with the seed of the run.
#[test]
fn tuned_kernels_are_unbiased_on_a_geometric_path_to_a_mixture() {
    fn assert_unbiased<'p, K>(path: &'p Path, kernel: K)
    where
        K: TransitionKernel<<&'p Path as AnnealingPath>::At> + Tunable + Clone + Send + Sync,
    {
        let pass = FirstPass::new(path, kernel).seed(2);
        let tuned = pass.run().unwrap().kernel;
        let log_z_ratio = path.target().log_normalizer() - path.base().log_normalizer();
        let worst = unbiasedness(path, tuned, 8, log_z_ratio);
        assert!(worst.passes(), "{worst:?}");
    }
    type Path = GeometricPath<Gaussian, GaussianMixture>;
    let normal = |mean: [f64; 2], [xx, xy, yy]: [f64; 3]| {
        let covariance = DMatrix::from_row_slice(2, 2, &[xx, xy, xy, yy]);
        Gaussian::new(DVector::from_row_slice(&mean), covariance).unwrap()
    };
    let target = GaussianMixture::new([
        (2.0, normal([-1.0, 0.0], [0.6, 0.35, 0.5])),
        (0.5, normal([1.2, 1.5], [0.3, -0.1, 0.8])),
    ]);
    let path = GeometricPath::new(normal([0.5, 0.0], [2.0, 0.5, 3.0]), target.unwrap());
    assert_unbiased(&path, RandomWalkMetropolis::new(1.0).unwrap());
    assert_unbiased(&path, Mala::new(1.0).unwrap());
    assert_unbiased(&path, Hmc::new(1.0, 3).unwrap());
}
