//! Bounds that hold with their confidence: on weights of infinite variance, wherever a run ends.

use annealed::Error;
use annealed::adaptive::Rounds;
use annealed::ais::Ais;
use annealed::bidirectional::{Bridge, TargetSamples};
use annealed::estimate::{LogZ, certified_lower_bound, log_mean_exp};
use annealed::kernel::RandomWalkMetropolis;
use annealed::model::{Gaussian, NormalizedModel};
use annealed::nested::NestedSmc;
use annealed::path::{GeometricPath, TemperedPath};
use annealed::population::Resampling;
use annealed::random::{Purpose, stream};
use annealed::schedule::Schedule;
use annealed::tempering::Tempering;
use nalgebra::dvector;
use proptest::prelude::*;
use rand::RngExt;

/// Logs of so many weights of mean 1 with the tail `P(w > t) ~ t^-1.5`, which have no variance.
fn pareto(count: usize, index: usize) -> Vec<f64> {
    let mut rng = stream(index as u64, Purpose::TESTING, 0);
    let draw = |_| -(1.0 - rng.random::<f64>()).ln() / 1.5 - 3_f64.ln();
    (0..count).map(draw).collect()
}

/// At each of these numbers of chains a run may end.
const LOOKS: [usize; 3] = [16, 32, 64];

/// The share of runs whose bound lies above 0, the exact value, at any look, and how much chance allows at this level.
///
/// Whatever rule ends a run at one of the looks, even one that knows the exact value, it has no larger share.
fn violations(runs: usize, level: f64, bound: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let ever = |run: &usize| {
        let log_weights = pareto(64, *run);
        LOOKS.iter().any(|&n| bound(&log_weights[..n]) > 0.0)
    };
    let share = (0..runs).filter(ever).count() as f64 / runs as f64;
    let error = (level * (1.0 - level) / runs as f64).sqrt();
    (share, level + 4.0 * error)
}

#[test]
fn bounds_hold_wherever_a_run_ends() {
    for confidence in [0.95, 0.99] {
        let bound = |log_weights: &[f64]| certified_lower_bound(log_weights, confidence).unwrap();
        let (share, most) = violations(10_000, 1.0 - confidence, bound);
        println!("{confidence}: {share}");
        assert!(share <= most, "{confidence}: {share}");
        // It is not empty: in half of the runs it lies less than so much below 0.
        let mut bounds = Vec::from_iter((0..501).map(|run| bound(&pareto(256, run))));
        bounds.sort_by(f64::total_cmp);
        assert!(bounds[250] > -0.4, "{confidence}: {}", bounds[250]);
    }
}

/// The logs of the means of eight groups.
fn groups(log_weights: &[f64]) -> Vec<f64> {
    let group = |g| Vec::from_iter(log_weights.iter().copied().skip(g).step_by(8));
    (0..8).map(|g| log_mean_exp(&group(g))).collect()
}

#[test]
fn wrong_bounds_do_not_hold() {
    let highest = |w: &[f64]| groups(w).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let mean = |w: &[f64]| groups(w).iter().sum::<f64>() / 8.0;
    type Bound<'a> = &'a dyn Fn(&[f64]) -> f64;
    let twins: [(&str, Bound<'_>); 2] = [
        ("the highest of groups", &highest),
        ("the mean of groups without a slack", &mean),
    ];
    for (name, twin) in twins {
        let (share, most) = violations(1_000, 0.05, twin);
        println!("{name}: {share}");
        assert!(share > most, "{name}: {share}");
    }
}

/// `sum_k p_k prod_i (1 - l_k + l_k w_i / z)` with `l_k = 2^-k` and p_k in proportion to `1 / (k + 1)`.
fn wealth(weights: &[f64], z: f64) -> f64 {
    let share = |k: i32| 1.0 / f64::from(k + 1);
    let all: f64 = (0..10).map(share).sum();
    let product = |k: i32| {
        let stake = 0.5_f64.powi(k);
        let factors = weights.iter().map(|w| 1.0 - stake + stake * w / z);
        share(k) / all * factors.product::<f64>()
    };
    (0..10).map(product).sum()
}

proptest! {
    #[test]
    fn the_bound_is_where_the_wealth_is_enough(
        weights in prop::collection::vec(0.0..9.0_f64, 1..20),
        confidence in 0.5..0.999_f64,
        shift in -1e4..1e4_f64,
    ) {
        prop_assume!(weights.iter().any(|w| *w > 0.0));
        let logs = |shift: f64| Vec::from_iter(weights.iter().map(|w| w.ln() + shift));
        let bound = certified_lower_bound(&logs(0.0), confidence).unwrap();
        let enough = wealth(&weights, bound.exp()) * (1.0 - confidence);
        prop_assert!((enough - 1.0).abs() < 1e-6, "{enough}");
        prop_assert!(bound < log_mean_exp(&logs(0.0)));
        let shifted = certified_lower_bound(&logs(shift), confidence).unwrap();
        prop_assert!((shifted - shift - bound).abs() < 1e-7);
        let surer = certified_lower_bound(&logs(0.0), 0.5 + 0.5 * confidence).unwrap();
        prop_assert!(surer < bound);
    }
}

#[test]
fn huge_and_lone_weights_have_a_bound() {
    const DEAD: f64 = f64::NEG_INFINITY;
    for top in [0.0, 1e5, -1e5] {
        let mut log_weights = vec![DEAD; 100_000];
        log_weights[7] = top;
        let bound = certified_lower_bound(&log_weights, 0.95).unwrap();
        let mean = log_mean_exp(&log_weights);
        assert!(bound.is_finite() && bound < mean, "{bound}");
    }
    for (log_weights, confidence) in [
        (vec![], 0.95),
        (vec![0.0, f64::NAN], 0.95),
        (vec![DEAD; 3], 0.95),
        (vec![0.0; 3], 0.0),
        (vec![0.0; 3], 1.0),
        (vec![0.0; 3], f64::NAN),
    ] {
        let refused = certified_lower_bound(&log_weights, confidence);
        assert!(refused.is_err(), "{confidence}: {refused:?}");
    }
}

type Path = GeometricPath<Gaussian, Gaussian>;

fn path(deviation: f64) -> Path {
    let target = Gaussian::isotropic(dvector![0.5], deviation).unwrap();
    GeometricPath::new(Gaussian::standard(1).unwrap(), target)
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.5).unwrap()
}

fn ais(path: &Path) -> Ais<'_, &Path, RandomWalkMetropolis> {
    Ais::new(path, walk())
        .schedule(Schedule::linear(3).unwrap())
        .block_size(50)
        .chains(320)
}

/// The weights have no variance, since the target is twice as wide as the base.
#[test]
fn bounds_of_runs_that_end_by_their_error_hold() {
    let path = path(2.0);
    let exact = path.target().log_normalizer();
    let (mut above, mut ended) = (0, 0);
    for seed in 0..1_000 {
        let run = ais(&path).chains(1_000).until_error(0.08).seed(seed).run();
        let run = run.unwrap();
        above += usize::from(run.certified_lower_bound(0.95).unwrap().unwrap() > exact);
        ended += usize::from(run.chains() < 1_000);
    }
    // 5% of 1,000, and four standard errors.
    assert!(above <= 77 && ended > 200, "{above}, {ended}");
}

#[test]
fn the_bound_takes_chains_or_islands_as_its_weights() {
    let path = path(0.4);
    let log_z_0 = Gaussian::standard(1).unwrap().log_normalizer();
    let of = |weights: &[f64]| Some(certified_lower_bound(weights, 0.9).unwrap() + log_z_0);
    let run = ais(&path).run().unwrap();
    assert_eq!(
        run.certified_lower_bound(0.9).unwrap(),
        of(run.log_weights())
    );
    let resampling = Resampling::when_ess_below(0.9).unwrap();
    let run = ais(&path).resampling(resampling).run().unwrap();
    let islands = Vec::from_iter(run.log_weights().chunks(50).map(log_mean_exp));
    assert!(islands.len() == 7 && run.surviving_ancestors() < Some(320));
    assert_eq!(run.certified_lower_bound(0.9).unwrap(), of(&islands));
    for confidence in [0.0, 1.0, f64::NAN] {
        match run.certified_lower_bound(confidence) {
            Err(Error::InvalidArgument { argument, .. }) => assert_eq!(argument, "confidence"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nested_islands_have_a_bound() {
    let wide = Gaussian::isotropic(dvector![0.0], 2.0).unwrap();
    let narrow = Gaussian::isotropic(dvector![0.3], 0.05).unwrap();
    let problem = TemperedPath::new(wide, narrow);
    // The density of N(0, 4 + .05^2) at .3, and the likelihood's own normaliser.
    let variance: f64 = 4.0 + 0.05 * 0.05;
    let exact = 0.05_f64.ln() - 0.5 * variance.ln() - 0.5 * 0.09 / variance;
    let run = NestedSmc::new(&problem, walk()).seed(1).run().unwrap();
    assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
    let bound = run.certified_lower_bound(0.95).unwrap().unwrap();
    assert!(bound < exact && bound > exact - 0.5, "{bound}, {exact}");
    assert!(run.certified_lower_bound(1.0).is_err());
}

/// Each of four rounds has a quarter of the level where its own error could have ended them.
#[test]
fn rounds_that_choose_their_last_share_the_level() {
    let path = path(0.1);
    let rounds = || Rounds::fixed(&path, walk()).rounds(4).seed(2);
    let bounds = |rounds: Rounds<'_, &Path, RandomWalkMetropolis>, confidence| {
        let found = rounds.run().unwrap();
        let of_last = found.run().certified_lower_bound(confidence).unwrap();
        assert!(of_last.is_some());
        (found.certified_lower_bound(0.9).unwrap(), of_last)
    };
    let (planned, of_last) = bounds(rounds(), 0.9);
    assert_eq!(planned, of_last);
    let (by_error, of_last) = bounds(rounds().until_error(0.08), 1.0 - (1.0 - 0.9) / 4.0);
    assert_eq!(by_error, of_last);
}

#[test]
fn estimates_that_are_biased_have_no_bound() {
    let path = path(0.4);
    let forward = ais(&path).run().unwrap();
    let samples = TargetSamples::draw(path.target(), 320, 1);
    let reverse = ais(&path).reverse(&samples).unwrap();
    let backward = reverse.backward().certified_lower_bound(0.95);
    let bridge = Bridge::new(&forward, &reverse).unwrap();
    let tempering = Tempering::new(&path, walk())
        .ladders(8)
        .rounds(4)
        .run()
        .unwrap();
    for bound in [
        backward,
        bridge.certified_lower_bound(0.95),
        tempering.certified_lower_bound(0.95),
    ] {
        assert_eq!(bound, Ok(None));
    }
    assert!(bridge.certified_lower_bound(1.5).is_err());
    assert!(tempering.certified_lower_bound(0.0).is_err());
}
