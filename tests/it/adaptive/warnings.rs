//! Warnings and texts of rounds about their own result: how to reach an error, chains that follow the path too slowly, and
//! an infinite integral, which runs of many data name, too.

use crate::shared;
use annealed::Error;
use annealed::adaptive::{FirstPass, Rounds};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::many::LogLikelihoods;
use annealed::model::{
    Gaussian, Latent, LatentGradient, NormalizedModel, Prior, Priors, UnnormalizedModel,
};
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, TemperedPath};
use nalgebra::{DMatrixView, DMatrixViewMut, DVector};

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

/// Half of the base's samples lie off the target's support, whatever the number of stages.
#[test]
fn an_error_that_no_budget_lowers_asks_for_chains() {
    let density = |x: &DVector<f64>| match x[0] >= 0.0 {
        true => -0.5 * x[0] * x[0],
        false => f64::NEG_INFINITY,
    };
    let half = shared::function(density);
    let path = TemperedPath::new(Gaussian::standard(1).unwrap(), half);
    let rounds = |chains| {
        let rounds = Rounds::new(&path, walk()).chains(chains);
        rounds.until_error(0.02).seed(1).run().unwrap()
    };
    let few = rounds(256);
    assert!(few.standard_error() > 0.05, "{few}");
    let advice = few.warnings().iter().find_map(|warning| match warning {
        Warning::ErrorNotReached { budget, advice, .. } => Some((budget, advice)),
        _ => None,
    });
    let (budget, advice) = advice.expect("the error was not reached");
    assert_eq!(*budget, None, "{few}");
    let said = advice.strip_prefix("about ").unwrap().split(' ').next();
    let chains: f64 = said.unwrap().parse().unwrap();
    let enough = rounds(chains as usize + 200);
    assert!(enough.standard_error() <= 0.02, "{few}\n{enough}");
    // 1/2 of the prior, times N(0; 0, 2) without its constant.
    assert!((few.log_z() - 0.5_f64.sqrt().ln() + 2_f64.ln()).abs() < 4.0 * few.standard_error());
    let stages = few.stages_for(0.02);
    assert!(
        matches!(stages, Err(Error::NotConverged { .. })),
        "{stages:?}"
    );
    assert!(few.stages_for(0.1).is_ok());
}

#[test]
fn a_fitted_base_is_named_where_it_reaches_the_error_sooner() {
    let target = Gaussian::isotropic(DVector::from_element(5, 1.0), 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(5).unwrap(), target.clone());
    let rounds = || {
        Rounds::new(&path, walk())
            .until_error(0.01)
            .rounds(5)
            .seed(2)
    };
    let short = rounds().run().unwrap();
    let advice = |warnings: &[Warning]| {
        let found = warnings.iter().find_map(|warning| match warning {
            Warning::ErrorNotReached { budget, advice, .. } => Some((*budget, advice.clone())),
            _ => None,
        });
        found.expect("the error was not reached")
    };
    let (budget, text) = advice(short.warnings());
    assert!(text.contains("fitted() may need"), "{text}");
    let fitted = rounds().fitted().run().unwrap();
    assert!(fitted.standard_error() <= 0.01, "{fitted}");
    assert!(fitted.evaluations() < budget.unwrap() / 4, "{fitted}");
    let off = (fitted.log_z() - target.log_normalizer()).abs();
    assert!(off < 4.0 * fitted.standard_error(), "{fitted}");
}

#[test]
fn islands_are_what_lowers_the_error_of_levels() {
    let likelihood = shared::function(|x: &DVector<f64>| -50.0 * x.norm_squared());
    let problem = TemperedPath::new(Gaussian::standard(3).unwrap(), likelihood);
    let levels = NestedSmc::new(&problem, walk()).islands(10).chains(32);
    let run = levels.until_error(1e-3).run().unwrap();
    let text = run.to_string();
    assert!(text.contains("islands would reach it"), "{text}");
}

/// The Rosenbrock chain in a box. Log Z is -90.26547, by a transfer operator; this run is low by more than 1.5.
#[test]
fn chains_that_do_not_follow_a_curved_valley_are_named() {
    let valley = |x: &[f64], gradient: &mut [f64]| {
        let term = |i: usize| {
            let (off, left) = (x[i] - x[i - 1] * x[i - 1], 1.0 - x[i - 1]);
            gradient[i - 1] += 400.0 * off * x[i - 1] + 2.0 * left;
            gradient[i] -= 200.0 * off;
            -100.0 * off * off - left * left
        };
        (1..20).map(term).sum()
    };
    let priors = Priors::new((0..20).map(|_| Prior::uniform(-5.0, 5.0).unwrap())).unwrap();
    let likelihood = priors.likelihood(shared::gradient_model(20, valley).unwrap());
    let path = TemperedPath::new(&priors, likelihood);
    let rounds = Rounds::new(&path, Hmc::new(0.1, 5).unwrap()).budget(500_000);
    let run = rounds.run().unwrap();
    assert!(run.log_z() + 90.26547 < -1.5, "{run}");
    let merged = |warning: &Warning| matches!(warning, Warning::MergedFamilies { .. });
    assert!(run.warnings().iter().any(merged), "{run}");
}

/// Steps that are far too small leave chains behind: log Z rises with the stages, and is too low at the last.
#[test]
fn rounds_that_rise_warn() {
    let target = Gaussian::isotropic(DVector::from_element(10, 2.0), 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(10).unwrap(), &target);
    let rising = |step: f64, seed: u64| {
        let walk = RandomWalkMetropolis::new(step).unwrap();
        let run = Rounds::fixed(&path, walk)
            .budget(400_000)
            .seed(seed)
            .run()
            .unwrap();
        let z = (run.log_z() - target.log_normalizer()) / run.standard_error();
        let named = |warning: &Warning| matches!(warning, Warning::RisingRounds { .. });
        (z, run.warnings().iter().any(named))
    };
    let (z, warns) = rising(0.02, 1);
    assert!(z < -4.0 && warns, "{z} {warns}");
    let right = Vec::from_iter((0..20).map(|seed| rising(0.3, seed)));
    assert!(
        right.iter().all(|(z, warns)| z.abs() < 4.0 && !warns),
        "{right:?}"
    );
}

/// An integral that grows without a limit: rounds of twice the stages rise by about as much each.
#[test]
fn an_infinite_integral_goes_on_rising() {
    let unconfined =
        shared::function(|x: &DVector<f64>| 0.3 * x.norm().sin() - 0.3 * x.norm().ln_1p());
    let base = Gaussian::isotropic(DVector::zeros(2), 3.0).unwrap();
    let path = GeometricPath::new(base, &unconfined);
    let mut rising = 0;
    for seed in 0..10 {
        let rounds = || {
            Rounds::new(&path, walk())
                .until_error(0.1)
                .rounds(8)
                .seed(seed)
        };
        for run in [rounds().run(), rounds().fitted().run()] {
            match run {
                Ok(run) => {
                    assert!(!run.warnings().is_empty(), "{run}");
                    let is_rising =
                        |warning: &Warning| matches!(warning, Warning::RisingRounds { .. });
                    rising += usize::from(run.warnings().iter().any(is_rising));
                }
                Err(error) => assert!(error.to_string().contains("no finite integral"), "{error}"),
            }
        }
    }
    assert!(rising >= 4, "{rising}");
}

/// A log likelihood of `|z|^2` times this factor. Above .5, its integral over a standard normal prior is infinite.
struct Rises(f64);

impl UnnormalizedModel for Rises {
    type State = Latent;

    fn log_density(&self, state: &Latent) -> f64 {
        self.0 * state.vector.norm_squared()
    }
}

impl LatentGradient for Rises {
    fn accumulate_gradients(
        &self,
        _data: &[usize],
        latents: DMatrixView<'_, f64>,
        scale: f64,
        mut gradients: DMatrixViewMut<'_, f64>,
        log_likelihoods: &mut [f64],
    ) {
        gradients += latents * (2.0 * self.0 * scale);
        for (row, value) in latents.row_iter().zip(log_likelihoods) {
            *value = self.0 * row.norm_squared();
        }
    }
}

/// Hamiltonian chains follow the mass out, with ever shorter stages.
#[test]
fn a_likelihood_without_an_upper_bound_is_named_before_the_last_stage() {
    let run = |factor, stages| {
        let prior = Gaussian::standard(4).unwrap();
        let run = LogLikelihoods::new(prior, Rises(factor), 20, Hmc::new(0.3, 5).unwrap());
        run.stages(stages).run()
    };
    let text = run(0.6, 200).unwrap_err().to_string();
    assert!(text.contains("1000 stages did not reach"), "{text}");
    assert!(text.contains("no finite integral"), "{text}");
    assert!(
        text.starts_with("annealing from the base to the target did not"),
        "{text}"
    );
    // At .5 the integral is infinite at the end of the path alone.
    let text = run(0.5, 200).unwrap().to_string();
    assert!(
        text.contains("20 of 20") && text.ends_with("p(x) may be infinite"),
        "{text}"
    );
    let right = run(0.3, 200).unwrap().mean();
    let off = (right.value + 2.0 * 0.4_f64.ln()).abs();
    assert!(
        off < 4.0 * right.standard_error && right.standard_error < 0.03,
        "{right}"
    );
}

/// The prior's chains hardly reach the part above a plateau, of probability 1.35e-3.
#[test]
fn a_plateau_is_named_unless_log_z_is_right() {
    let exact = -6.607_726;
    let mut named = 0;
    for seed in 0..8 {
        let steps = shared::function(|x: &DVector<f64>| if x[0] > 3.0 { 0.0 } else { -1e6 });
        let path = TemperedPath::new(Gaussian::standard(1).unwrap(), steps);
        let run = Rounds::new(&path, walk()).until_error(0.1).seed(seed);
        let run = run.run().unwrap();
        let names = run.warnings().iter().map(Warning::name);
        let names = Vec::from_iter(names);
        let is_named = |name: &str| names.iter().any(|found| found == name);
        let is_right = (run.log_z() - exact).abs() < 4.0 * run.standard_error() + 0.3;
        let is_doubted = is_named("FlatFirstPass") || is_named("BelowBound");
        assert!(is_right || is_doubted, "{run}");
        named += usize::from(is_doubted);
    }
    assert!(named > 0);
    // A flat likelihood that fits the prior is none.
    let flat = shared::function(|_: &DVector<f64>| -3.0);
    let path = TemperedPath::new(Gaussian::standard(1).unwrap(), flat);
    let run = Rounds::new(&path, walk()).budget(50_000).run().unwrap();
    assert!(run.warnings().is_empty(), "{run}");
}

/// Heavy tails, a neck, and a thousand stages do not look like an infinite integral.
#[test]
fn finite_integrals_are_not_refused() {
    let pass = |target: shared::Slopes<'_>, d: usize, share: f64| {
        let model = shared::gradient_model(d, target).unwrap();
        let path = GeometricPath::new(Gaussian::standard(d).unwrap(), model);
        let pass = FirstPass::new(&path, Hmc::new(0.3, 3).unwrap()).chains(64);
        pass.ess_share(share).run().unwrap().schedule.stages()
    };
    let heavy = |x: &[f64], gradient: &mut [f64]| {
        let square: f64 = 1.0 + x.iter().map(|x| x * x).sum::<f64>() / 2e6;
        let slope = -3e-6 / square; // Student's t: 2 degrees of freedom, 4 dimensions, scale 1,000
        gradient
            .iter_mut()
            .zip(x)
            .for_each(|(gradient, x)| *gradient += slope * x);
        -3.0 * square.ln()
    };
    let funnel = |x: &[f64], gradient: &mut [f64]| {
        let (scale, others) = ((-x[0]).exp(), &x[1..]);
        let square = scale * others.iter().map(|x| x * x).sum::<f64>();
        gradient[0] += 0.5 * square - x[0] / 9.0 - 0.5 * others.len() as f64;
        for (gradient, x) in gradient[1..].iter_mut().zip(others) {
            *gradient -= scale * x;
        }
        -x[0] * x[0] / 18.0 - 0.5 * square - 0.5 * others.len() as f64 * x[0]
    };
    let narrow = |x: &[f64], gradient: &mut [f64]| {
        gradient
            .iter_mut()
            .zip(x)
            .for_each(|(gradient, x)| *gradient -= 1e12 * x);
        -0.5e12 * x.iter().map(|x| x * x).sum::<f64>()
    };
    let stages = [
        pass(&heavy, 4, 0.5),
        pass(&funnel, 10, 0.5),
        pass(&narrow, 50, 0.998),
    ];
    assert!(stages[2] > 2_000, "{stages:?}");
}

/// The energy is bounded: chains that leave the base never return, and log Z rises from round to round.
#[test]
fn rounds_without_a_finite_integral_say_that_there_may_be_none() {
    let steps = shared::function(|x: &DVector<f64>| -x.iter().map(|x| x.tanh()).sum::<f64>());
    let path = GeometricPath::new(Gaussian::isotropic(DVector::zeros(4), 9.0).unwrap(), steps);
    let run = Rounds::new(&path, walk()).budget(500_000).run().unwrap();
    let text = run.to_string();
    assert!(text.contains("no finite integral"), "{text}");
}
