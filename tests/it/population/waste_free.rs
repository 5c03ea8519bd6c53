//! Waste-free sequential Monte Carlo: unbiased islands, figures of stages, errors.

use crate::shared;
use annealed::Error;
use annealed::ais::{Ais, Run, RunPart};
use annealed::estimate::{LogZ, Warning, WeightedSample};
use annealed::kernel::{Hmc, RandomWalkMetropolis};
use annealed::model::{Gaussian, NormalizedModel};
use annealed::path::GeometricPath;
use annealed::population::{Resampling, WasteFree};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dmatrix, dvector};

use crate::shared::islands::{SCHEMES, bias_of};
use crate::shared::ring::{self, Flavor, Table, Walk};

const ISLANDS: usize = 10_000;

fn waste_free(ancestors: usize) -> WasteFree {
    WasteFree::new(ancestors).unwrap()
}

type Finite = GeometricPath<Table, Table>;

fn finite() -> Finite {
    GeometricPath::new(ring::base(), ring::target())
}

fn ais(path: &Finite, steps: usize, chains: usize, island: usize) -> Ais<'_, &Finite, Walk> {
    Ais::with_base_log_z(path, Walk(Flavor::Right), 0.0)
        .schedule(Schedule::linear(steps).unwrap())
        .chains(chains)
        .block_size(island)
        .seed(9)
}

fn assert_unbiased<S>(run: &Run<S>, island: usize, log_ratio: f64) {
    let (bias, error) = bias_of(run, island, log_ratio);
    assert!(bias.abs() <= 4.0 * error, "{bias} +- {error}");
    assert!(error < 0.01, "{error}");
}

#[test]
fn islands_are_unbiased_for_each_scheme_and_length_of_trajectories() {
    let path = finite();
    for scheme in SCHEMES {
        // Of 8 states two trajectories have 4 each; of three, one is shorter than the others.
        for ancestors in [2, 3] {
            let run = ais(&path, 4, 8 * ISLANDS, 8)
                .recorded_stages(1)
                .waste_free(waste_free(ancestors).scheme(scheme))
                .run()
                .unwrap();
            assert_unbiased(&run, 8, ring::log_ratio());
        }
    }
}

#[test]
fn islands_of_block_gibbs_are_unbiased() {
    let weights = dmatrix![1.0, -1.0, 0.5; -0.5, 1.0, 2.0];
    let rbm = Rbm::<f64>::new(weights, dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]).unwrap();
    let path = RbmPath::new(BaseRate::uniform(2, 3).unwrap(), rbm).unwrap();
    let schedule = || Schedule::linear(3).unwrap();
    let run = Ais::with_base_log_z(&path, BlockGibbs, 0.0)
        .schedule(schedule())
        .chains(7 * ISLANDS)
        .block_size(7)
        .waste_free(waste_free(2))
        .run()
        .unwrap();
    assert_unbiased(&run, 7, 4.823_180_957_934_806_f64.ln());
    // Of 7 states 5 are moved at stages 1 and 2, and all at the last.
    let moves: Vec<u64> = run.stages().iter().map(|stage| stage.undecided).collect();
    assert_eq!(moves, [5, 5, 7].map(|moves| moves * ISLANDS as u64));
}

#[test]
fn islands_of_hmc_are_unbiased() {
    // Values and gradients that are known of a state go with the state.
    const ISLANDS: usize = 25_000;
    let base = Gaussian::new(dvector![0.5, 0.0], dmatrix![1.5, -0.3; -0.3, 1.0]).unwrap();
    let target = Gaussian::new(dvector![1.6, -0.8], dmatrix![0.5, 0.2; 0.2, 0.4]).unwrap();
    let log_ratio = target.log_normalizer() - base.log_normalizer();
    let path = GeometricPath::new(base, target);
    let run = Ais::with_base_log_z(&path, Hmc::new(0.4, 1).unwrap(), 0.0)
        .schedule(Schedule::linear(5).unwrap())
        .chains(8 * ISLANDS)
        .block_size(8)
        .waste_free(waste_free(3))
        .run()
        .unwrap();
    assert_unbiased(&run, 8, log_ratio);
}

#[test]
fn stages_know_log_z_and_the_acceptance_of_all_moves() {
    let path = finite();
    let run = ais(&path, 8, 50_000, 500)
        .waste_free(waste_free(50))
        .run()
        .unwrap();
    for stage in run.stages() {
        let exact =
            Table(ring::log_blend(stage.beta)).log_normalizer() - ring::base().log_normalizer();
        // The islands' error of the whole run bounds that of each stage.
        let error = run.standard_error();
        assert!(error < 0.02, "{error}");
        assert!((stage.log_z_ratio - exact).abs() < 4.0 * error, "{stage:?}");
        // The last stage moves all chains once, from where they were before it.
        let acceptance = stage.acceptance.unwrap();
        assert!(
            stage.stage == 8 || (acceptance - exact_acceptance(stage.beta)).abs() < 0.02,
            "{stage:?}"
        );
    }
    let last = run.stages().last().unwrap();
    assert!((last.log_z_ratio - run.log_z_ratio()).abs() < 1e-12);
    let thermodynamic = run.thermodynamic_log_z().unwrap();
    assert!((thermodynamic - ring::log_ratio()).abs() < 0.15);
    let (mean, error) = run.expectation(|&x| (x * x) as f64);
    let z = ring::target().log_normalizer();
    let exact: f64 = (0..5)
        .map(|x| (x * x) as f64 * (ring::target().0[x] - z).exp())
        .sum();
    assert!(
        (mean - exact).abs() < 4.0 * error && error < 0.25,
        "{mean} +- {error}"
    );
}

/// The acceptance of the walk in equilibrium.
fn exact_acceptance(beta: f64) -> f64 {
    let f = ring::log_blend(beta);
    let z = Table(f).log_normalizer();
    let rate = |x: usize| {
        let to = |y: usize| 0.5 * (f[y % 5] - f[x]).exp().min(1.0);
        (f[x] - z).exp() * (to(x + 1) + to(x + 4))
    };
    (0..5).map(rate).sum()
}

#[test]
fn errors_from_islands_are_those_of_repeated_runs() {
    let gaussian = |mean: f64, variance: f64| {
        Gaussian::isotropic(DVector::from_element(5, mean), variance).unwrap()
    };
    let path = GeometricPath::new(gaussian(0.0, 1.0), gaussian(0.4, 0.6));
    let truth = gaussian(0.4, 0.6).log_normalizer();
    check_errors(truth, |seed| {
        Ais::new(&path, RandomWalkMetropolis::new(0.35).unwrap())
            .schedule(Schedule::linear(10).unwrap())
            .chains(20 * 25)
            .block_size(25)
            .seed(seed)
            .waste_free(waste_free(5))
            .run()
            .unwrap()
    });
    let path = finite();
    check_errors(ring::log_ratio(), |seed| {
        let run = ais(&path, 5, 20 * 25, 25).seed(seed);
        run.waste_free(waste_free(5)).run().unwrap()
    });
}

/// Compares errors and intervals of 400 runs with their deviations from the truth.
fn check_errors<S>(truth: f64, run: impl Fn(u64) -> Run<S>) {
    const SEEDS: u64 = 400;
    let (mut squares, mut variances, mut covered) = (0.0, 0.0, 0);
    for seed in 0..SEEDS {
        let run = run(seed);
        squares += (run.log_z() - truth).powi(2);
        variances += run.standard_error().powi(2);
        let (lower, upper) = run.interval();
        covered += usize::from(lower <= truth && truth <= upper);
    }
    let ratio = (squares / variances).sqrt();
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
    let coverage = covered as f64 / SEEDS as f64;
    assert!((0.92..=0.985).contains(&coverage), "{coverage}");
}

#[test]
fn the_bits_depend_neither_on_threads_nor_on_parts() {
    let path = finite();
    let run = |threads| {
        let ais = ais(&path, 5, 230, 50).waste_free(waste_free(7));
        ais.threads(threads).run().unwrap()
    };
    let one = run(1);
    for other in [run(2), run(3)] {
        assert_eq!(one.log_weights(), other.log_weights());
        assert_eq!(one.states(), other.states());
        assert_eq!(one.estimate(), other.estimate());
        assert_eq!(one.surviving_ancestors(), other.surviving_ancestors());
    }
    let ais = |ancestors| ais(&path, 5, 230, 50).waste_free(waste_free(ancestors));
    let parts = [100..230, 0..100].map(|range| ais(7).run_range(range).unwrap());
    let merged = RunPart::merge(parts).unwrap();
    assert_eq!(merged.log_weights(), one.log_weights());
    assert_eq!(merged.stages(), one.stages());
    let different = [ais(7).run_range(0..100), ais(6).run_range(100..230)];
    assert!(RunPart::merge(different.map(Result::unwrap)).is_err());
}

#[test]
fn settings_out_of_range_are_refused_and_the_last_one_holds() {
    assert!(WasteFree::new(0).is_err());
    let path = finite();
    let too_many = ais(&path, 5, 100, 50).waste_free(waste_free(51)).run();
    let text = too_many.unwrap_err().to_string();
    assert!(
        text.contains("ancestors") && text.contains("at most 50"),
        "{text}"
    );
    let too_many = ais(&path, 5, 40, usize::MAX)
        .waste_free(waste_free(41))
        .run();
    assert!(matches!(
        too_many.unwrap_err(),
        Error::InvalidArgument { .. }
    ));
    // A shorter last block of 3 chains has one ancestor; as many ancestors as chains are not moved.
    for (chains, ancestors) in [(103, 5), (103, 50), (100, 1)] {
        let run = ais(&path, 5, chains, 50)
            .waste_free(waste_free(ancestors))
            .run();
        assert_eq!(run.unwrap().states().len(), chains);
    }
    let resampling = Resampling::every(1).unwrap();
    let ais = || ais(&path, 5, 100, 50);
    let last = ais()
        .waste_free(waste_free(5))
        .resampling(resampling.clone());
    let alone = ais().resampling(resampling.clone());
    let last = last.run().unwrap();
    assert_eq!(last.log_weights(), alone.run().unwrap().log_weights());
    let last = ais().resampling(resampling).waste_free(waste_free(5));
    let alone = ais().waste_free(waste_free(5));
    assert_eq!(last.run().unwrap().states(), alone.run().unwrap().states());
}

#[test]
fn a_lonely_ancestor_leaves_the_error_unknown() {
    let path = finite();
    let run = ais(&path, 5, 50, 50)
        .waste_free(waste_free(1))
        .run()
        .unwrap();
    assert_eq!(run.surviving_ancestors(), Some(1));
    assert_eq!(run.standard_error(), f64::INFINITY);
    let few = |w: &Warning| matches!(w, Warning::FewFamilies { .. });
    assert!(run.warnings().iter().any(few));
}

#[test]
fn dead_blocks_stay_dead() {
    // Nearly all of the base lies where the target has no density.
    let half = |x: &DVector<f64>| if x[0] > 2.0 { 0.0 } else { f64::NEG_INFINITY };
    let target = shared::function(move |x: &DVector<f64>| half(x) - 0.5 * x[0] * x[0]);
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), target);
    let run = Ais::with_base_log_z(&path, RandomWalkMetropolis::new(0.5).unwrap(), 0.0)
        .schedule(Schedule::linear(4).unwrap())
        .chains(20_000)
        .block_size(10)
        .waste_free(waste_free(2))
        .run()
        .unwrap();
    let exact = 0.022_750_131_948_179_f64.ln();
    assert!(
        (run.log_z() - exact).abs() < 4.0 * run.standard_error(),
        "{run}"
    );
    assert!(run.estimate().dead_chains() > 10_000);
    assert!(run.standard_error() < 0.1, "{run}");
}

#[cfg(feature = "serde")]
#[test]
fn parts_go_through_json() {
    let path = finite();
    let ais = ais(&path, 5, 230, 50).waste_free(waste_free(7));
    let part = ais.run_range(0..230).unwrap();
    let text = serde_json::to_string(&part).unwrap();
    let read: RunPart<usize> = serde_json::from_str(&text).unwrap();
    let (run, read) = (ais.run().unwrap(), RunPart::merge([read]).unwrap());
    assert_eq!(run.estimate(), read.estimate());
    let text = serde_json::to_string(&run).unwrap();
    let again: Run<usize> = serde_json::from_str(&text).unwrap();
    assert_eq!(again.estimate(), run.estimate());
    assert_eq!(again.to_string(), run.to_string());
}
