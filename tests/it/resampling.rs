//! Resampling between stages: unbiased estimates, honest errors, memory that follows its chain.

use annealed::ais::{Ais, Resampling, ResamplingScheme};
use annealed::estimate::{Estimate, log_mean_exp};
use annealed::kernel::{Hmc, PersistentHmc, RandomWalkMetropolis, TransitionKernel};
use annealed::model::{Gaussian, NormalizedModel};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dmatrix, dvector};

const SCHEMES: [ResamplingScheme; 4] = [
    ResamplingScheme::Multinomial,
    ResamplingScheme::Residual,
    ResamplingScheme::Stratified,
    ResamplingScheme::Systematic,
];

fn base() -> Gaussian {
    Gaussian::new(dvector![0.5, 0.0], dmatrix![1.5, -0.3; -0.3, 1.0]).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![1.6, -0.8], dmatrix![0.5, 0.2; 0.2, 0.4]).unwrap()
}

fn truth() -> f64 {
    target().log_normalizer() - base().log_normalizer()
}

/// Mean of the islands' estimates of `Z_K/Z_0` over the true one, minus 1, and its standard error.
fn bias<'p, P, K>(path: &'p P, kernel: K, resampling: Resampling) -> (f64, f64)
where
    P: AnnealingPath<State = DVector<f64>> + Sync,
    K: TransitionKernel<P::At<'p>> + Sync,
{
    const ISLAND: usize = 8;
    const ISLANDS: usize = 100_000;
    let run = Ais::with_base_log_z(path, kernel, 0.0)
        .schedule(Schedule::linear(5).unwrap())
        .chains(ISLAND * ISLANDS)
        .block_size(ISLAND)
        .recorded_stages(1)
        .seed(3)
        .resampling(resampling)
        .run()
        .unwrap();
    let islands = run.log_weights().chunks(ISLAND);
    let ratios: Vec<f64> = islands.map(|w| (log_mean_exp(w) - truth()).exp()).collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let square = ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean - 1.0, (square / n).sqrt())
}

#[test]
fn islands_are_unbiased_for_each_scheme_and_rule() {
    let path = GeometricPath::new(base(), target());
    let walk = RandomWalkMetropolis::new(0.5).unwrap();
    for scheme in SCHEMES {
        for rule in [Resampling::every(2), Resampling::when_ess_below(0.6)] {
            let (bias, error) = bias(&path, &walk, rule.unwrap().scheme(scheme));
            assert!(bias.abs() <= 4.0 * error, "{scheme:?}: {bias} +- {error}");
            assert!(error < 0.01, "{scheme:?}: {error}");
        }
    }
}

#[test]
fn momenta_follow_their_chains() {
    let path = GaussianPath::new(base(), target()).unwrap();
    let kernel = PersistentHmc::new(0.4, 2, 0.3).unwrap();
    let resampling = Resampling::every(1).unwrap();
    let (bias, error) = bias(&path, kernel, resampling);
    assert!(
        bias.abs() <= 4.0 * error && error < 0.01,
        "{bias} +- {error}"
    );
}

#[test]
fn errors_from_families_are_those_of_repeated_runs() {
    let path = GeometricPath::new(base(), target());
    for (block_size, resampling) in [
        (500, Resampling::when_ess_below(0.5).unwrap()),
        (50, Resampling::every(5).unwrap()),
    ] {
        let (mut squares, mut variances, mut covered, mut mean) = (0.0, 0.0, 0, 0.0);
        const SEEDS: u64 = 400;
        for seed in 0..SEEDS {
            let run = Ais::with_base_log_z(&path, RandomWalkMetropolis::new(0.4).unwrap(), 0.0)
                .schedule(Schedule::linear(30).unwrap())
                .chains(500)
                .block_size(block_size)
                .resampling(resampling.clone())
                .seed(seed)
                .run()
                .unwrap();
            let error = run.log_z() - truth();
            squares += error * error;
            mean += error / SEEDS as f64;
            variances += run.standard_error().powi(2);
            let (lower, upper) = run.interval();
            covered += usize::from(lower <= truth() && truth() <= upper);
            assert!(run.surviving_ancestors().unwrap() > 50);
            assert!(run.effective_sample_size() <= run.surviving_ancestors().unwrap() as f64);
        }
        let ratio = (squares / variances).sqrt();
        assert!((0.8..1.2).contains(&ratio), "{block_size}: {ratio}");
        let coverage = covered as f64 / SEEDS as f64;
        assert!(coverage > 0.92, "{block_size}: {coverage}");
        let spread = (squares / SEEDS as f64).sqrt();
        assert!(
            mean.abs() < 4.0 * spread / (SEEDS as f64).sqrt() + 0.01,
            "{mean}"
        );
    }
}

#[test]
fn resampled_runs_have_the_same_bits_on_any_number_of_threads() {
    let path = GeometricPath::new(base(), target());
    let run = |threads| {
        Ais::new(&path, Hmc::new(0.3, 2).unwrap())
            .schedule(Schedule::linear(20).unwrap())
            .chains(300)
            .block_size(64)
            .resampling(Resampling::when_ess_below(0.7).unwrap())
            .threads(threads)
            .run()
            .unwrap()
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.log_weights(), two.log_weights());
    assert_eq!(one.states(), two.states());
    assert_eq!(one.estimate(), two.estimate());
    assert_eq!(one.surviving_ancestors(), two.surviving_ancestors());
    // Stages and weights agree on log Z.
    let last = one.stages().last().unwrap();
    assert!((last.log_z_ratio - one.log_z_ratio()).abs() < 1e-12);
    let (x, error) = one.expectation(|x| x[0]);
    assert!(
        (x - 1.6).abs() < 4.0 * error && error < 0.2,
        "{x} +- {error}"
    );
}

#[test]
fn without_resampling_nothing_changes() {
    let path = GeometricPath::new(base(), target());
    let ais = || Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap()).chains(100);
    let schedule = Schedule::linear(5).unwrap();
    let plain = ais().schedule(schedule.clone()).run().unwrap();
    assert_eq!(plain.surviving_ancestors(), None);
    let estimate = Estimate::from_log_weights(plain.log_weights()).unwrap();
    assert_eq!(*plain.estimate(), estimate);
    // A rule that never applies gives the same weights.
    let never = Resampling::every(1_000).unwrap();
    let run = ais().schedule(schedule).resampling(never).run().unwrap();
    assert_eq!(run.log_weights(), plain.log_weights());
    assert_eq!(run.surviving_ancestors(), Some(100));
    assert!((run.standard_error() - plain.standard_error()).abs() < 1e-12);
    assert!(Resampling::every(0).is_err() && Resampling::when_ess_below(0.0).is_err());
    assert!(Resampling::when_ess_below(f64::NAN).is_err());
}
