//! Annealing in rounds and first passes: right estimates, the barrier, budgets, tuning.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;
use annealed::Error;
use annealed::adaptive::{FirstPass, Rounds, RoundsRun};
use annealed::ais::{Ais, StoppedBy};
use annealed::estimate::LogZ;
use annealed::estimate::Warning;
use annealed::kernel::{
    Hmc, Mala, PerfectTransitions, RandomWalkMetropolis, Repeat, Slice, Tunable,
};
use annealed::model::{
    Differentiable, FunctionModel, Gaussian, NormalizedModel, UnnormalizedModel,
};
use annealed::path::{GaussianPath, GeometricPath, TemperedPath};
use annealed::population::Resampling;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};

/// A likelihood that counts its evaluations, a value with its gradient as one.
struct Counted(Gaussian, AtomicU64);

impl UnnormalizedModel for Counted {
    type State = DVector<f64>;

    fn log_density(&self, x: &DVector<f64>) -> f64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.log_density(x)
    }
}

impl Differentiable for Counted {
    fn accumulate_gradient(
        &self,
        x: &DVector<f64>,
        scale: f64,
        gradient: &mut DVector<f64>,
    ) -> f64 {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.accumulate_gradient(x, scale, gradient)
    }
}

fn counted() -> Counted {
    let covariance = DMatrix::from_fn(6, 6, |i, j| match i == j {
        true => [0.02, 0.1, 0.5, 1.0, 0.01, 0.3][i],
        false => 0.0,
    });
    let likelihood = Gaussian::new(DVector::from_element(6, 1.0), covariance).unwrap();
    Counted(likelihood, AtomicU64::new(0))
}

/// The evidence of a standard normal prior.
fn evidence(likelihood: &Gaussian) -> f64 {
    let variances = [0.02, 0.1, 0.5, 1.0, 0.01, 0.3];
    let term = |v: f64| 0.5 * (v / (1.0 + v)).ln() - 0.5 / (1.0 + v);
    assert_eq!(likelihood.log_density(&DVector::from_element(6, 1.0)), 0.0);
    variances.into_iter().map(term).sum()
}

/// Estimates that rise with the stages are the first sign of a path that is too short.
#[test]
fn rounds_print_what_the_earlier_ones_said() {
    let path = GeometricPath::new(
        Gaussian::standard(1).unwrap(),
        Gaussian::isotropic(dvector![3.0], 0.1).unwrap(),
    );
    let line = |rounds| {
        let walk = RandomWalkMetropolis::new(0.3).unwrap();
        let run = Rounds::new(&path, walk)
            .chains(40)
            .rounds(rounds)
            .run()
            .unwrap();
        let text = run.to_string();
        assert!(
            text.contains(&format!("{rounds} rounds; ended: all {rounds} rounds done")),
            "{text}"
        );
        let earlier = text
            .lines()
            .find(|line| line.starts_with("earlier rounds: "));
        (earlier.map(str::to_owned), run)
    };
    assert_eq!(line(1).0, None);
    for (rounds, first_shown) in [(3, 1), (6, 2)] {
        let (earlier, run) = line(rounds);
        let shown = run.rounds()[first_shown..rounds].iter();
        let shown = shown.map(|round| {
            let (log_z, error, stages) = (round.log_z, round.standard_error, round.stages);
            format!("{log_z:.3} +- {error:.3} ({stages})")
        });
        let expected = shown
            .collect::<Vec<_>>()
            .join(", ")
            .replacen(')', " stages)", 1);
        assert_eq!(earlier, Some(format!("earlier rounds: {expected}")));
    }
}

/// A sweep over coordinates costs as many evaluations as there are coordinates, times about six.
#[test]
fn a_budget_holds_for_slice_sampling_in_any_dimension() {
    const BUDGET: u64 = 1_000_000;
    for dimension in [1, 6] {
        let target = Gaussian::isotropic(DVector::zeros(dimension), 0.5).unwrap();
        let likelihood = Counted(target, AtomicU64::new(0));
        let path = TemperedPath::new(Gaussian::standard(dimension).unwrap(), &likelihood);
        let rounds = Rounds::fixed(&path, Slice::new(1.0).unwrap()).budget(BUDGET);
        let _ = rounds.run().unwrap();
        let spent = likelihood.1.load(Ordering::Relaxed) as f64 / BUDGET as f64;
        assert!(
            (0.7..1.1).contains(&spent),
            "{spent} in {dimension} dimensions"
        );
    }
}

/// A budget that is too small for 256 chains pays for 64. If it is too small for these, the error names the least one.
#[test]
fn small_budgets_have_fewer_chains() {
    let likelihood = counted();
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), &likelihood);
    let truth = evidence(&likelihood.0);
    let rounds = || Rounds::new(&path, RandomWalkMetropolis::new(0.5).unwrap()).seed(1);
    for fits in [false, true] {
        let run = |rounds: Rounds<'_, _, _>| match fits {
            true => rounds.fitted().run(),
            false => rounds.run(),
        };
        let text = run(rounds().budget(500)).unwrap_err().to_string();
        let named = text.split("at least ").nth(1).unwrap();
        let least: u64 = named.split(':').next().unwrap().parse().unwrap();
        assert!(run(rounds().budget(least - 1)).is_err());
        assert!(run(rounds().budget(least).chains(256)).is_err());
        likelihood.1.store(0, Ordering::Relaxed);
        let found = run(rounds().budget(least)).unwrap();
        let spent = likelihood.1.load(Ordering::Relaxed);
        assert!(spent <= found.evaluations() + 10, "{spent}: {found}");
        assert!(found.evaluations() <= least, "{least}: {found}");
        assert!(found.run().log_weights().len() >= 64, "{found}");
        let off = (found.log_z() - truth).abs();
        assert!(off < 4.0 * found.standard_error(), "{found}");
        assert!(found.standard_error() < 1.0, "{found}");
        let ample = run(rounds().budget(20 * least)).unwrap();
        assert!(fits || found.run().chains() == 64 && ample.run().chains() == 256);
        assert!(ample.rounds()[0].evaluations > 2 * least / 4, "{ample}");
    }
}

#[test]
fn rounds_keep_to_their_budget_and_their_error() {
    let likelihood = counted();
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), &likelihood);
    let truth = evidence(&likelihood.0);
    const BUDGET: u64 = 400_000;
    const SEEDS: u64 = 40;
    let (mut squares, mut barriers) = (0.0, Vec::new());
    for seed in 0..SEEDS {
        let before = likelihood.1.load(Ordering::Relaxed);
        // A step size that is far off.
        let rounds = Rounds::new(&path, Hmc::new(3.0, 2).unwrap())
            .budget(BUDGET)
            .seed(seed);
        let rounds = rounds.run().unwrap();
        let spent = likelihood.1.load(Ordering::Relaxed) - before;
        // A debug build looks at a few states again.
        let most = rounds.evaluations() + BUDGET / 1_000;
        assert!(spent <= most && rounds.evaluations() <= BUDGET, "{spent}");
        assert!(spent as f64 > 0.8 * BUDGET as f64, "{spent}");
        let last = rounds.rounds().last().unwrap().evaluations;
        assert!(rounds.evaluations() - last <= BUDGET / 4);
        let z = (rounds.log_z() - truth) / rounds.standard_error();
        assert!(z.abs() < 4.0 && rounds.standard_error() < 0.06, "{rounds}");
        squares += z * z / SEEDS as f64;
        barriers.push(rounds.barrier().global());
        let accepted = rounds
            .run()
            .stages()
            .iter()
            .filter_map(|stage| stage.acceptance);
        let accepted: Vec<f64> = accepted.collect();
        let mean = accepted.iter().sum::<f64>() / accepted.len() as f64;
        assert!(mean > 0.75, "{mean}");
    }
    // 40 squares have a deviation of .22.
    assert!((0.4..1.9).contains(&squares), "{squares}");
    let (least, most) = barriers
        .iter()
        .fold((f64::MAX, 0.0), |(a, b), &x| (x.min(a), x.max(b)));
    assert!(most / least < 1.1, "{least} to {most}");
}

#[test]
fn rounds_end_at_the_standard_error_wanted() {
    let likelihood = counted();
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), &likelihood);
    let walk = RandomWalkMetropolis::new(0.3).unwrap();
    let rounds = Rounds::new(&path, walk)
        .until_error(0.05)
        .rounds(12)
        .seed(5)
        .run()
        .unwrap();
    assert!(rounds.standard_error() <= 0.05);
    let before = rounds.rounds()[rounds.rounds().len() - 2];
    assert!(before.standard_error > 0.05);
    let truth = evidence(&likelihood.0);
    assert!((rounds.log_z() - truth).abs() < 4.0 * rounds.standard_error());
    // The prediction for the error reached is the number of stages taken.
    let stages = rounds.run().schedule().stages();
    assert_eq!(rounds.stages_for(rounds.standard_error()).unwrap(), stages);
    let finer = rounds.stages_for(0.5 * rounds.standard_error()).unwrap();
    assert!(finer > 3 * stages && finer < 5 * stages);
    let limited = Rounds::new(&path, RandomWalkMetropolis::new(0.3).unwrap());
    let limited = limited.until_error(1e-6).rounds(2).seed(5).run().unwrap();
    assert_eq!(limited.rounds().len(), 3);
    // What ended them, and whether the error was reached.
    let asked = |rounds: &RoundsRun<_, _>| {
        let mut warnings = rounds.run().warnings().iter();
        warnings.find_map(|warning| match warning {
            Warning::ErrorNotReached { asked, .. } => Some(*asked),
            _ => None,
        })
    };
    assert_eq!(asked(&rounds), None);
    assert_eq!(rounds.stopped_by(), StoppedBy::StandardError);
    assert_eq!(asked(&limited), Some(1e-6));
    assert_eq!(limited.stopped_by(), StoppedBy::Chains);
    assert!(
        limited.to_string().contains("that was asked for"),
        "{limited}"
    );
    let more = "that was asked for: a budget of about 1.7e15 evaluations";
    assert!(limited.to_string().contains(more), "{limited}");
    // The budget that a warning names reaches the error.
    let walk = || RandomWalkMetropolis::new(0.3).unwrap();
    let short = Rounds::new(&path, walk()).until_error(0.03).rounds(4);
    let short = short.seed(5).run().unwrap();
    let named = short.warnings().iter().find_map(|warning| match warning {
        Warning::ErrorNotReached { budget, .. } => *budget,
        _ => None,
    });
    let budget = named.expect("a budget is named");
    assert!(budget > 2 * short.evaluations(), "{budget}");
    let enough = Rounds::new(&path, walk()).budget(budget).seed(6);
    let reached = enough.run().unwrap().standard_error();
    assert!((0.015..0.036).contains(&reached), "{reached}");
    let spent = Rounds::new(&path, RandomWalkMetropolis::new(0.3).unwrap()).budget(500_000);
    let spent = spent.until_error(1e-3).seed(5).run().unwrap();
    assert_eq!(asked(&spent), Some(1e-3));
    assert_eq!(spent.stopped_by(), StoppedBy::Evaluations);
}

/// One to three of 256 chains begin inside a box with .7% of the prior's mass, however many stages follow.
#[test]
fn rounds_end_if_only_chains_help() {
    let evaluations = AtomicU64::new(0);
    let log_likelihood = |x: &[f64]| {
        evaluations.fetch_add(1, Ordering::Relaxed);
        let is_inside = x.iter().all(|x| (0.25..0.8).contains(x));
        if is_inside { 0.0 } else { f64::NEG_INFINITY }
    };
    let likelihood = FunctionModel::of_slices(log_likelihood);
    let path = TemperedPath::new(Gaussian::standard(3).unwrap(), likelihood);
    let mut ended = 0;
    for seed in 0..6 {
        evaluations.store(0, Ordering::Relaxed);
        let rounds = Rounds::new(&path, RandomWalkMetropolis::new(0.5).unwrap());
        match rounds.until_error(0.1).seed(seed).run() {
            Ok(run) => {
                assert_eq!(run.stopped_by(), StoppedBy::NoProgress, "{run}");
                assert!(run.to_string().contains("more chains"), "{run}");
                ended += 1;
            }
            Err(error) => assert!(matches!(error, Error::AllWeightsZero { .. }), "{error}"),
        }
        let spent = evaluations.load(Ordering::Relaxed);
        assert!(spent < 6_000_000, "{spent}");
    }
    assert!(ended >= 3, "{ended}");
}

#[test]
fn the_last_round_is_a_run_that_can_be_repeated() {
    let likelihood = counted();
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), &likelihood);
    let kernel = Mala::new(0.1).unwrap();
    let rounds = |threads| {
        let rounds = Rounds::new(&path, kernel.clone())
            .budget(200_000)
            .block_size(32)
            .seed(2);
        rounds.threads(threads).run().unwrap()
    };
    let (one, three) = (rounds(1), rounds(3));
    assert_eq!(one.run().log_weights(), three.run().log_weights());
    assert_eq!(one.run().states(), three.run().states());
    let again = Ais::new(&path, one.kernel())
        .schedule(one.run().schedule().clone())
        .chains(one.run().chains())
        .block_size(32)
        .resampling(Resampling::when_ess_below(0.5).unwrap())
        .seed(one.run().seed())
        .run()
        .unwrap();
    assert_eq!(again.log_weights(), one.run().log_weights());
}

/// Means of `Z^/Z` of first passes and of runs along their stages, over many tiny populations, and their standard
/// errors.
fn passes_and_runs() -> [(f64, f64); 2] {
    let base = Gaussian::standard(1).unwrap();
    let target = Gaussian::isotropic(dvector![2.5], 0.5).unwrap();
    let path = GaussianPath::new(base, target.clone()).unwrap();
    const SEEDS: u64 = 12_000;
    let mut ratios = [Vec::new(), Vec::new()];
    for seed in 0..SEEDS {
        let pass = FirstPass::fixed(&path, PerfectTransitions)
            .chains(8)
            .moves(1);
        let found = pass.seed(seed).run().unwrap();
        let run = Ais::new(&path, found.kernel)
            .schedule(found.schedule)
            .chains(8)
            .resampling(Resampling::every(1).unwrap())
            .seed(seed)
            .run()
            .unwrap();
        for (ratios, log_z) in ratios.iter_mut().zip([found.log_z, run.log_z()]) {
            ratios.push((log_z - target.log_normalizer()).exp());
        }
    }
    ratios.map(|ratios| {
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    })
}

#[test]
fn a_run_along_the_stages_of_a_first_pass_is_unbiased_and_the_pass_is_not() {
    let [first, second] = passes_and_runs();
    assert!(
        (second.0 - 1.0).abs() < 4.0 * second.1 && second.1 < 0.01,
        "{second:?}"
    );
    assert!((first.0 - 1.0).abs() > 4.0 * first.1, "{first:?}");
}

#[test]
fn a_first_pass_tunes_a_run_for_a_correlated_target() {
    let covariance = dmatrix![1.0, 0.099; 0.099, 0.01];
    let target = Gaussian::new(dvector![3.0, 0.3], covariance).unwrap();
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), target.clone());
    let walk = RandomWalkMetropolis::new(5.0).unwrap();
    let pass = FirstPass::new(&path, walk).chains(1_000).moves(10);
    let found = pass.seed(4).run().unwrap();
    let run = Ais::new(&path, Repeat::new(found.kernel, 10).unwrap())
        .schedule(found.schedule)
        .chains(1_000)
        .resampling(Resampling::every(1).unwrap())
        .seed(4)
        .run()
        .unwrap();
    let error = run.log_z() - target.log_normalizer();
    assert!(error.abs() < 4.0 * run.standard_error(), "{run}");
    assert!(run.standard_error() < 0.2, "{run}");
    assert!((found.log_z - target.log_normalizer()).abs() < 0.5);
    let stage = run.stages().last().unwrap();
    assert!((stage.acceptance.unwrap() - 0.3).abs() < 0.1, "{stage:?}");
}

#[test]
fn a_stage_is_found_where_few_chains_carry_the_distance() {
    // The target is wider than the base in some directions: a distance grows like a high power of the step.
    let covariance = DMatrix::from_fn(10, 10, |i, j| 0.9_f64.powi(i.abs_diff(j) as i32));
    let target = Gaussian::new(DVector::from_element(10, 1.0), covariance).unwrap();
    let path = GeometricPath::new(Gaussian::standard(10).unwrap(), target.clone());
    let kernel = Hmc::new(0.3, 3).unwrap();
    let mut squares = 0.0;
    for seed in 1..=20 {
        let pass = FirstPass::new(&path, kernel.clone()).chains(256).moves(3);
        let found = pass.seed(seed).run().unwrap();
        squares += (found.log_z - target.log_normalizer()).powi(2) / 20.0;
        // A quarter of a period, beyond which trajectories lead back.
        let longest = found
            .schedule
            .betas()
            .iter()
            .map(|&beta| found.kernel.step_size().at(beta));
        assert!(longest.fold(0.0, f64::max) < 0.53);
    }
    assert!(squares.sqrt() < 0.3, "{squares}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let likelihood = counted();
    let path = TemperedPath::new(Gaussian::standard(6).unwrap(), &likelihood);
    let rounds = || Rounds::new(&path, Hmc::new(0.3, 2).unwrap());
    let argument = |error: Error| match error {
        Error::InvalidArgument { argument, .. } => argument,
        other => panic!("{other}"),
    };
    assert_eq!(
        argument(rounds().budget(1_000).run().unwrap_err()),
        "budget"
    );
    assert_eq!(argument(rounds().rounds(0).run().unwrap_err()), "rounds");
    assert_eq!(argument(rounds().chains(1).run().unwrap_err()), "chains");
    assert_eq!(argument(rounds().moves(0).run().unwrap_err()), "moves");
    assert_eq!(
        argument(rounds().until_error(f64::NAN).run().unwrap_err()),
        "until_error"
    );
    assert!(rounds().threads(0).run().is_err());
    assert!(rounds().block_size(0).run().is_err());
    let pass = FirstPass::new(&path, Hmc::new(0.3, 2).unwrap());
    assert_eq!(
        argument(pass.ess_share(1.0).run().unwrap_err()),
        "ess_share"
    );
}

#[test]
fn likelihoods_without_information_have_their_exact_evidence() {
    let rounds = |log_likelihood: fn(f64) -> f64| {
        let likelihood = shared::function(move |x: &DVector<f64>| log_likelihood(x[0]));
        let path = TemperedPath::new(Gaussian::standard(1).unwrap(), likelihood);
        let walk = RandomWalkMetropolis::new(0.5).unwrap();
        Rounds::new(&path, walk).budget(200_000).seed(3).run()
    };
    let constant = rounds(|_| 2.0).unwrap();
    assert!((constant.log_z() - 2.0).abs() < 1e-9, "{constant}");
    // Half of the prior is excluded, and then nearly all.
    for (limit, mass) in [(0.0, 0.5_f64), (2.0, 0.022_750_131_948)] {
        let excluded = match limit == 0.0 {
            true => rounds(|x| if x > 0.0 { 0.0 } else { f64::NEG_INFINITY }),
            false => rounds(|x| if x > 2.0 { 0.0 } else { f64::NEG_INFINITY }),
        };
        let excluded = excluded.unwrap();
        let error = excluded.log_z() - mass.ln();
        assert!(error.abs() < 4.0 * excluded.standard_error(), "{excluded}");
    }
    let nowhere = rounds(|_| f64::NEG_INFINITY).unwrap_err();
    assert!(matches!(nowhere, Error::AllWeightsZero { .. }), "{nowhere}");
    let panics = rounds(|_| panic!("of the likelihood")).unwrap_err();
    assert!(matches!(panics, Error::Panicked { .. }), "{panics}");
}
