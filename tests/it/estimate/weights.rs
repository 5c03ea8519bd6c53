//! Estimates from weights: exact values, invariances, theory on log-normal weights, bad input.

use crate::shared::{self, mean_and_error};
use annealed::Error;
use annealed::ais::Ais;
use annealed::estimate::{
    Estimate, Warning, WeightSums, importance_weighted_bound, log_mean_exp, log_sum_exp,
};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{Gaussian, NormalizedModel};
use annealed::path::GeometricPath;
use annealed::schedule::Schedule;
use nalgebra::DVector;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

const DEAD: f64 = f64::NEG_INFINITY;

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a - b).abs() <= tolerance * (1.0 + b.abs())
}

fn normals(n: usize, deviation: f64, seed: u64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..n)
        .map(|_| deviation * rng.sample::<f64, _>(StandardNormal))
        .collect()
}

fn of(weights: &[f64]) -> Estimate {
    let log_weights: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
    Estimate::from_log_weights(&log_weights).unwrap()
}

fn sums(log_weights: &[f64]) -> WeightSums {
    let mut sums = WeightSums::default();
    log_weights.iter().for_each(|&x| sums.add(x));
    sums
}

#[test]
fn figures_of_four_weights_are_those_by_hand() {
    let estimate = of(&[1.0, 2.0, 3.0, 4.0]);
    assert!(close(estimate.value(), 2.5_f64.ln(), 1e-15));
    assert!(close(estimate.effective_sample_size(), 10.0 / 3.0, 1e-14));
    // sd(w) = sqrt(5/3), over sqrt(4) times the mean.
    let error = (5.0_f64 / 3.0).sqrt() / (2.0 * 2.5);
    assert!(close(estimate.standard_error(), error, 1e-14));
    assert!(close(
        estimate.mean_log_weight(),
        24.0_f64.ln() / 4.0,
        1e-15
    ));
    let logs = [1.0_f64, 2.0, 3.0, 4.0].map(f64::ln);
    let mean = logs.iter().sum::<f64>() / 4.0;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 3.0;
    assert!(close(estimate.var_log_weight(), variance, 1e-14));
    assert!(close(estimate.largest_share(), 0.4, 1e-14));
    assert_eq!((estimate.chains(), estimate.dead_chains()), (4, 0));
    let text = estimate.to_string();
    let end = ", weights are skewed, ESS 3 of 4)";
    assert!(
        text.starts_with("0.916 (95% interval ") && text.ends_with(end),
        "{text}"
    );
}

#[test]
fn dead_chains_are_weights_of_zero() {
    let estimate = of(&[0.0, 3.0, 0.0, 1.0]);
    assert!(close(estimate.value(), 0.0, 1e-15));
    assert!(close(estimate.effective_sample_size(), 1.6, 1e-14));
    assert!(close(
        estimate.standard_error(),
        (2.0_f64 / 4.0).sqrt(),
        1e-14
    ));
    assert_eq!(estimate.mean_log_weight(), DEAD);
    assert!(close(
        estimate.var_log_weight(),
        3.0_f64.ln().powi(2) / 2.0,
        1e-14
    ));
    let dead = Warning::DeadChains { dead: 2, chains: 4 };
    assert!(estimate.warnings().contains(&dead));
}

#[test]
fn a_perfect_run_has_no_error() {
    for level in [-1e5, 0.0, 700.0, 1e5] {
        let estimate = Estimate::from_log_weights(&[level; 100]).unwrap();
        assert!(close(estimate.value(), level, 1e-15));
        assert!(close(estimate.effective_sample_size(), 100.0, 1e-12));
        assert!(estimate.standard_error() < 1e-10);
        let (low, high) = estimate.interval();
        assert!(high - low < 1e-8);
        assert_eq!(estimate.warnings(), []);
    }
}

/// Near 1e16 neighbouring numbers are 2 apart, near 1e300 far more: a log mean cannot be held there,
/// but differences of log weights can.
#[test]
fn figures_keep_their_digits_however_large_the_log_weights() {
    for offset in [1e16, -1e16, 1e17, 1e100, -1e100] {
        let below = offset - 1e-3 * f64::abs(offset);
        let mut log_weights = vec![below; 500];
        log_weights[17] = offset;
        let estimate = Estimate::from_log_weights(&log_weights).unwrap();
        assert!(close(estimate.effective_sample_size(), 1.0, 1e-12));
        assert!(close(estimate.largest_share(), 1.0, 1e-12));
        assert!(close(estimate.standard_error(), 1.0, 1e-12));
        let ratio = estimate.shifted(-offset);
        assert!(close(ratio.value(), -500.0_f64.ln(), 1e-12));

        let step = 2.0 * (f64::abs(offset).next_up() - f64::abs(offset));
        let halves: Vec<f64> = (0..500).map(|i| offset + step * f64::from(i % 2)).collect();
        let estimate = Estimate::from_log_weights(&halves).unwrap();
        let variance = 0.25 * step * step * 500.0 / 499.0;
        assert!(close(estimate.var_log_weight() / variance, 1.0, 1e-12));
        assert!(close(
            estimate.shifted(-offset).mean_log_weight(),
            0.5 * step,
            1e-12
        ));
        assert!(close(
            estimate.effective_sample_size(),
            sums(&halves).effective_sample_size(),
            1e-12
        ));
    }
    let huge = importance_weighted_bound(&[1e308; 100], 10).unwrap();
    assert_eq!(huge, 1e308);
}

#[test]
fn nearly_equal_weights_keep_their_digits() {
    let logs: Vec<f64> = (0..100).map(|i| 1e-9 * f64::from(i % 2)).collect();
    let estimate = Estimate::from_log_weights(&logs).unwrap();
    let error = 0.5e-9 / 99.0_f64.sqrt();
    assert!((estimate.standard_error() / error - 1.0).abs() < 1e-6);
}

#[test]
fn a_single_chain_says_nothing_of_its_error() {
    let estimate = Estimate::from_log_weights(&[3.0]).unwrap();
    assert_eq!(estimate.value(), 3.0);
    assert_eq!(estimate.standard_error(), f64::INFINITY);
    assert_eq!(estimate.interval(), (DEAD, f64::INFINITY));
    assert_eq!(estimate.effective_sample_size(), 1.0);
    assert_eq!(estimate.var_log_weight(), 0.0);
}

#[test]
fn sums_in_log_space_take_weights_of_zero_and_large_ones() {
    assert_eq!(log_sum_exp([0.0; 0]), DEAD);
    assert_eq!(log_mean_exp(&[]), DEAD);
    assert_eq!(log_sum_exp([DEAD, DEAD]), DEAD);
    assert_eq!(log_sum_exp([DEAD, 2.0]), 2.0);
    assert!(close(log_mean_exp(&[1e5, DEAD]), 1e5 - 2.0_f64.ln(), 1e-15));
    assert!(close(
        log_sum_exp([-800.0, -801.0]),
        -800.0 + (-1.0_f64).exp().ln_1p(),
        1e-15
    ));
    let empty = WeightSums::default();
    assert_eq!(
        (empty.log_mean(), empty.effective_sample_size()),
        (DEAD, 0.0)
    );
    let dead = sums(&[DEAD, DEAD]);
    assert_eq!((dead.log_mean(), dead.effective_sample_size()), (DEAD, 0.0));
    let half = sums(&[DEAD, 1e5]);
    assert!(close(half.log_mean(), 1e5 - 2.0_f64.ln(), 1e-15));
    assert_eq!((half.count(), half.effective_sample_size()), (2, 1.0));
}

/// `Var[w] / E[w]^2 = e^v - 1` where log w is normal with variance v. The figures tested are means
/// over 400 runs, each compared within 4 of its own standard errors (false alarm 6e-5).
#[test]
fn the_standard_error_is_right_on_log_normal_weights() {
    let (n, runs, variance) = (2_000, 400, 0.25_f64);
    let theory = (variance.exp_m1() / n as f64).sqrt();
    let estimates: Vec<Estimate> = (0..runs)
        .map(|seed| Estimate::from_log_weights(&normals(n, variance.sqrt(), seed)).unwrap())
        .collect();
    let errors: Vec<f64> = estimates.iter().map(|e| e.standard_error()).collect();
    let (mean, of_mean) = mean_and_error(errors);
    assert!(of_mean < 0.01 * theory);
    assert!(
        (mean - theory).abs() < 4.0 * of_mean + 1e-3 * theory,
        "{mean} against {theory}"
    );
    // The estimates scatter as they say: their variance has relative error sqrt(2 / runs).
    let squares: Vec<f64> = estimates
        .iter()
        .map(|e| ((e.value() - 0.5 * variance) / theory).powi(2))
        .collect();
    let (scatter, of_scatter) = mean_and_error(squares);
    assert!(of_scatter < 0.15);
    assert!(
        (scatter - 1.0).abs() < 4.0 * of_scatter,
        "{scatter} +- {of_scatter}"
    );
}

/// The promise of `docs/intervals.md` at one setting that the delta method fails (coverage .89
/// and .87): 1,000 seeds, so that .92 is four standard errors from .887.
#[test]
fn the_interval_covers_where_the_delta_method_does_not() {
    for (n, variance) in [(300, 3.0_f64), (1_000, 3.0)] {
        let (mut kept, mut covered, mut delta) = (0, 0, 0);
        for seed in 0..1_000 {
            let log_weights = normals(n, variance.sqrt(), 10_000 + seed);
            let estimate = Estimate::from_log_weights(&log_weights).unwrap();
            if estimate.effective_sample_size() > 0.05 * n as f64 {
                let truth = 0.5 * variance;
                let (low, high) = estimate.interval();
                kept += 1;
                covered += u32::from(low <= truth && truth <= high);
                let error = (estimate.value() - truth).abs();
                delta += u32::from(error <= 1.96 * estimate.standard_error());
            }
        }
        let coverage = |hits: u32| f64::from(hits) / f64::from(kept);
        assert!(kept > 700);
        assert!(coverage(covered) >= 0.92, "N = {n}: {}", coverage(covered));
        assert!(coverage(delta) < 0.92, "N = {n}: {}", coverage(delta));
    }
}

/// Coverage of the runs without a warning, and their number, of 1,000.
fn unwarned_coverage(log_mean: f64, run: impl Fn(u64) -> Vec<f64>) -> (f64, u32) {
    let (mut unwarned, mut covered) = (0, 0);
    for seed in 0..1_000 {
        let estimate = Estimate::from_log_weights(&run(seed)).unwrap();
        if estimate.warnings().is_empty() {
            let (low, high) = estimate.interval();
            unwarned += 1;
            covered += u32::from(low <= log_mean && log_mean <= high);
        }
    }
    (f64::from(covered) / f64::from(unwarned), unwarned)
}

/// Few chains, and weights with a long upper tail: intervals of a Pareto shape alone held .79 and .87
/// of the true values. Of 1,000 seeds .91 is four standard errors below .945.
#[test]
fn the_interval_covers_where_few_chains_meet_a_heavy_tail() {
    let (coverage, unwarned) = unwarned_coverage(2.0, |seed| normals(64, 2.0, seed));
    assert!(
        coverage > 0.91 && unwarned > 800,
        "normal: {coverage} of {unwarned}"
    );

    let laplace = shared::function(|x: &DVector<f64>| -x[0].abs());
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), laplace);
    let log_mean = 2f64.ln() - path.base().log_normalizer();
    let (coverage, unwarned) = unwarned_coverage(log_mean, |seed| {
        let ais = Ais::new(&path, RandomWalkMetropolis::new(2.0).unwrap());
        let linear = Schedule::linear(10).unwrap();
        let run = ais.schedule(linear).chains(50).threads(1).seed(seed).run();
        run.unwrap().log_weights().to_vec()
    });
    assert!(
        coverage > 0.91 && unwarned > 950,
        "Laplace: {coverage} of {unwarned}"
    );
}

#[test]
fn warnings_follow_the_weights() {
    let quiet = Estimate::from_log_weights(&normals(300, 0.5, 1)).unwrap();
    assert_eq!(quiet.warnings(), []);

    let mut one_dominates = vec![0.0; 100];
    one_dominates[7] = 10.0;
    let warnings = Estimate::from_log_weights(&one_dominates)
        .unwrap()
        .warnings();
    assert!(
        matches!(warnings[0], Warning::LowEffectiveSampleSize { ess, chains: 100 } if ess < 1.1)
    );
    assert!(matches!(warnings[1], Warning::DominantWeight { share } if share > 0.99));

    let wide = Estimate::from_log_weights(&normals(1_000, 4.0, 2)).unwrap();
    let heavy = |w: &Warning| matches!(w, Warning::HeavyTail { k_hat } if *k_hat > 0.7);
    assert!(wide.warnings().iter().any(heavy));
    assert!(wide.pareto_shape().unwrap() > 0.7);

    let few = of(&[1.0, 2.0, 3.0]).warnings();
    assert_eq!(few[0], Warning::FewChains { chains: 3 });
    assert!(
        few[0]
            .to_string()
            .starts_with("3 chains are too few to judge the error")
    );
}

#[test]
fn the_importance_weighted_bound_rises_from_the_mean_log_weight_to_the_estimate() {
    let log_weights = normals(1 << 12, 1.5, 3);
    let estimate = Estimate::from_log_weights(&log_weights).unwrap();
    let bound = |k| importance_weighted_bound(&log_weights, k).unwrap();
    assert!(close(bound(1), estimate.mean_log_weight(), 1e-12));
    assert!(close(bound(log_weights.len()), estimate.value(), 1e-12));
    // Groups double by joining neighbours, so that Jensen's inequality holds sample by sample.
    let bounds: Vec<f64> = (0..=12).map(|power| bound(1 << power)).collect();
    assert!(bounds.is_sorted(), "{bounds:?}");
    // k = 3 leaves a remainder of one chain out.
    let three = (0..1_365)
        .map(|g| log_mean_exp(&log_weights[3 * g..3 * g + 3]))
        .sum::<f64>();
    assert!(close(bound(3), three / 1_365.0, 1e-12));
}

#[test]
fn bad_input_is_named() {
    let argument = |result: annealed::Result<Estimate>| match result.unwrap_err() {
        Error::InvalidArgument {
            argument, value, ..
        } => format!("{argument}: {value}"),
        other => format!("{other:?}"),
    };
    assert_eq!(
        argument(Estimate::from_log_weights(&[])),
        "log_weights: none"
    );
    let nan = Estimate::from_log_weights(&[0.0, f64::NAN]);
    assert_eq!(argument(nan), "log_weights: NaN at index 1");
    let infinite = Estimate::from_log_weights(&[f64::INFINITY, 0.0]);
    assert_eq!(argument(infinite), "log_weights: inf at index 0");
    let dead = Estimate::from_log_weights(&[DEAD; 3]);
    assert_eq!(dead.unwrap_err(), Error::AllWeightsZero { chains: 3 });
    let estimate = of(&[1.0, 2.0]);
    for level in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
        assert!(estimate.interval_at(level).is_err());
    }
    for k in [0, 3] {
        assert!(importance_weighted_bound(&[0.0, 1.0], k).is_err());
    }
    assert!(importance_weighted_bound(&[], 1).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn estimates_survive_json_and_are_checked() {
    for weights in [
        vec![1.0, 2.0, 0.0],
        vec![1.0],
        (1..50).map(f64::from).collect(),
    ] {
        let estimate = of(&weights);
        let text = serde_json::to_string(&estimate).unwrap();
        assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), estimate);
        let absurd = text.replace("\"dead\":", "\"dead\":9");
        assert!(serde_json::from_str::<Estimate>(&absurd).is_err() || weights.len() > 9);
    }
    let warning = Warning::DominantWeight { share: 0.5 };
    let text = serde_json::to_string(&warning).unwrap();
    assert_eq!(serde_json::from_str::<Warning>(&text).unwrap(), warning);
}

/// Log weights with ties, dead chains and widely spread values, at least one of them alive.
fn log_weights() -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![
        4 => -5.0..5.0,
        2 => -1e3..1e3,
        1 => Just(DEAD),
        1 => Just(0.5),
    ];
    prop::collection::vec(weight, 1..80).prop_filter("all dead", |w: &Vec<f64>| {
        w.iter().any(|x: &f64| x.is_finite())
    })
}

proptest! {
    #[test]
    fn merging_equals_a_single_pass(weights in log_weights(), split in 0.0..1.0) {
        let (left, right) = weights.split_at((split * weights.len() as f64) as usize);
        let mut merged = sums(left);
        merged.merge(&sums(right));
        let whole = sums(&weights);
        prop_assert_eq!(merged.count(), whole.count());
        prop_assert!(close(merged.log_mean(), whole.log_mean(), 1e-12));
        prop_assert!(close(merged.effective_sample_size(), whole.effective_sample_size(), 1e-12));
    }

    #[test]
    fn accumulator_and_estimate_agree(weights in log_weights()) {
        let estimate = Estimate::from_log_weights(&weights).unwrap();
        let sums = sums(&weights);
        prop_assert!(close(estimate.value(), sums.log_mean(), 1e-12));
        let ess = estimate.effective_sample_size();
        prop_assert!(close(ess, sums.effective_sample_size(), 1e-10));
        prop_assert!(ess >= 1.0 && ess <= weights.len() as f64);
        prop_assert!(estimate.mean_log_weight() <= estimate.value() + 1e-12 * ess);
        prop_assert!(estimate.largest_share() > 0.0 && estimate.largest_share() <= 1.0);
    }

    #[test]
    fn the_interval_contains_the_estimate_and_grows_with_its_level(weights in log_weights(), level in 0.001..0.99) {
        let estimate = Estimate::from_log_weights(&weights).unwrap();
        let (low, high) = estimate.interval_at(level).unwrap();
        let (wider_low, wider_high) = estimate.interval_at(level + 0.009).unwrap();
        prop_assert!(low <= estimate.value() && estimate.value() <= high);
        prop_assert!(wider_low <= low && high <= wider_high);
        prop_assert!(weights.len() == 1 || (low.is_finite() && high.is_finite()));
    }

    #[test]
    fn a_common_factor_shifts_everything(weights in log_weights(), shift in -1e4..1e4) {
        let shifted: Vec<f64> = weights.iter().map(|x| x + shift).collect();
        let before = Estimate::from_log_weights(&weights).unwrap();
        let after = Estimate::from_log_weights(&shifted).unwrap();
        let moved = before.shifted(shift);
        for (a, b) in [
            (after.value(), moved.value()),
            (after.mean_log_weight(), moved.mean_log_weight()),
            (after.var_log_weight(), moved.var_log_weight()),
            (after.standard_error(), moved.standard_error()),
            (after.interval().0, moved.interval().0),
            (after.largest_share(), before.largest_share()),
            (after.effective_sample_size(), before.effective_sample_size()),
        ] {
            prop_assert!(close(a, b, 1e-7), "{a} and {b}");
        }
        let (k_before, k_after) = (before.pareto_shape(), after.pareto_shape());
        prop_assert_eq!(k_before.is_some(), k_after.is_some());
    }
}
