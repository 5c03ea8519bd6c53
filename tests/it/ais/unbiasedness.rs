//! Every shipped path, with a kernel that suits it: `E[w] = Z_K / Z_0` at coarse schedules, 20,000
//! chains each. (Every kernel is in `kernel/invariance`.) False-alarm rate 6e-5 a case if the
//! stream changes.

use crate::shared;
use annealed::ais::Ais;
use annealed::estimate::LogZ;
use annealed::kernel::{
    CoordinateGibbs, Hmc, PerfectTransitions, RandomWalkMetropolis, TransitionKernel,
};
use annealed::model::{Bernoulli, Gaussian, GaussianMixture, NormalizedModel, UnnormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, TemperedPath};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath, Scalar};
use annealed::schedule::Schedule;
use annealed::testing;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

const CHAINS: usize = 20_000;

fn check<P, K>(path: P, kernel: &K, log_z_ratio: f64)
where
    P: AnnealingPath + Send + Sync,
    P::State: Send,
    K: TransitionKernel<P::At> + Clone + Sync,
{
    for steps in [1, 2, 7] {
        let schedule = Schedule::power(steps, 1.5).unwrap();
        let check =
            testing::unbiasedness(&path, kernel.clone(), schedule, log_z_ratio, CHAINS, 5).unwrap();
        assert!(check.passes(), "K = {steps}: {check}");
        assert!(check.standard_error < 0.05, "K = {steps}: {check}");
    }
}

fn base() -> Gaussian {
    Gaussian::new(dvector![0.5, 0.0], dmatrix![1.5, -0.3; -0.3, 1.0]).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![1.2, -0.8], dmatrix![1.0, 0.6; 0.6, 0.8]).unwrap()
}

#[test]
fn geometric_paths_between_gaussians_and_to_a_mixture_are_unbiased() {
    let exact = target().log_normalizer() - base().log_normalizer();
    let walk = RandomWalkMetropolis::new(0.9).unwrap();
    check(&GeometricPath::new(base(), target()), &walk, exact);

    let narrow = Gaussian::isotropic(dvector![-0.5, 0.3], 0.7).unwrap();
    let mixture = GaussianMixture::new([(2.0, target()), (0.7, narrow)]).unwrap();
    let exact = mixture.log_normalizer() - base().log_normalizer();
    let hmc = Hmc::new(0.4, 3).unwrap();
    check(&GeometricPath::new(base(), mixture), &hmc, exact);
}

#[test]
fn gaussian_paths_are_unbiased_with_perfect_transitions_and_coordinate_gibbs() {
    let path = GaussianPath::new(base(), target()).unwrap();
    let exact = target().log_normalizer() - base().log_normalizer();
    check(&path, &PerfectTransitions, exact);
    check(&path, &CoordinateGibbs::systematic(), exact);
    check(&path, &CoordinateGibbs::random_scan(), exact);
}

#[test]
fn tempered_path_gives_the_evidence_whatever_the_prior_s_constant() {
    // y = 1.4 of N(theta_1 - theta_2, 0.5): evidence N(1.4; mu_1 - mu_2, 0.5 + c' Sigma c).
    let likelihood = |theta: &DVector<f64>| {
        -(1.4 - theta[0] + theta[1]).powi(2) - 0.5 * std::f64::consts::PI.ln()
    };
    let variance = 0.5 + 1.5 + 1.0 + 2.0 * 0.3;
    let residual = 1.4 - 0.5;
    let tau = std::f64::consts::TAU;
    let exact = -0.5 * residual * residual / variance - 0.5 * (tau * variance).ln();
    let path = TemperedPath::new(base(), shared::function(likelihood));
    check(&path, &RandomWalkMetropolis::new(1.0).unwrap(), exact);
    assert_ne!(base().log_normalizer(), 0.0);
    let run = Ais::new(&path, RandomWalkMetropolis::new(1.0).unwrap())
        .run()
        .unwrap();
    assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
}

/// One bit at a time, by the difference of log densities.
#[derive(Clone)]
struct FlipOne;

impl annealed::kernel::SymmetricProposal<Vec<bool>> for FlipOne {
    fn propose<R: rand::Rng + ?Sized>(
        &self,
        _beta: f64,
        state: &Vec<bool>,
        proposal: &mut Vec<bool>,
        rng: &mut R,
    ) {
        proposal.clone_from(state);
        let bit = rand::RngExt::random_range(rng, 0..state.len());
        proposal[bit] = !proposal[bit];
    }
}

fn rbm<T: Scalar>() -> Rbm<T> {
    let value = |x: f64| T::nearest(x);
    let weights = [[1.0, -1.0, 0.5, 2.0, -0.7], [-0.5, 1.0, 2.0, 0.1, 0.9]];
    Rbm::new(
        DMatrix::from_fn(2, 5, |i, j| value(weights[i][j])),
        dvector![value(0.2), value(-0.3)],
        dvector![value(0.1), value(-0.2), value(0.3), value(-1.0), value(0.4)],
    )
    .unwrap()
}

fn check_rbm<T: Scalar>() {
    let target = rbm::<T>();
    let exact = target.exact_log_normalizer().unwrap();
    let bias = [0.4, 0.0, -0.6, 0.2, 0.1].map(T::nearest);
    for base in [
        BaseRate::uniform(2, 5).unwrap(),
        BaseRate::new(2, DVector::from_column_slice(&bias)).unwrap(),
    ] {
        let exact = exact - base.log_normalizer();
        check(
            &RbmPath::new(base, target.clone()).unwrap(),
            &BlockGibbs,
            exact,
        );
    }
}

#[test]
fn a_joint_path_to_an_rbm_is_unbiased_in_single_and_double_precision() {
    check_rbm::<f32>();
    check_rbm::<f64>();
}

#[test]
fn a_marginal_path_to_an_rbm_is_unbiased_by_single_flips() {
    let target = rbm::<f64>();
    let base = Bernoulli::new(dvector![0.4, 0.0, -0.6, 0.2, 0.1]).unwrap();
    let exact = target.exact_log_normalizer().unwrap() - base.log_normalizer();
    assert!(target.log_density(&vec![true; 5]) > 0.0);
    let kernel = annealed::kernel::Metropolis(FlipOne);
    check(&GeometricPath::new(base, target), &kernel, exact);
}
