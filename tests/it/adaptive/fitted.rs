//! Rounds from a fitted base: unbiased, of few evaluations, and from the path's own base where no base fits.

use crate::shared::scales::many_scales;
use crate::shared::{self, mean_and_error};
use annealed::Error;
use annealed::adaptive::Rounds;
use annealed::estimate::{LogZ, Warning, WeightedSample};
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::{
    BatchModel, Differentiable, FunctionModel, Gaussian, GaussianMixture, NormalizedModel, Prior,
    Priors, Sampleable, StudentT, UniformBox, UnnormalizedModel,
};
use annealed::path::{GeometricPath, TemperedPath};
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::Rng;

/// A normal likelihood of correlated parameters, and the log evidence with the prior N(0, I).
fn correlated(dimension: usize) -> (Gaussian, f64) {
    let covariance = DMatrix::from_fn(dimension, dimension, |i, j| {
        0.05 * 0.9_f64.powi(i.abs_diff(j) as i32)
    });
    let mean = DVector::from_element(dimension, 1.5);
    let sum = &covariance + DMatrix::identity(dimension, dimension);
    let likelihood = Gaussian::new(mean.clone(), covariance).unwrap();
    // The evidence is N(mean; 0, I + S), and the likelihood lacks its constant.
    let data = Gaussian::new(DVector::zeros(dimension), sum).unwrap();
    let evidence = data.log_density(&mean) - data.log_normalizer() + likelihood.log_normalizer();
    (likelihood, evidence)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

#[test]
fn a_narrow_gaussian_in_many_dimensions_has_a_fitted_base() {
    let prior = UniformBox::new([(-1.0, 1.0); 20]).unwrap();
    let likelihood = Gaussian::isotropic(DVector::from_element(20, 0.2), 0.1).unwrap();
    let evidence = likelihood.log_normalizer() - 20.0 * 2_f64.ln();
    let path = TemperedPath::new(prior, likelihood);
    for seed in 0..20 {
        let rounds = Rounds::new(&path, walk()).until_error(0.1).seed(seed);
        let run = rounds.fitted().run().unwrap();
        assert!(
            run.fitted().is_some() && run.evaluations() < 40_000,
            "{run}"
        );
        let error = run.log_z() - evidence;
        assert!(error.abs() < 4.0 * run.standard_error(), "{error}\n{run}");
    }
}

/// Twenty runs: a z-score above 4 occurs once in 800 right tests, a mean square outside of the range once in 10,000.
#[test]
fn rounds_from_a_fitted_base_reach_an_error_in_few_evaluations() {
    let (likelihood, evidence) = correlated(6);
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), likelihood);
    let rounds = |seed| Rounds::new(&path, walk()).until_error(0.05).seed(seed);
    let plain = rounds(0).run().unwrap();
    assert!(plain.fitted().is_none() && plain.not_fitted().is_none());
    assert_eq!(plain.challenge_budget(), plain.evaluations());
    // Sixteen stages of 256 chains, doubled in each of eight rounds.
    let all_rounds = 16 * 255 * 256;
    let mut squares = 0.0;
    for seed in 0..20 {
        let run = rounds(seed).fitted().run().unwrap();
        let z = (run.log_z() - evidence) / run.standard_error();
        assert!(z.abs() < 4.0 && run.standard_error() <= 0.05, "{run}");
        squares += z * z / 20.0;
        assert!(
            run.evaluations() < plain.evaluations() / 4,
            "{run}\n{plain}"
        );
        assert_eq!(run.challenge_budget(), all_rounds);
        let base = run.fitted().expect("a base fits");
        assert!(
            base.own_share() < 0.1 && run.run().schedule().stages() == 1,
            "{run}"
        );
        assert!(
            run.to_string()
                .contains("draws of a fitted base in the last of"),
            "{run}"
        );
    }
    assert!((0.2..2.5).contains(&squares), "{squares}");
}

/// The kernel moves the chains of the witness alone, so it does not change a base that the witness accepts.
#[test]
fn chains_move_only_as_witnesses() {
    let (likelihood, _) = correlated(10);
    let path = TemperedPath::new(Gaussian::standard(10).unwrap(), likelihood);
    let walks = Rounds::new(&path, walk()).until_error(0.1).seed(1);
    let hmc = Rounds::new(&path, Hmc::new(0.3, 2).unwrap())
        .until_error(0.1)
        .seed(1);
    let (walks, hmc) = (walks.fitted().run().unwrap(), hmc.fitted().run().unwrap());
    assert!(walks.fitted().is_some(), "{walks}");
    assert_eq!(walks.run().log_weights(), hmc.run().log_weights());
}

#[test]
fn a_budget_leaves_most_to_the_last_round() {
    let (likelihood, evidence) = correlated(4);
    let path = TemperedPath::new(Gaussian::standard(4).unwrap(), likelihood);
    for budget in [30_000, 200_000] {
        let run = Rounds::new(&path, walk())
            .budget(budget)
            .seed(1)
            .fitted()
            .run()
            .unwrap();
        assert!(
            run.fitted().is_some() && run.evaluations() <= budget,
            "{run}"
        );
        assert!(run.run().chains() as u64 >= budget / 4 * 3, "{run}");
        assert!(
            (run.log_z() - evidence).abs() < 4.0 * run.standard_error(),
            "{run}"
        );
    }
    let few = Rounds::new(&path, walk()).chains(3).fitted().run();
    assert!(few.is_err(), "{few:?}");
}

/// Searches may take half of this budget. With a quarter hardly any run has a base.
#[test]
fn a_budget_for_an_error_leaves_a_base() {
    let (likelihood, evidence) = correlated(5);
    let path = TemperedPath::new(Gaussian::standard(5).unwrap(), likelihood);
    let rounds = |seed| Rounds::new(&path, walk()).until_error(0.1).seed(seed);
    let runs = (0..10).map(|seed| rounds(seed).budget(20_000).fitted().run().unwrap());
    let fitted = Vec::from_iter(runs.filter(|run| run.fitted().is_some()));
    assert!(fitted.len() >= 5, "{}", fitted.len());
    for run in &fitted {
        let error = run.log_z() - evidence;
        assert!(error.abs() < 4.0 * run.standard_error(), "{error}\n{run}");
        assert!(run.evaluations() <= 20_000, "{run}");
    }
}

/// The draws of a round have weights; with few of them a round that misses its error sizes the next.
#[test]
fn means_come_from_weighted_draws() {
    let target = Gaussian::new(dvector![1.0, -1.0], dmatrix![0.3, 0.1; 0.1, 0.2]).unwrap();
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), &target);
    let run = Rounds::new(&path, walk())
        .until_error(0.01)
        .seed(3)
        .fitted()
        .run()
        .unwrap();
    assert!(
        run.fitted().is_some() && run.standard_error() <= 0.01,
        "{run}"
    );
    let (mean, error) = run.expectation(|x| x[1]);
    assert!(
        (mean + 1.0).abs() < 4.0 * error && error < 0.02,
        "{mean} +- {error}"
    );
    let draws = run.run().effective_sample_size();
    assert!(draws > 200.0, "{draws}");
}

/// Blocks of 16 chains keep many threads busy. Their size changes the sums of a covariance, in their last digits.
#[test]
fn the_size_of_blocks_only_divides_the_work() {
    let (likelihood, _) = correlated(5);
    let likelihood = shared::function(move |x: &DVector<f64>| likelihood.log_density(x));
    let path = TemperedPath::new(Gaussian::standard(5).unwrap(), likelihood);
    let rounds = || {
        Rounds::new(&path, walk())
            .until_error(0.05)
            .seed(3)
            .fitted()
    };
    let run = |rounds: Rounds<'_, _, _>| rounds.run().unwrap();
    let small = run(rounds().threads(1));
    assert_eq!(
        small.run().log_weights(),
        run(rounds().threads(3)).run().log_weights()
    );
    let large = run(rounds().block_size(500));
    assert!(small.fitted().is_some() && small.evaluations() == large.evaluations());
    assert!(
        (small.log_z() - large.log_z()).abs() < 1e-9,
        "{small}\n{large}"
    );
}

#[test]
fn the_mean_of_many_small_runs_is_right() {
    let target = Gaussian::isotropic(dvector![2.0], 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target.clone());
    let (mut ratios, mut twin) = (Vec::new(), Vec::new());
    for seed in 0..400 {
        let rounds = Rounds::new(&path, walk()).chains(24).until_error(0.2);
        let run = rounds.rounds(2).moves(1).seed(seed).fitted().run().unwrap();
        ratios.push((run.log_z() - target.log_normalizer()).exp());
        if run.fitted().is_some() {
            // The searches fit the mixtures to their own draws.
            twin.push((run.rounds()[0].log_z - target.log_normalizer()).exp());
        }
    }
    // Runs without a fitted base count, too.
    assert!(twin.len() >= 100, "{}", twin.len());
    let (ratio, error) = mean_and_error(ratios);
    assert!(
        (ratio - 1.0).abs() < 4.0 * error && error < 0.02,
        "{ratio} +- {error}"
    );
    let (wrong, error) = mean_and_error(twin);
    assert!((wrong - 1.0).abs() > 4.0 * error, "{wrong} +- {error}");
}

#[test]
fn tails_of_three_degrees_of_freedom_are_covered() {
    let gaussian = Gaussian::new(dvector![3.0, 0.0], dmatrix![1.0, 0.5; 0.5, 1.0]).unwrap();
    let target = StudentT::new(gaussian, 3.0).unwrap();
    let base = Gaussian::isotropic(DVector::zeros(2), 3.0).unwrap();
    let path = GeometricPath::new(base, &target);
    let rounds = Rounds::new(&path, Hmc::new(0.5, 3).unwrap());
    let run = rounds.until_error(0.03).seed(1).fitted().run().unwrap();
    let error = run.log_z() - target.log_normalizer();
    assert!(
        error.abs() < 4.0 * run.standard_error() && run.standard_error() <= 0.03,
        "{run}"
    );
}

#[test]
fn two_modes_are_kept() {
    let at = |x: f64| Gaussian::isotropic(DVector::from_element(3, x), 0.5).unwrap();
    let target = GaussianMixture::new([(0.3, at(-2.0)), (0.7, at(2.0))]).unwrap();
    let base = Gaussian::isotropic(DVector::zeros(3), 3.0).unwrap();
    let path = GeometricPath::new(base, target);
    let rounds = Rounds::new(&path, Hmc::new(0.5, 3).unwrap()).budget(300_000);
    let run = rounds.seed(1).fitted().run().unwrap();
    assert!(run.log_z().abs() < 4.0 * run.standard_error(), "{run}");
    assert!(
        run.fitted().is_some() && run.standard_error() < 0.1,
        "{run}"
    );
    let (left, error) = run.run().expectation(|x| f64::from(u8::from(x[0] < 0.0)));
    assert!((left - 0.3).abs() < 4.0 * error, "{left} +- {error}");
}

/// Eight coordinates with wells at about -1.7 and 1.7 that hold 15% and 85%, and their log Z.
fn wells() -> (impl Differentiable<State = DVector<f64>> + Send + Sync, f64) {
    let well = |x: f64| -x.powi(4) + 6.0 * x * x + 0.5 * x;
    let wells = shared::gradient_model(8, move |x: &[f64], slope: &mut [f64]| {
        for (slope, x) in slope.iter_mut().zip(x) {
            *slope = -4.0 * x.powi(3) + 12.0 * x + 0.5;
        }
        x.iter().map(|x| well(*x)).sum()
    });
    let mass: f64 = (-4_000..4_000)
        .map(|i| 1e-3 * well(1e-3 * f64::from(i)).exp())
        .sum();
    (wells.unwrap(), 8.0 * mass.ln())
}

/// Both searches end in the largest of 256 modes, with a quarter of the mass. The chains of the first pass lie in many.
#[test]
fn many_modes_keep_the_base() {
    let (target, exact) = wells();
    let path = GeometricPath::new(Gaussian::standard(8).unwrap(), target);
    for (seed, chains) in [(0, 256), (1, 256), (26, 64), (35, 64)] {
        let rounds = Rounds::new(&path, Hmc::new(0.3, 3).unwrap()).chains(chains);
        let run = rounds.budget(400_000).seed(seed).fitted().run().unwrap();
        assert!(
            run.fitted().is_none() && run.not_fitted().is_some(),
            "{run}"
        );
        let text = run.to_string();
        assert!(text.contains("base: the path's own, since"), "{run}");
        let error = (run.log_z() - exact).abs();
        assert!(
            error < 4.0 * run.standard_error() && run.standard_error() < 0.5,
            "{run}"
        );
    }
}

/// A regression with ten coefficients and a horseshoe prior (Carvalho, Polson and Scott 2010), non-centred: ridges that no
/// Gaussian or Student t covers.
#[test]
fn a_horseshoe_keeps_its_base() {
    const OBSERVED: [f64; 10] = [0.03, -0.12, 0.2, 4.0, -2.5, 0.01, 0.07, -0.18, 0.9, -0.02];
    let mut priors = vec![Prior::normal(0.0, 1.0).unwrap(); 10];
    priors.resize(21, Prior::half_cauchy(1.0).unwrap());
    let priors = Priors::new(priors).unwrap();
    let likelihood = shared::gradient_model(21, |x: &[f64], gradient: &mut [f64]| {
        let (variance, global) = (0.0256, x[20]);
        let mut log_likelihood = 0.0;
        for (i, y) in OBSERVED.iter().enumerate() {
            let (z, local) = (x[i], x[10 + i]);
            let off = (y - z * local * global) / variance;
            gradient[i] += off * local * global;
            gradient[10 + i] += off * z * global;
            gradient[20] += off * z * local;
            log_likelihood -= 0.5 * off * off * variance;
        }
        log_likelihood
    });
    let path = TemperedPath::new(&priors, priors.likelihood(likelihood.unwrap()));
    let rounds = Rounds::new(&path, Hmc::new(0.2, 3).unwrap()).budget(600_000);
    let run = rounds.seed(2).fitted().run().unwrap();
    assert!(
        run.fitted().is_none() && run.not_fitted().is_some(),
        "{run}"
    );
}

#[test]
fn a_target_with_edges_has_no_dead_chains() {
    let base = UniformBox::new([(0.0, 2.0), (0.0, 2.0)]).unwrap();
    let likelihood = shared::function(|x: &DVector<f64>| -3.0 * (x[0] + x[1]));
    let path = TemperedPath::new(base, likelihood);
    let run = Rounds::new(&path, walk())
        .until_error(0.02)
        .seed(1)
        .fitted()
        .run()
        .unwrap();
    let exact = 2.0 * ((1.0 - (-6.0_f64).exp()) / 3.0 / 2.0).ln();
    assert!(
        (run.log_z() - exact).abs() < 4.0 * run.standard_error(),
        "{run}"
    );
    assert!(run.warnings().is_empty(), "{run}");
}

/// A likelihood that is 1 in a box with a hundredth of the prior, or with three thousandths. Of 64 chains often none begins there,
/// in the smaller one in half of the runs none of 256.
#[test]
fn a_small_support_keeps_the_base() {
    for (dimension, width) in [(3, 0.43), (2, 0.11)] {
        let prior = UniformBox::new(vec![(-1.0, 1.0); dimension]).unwrap();
        let log_likelihood = move |x: &DVector<f64>| {
            let is_inside = x.iter().all(|x| (0.1..0.1 + width).contains(x));
            if is_inside { 0.0 } else { f64::NEG_INFINITY }
        };
        let exact = dimension as f64 * (0.5 * width).ln();
        let path = TemperedPath::new(prior, FunctionModel::new(log_likelihood));
        let rounds = |seed| Rounds::new(&path, walk()).until_error(0.1).seed(seed);
        let runs = (0..20).filter_map(|seed| match rounds(seed).fitted().run() {
            Err(Error::AllWeightsZero { chains: 256 }) => None,
            run => Some(run.unwrap()),
        });
        let runs = Vec::from_iter(runs);
        let all = if dimension == 3 { 18 } else { 6 };
        assert!(runs.len() >= all, "{}", runs.len());
        for run in &runs {
            assert!(
                run.fitted().is_some() && run.evaluations() < 200_000,
                "{run}"
            );
            let error = run.log_z() - exact;
            assert!(error.abs() < 4.0 * run.standard_error(), "{error}\n{run}");
        }
    }
}

/// A mode of deviations .3 beside one of deviations 1. Searches of 256 draws in a step often miss it.
#[test]
fn a_narrow_mode_that_was_lost_is_noticed() {
    let at =
        |x: f64, deviation| Gaussian::isotropic(DVector::from_element(3, x), deviation).unwrap();
    let target = GaussianMixture::new([(0.5, at(-3.0, 1.0)), (0.5, at(3.0, 0.3))]).unwrap();
    let base = UniformBox::new([(-10.0, 10.0); 3]).unwrap();
    let path = TemperedPath::new(
        base,
        shared::function(move |x: &DVector<f64>| target.log_density(x)),
    );
    let exact = -3.0 * 20.0_f64.ln();
    let wrong = |seed: &u64| {
        let rounds = Rounds::new(&path, walk()).until_error(0.1).chains(1_000);
        let run = rounds.seed(*seed).fitted().run().unwrap();
        (run.log_z() - exact).abs() > 4.0 * run.standard_error().max(0.025)
    };
    let wrong = (0..20).filter(wrong).count();
    assert!(wrong <= 2, "{wrong}");
}

/// The own base counts in the mixture by its log normaliser, so a wrong one is refused and an uncertain one not used.
/// Modes of deviations 1 and .3, with half of the mass each. Without the test for valleys a third of the runs miss the narrow one.
#[test]
fn a_narrow_mode_beside_a_wide_one_is_found() {
    let prior = Priors::new(vec![Prior::uniform(-10.0, 10.0).unwrap(); 3]).unwrap();
    let mode =
        |mean, deviation| Gaussian::isotropic(DVector::from_element(3, mean), deviation).unwrap();
    let modes = GaussianMixture::new([(0.5, mode(-3.0, 1.0)), (0.5, mode(3.0, 0.3))]).unwrap();
    let log_likelihood = |x: &[f64]| modes.log_density(&DVector::from_column_slice(x));
    let path = TemperedPath::new(
        &prior,
        prior.likelihood(FunctionModel::of_slices(log_likelihood)),
    );
    let evidence = modes.log_normalizer() - 3.0 * 20_f64.ln();
    let mut fitted = 0;
    for seed in 0..10 {
        let rounds = Rounds::new(&path, walk()).until_error(0.1).seed(seed);
        let run = rounds.fitted().run().unwrap();
        let error = run.log_z() - evidence;
        assert!(
            error.abs() < 4.0 * run.standard_error(),
            "{seed}: {error}\n{run}"
        );
        fitted += usize::from(run.fitted().is_some());
    }
    assert!(fitted >= 8, "{fitted}");
}

#[test]
fn the_normaliser_of_the_base_is_checked() {
    let base = |log_z: f64| {
        let model = FunctionModel::new(|x: &DVector<f64>| -0.5 * x.norm_squared());
        let sampler = |rng: &mut dyn Rng| Gaussian::standard(2).unwrap().sample(rng);
        model
            .with_sampler(sampler)
            .with_log_normalizer(log_z)
            .unwrap()
    };
    let likelihood =
        shared::function(|x: &DVector<f64>| -10.0 * (x - dvector![1.0, 1.0]).norm_squared());
    let right = std::f64::consts::TAU.ln();
    let run = |log_z: f64| {
        let path = TemperedPath::new(base(log_z), &likelihood);
        Rounds::new(&path, walk())
            .base_log_z(0.0)
            .until_error(0.05)
            .fitted()
            .run()
    };
    let found = run(right).unwrap();
    assert!(found.fitted().is_some(), "{found}");
    let exact = -20.0 / 21.0 - 21.0_f64.ln();
    assert!(
        (found.log_z() - exact).abs() < 4.0 * found.standard_error(),
        "{found}"
    );
    assert!(run(right + 1.0).is_err());
}

#[test]
fn a_gaussian_of_many_scales_has_a_fitted_base() {
    let posterior = many_scales().unwrap();
    let path = GeometricPath::new(Gaussian::standard(12).unwrap(), &posterior);
    for seed in 0..30 {
        let rounds = Rounds::new(&path, walk()).until_error(0.5).seed(seed);
        let run = rounds.budget(400_000).fitted().run().unwrap();
        let off = run.log_z() - posterior.log_normalizer();
        assert!(run.fitted().is_some(), "{run}");
        assert!(off.abs() < 4.0 * run.standard_error(), "{off}\n{run}");
    }
}

/// A function that takes many states at once gets the draws of a round in batches.
#[test]
fn draws_are_evaluated_in_batches() {
    let sizes = std::sync::Mutex::new(Vec::new());
    let likelihood = BatchModel::of_values(2, |states: &[f64], _| {
        let rows = states.len() / 2;
        sizes.lock().unwrap().push(rows);
        let log_density = |x: &[f64]| -50.0 * (x[0].powi(2) + x[1].powi(2));
        Ok(states.chunks(2).map(log_density).collect())
    })
    .unwrap();
    let path = TemperedPath::new(Gaussian::standard(2).unwrap(), likelihood);
    let rounds = Rounds::new(&path, walk()).until_error(0.02).seed(1);
    let run = rounds.fitted().run().unwrap();
    let sizes = sizes.into_inner().unwrap();
    assert!(run.fitted().is_some(), "{run}");
    let alone = sizes.iter().filter(|&&rows| rows == 1).count();
    assert!(alone < 5, "{alone} of {} calls have one row", sizes.len());
}

/// Two modes of very different widths. If one search of several finds the narrow one, no base may be fitted, and the rounds from
/// the path's own base may miss it. Draws of the mixtures then tell.
#[test]
fn rounds_warn_if_they_miss_what_refused_fits_found() {
    let mode =
        |mean, deviation| Gaussian::isotropic(DVector::from_element(3, mean), deviation).unwrap();
    let target = GaussianMixture::new([(0.5, mode(-2.0, 1.0)), (0.5, mode(2.5, 0.2))]).unwrap();
    let path = GeometricPath::new(UniformBox::new([(-5.0, 5.0); 3]).unwrap(), target);
    let (mut missed, mut told) = (0, 0);
    for seed in 0..100 {
        let rounds = Rounds::new(&path, walk()).budget(60_000).chains(256);
        let run = rounds.seed(seed).fitted().run().unwrap();
        let mut warnings = run.warnings().iter();
        let is_told = warnings.any(|warning| match warning {
            Warning::BelowFits {
                log_z,
                standard_error,
            } => log_z.abs() < 4.0 * standard_error,
            _ => false,
        });
        let misses = run.not_fitted().is_some() && run.log_z() < -0.4;
        assert!(misses || !is_told, "{run}");
        missed += usize::from(misses);
        told += usize::from(is_told);
    }
    assert!(told >= 3, "{told} of {missed}");
}
