//! Two results compared: ratios of known targets, intervals of uneven sides, results that contradict each other.

use std::fmt;

use annealed::Result;
use annealed::ais::Ais;
use annealed::estimate::{
    Agreement, Estimate, LogRatio, LogZ, LogZSum, ModelComparison, ScoreDifference, Warning,
    certified_lower_bound,
};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{FunctionModel, Gaussian, GaussianMixture, NormalizedModel};
use annealed::path::{GeometricPath, TemperedPath};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Log-normal weights with a mean of 1, times a factor that the result should have found.
struct Weights {
    log_weights: Vec<f64>,
    estimate: Estimate,
}

impl Weights {
    fn new(chains: usize, deviation: f64, factor: f64, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw =
            |_| deviation * (rng.sample::<f64, _>(StandardNormal) - 0.5 * deviation) + factor.ln();
        let log_weights: Vec<f64> = (0..chains).map(&mut draw).collect();
        Self {
            estimate: Estimate::from_log_weights(&log_weights).unwrap(),
            log_weights,
        }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.estimate.fmt(f)
    }
}

impl LogZ for Weights {
    fn log_z(&self) -> f64 {
        self.estimate.value()
    }

    fn standard_error(&self) -> f64 {
        self.estimate.standard_error()
    }

    fn interval_at(&self, level: f64) -> Result<(f64, f64)> {
        self.estimate.interval_at(level)
    }

    fn certified_lower_bound(&self, confidence: f64) -> Result<Option<f64>> {
        certified_lower_bound(&self.log_weights, confidence).map(Some)
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }

    fn evaluations(&self) -> u64 {
        0
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

const PAIRS: u64 = 500;

/// Returns the shares of pairs whose ratio's interval holds the exact value; in which that of sides that are not crossed
/// does; and whose value is within two errors.
fn covered(deviations: (f64, f64)) -> [f64; 3] {
    let mut counts = [0; 3];
    for seed in 0..PAIRS {
        let one = Weights::new(100, deviations.0, 5.0, seed);
        let other = Weights::new(100, deviations.1, 1.0, PAIRS + seed);
        let ratio = LogRatio::new(&one, &other);
        let (a, b) = (one.interval(), other.interval());
        let below = (one.log_z() - a.0).hypot(other.log_z() - b.0);
        let above = (a.1 - one.log_z()).hypot(b.1 - other.log_z());
        let holds = |(lower, upper): (f64, f64)| (lower..=upper).contains(&5_f64.ln());
        counts[0] += u64::from(holds(ratio.interval));
        counts[1] += u64::from(holds((ratio.value - below, ratio.value + above)));
        counts[2] += u64::from((ratio.value - 5_f64.ln()).abs() <= 2.0 * ratio.standard_error);
    }
    counts.map(|count| count as f64 / PAIRS as f64)
}

/// A skewed result may err far to the upper side of a numerator, and to the lower side of a denominator.
#[test]
fn the_interval_of_a_ratio_has_its_level_where_sides_are_uneven() {
    for deviations in [(0.3, 0.3), (1.8, 0.1), (0.1, 1.8), (1.8, 1.8)] {
        let [held, ..] = covered(deviations);
        assert!((0.93..1.0).contains(&held), "{deviations:?}: {held}");
    }
    let [_, uncrossed, near] = covered((0.1, 1.8));
    assert!(
        uncrossed < 0.9,
        "sides that are not crossed would do: {uncrossed}"
    );
    assert!(near < 0.85, "the errors alone would do: {near}");
}

#[test]
fn results_of_one_target_agree_and_pool() {
    for (chains, deviation, most) in [(100, 0.3, 0.75), (200, 1.2, 0.9)] {
        let (mut differ, mut refuted, mut held) = (0, 0, 0);
        let (mut squares, mut alone) = (0.0, 0.0);
        for seed in 0..PAIRS {
            let one = Weights::new(chains, deviation, 1.0, seed);
            let other = Weights::new(2 * chains, deviation, 1.0, PAIRS + seed);
            let agreement = Agreement::new(&one, &other).unwrap();
            refuted += u64::from(agreement.contradiction.is_some());
            let Some(pooled) = agreement.pooled else {
                differ += 1;
                continue;
            };
            let (lower, upper) = pooled.interval;
            held += u64::from(lower <= 0.0 && 0.0 <= upper);
            squares += pooled.log_z.powi(2);
            alone += 0.5 * (one.log_z().powi(2) + other.log_z().powi(2));
        }
        // One in 100 is expected to differ: 5, with a deviation of 2.2.
        assert!(
            differ <= 14 && refuted <= 1,
            "{deviation}: {differ}, {refuted}"
        );
        let held = held as f64 / (PAIRS - differ) as f64;
        assert!((0.92..0.985).contains(&held), "{deviation}: {held}");
        assert!(squares < most * alone, "{deviation}: {squares}, {alone}");
    }
}

#[test]
fn a_result_too_low_is_contradicted_or_differs() {
    for seed in 0..50 {
        let right = Weights::new(400, 0.5, 1.0, seed);
        let low = Weights::new(400, 0.5, 0.6, 1_000 + seed);
        for agreement in [
            Agreement::new(&right, &low).unwrap(),
            Agreement::new(&low, &right).unwrap(),
        ] {
            assert!(agreement.pooled.is_none(), "{agreement}");
            let below = matches!(agreement.contradiction, Some(Warning::BelowBound { .. }));
            let text = agreement.to_string();
            assert!(below && text.contains("contradicted"), "{text}");
            assert!(text.contains("\nwarning: log Z is at least"), "{text}");
        }
    }
}

/// Half of the mass is out of reach of one base.
#[test]
fn a_run_that_missed_a_mode_is_contradicted_by_another_base() {
    let mode = |centre| Gaussian::isotropic(DVector::from_element(2, centre), 0.5).unwrap();
    let target = GaussianMixture::new([(0.4, mode(0.0)), (0.6, mode(12.0))]).unwrap();
    let base = |deviation| Gaussian::isotropic(DVector::zeros(2), deviation).unwrap();
    let (near, far) = (
        GeometricPath::new(base(1.0), target.clone()),
        GeometricPath::new(base(9.0), target.clone()),
    );
    let kernel = RandomWalkMetropolis::new(0.7).unwrap();
    let schedule = || Schedule::power(100, 2.0).unwrap();
    let missed = Ais::new(&near, &kernel).schedule(schedule()).seed(1).run();
    let found = Ais::new(&far, &kernel).schedule(schedule()).seed(2).run();
    let (missed, found) = (missed.unwrap(), found.unwrap());
    assert!(missed.warnings().is_empty(), "{missed}");
    let agreement = Agreement::new(&missed, &found).unwrap();
    assert!(agreement.contradiction.is_some(), "{agreement}");
    // Tempering has no bound; the difference alone says no.
    let tempering = Tempering::new(&far, &kernel).schedule(Schedule::power(12, 2.0).unwrap());
    let tempered = tempering.ladders(16).seed(3).run().unwrap();
    let results: [&dyn LogZ; 2] = [&missed, &tempered];
    let agreement = Agreement::new(results[0], results[1]).unwrap();
    assert!(agreement.contradiction.is_none(), "{agreement}");
    let text = agreement.to_string();
    assert!(
        agreement.pooled.is_none() && text.starts_with("the results differ"),
        "{text}"
    );
    let agreement = Agreement::new(&found, &tempered).unwrap();
    let pooled = agreement.pooled.unwrap();
    let error = pooled.log_z - target.log_normalizer();
    assert!(error.abs() < 4.0 * pooled.standard_error && pooled.standard_error < 0.1);
    let text = agreement.to_string();
    assert!(
        text.contains("agree: difference") && text.contains("pooled log Z = "),
        "{text}"
    );
}

#[test]
fn a_ratio_holds_the_warnings_of_both() {
    let target = Gaussian::standard(1).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target.clone());
    let run = |chains, seed| {
        let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7).unwrap());
        let ais = ais.schedule(Schedule::linear(5).unwrap());
        ais.chains(chains).seed(seed).run().unwrap()
    };
    let (few, many) = (run(10, 1), run(100, 2));
    let ratio = LogRatio::new(&many, &few);
    assert_eq!(ratio.warnings, few.warnings());
    assert!(ratio.value.abs() < 1e-9 && ratio.standard_error < 1e-9);
    let text = ratio.to_string();
    assert!(
        text.starts_with("log(Z_1/Z_2) = ") && text.contains("\nwarning: 10 chains are too few"),
        "{text}"
    );
    // Equal weights differ by rounding, and have nothing to disagree on.
    let agreement = Agreement::new(&few, &many).unwrap();
    assert!(agreement.pooled.is_some(), "{agreement}");
}

#[test]
fn a_run_does_not_agree_with_itself() {
    let target = Gaussian::isotropic(DVector::zeros(1), 0.5).unwrap();
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target.clone());
    let run = |seed| {
        let ais = Ais::new(&path, RandomWalkMetropolis::new(0.7).unwrap());
        ais.schedule(Schedule::linear(5).unwrap()).seed(seed).run()
    };
    let (one, again, other) = (run(1).unwrap(), run(1).unwrap(), run(2).unwrap());
    assert!(Agreement::new(&one, &other).is_ok());
    let error = Agreement::new(&one, &again).unwrap_err().to_string();
    assert!(
        error.contains("second") && error.contains("another seed"),
        "{error}"
    );
}

/// Measurements of y at x, with errors of [`NOISE`].
const DATA: [(f64, f64); 6] = [
    (-1.0, -0.41),
    (-0.6, 0.12),
    (-0.2, 0.35),
    (0.2, 0.52),
    (0.6, 1.11),
    (1.0, 1.19),
];
const NOISE: f64 = 0.3;

/// Returns a run for a polynomial whose coefficients have the prior N(0, 1).
fn polynomial(degree: usize, seed: u64) -> annealed::ais::Run<DVector<f64>> {
    let likelihood = FunctionModel::of_slices(|coefficients: &[f64]| {
        let log_density = |(x, y): &(f64, f64)| {
            let curve = coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
            let z = (y - curve) / NOISE;
            -0.5 * z * z - (NOISE * std::f64::consts::TAU.sqrt()).ln()
        };
        DATA.iter().map(log_density).sum()
    });
    let path = TemperedPath::new(Gaussian::standard(degree + 1).unwrap(), likelihood);
    Ais::new(&path, RandomWalkMetropolis::new(0.3).unwrap())
        .schedule(Schedule::power(250, 3.0).unwrap())
        .chains(300)
        .seed(seed)
        .run()
        .unwrap()
}

/// Returns the log density of the y, which are N(0, NOISE^2 I + X X') with powers of x as columns of X.
fn evidence(degree: usize) -> f64 {
    let powers = DMatrix::from_fn(6, degree + 1, |i, k| DATA[i].0.powi(k as i32));
    let covariance = &powers * powers.transpose() + DMatrix::identity(6, 6) * NOISE * NOISE;
    let y = DVector::from_fn(6, |i, _| DATA[i].1);
    let log_determinant = covariance.determinant().ln();
    let square = y.dot(&covariance.lu().solve(&y).unwrap());
    -0.5 * (6.0 * std::f64::consts::TAU.ln() + log_determinant + square)
}

#[test]
fn polynomials_have_their_posterior_probabilities() {
    const SEEDS: u64 = 100;
    let exact: Vec<f64> = (0..3).map(evidence).collect();
    let total = annealed::estimate::log_sum_exp(&exact);
    let (mut squares, mut held) = ([0.0; 3], [0; 3]);
    for seed in 0..SEEDS {
        let runs: Vec<_> = (0..3)
            .map(|degree| polynomial(degree, 3 * seed + degree as u64))
            .collect();
        let named = ["0", "1", "2"].into_iter().zip(&runs);
        let comparison = ModelComparison::new(named).unwrap();
        assert_eq!(comparison.models[0].name, "1", "{comparison}");
        for model in &comparison.models {
            let degree: usize = model.name.parse().unwrap();
            let probability = (exact[degree] - total).exp();
            assert!(model.probability_error < 0.3 * probability, "{comparison}");
            squares[degree] +=
                ((model.probability - probability) / model.probability_error).powi(2);
            let (lower, upper) = model.probability_interval;
            held[degree] += u64::from(lower <= probability && probability <= upper);
        }
        let sum = LogZSum::new(runs.iter().map(|run| run as &dyn LogZ)).unwrap();
        let error = sum.log_z() - exact.iter().sum::<f64>();
        assert!(error.abs() < 4.0 * sum.standard_error(), "{sum}");
        assert!(sum.standard_error() < 0.3, "{sum}");
    }
    for degree in 0..3 {
        let rms = (squares[degree] / SEEDS as f64).sqrt();
        assert!((0.75..1.3).contains(&rms), "degree {degree}: rms z {rms}");
        assert!(held[degree] >= 88, "degree {degree}: {}", held[degree]);
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_comparison_can_be_saved() {
    let runs = [polynomial(0, 1), polynomial(1, 2)];
    let comparison = ModelComparison::new(["0", "1"].into_iter().zip(&runs)).unwrap();
    let text = serde_json::to_string(&comparison).unwrap();
    let read: ModelComparison = serde_json::from_str(&text).unwrap();
    assert_eq!(read.to_string(), comparison.to_string());
}

/// Returns an RBM of 4 x 6 units with normal parameters.
fn machine(scale: f64, seed: u64) -> Rbm<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = || scale * rng.sample::<f64, _>(StandardNormal);
    let weights = DMatrix::from_fn(4, 6, |_, _| normal());
    let biases = [4, 6].map(|units| DVector::from_fn(units, |_, _| normal()));
    let [hidden, visible] = biases;
    Rbm::new(weights, hidden, visible).unwrap()
}

/// Compares the mean log likelihoods of two RBMs on rows of a third one, with log Z from runs, 200 times. The expected
/// difference is a sum over all states. The band holds 99.9% of the binomial counts of 200 at 95%.
#[test]
fn intervals_of_paired_differences_cover() {
    let (one, other, source) = (machine(1.0, 1), machine(1.0, 2), machine(0.7, 3));
    let base = BaseRate::uniform(4, 6).unwrap();
    let exact = [&one, &other, &source].map(|rbm| rbm.exact_log_normalizer().unwrap());
    let score =
        |rbm: &Rbm<f64>, rows: &[Vec<bool>], log_z| rbm.log_likelihood(rows, log_z, &base).unwrap();
    let states = (0..64).map(|bits| Vec::from_iter((0..6).map(|unit| bits >> unit & 1 == 1)));
    let states = Vec::from_iter(states);
    let [of_one, of_other, of_source] = [(&one, exact[0]), (&other, exact[1]), (&source, exact[2])]
        .map(|(rbm, log_z)| score(rbm, &states, log_z).by_row);
    let terms = of_one.iter().zip(&of_other).zip(&of_source);
    let expected: f64 = terms.map(|((a, b), p)| p.exp() * (a - b)).sum();
    let run = |rbm: &Rbm<f64>, seed| {
        let path = RbmPath::new(base.clone(), rbm.clone()).unwrap();
        let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(6).unwrap());
        ais.chains(200).seed(seed).run().unwrap()
    };
    let (mut held, mut by_chance, mut squares) = (0, 0.0, [0.0; 2]);
    for pair in 0..200 {
        let rows = source.exact_samples(500, pair).unwrap();
        let (first, second) = (run(&one, 1_000 + pair), run(&other, 2_000 + pair));
        let by_row = [(&one, &first), (&other, &second)]
            .map(|(rbm, run)| score(rbm, &rows, run.log_z()).by_row);
        let results: [Option<&dyn LogZ>; 2] = [Some(&first), Some(&second)];
        let found = ScoreDifference::new([&by_row[0], &by_row[1]], results).unwrap();
        let (lower, upper) = found.interval;
        held += u32::from(lower <= expected && expected <= upper);
        by_chance += ((found.value - expected) / found.standard_error).powi(2) / 200.0;
        squares[0] += found.error_over_rows.powi(2) / 200.0;
        squares[1] += found.error_of_log_z.powi(2) / 200.0;
    }
    let [of_rows, of_log_z] = squares.map(f64::sqrt);
    println!("{held} of 200 hold; z^2 {by_chance:.2}; errors {of_rows:.3}, {of_log_z:.3}");
    assert!((179..200).contains(&held), "{held}");
    // Neither part of the error is negligible.
    assert!(of_rows < 2.0 * of_log_z && of_log_z < 2.0 * of_rows);
    assert!(of_rows < 0.2 && (by_chance - 1.0).abs() < 4.0 * (2.0_f64 / 200.0).sqrt());
}

#[test]
fn a_paired_difference_joins_rows_and_normalizers() {
    let (first, second) = ([-3.0, -5.0, -1.0, -8.0], [-2.5, -5.5, -2.0, -7.0]);
    let exact = ScoreDifference::new([&first, &second], [None, None]).unwrap();
    // The differences are -0.5, 0.5, 1 and -1, whose variance is 2.5 / 3.
    let error = (2.5_f64 / 3.0 / 4.0).sqrt();
    assert_eq!((exact.value, exact.rows), (0.0, 4));
    assert!((exact.standard_error - error).abs() < 1e-15);
    // The quantile of Student's t with 3 degrees of freedom is 3.182446.
    assert!(
        (exact.interval.1 - 3.182_446 * error).abs() < 1e-5,
        "{exact}"
    );
    let (one, other) = (
        Weights::new(20, 1.5, 1.0, 4),
        Weights::new(500, 0.3, 1.0, 5),
    );
    let results: [Option<&dyn LogZ>; 2] = [Some(&one), Some(&other)];
    let both = ScoreDifference::new([&first, &second], results).unwrap();
    let ratio = LogRatio::new(&one, &other);
    assert_eq!(both.error_of_log_z, ratio.standard_error);
    assert!((both.standard_error - error.hypot(ratio.standard_error)).abs() < 1e-15);
    // If log Z_1 is too low, the first log likelihood is too high.
    let below = exact.interval.1.hypot(ratio.interval.1 - ratio.value);
    assert!(
        (both.value - below - both.interval.0).abs() < 1e-12,
        "{both}"
    );
    let alone = ScoreDifference::new([&first, &second], [Some(&one), None]).unwrap();
    assert_eq!(alone.error_of_log_z, one.standard_error());
    let text = exact.to_string();
    assert!(
        text.starts_with("difference of 4 rows: 0.000 +- 0.456 (nats a row; 95% interval -1."),
        "{text}"
    );
    assert!(
        text.ends_with("; +- 0.456 over rows, 0.000 from log Z)"),
        "{text}"
    );
    assert!(
        ScoreDifference::new([&first[..1], &second[..1]], [None, None])
            .unwrap()
            .standard_error
            .is_infinite()
    );
    for (rows, sentence) in [
        ([&first[..], &second[..3]], "second scores"),
        ([&[], &[]], "first scores"),
        (
            [&first, &[0.0, 0.0, f64::NEG_INFINITY, 0.0]],
            "invalid second scores: got -inf at index 2",
        ),
    ] {
        let text = ScoreDifference::new(rows, [None, None])
            .unwrap_err()
            .to_string();
        assert!(text.contains(sentence), "{text}");
    }
}
