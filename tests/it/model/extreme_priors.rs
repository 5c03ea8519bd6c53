//! Priors with mass at coordinates whose parameters saturate: gradient kernels run, and log Z is the exact one.

use crate::shared::{self, exact::ln_gamma};
use annealed::kernel::UnadjustedLangevin;

use annealed::prelude::*;

/// Ten observations of `N(0, 1/t)` whose squares add up to 12, and `t ~ Gamma(a, a)`.
fn precision(
    a: f64,
) -> (
    Priors,
    impl Differentiable<State = DVector<f64>> + Sync,
    f64,
) {
    let priors = Priors::new([Prior::gamma(a, a).unwrap()]).unwrap();
    let constant = 5.0 * std::f64::consts::TAU.ln();
    let likelihood = shared::gradient_model(1, move |t: &[f64], slope: &mut [f64]| {
        slope[0] = 5.0 / t[0] - 6.0;
        5.0 * t[0].ln() - 6.0 * t[0] - constant
    });
    let likelihood = priors.likelihood(likelihood.unwrap());
    let exact =
        ln_gamma(a + 5.0) - ln_gamma(a) + a * a.ln() - (a + 5.0) * (a + 6.0).ln() - constant;
    (priors, likelihood, exact)
}

/// Numbers of observations in four categories.
const COUNTS: [f64; 4] = [3.0, 0.0, 5.0, 2.0];

/// Four categories, of `Dirichlet(a)` probabilities by sticks: the share of each category in what
/// the categories before it have left.
fn sticks(
    a: f64,
) -> (
    Priors,
    impl Differentiable<State = DVector<f64>> + Sync,
    f64,
) {
    let priors = [3.0, 2.0, 1.0].map(|left| Prior::beta(a, a * left).unwrap());
    let priors = Priors::new(priors).unwrap();
    let likelihood = shared::gradient_model(3, |share: &[f64], slopes: &mut [f64]| {
        let mut log_likelihood = 0.0;
        for (j, b) in share.iter().enumerate() {
            let (here, later) = (COUNTS[j], COUNTS[j + 1..].iter().sum::<f64>());
            log_likelihood += here * b.ln() + later * (1.0 - b).ln();
            slopes[j] = here / b - later / (1.0 - b);
        }
        log_likelihood
    });
    let likelihood = priors.likelihood(likelihood.unwrap());
    let total: f64 = COUNTS.iter().sum();
    let exact = ln_gamma(4.0 * a) - ln_gamma(4.0 * a + total)
        + COUNTS
            .iter()
            .map(|n| ln_gamma(n + a) - ln_gamma(a))
            .sum::<f64>();
    (priors, likelihood, exact)
}

/// The same counts, by a prior of all probabilities.
fn dirichlet(
    a: f64,
) -> (
    Priors,
    impl Differentiable<State = DVector<f64>> + Sync,
    f64,
) {
    let priors = Priors::new([JointPrior::dirichlet([a; 4]).unwrap()]).unwrap();
    let likelihood = shared::gradient_model(4, |p: &[f64], slopes: &mut [f64]| {
        (0..4).for_each(|k| slopes[k] = COUNTS[k] / p[k]);
        (0..4).map(|k| COUNTS[k] * p[k].ln()).sum()
    });
    let likelihood = priors.likelihood(likelihood.unwrap());
    (priors, likelihood, sticks(a).2)
}

fn assert_right(what: &str, result: &dyn LogZ, exact: f64) {
    let z = (result.log_z() - exact) / result.standard_error();
    assert!(z.abs() < 4.0, "{what}: {}, z = {z}", result.log_z());
    assert!(
        result.standard_error() < 0.3,
        "{what}: {}",
        result.standard_error()
    );
}

/// Runs every gradient kernel; `draws` says whether 1,000 draws of the prior contain some tens near the posterior.
fn by_every_gradient_kernel(
    (priors, likelihood, exact): (
        Priors,
        impl Differentiable<State = DVector<f64>> + Sync,
        f64,
    ),
    draws: bool,
) {
    let path = TemperedPath::new(&priors, likelihood);
    let rounds = Rounds::new(&path, Hmc::new(0.3, 3).unwrap()).budget(400_000);
    assert_right("Rounds", &rounds.seed(1).run().unwrap(), exact);
    let pass = FirstPass::new(&path, Mala::new(0.5).unwrap()).chains(1_000);
    let found = pass.seed(1).run().unwrap();
    let smc = Ais::new(&path, Repeat::new(found.kernel, 5).unwrap())
        .schedule(found.schedule)
        .chains(1_000)
        .resampling(Resampling::every(1).unwrap())
        .seed(1)
        .run()
        .unwrap();
    assert!(smc.log_z().is_finite());
    if draws {
        assert_right("FirstPass", &smc, exact);
    }
    macro_rules! ais {
        ($kernel:expr) => {{
            let ais = Ais::new(&path, $kernel).chains(200).seed(2);
            ais.schedule(Schedule::power(400, 4.0).unwrap())
                .run()
                .unwrap()
        }};
    }
    // Steps too short for these priors: the runs end, with a finite log Z.
    assert!(ais!(Hmc::new(0.3, 3).unwrap()).log_z().is_finite());
    assert!(ais!(Mala::new(0.5).unwrap()).log_z().is_finite());
    assert!(
        ais!(UnadjustedLangevin::new(0.05).unwrap())
            .log_z()
            .is_finite()
    );
}

#[test]
fn a_vague_gamma_prior_of_a_precision_has_its_exact_evidence() {
    let (_, _, exact) = precision(0.01);
    assert!((exact + 19.627).abs() < 1e-3, "{exact}");
    by_every_gradient_kernel(precision(0.01), true);
}

#[test]
fn a_gamma_prior_of_the_least_shape_has_its_exact_evidence() {
    by_every_gradient_kernel(precision(0.001), false);
}

#[test]
fn a_sparse_dirichlet_prior_by_sticks_has_its_exact_evidence() {
    by_every_gradient_kernel(sticks(0.01), true);
}

#[test]
fn sparse_dirichlet_priors_have_their_exact_evidence() {
    by_every_gradient_kernel(dirichlet(1.0), true);
    by_every_gradient_kernel(dirichlet(0.01), true);
    by_every_gradient_kernel(dirichlet(0.001), false);
}

/// `1 / (1 + x)` near -1 and `1 / x` near 0, with half of all draws within 1e-12 of either end or beyond saturation.
#[test]
fn a_beta_prior_at_both_ends_of_an_interval_has_its_exact_evidence() {
    let exact = |a: f64| ln_gamma(a + 3.0) + ln_gamma(a + 2.0) - ln_gamma(2.0 * a + 5.0);
    let a = 0.02;
    let priors = Priors::new([Prior::beta(a, a).unwrap()]).unwrap();
    let likelihood = shared::gradient_model(1, |x: &[f64], slope: &mut [f64]| {
        slope[0] = 3.0 / x[0] - 2.0 / (1.0 - x[0]);
        3.0 * x[0].ln() + 2.0 * (1.0 - x[0]).ln()
    });
    let likelihood = priors.likelihood(likelihood.unwrap());
    let of_prior = 2.0 * ln_gamma(a) - ln_gamma(2.0 * a);
    by_every_gradient_kernel((priors, likelihood, exact(a) - of_prior), true);
}

/// The composed gradient is that of the composed density, saturated coordinates included.
#[test]
fn composed_gradients_fit_composed_densities() {
    fn check(
        likelihood: &impl Differentiable<State = DVector<f64>>,
        states: impl Iterator<Item = DVector<f64>>,
    ) {
        for state in states {
            let gradient = likelihood.gradient(&state);
            assert!(
                gradient.iter().all(|slope| slope.is_finite()),
                "{state}: {gradient}"
            );
            for i in 0..state.len() {
                let at = |h: f64| {
                    let mut moved = state.clone();
                    moved[i] += h;
                    likelihood.log_density(&moved)
                };
                let difference = (at(1.0) - at(-1.0)) / 2.0;
                let apart = (gradient[i] - difference).abs();
                assert!(
                    apart < 0.05 * (1.0 + difference.abs()),
                    "{state}: {gradient}, {difference}"
                );
            }
        }
    }
    let priors = Priors::new([
        Prior::gamma(0.01, 1.0).unwrap(),
        Prior::uniform(0.0, 1.0).unwrap(),
        Prior::uniform(-3.0, 0.0).unwrap(),
    ]);
    let powers = shared::gradient_model(3, |x: &[f64], slopes: &mut [f64]| {
        slopes.copy_from_slice(&[2.0 / x[0], 3.0 / x[1], 1.5 / x[2]]);
        2.0 * x[0].ln() + 3.0 * x[1].ln() + 1.5 * (-x[2]).ln()
    });
    let likelihood = priors.unwrap().likelihood(powers.unwrap());
    // Away from 0.7 nats beside the last numbers, where differences straddle them.
    let sizes = [
        -2_000.0, -750.0, -720.0, -650.0, -50.0, 0.0, 50.0, 650.0, 720.0, 2_000.0,
    ];
    check(
        &likelihood,
        sizes.into_iter().map(|u| DVector::from_vec(vec![u, u, u])),
    );
    let signs = [-1.0, 1.0];
    check(
        &dirichlet(0.01).1,
        sizes
            .into_iter()
            .flat_map(|u| signs.map(|sign| DVector::from_vec(vec![u, 0.3 * sign * u, sign * u]))),
    );
}

/// The likelihood `exp(-exp |u|)` of a prior that is uniform over +-b: `Z = E_1(1) / b`. At b = 700 its log is -1e304
/// at the prior's ends. At 1,000 it is -inf for a third of the prior.
#[test]
fn the_first_stage_is_as_short_as_a_likelihood_that_nearly_overflows_needs() {
    let likelihood = shared::function(|u: &DVector<f64>| -u[0].abs().exp());
    for bound in [700.0_f64, 1_000.0] {
        let prior = UniformBox::new([(-bound, bound)]).unwrap();
        let path = TemperedPath::new(prior, likelihood.clone());
        let kernel = RandomWalkMetropolis::new(1.0).unwrap();
        let run = Rounds::new(&path, kernel)
            .budget(200_000)
            .seed(1)
            .run()
            .unwrap();
        let error = run.log_z() - (0.219_383_934_395_520_3 / bound).ln();
        assert!(error.abs() < 4.0 * run.standard_error(), "{run}");
        assert!(run.standard_error() < 0.3, "{run}");
    }
}
