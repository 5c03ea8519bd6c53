//! Levels of the likelihood: unbiased evidence, plateaus and likelihoods of 0, samples of the posterior.

use std::f64::consts::{PI, TAU};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;
use annealed::ais::Ais;
use annealed::estimate::{LogZ, Warning, WeightedSample, log_sum_exp};
use annealed::kernel::{Metropolis, RandomWalkMetropolis, Repeat, SymmetricProposal};
use annealed::model::{
    FunctionModel, Gaussian, GaussianMixture, NormalizedModel, Sampleable, UnnormalizedModel,
};
use annealed::nested::{LevelPath, NestedSmc, NestedSmcRun};
use annealed::path::TemperedPath;
use annealed::population::Resampling;
use annealed::schedule::Schedule;
use annealed::{Error, Result};
use nalgebra::{DVector, dvector};
use rand::{Rng, RngExt};

type Vector = DVector<f64>;

fn walk(scale: f64) -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(scale).unwrap()
}

/// The uniform law of the square from -1 to 1, with another normaliser than 1.
struct Square;

impl UnnormalizedModel for Square {
    type State = Vector;

    fn log_density(&self, x: &Vector) -> f64 {
        match x.amax() <= 1.0 {
            true => 3.0,
            false => f64::NEG_INFINITY,
        }
    }
}

impl Sampleable for Square {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vector {
        DVector::from_fn(2, |_, _| rng.random_range(-1.0..1.0))
    }
}

impl NormalizedModel for Square {
    fn log_normalizer(&self) -> f64 {
        3.0 + 4f64.ln()
    }
}

fn on_square<'a>(
    log_likelihood: impl Fn(&Vector) -> f64 + Sync + 'a,
) -> TemperedPath<Square, impl UnnormalizedModel<State = Vector> + Sync + 'a> {
    TemperedPath::new(Square, shared::function(log_likelihood))
}

fn assert_near(found: f64, exact: f64, error: f64, most: f64) {
    let distance = (found - exact).abs();
    assert!(distance <= 4.0 * error, "{found} +- {error}, not {exact}");
    assert!(error < most, "{error}");
}

fn assert_log_z<S>(run: &NestedSmcRun<S>, exact: f64, most: f64) {
    assert_near(run.log_z(), exact, run.standard_error(), most);
}

/// Small islands of short walks, so that neither their size nor mixing hides a bias.
#[test]
fn evidence_is_unbiased_for_small_islands_of_short_walks() {
    let problem = on_square(|x| -8.0 * x.norm_squared());
    let point = |n: u32| (f64::from(n) + 0.5) / 10_000.0;
    let one: f64 = (0..10_000).map(|n| (-8.0 * point(n).powi(2)).exp()).sum();
    let exact = 2.0 * (one / 10_000.0).ln();
    for share in [0.2, 0.6] {
        let levels = NestedSmc::new(&problem, walk(0.3)).islands(5_000).chains(3);
        let run = levels.moves(4).share(share).run().unwrap();
        assert_log_z(&run, exact, 0.01);
        assert!(run.levels().len() >= 3);
        // Each shell at the likelihood of its upper level: a sum that this test would not let pass.
        let masses = run.levels().iter().map(|level| level.log_mass.exp());
        let masses: Vec<f64> = std::iter::once(1.0).chain(masses).collect();
        let shells = masses.windows(2).map(|x| x[0] - x[1]);
        let shells = shells.zip(run.levels()).map(|(x, l)| x * l.level.exp());
        let wrong = (shells.sum::<f64>() + masses[masses.len() - 1]).ln();
        assert!((wrong - exact).abs() > 8.0 * run.standard_error());
    }
}

/// One step to the left or the right, on a ring of twelve.
struct Neighbour;

impl SymmetricProposal<usize> for Neighbour {
    fn propose<R: Rng + ?Sized>(&self, _: f64, state: &usize, to: &mut usize, rng: &mut R) {
        *to = (state + if rng.random() { 1 } else { 11 }) % 12;
    }
}

/// Twelve states of unequal prior mass.
struct Ring;

impl UnnormalizedModel for Ring {
    type State = usize;

    fn log_density(&self, x: &usize) -> f64 {
        (*x as f64 + 1.0).ln()
    }
}

impl Sampleable for Ring {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        let u = rng.random_range(0..78);
        (0..12).find(|x| u < (x + 1) * (x + 2) / 2).unwrap()
    }
}

impl NormalizedModel for Ring {
    fn log_normalizer(&self) -> f64 {
        78f64.ln()
    }
}

#[test]
fn ties_and_likelihoods_of_zero_are_accounted_for() {
    // Several states to a value, and parts that neighbours do not join.
    let values = [
        1.0, 5.0, 0.0, 2.0, 2.0, 30.0, 2.0, 0.0, 1.0, 90.0, 5.0, 1.0_f64,
    ];
    let likelihood = FunctionModel::new(|x: &usize| values[*x].ln());
    let problem = TemperedPath::new(Ring, likelihood);
    let weights: Vec<f64> = (0..12).map(|x| values[x] * (x as f64 + 1.0)).collect();
    let exact = (weights.iter().sum::<f64>() / 78.0).ln();
    for (share, moves) in [(0.5, 2), (0.9, 6)] {
        let run = NestedSmc::fixed(&problem, Metropolis(Neighbour)).islands(20_000);
        let run = run.chains(2).moves(moves).share(share).kept(1_000_000);
        let run = run.run().unwrap();
        assert_log_z(&run, exact, 0.02);
        // The largest likelihood is a plateau, above which nothing lies.
        let highest = run.levels().last().unwrap();
        assert!(highest.level < 90f64.ln() && highest.step_size.is_none());
        let nine = weights[9] / weights.iter().sum::<f64>();
        let (found, error) = run.expectation(|x| f64::from(u8::from(*x == 9)));
        assert_near(found, nine, error, 0.02);
    }
}

#[test]
fn a_plateau_ends_the_levels() {
    // Constant: no level at all, and no error.
    let constant = on_square(|_| 2.5);
    let run = NestedSmc::new(&constant, walk(0.5)).run().unwrap();
    assert!(run.levels().is_empty() && (run.log_z() - 2.5).abs() < 1e-12);
    assert!(run.standard_error() < 1e-12 && run.information().abs() < 1e-12);
    // A disc that holds 3% of the prior, within a likelihood that is less or nothing.
    let disc = PI * 0.04 / 4.0;
    for (outside, level) in [(-3.0, -3.0), (f64::NEG_INFINITY, f64::NEG_INFINITY)] {
        let problem = on_square(move |x| if x.norm() < 0.2 { 1.0 } else { outside });
        let run = NestedSmc::new(&problem, walk(0.5)).seed(2).run().unwrap();
        let exact = (disc * 1f64.exp() + (1.0 - disc) * outside.exp()).ln();
        assert_log_z(&run, exact, 0.05);
        assert_eq!(run.levels().len(), 1);
        assert_eq!(run.levels()[0].level, level);
        let mass = run.levels()[0].log_mass;
        assert!((mass - disc.ln()).abs() < 0.05, "{mass}");
        assert_eq!(run.warnings(), []);
    }
    let nowhere = on_square(|_| f64::NEG_INFINITY);
    let error = NestedSmc::new(&nowhere, walk(0.5)).run().unwrap_err();
    assert_eq!(error, Error::AllWeightsZero { chains: 32 });
}

/// N(0, 2^2) in three dimensions, and a likelihood about a point, counted.
fn gaussian(count: &AtomicU64) -> TemperedPath<Gaussian, impl UnnormalizedModel<State = Vector>> {
    let prior = Gaussian::isotropic(DVector::zeros(3), 2.0).unwrap();
    let centre = dvector![1.0, -0.5, 2.0];
    let likelihood = shared::function(move |x: &Vector| {
        count.fetch_add(1, Ordering::Relaxed);
        -0.5 * (x - &centre).norm_squared() / 0.09
    });
    TemperedPath::new(prior, likelihood)
}

#[test]
fn a_gaussian_posterior_is_that_of_conjugacy() {
    let count = AtomicU64::new(0);
    let problem = gaussian(&count);
    let run = NestedSmc::new(&problem, walk(1.0)).seed(4).run().unwrap();
    // Each move asks for one likelihood, and no state is asked for its own again.
    assert_eq!(run.evaluations(), count.load(Ordering::Relaxed));
    assert!(run.search_evaluations() < run.evaluations() / 20);
    let (prior, noise) = (4.0, 0.09);
    let evidence = |y: f64| -0.5 * (y * y / (prior + noise) + (1.0 + prior / noise).ln());
    let exact = evidence(1.0) + evidence(-0.5) + evidence(2.0);
    assert_log_z(&run, exact, 0.1);
    assert_eq!(run.warnings(), []);
    let (lower, upper) = run.interval();
    assert!(lower < exact && exact < upper);
    let shrunk = prior / (prior + noise);
    let variance = prior * noise / (prior + noise);
    for (i, y) in [1.0, -0.5, 2.0].into_iter().enumerate() {
        let (mean, error) = run.expectation(|x| x[i]);
        assert_near(mean, shrunk * y, error, 0.02);
        let (square, error) = run.expectation(|x| (x[i] - shrunk * y).powi(2));
        assert_near(square, variance, error, 0.01);
    }
    // E log L - log Z under the posterior.
    let off = |y: f64| ((1.0 - shrunk) * y).powi(2) + variance;
    let log_likelihood = -0.5 * (off(1.0) + off(-0.5) + off(2.0)) / noise;
    assert!((run.information() - (log_likelihood - exact)).abs() < 0.2);
    let total = log_sum_exp(run.log_weights());
    assert!((total - run.log_z()).abs() < 0.2, "{total}");
    assert!(run.states().len() <= 10_002);
    let samples = run.resampled(2_000).unwrap();
    assert_eq!(samples.states().len(), 2_000);
    let mean = samples.states().iter().map(|x| x[2]).sum::<f64>() / 2_000.0;
    assert!((mean - shrunk * 2.0).abs() < 0.05, "{mean}");
    assert!(run.to_string().starts_with("log Z = ") && run.to_string().contains(" levels, "));
    let acceptance = run.levels().iter().map(|level| level.acceptance.unwrap());
    assert!(acceptance.clone().all(|rate| (0.2..0.45).contains(&rate)));
}

/// The kept states are few, and yet from the shells that hold the posterior.
#[test]
fn a_few_states_of_many_levels_are_kept_at_their_weights() {
    let count = AtomicU64::new(0);
    let problem = gaussian(&count);
    for (share, kept, most) in [(0.97, 2_000, 0.03), (0.3, 400, 0.05)] {
        let levels = NestedSmc::new(&problem, walk(1.0)).chains(16).moves(20);
        let run = levels.share(share).kept(kept).seed(8).run().unwrap();
        assert!(run.levels().len() > 312 || share < 0.9);
        assert!(run.states().len() <= kept + 2 && run.states().len() > kept / 2);
        let total = log_sum_exp(run.log_weights());
        assert_near(total, run.log_z(), run.standard_error() + 0.02, 0.15);
        let (prior, noise) = (4.0, 0.09);
        let shrunk = prior / (prior + noise);
        for (i, y) in [1.0, -0.5, 2.0].into_iter().enumerate() {
            let (mean, error) = run.expectation(|x| x[i]);
            assert_near(mean, shrunk * y, error, most);
            let (square, error) = run.expectation(|x| (x[i] - shrunk * y).powi(2));
            assert_near(square, shrunk * noise, error, most);
        }
        assert_eq!(run.resampled(10).unwrap().states().len(), 10);
    }
}

#[test]
fn figures_of_states_are_undefined_without_states() {
    let count = AtomicU64::new(0);
    let problem = gaussian(&count);
    let levels = || NestedSmc::new(&problem, walk(1.0)).chains(8).moves(5);
    let none = levels().kept(0).run().unwrap();
    let (mean, error) = none.expectation(|x| x[0]);
    assert!(mean.is_nan() && error == f64::INFINITY);
    let error = none.resampled(5).unwrap_err().to_string();
    assert!(error.contains("log_weights: got none"), "{error}");
    let some = levels().run().unwrap();
    for count in [0, usize::MAX] {
        let error = some.resampled(count).unwrap_err().to_string();
        assert!(error.contains("draws: got"), "{error}");
    }
    let single = levels().islands(1).run().unwrap();
    assert_eq!(single.expectation(|_| 2.0).1, f64::INFINITY);
}

/// The spike in a slab that tempering misses, here with a hundredth of the published cost.
#[test]
fn a_transition_of_the_first_order_is_passed() {
    let part = |deviation| Gaussian::isotropic(DVector::zeros(10), deviation).unwrap();
    let likelihood = GaussianMixture::new([(0.1, part(0.1)), (0.9, part(0.01))]).unwrap();
    let problem = TemperedPath::new(part(0.3), likelihood);
    // Both parts convolved with the prior, at 0.
    let at_zero = |variance: f64| -5.0 * (TAU * (0.09 + variance)).ln();
    let exact = log_sum_exp([0.1f64.ln() + at_zero(0.01), 0.9f64.ln() + at_zero(0.0001)]);
    let run = NestedSmc::new(&problem, walk(0.1)).moves(10).seed(1);
    let run = run.run().unwrap();
    assert_log_z(&run, exact, 0.25);
    assert!(run.evaluations() < 1_000_000);
    let (spike, error) = run.expectation(|x| f64::from(u8::from(x.norm() < 0.06)));
    assert!(
        (spike - 0.92).abs() < 4.0 * error && error < 0.05,
        "{spike}"
    );
}

#[test]
fn one_seed_has_the_same_bits_on_any_number_of_threads() {
    let count = AtomicU64::new(0);
    let problem = gaussian(&count);
    let run = |threads, seed| {
        let levels = NestedSmc::new(&problem, walk(1.0));
        levels
            .islands(7)
            .chains(5)
            .moves(20)
            .seed(seed)
            .threads(threads)
            .run()
            .unwrap()
    };
    let one = run(1, 3);
    for threads in [2, 3] {
        let other = run(threads, 3);
        assert_eq!(one.estimate(), other.estimate());
        assert_eq!(one.levels(), other.levels());
        assert_eq!(one.states(), other.states());
        assert_eq!(one.log_weights(), other.log_weights());
        assert_eq!(one.evaluations(), other.evaluations());
    }
    assert_ne!(one.log_z(), run(1, 4).log_z());
}

#[test]
fn a_level_path_serves_annealed_runs() {
    // P(x > 4) of a standard normal.
    let likelihood = shared::function(|x: &Vector| x[0]);
    let problem = TemperedPath::new(Gaussian::standard(1).unwrap(), likelihood);
    let path = LevelPath::new(&problem, (1..=8).map(|t| 0.5 * f64::from(t))).unwrap();
    let run = Ais::new(&path, Repeat::new(walk(0.7), 20).unwrap())
        .schedule(Schedule::linear(8).unwrap())
        .chains(20_000)
        .resampling(Resampling::every(1).unwrap())
        .run()
        .unwrap();
    let exact = 3.167_124_183e-5_f64.ln();
    assert_near(run.log_z(), exact, run.standard_error(), 0.1);
    let reached = run.states().iter().zip(run.log_weights());
    let mut reached = reached.filter(|(_, log_weight)| log_weight.is_finite());
    assert!(reached.all(|(x, _)| x[0] > 4.0));
}

fn refused(run: Result<NestedSmcRun<Vector>>, text: &str) {
    let error = run.unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn bad_input_is_refused() {
    let problem = on_square(|x| -x.norm_squared());
    let levels = || {
        NestedSmc::new(&problem, walk(0.5))
            .islands(2)
            .chains(4)
            .moves(5)
    };
    refused(levels().islands(0).run(), "islands: got 0");
    refused(levels().chains(0).run(), "chains: got 0");
    refused(levels().moves(0).run(), "moves: got 0");
    refused(levels().chains(1).moves(1).run(), "chains times moves");
    refused(
        levels().chains(1 << 20).moves(1 << 20).run(),
        "chains times moves",
    );
    refused(levels().share(1.0).run(), "share: got 1");
    refused(levels().share(f64::NAN).run(), "share: got NaN");
    refused(levels().precision(0.0).run(), "precision: got 0");
    refused(levels().max_levels(0).run(), "max_levels: got 0");
    refused(levels().acceptance(1.0).run(), "acceptance: got 1");
    refused(levels().threads(0).run(), "threads: got 0");
    for levels in [
        vec![0.0, 0.0],
        vec![1.0, 0.0],
        vec![f64::NAN],
        vec![f64::INFINITY],
    ] {
        assert!(LevelPath::new(&problem, levels).is_err());
    }
    let few = NestedSmc::new(&problem, walk(0.5))
        .max_levels(1)
        .run()
        .unwrap();
    assert!(
        few.warnings()
            .iter()
            .any(|w| matches!(w, Warning::LevelsEnded { levels: 1, .. }))
    );
    let dimensions = TemperedPath::new(
        Gaussian::standard(2).unwrap(),
        Gaussian::standard(3).unwrap(),
    );
    let error = NestedSmc::new(&dimensions, walk(0.5)).run().unwrap_err();
    assert!(matches!(error, Error::DimensionMismatch { .. }));
}

#[test]
fn faults_of_a_likelihood_name_their_place() {
    for value in [f64::NAN, f64::INFINITY] {
        // At a sample of the prior, and at a proposal.
        for radius in [0.3, 0.02] {
            let problem = on_square(move |x| match x.norm() < radius {
                true => value,
                false => -20.0 * x.norm(),
            });
            let levels = NestedSmc::new(&problem, walk(0.5)).chains(5).moves(10);
            let error = levels.run().unwrap_err();
            assert!(matches!(error, Error::NonFinite { .. }), "{error}");
        }
    }
    let problem = on_square(|x| match x.norm() < 0.1 {
        true => panic!("too near"),
        false => -20.0 * x.norm(),
    });
    let error = NestedSmc::new(&problem, walk(0.5))
        .chains(5)
        .moves(10)
        .run();
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert!(error.to_string().contains("too near"));
}
