//! Annealing a small RBM against dense matrices (every expectation exactly), and the fused block
//! step against the reference step.

use annealed::ais::Ais;
use annealed::estimate::{LogZ, Warning};
use annealed::kernel::{Block, Repeat, Sequence, Stage, TransitionKernel};
use annealed::model::{NormalizedModel, Sampleable, UnnormalizedModel};
use annealed::path::{AnnealingPath, Intermediate, SimdLevel, Stationary};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, Rbm, RbmAt, RbmPath, Scalar};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector};
use rand::RngExt;

use crate::shared::block_gibbs::{
    OneByOne, Workspace, bits, block_of, check_frequencies, check_fused_moves, check_fused_ratios,
    engines, log_mean_and_rounding,
};

const RATIO: f64 = 4.823_180_957_934_806;

fn small<T: Scalar>() -> RbmPath<T> {
    let target = Rbm::new(
        DMatrix::from_row_slice(2, 3, &[1.0, -1.0, 0.5, -0.5, 1.0, 2.0]),
        vector([0.2, -0.3]),
        vector([0.1, -0.2, 0.3]),
    );
    let base = BaseRate::uniform(2, 3).unwrap();
    RbmPath::new(base, target.unwrap().cast().unwrap()).unwrap()
}

fn vector<T: Scalar, const N: usize>(entries: [T; N]) -> DVector<T> {
    DVector::from_row_slice(&entries)
}

fn product(p: &DVector<f64>, units: &[bool]) -> f64 {
    p.iter()
        .zip(units)
        .map(|(p, &on)| if on { *p } else { 1.0 - p })
        .product()
}

/// `T(v, v') = sum_h p(h | v) p(v' | h)` over the 8 visible states.
fn transition(at: RbmAt<'_, f64>) -> DMatrix<f64> {
    let rbm = at.to_rbm().unwrap();
    DMatrix::from_fn(8, 8, |from, to| {
        let hidden = rbm.hidden_probabilities(&bits(from, 3));
        let paths = (0..4)
            .map(|h| bits(h, 2))
            .map(|h| product(&hidden, &h) * product(&rbm.visible_probabilities(&h), &bits(to, 3)));
        paths.sum()
    })
}

fn weights(path: &RbmPath<f64>, from: f64, to: f64, power: f64) -> DMatrix<f64> {
    let ratio = |v: usize| path.at(to).log_ratio(&path.at(from), &bits(v, 3));
    DMatrix::from_diagonal(&DVector::from_fn(8, |v, _| (power * ratio(v)).exp()))
}

/// `E[w^power]` where `stage` gives each stage's matrix from `D_k` and the transitions at
/// `beta_{k-1}` and `beta_k`.
fn expectation(
    steps: usize,
    power: f64,
    stage: impl Fn(DMatrix<f64>, DMatrix<f64>, DMatrix<f64>) -> DMatrix<f64>,
) -> f64 {
    let path = small();
    let schedule = Schedule::linear(steps).unwrap();
    let mut row = DVector::from_element(8, 1.0 / 8.0).transpose();
    for betas in schedule.betas().windows(2) {
        let d = weights(&path, betas[0], betas[1], power);
        row *= stage(
            d,
            transition(path.at(betas[0])),
            transition(path.at(betas[1])),
        );
    }
    row.sum()
}

#[test]
fn the_expected_weight_is_the_ratio_of_normalisers_for_any_number_of_steps() {
    let exact = small::<f64>().target().exact_log_normalizer().unwrap();
    assert!((exact - 154.341_790_653_913_8_f64.ln()).abs() < 1e-13);
    let table = [
        (1, 0.617_109_5),
        (2, 0.728_370_1),
        (4, 0.832_366_7),
        (10, 0.922_590_7),
        (100, 0.991_498_7),
    ];
    for (steps, efficiency) in table {
        let mean = expectation(steps, 1.0, |d, _, t| d * t);
        let square = expectation(steps, 2.0, |d, _, t| d * t);
        assert!((mean / RATIO - 1.0).abs() < 1e-12, "K = {steps}: {mean}");
        assert!(
            (mean * mean / square - efficiency).abs() < 1e-7,
            "K = {steps}"
        );
    }
}

#[test]
fn the_wrong_orders_are_biased_as_tabled() {
    let moved_first = expectation(4, 1.0, |d, _, t| t * d) / RATIO;
    assert!(
        (moved_first.ln() - 0.172_806_3).abs() < 1e-7,
        "{}",
        moved_first.ln()
    );
    let moved_at_old_beta = expectation(4, 1.0, |d, old, _| d * old) / RATIO;
    assert!(
        (moved_at_old_beta.ln() + 0.150_501_5).abs() < 1e-7,
        "{}",
        moved_at_old_beta.ln()
    );
}

fn block<T: Scalar>(path: &RbmPath<T>, chains: usize, seed: u64) -> Block<Vec<bool>> {
    let mut rng = stream(seed, Purpose::PILOT, 0);
    let states = (0..chains).map(|_| path.base().sample(&mut rng)).collect();
    block_of(states, seed)
}

/// The weights of so many chains that a standard error is a little less than .02.
fn anneal<'a, T: Scalar, K>(kernel: &K, path: &'a RbmPath<T>, steps: usize, seed: u64) -> Vec<f64>
where
    K: TransitionKernel<RbmAt<'a, T>>,
{
    let schedule = Schedule::linear(steps).unwrap();
    let mut weights = Vec::new();
    let parts = match steps {
        1 => 192,
        4 => 64,
        _ => 32,
    };
    for part in 0..parts {
        let mut block = block(path, 256, seed + part);
        let mut workspace = K::Workspace::default();
        for (k, betas) in schedule.betas().windows(2).enumerate() {
            let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
            let stage = Stage::new(k + 1, &left, &reached);
            kernel.advance(stage, &mut block, &mut workspace).unwrap();
        }
        weights.extend(block.log_weights().iter().map(|w| w.exp()));
    }
    weights
}

fn check_unbiased(name: &str, weights: &[f64], steps: usize, sweeps: u32) {
    let n = weights.len() as f64;
    let mean = weights.iter().sum::<f64>() / n;
    let se = (weights.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!(se < 0.02, "{name}, K = {steps}: standard error {se}");
    assert!(
        (mean - RATIO).abs() < 4.0 * se,
        "{name}, K = {steps}: {mean} +- {se}"
    );
    // The spread of the weights is known too: ESS/N as tabled.
    let ess = weights.iter().sum::<f64>().powi(2) / weights.iter().map(|w| w * w).sum::<f64>() / n;
    let exact = RATIO * RATIO / expectation(steps, 2.0, |d, _, t| d * t.pow(sweeps));
    assert!(
        (ess - exact).abs() < 0.01,
        "{name}, K = {steps}: ESS/N {ess}, exactly {exact}"
    );
}

/// A false alarm in 16,000 runs for each.
#[test]
fn sampled_weights_average_to_the_ratio_of_normalisers() {
    for steps in [1, 4, 10] {
        for engine in engines() {
            let path = small::<f32>().with_simd_level(engine).unwrap();
            let weights = anneal(&BlockGibbs, &path, steps, 1);
            check_unbiased(&format!("{engine}, f32"), &weights, steps, 1);
            let path = small::<f64>().with_simd_level(engine).unwrap();
            let weights = anneal(&BlockGibbs, &path, steps, 2);
            check_unbiased(&format!("{engine}, f64"), &weights, steps, 1);
        }
        let weights = anneal(&OneByOne, &small::<f64>(), steps, 3);
        check_unbiased("one by one", &weights, steps, 1);
    }
}

fn check_transition<'a, T: Scalar, K>(name: &str, kernel: &K, path: &'a RbmPath<T>, sweeps: u32)
where
    K: TransitionKernel<RbmAt<'a, T>>,
{
    let exact = transition(small::<f64>().at(0.95)).pow(sweeps);
    check_frequencies(name, kernel, path, (0.5, 0.95), &exact, 1 << 13);
}

#[test]
fn moves_have_the_exact_transition_probabilities() {
    for engine in engines() {
        let path = small::<f32>().with_simd_level(engine).unwrap();
        check_transition(&format!("{engine}, f32"), &BlockGibbs, &path, 1);
        let path = small::<f64>().with_simd_level(engine).unwrap();
        check_transition(&format!("{engine}, f64"), &BlockGibbs, &path, 1);
    }
    check_transition("one by one", &OneByOne, &small::<f64>(), 1);
}

/// If a kernel consists of several block Gibbs kernels, the first one weighs, and all move the block as a whole.
#[test]
fn repeated_sweeps_are_fused_and_exact() {
    let repeated = Repeat::new(BlockGibbs, 2).unwrap();
    let nested = Repeat::new(Sequence(BlockGibbs, repeated.clone()), 1).unwrap();
    for engine in engines() {
        let path = small::<f32>().with_simd_level(engine).unwrap();
        check_transition(&format!("{engine}, twice"), &repeated, &path, 2);
        let weights = anneal(&repeated, &path, 4, 5);
        check_unbiased(&format!("{engine}, twice"), &weights, 4, 2);
        check_transition(&format!("{engine}, nested"), &nested, &path, 3);
        let weights = anneal(&nested, &path, 4, 6);
        check_unbiased(&format!("{engine}, nested"), &weights, 4, 3);
        check_fused(&repeated, &path);
        check_fused(&nested, &path);
    }
    let repeated = Repeat::new(OneByOne, 2).unwrap();
    let weights = anneal(&repeated, &small::<f64>(), 4, 7);
    check_unbiased("per chain, twice", &weights, 4, 2);
}

fn check_fused<'a, K: TransitionKernel<RbmAt<'a, f32>>>(kernel: &K, path: &'a RbmPath<f32>) {
    let mut block = block(path, 10, 2);
    let before = block.clone();
    let (left, reached) = (path.at(0.4), path.at(0.6));
    let stage = Stage::new(1, &left, &reached);
    kernel
        .advance(stage, &mut block, &mut Default::default())
        .unwrap();
    for chain in 0..10 {
        let exact = stage.log_ratio(&before.states()[chain]);
        assert!((block.log_ratios()[chain] - exact).abs() < 1e-6);
        assert_eq!(block.log_ratios()[chain], block.log_weights()[chain]);
    }
    // Only the first chain's stream is touched: it seeds the generators of the block.
    assert_ne!(block.clone().chain_mut(0).1, before.clone().chain_mut(0).1);
    assert_eq!(block.clone().chain_mut(1).1, before.clone().chain_mut(1).1);
}

/// Sizes that do not fill the vector lanes, activations up to several hundred.
fn large<T: Scalar>() -> RbmPath<T> {
    let mut rng = stream(4, Purpose::PILOT, 1);
    let mut draw = |scale: f64| T::nearest(scale * (rng.random::<f64>() - 0.5));
    let target = Rbm::new(
        DMatrix::from_fn(37, 83, |j, _| draw(if j % 3 == 0 { 60.0 } else { 1.0 })),
        DVector::from_fn(37, |_, _| draw(2.0)),
        DVector::from_fn(83, |_, _| draw(2.0)),
    );
    let base = BaseRate::new(37, DVector::from_fn(83, |_, _| draw(4.0)));
    RbmPath::new(base.unwrap(), target.unwrap()).unwrap()
}

fn check_ratios<T: Scalar>(engine: SimdLevel, tolerance: f64) {
    let path = large::<T>().with_simd_level(engine).unwrap();
    // Few chains take another way through the matrix product than many.
    let stages = [(0.0, 0.5), (0.5, 0.51), (0.7, 0.7001), (0.999_99, 1.0)];
    for (betas, chains) in stages.into_iter().zip([40, 33, 1, 5]) {
        check_fused_ratios(&path, block(&path, chains, 6), betas, tolerance);
    }
}

#[test]
fn fused_weights_equal_the_reference() {
    for engine in engines() {
        check_ratios::<f32>(engine, 2e-3);
        check_ratios::<f64>(engine, 1e-9);
    }
}

/// A path from the uniform base to an RBM with normal parameters of this deviation.
fn scaled<T: Scalar>(hidden: usize, visible: usize, deviation: f64) -> RbmPath<T> {
    let mut rng = stream(4, Purpose::PILOT, 2);
    let mut draw =
        || T::nearest((deviation * rng.sample::<f64, _>(rand_distr::StandardNormal)) as f32 as f64);
    let target = Rbm::new(
        DMatrix::from_fn(hidden, visible, |_, _| draw()),
        DVector::from_fn(hidden, |_, _| draw()),
        DVector::from_fn(visible, |_, _| draw()),
    );
    let base = BaseRate::uniform(hidden, visible).unwrap();
    RbmPath::new(base, target.unwrap()).unwrap()
}

/// If the length of a stage were rounded to single precision, log Z would be off by .8 units in the last place.
#[test]
fn rounding_the_length_of_stages_does_not_move_single_precision() {
    for (engine, units) in engines().flat_map(|engine| [(engine, 10), (engine, 64)]) {
        let path = scaled(units, units, 1.0).with_simd_level(engine).unwrap();
        let (log_mean, error) = log_mean_and_rounding(&path, 500);
        let error = error / (0.5 * f64::from(f32::EPSILON) * log_mean);
        assert!(error.abs() < 0.4, "{engine}, {units} units: {error}");
    }
}

#[test]
fn rounding_stays_within_what_the_path_states() {
    for engine in engines() {
        for (hidden, visible) in [(3, 4), (10, 10), (20, 64)] {
            for deviation in [0.1, 1.0, 100.0, 1e4, 1e6] {
                let path = scaled(hidden, visible, deviation)
                    .with_simd_level(engine)
                    .unwrap();
                let (stated, error) = (
                    (&path).rounding_error(),
                    log_mean_and_rounding(&path, 100).1,
                );
                assert!(
                    error.abs() < stated,
                    "{engine}, {hidden} x {visible}, {deviation}: {error:e} {stated:e}"
                );
            }
        }
    }
}

#[test]
fn a_run_whose_rounding_is_not_small_warns() {
    fn warned<T: Scalar>(deviation: f64) -> bool {
        let path = scaled::<T>(3, 4, deviation);
        let ais = Ais::new(&path, BlockGibbs).schedule(Schedule::linear(200).unwrap());
        let run = ais.chains(500).run().unwrap();
        let rounding = |warning: &Warning| matches!(warning, Warning::Rounding { .. });
        run.warnings().iter().any(rounding)
    }
    assert!(warned::<f32>(1e6));
    assert!(!warned::<f64>(1e6) && !warned::<f32>(1.0) && !warned::<f32>(100.0));
}

/// An interval of 100,000 chains after 100,000 stages is wider.
#[test]
fn trained_rbms_are_not_warned_of_rounding() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/rbm");
    if !std::path::Path::new(folder).exists() {
        eprintln!("skipped: reads ../shared/data/rbm, which is not there");
        return;
    }
    for name in ["rbm20_cd1", "rbm_mnist_500", "rbm500_cd25_sm08"] {
        let file = annealed_files::RbmFile::<f32>::read(format!("{folder}/{name}.npz")).unwrap();
        let path = RbmPath::new(file.base.unwrap(), file.rbm).unwrap();
        let stated = (&path).rounding_error();
        assert!(1e-6 < stated && stated < 2e-4, "{name}: {stated:e}");
    }
}

#[test]
fn fused_moves_agree_with_the_reference_on_every_unit() {
    engines().for_each(check_moves);
}

fn check_moves(engine: SimdLevel) {
    let path = large::<f32>().with_simd_level(engine).unwrap();
    // 83 units: 4.5 standard errors are exceeded once in 1,800 runs.
    check_fused_moves(&path, (0.2, 0.3), 4_096, 4.5);
}

#[test]
fn the_same_streams_give_the_same_bits_whatever_the_workspace_held_before() {
    let path = large::<f32>();
    let run = |workspace: &mut Workspace<'_, f32>| {
        let mut block = block(&path, 20, 3);
        let (left, reached) = (path.at(0.5), path.at(0.6));
        let stage = Stage::new(1, &left, &reached);
        BlockGibbs.advance(stage, &mut block, workspace).unwrap();
        (block.states().to_vec(), block.log_weights().to_vec())
    };
    let fresh = run(&mut Default::default());
    assert_eq!(fresh, run(&mut Default::default()));
    // A workspace of another size is made anew.
    let mut other = Workspace::default();
    let mut block = block(&path, 30, 3);
    let (left, reached) = (path.at(0.1), path.at(0.2));
    let stage = Stage::new(1, &left, &reached);
    BlockGibbs.advance(stage, &mut block, &mut other).unwrap();
    assert_eq!(fresh, run(&mut other));
}

#[test]
fn a_plain_rbm_is_sampled_by_the_same_kernel() {
    let path = small::<f64>();
    let rbm = path.target();
    let model = Stationary(rbm);
    let stage = Stage::new(1, &model, &model);
    let mut rng = stream(1, Purpose::RUN, 0);
    let mut state = bits(0, 3);
    let sweeps = 100_000;
    let mut ink = 0.0;
    for _ in 0..sweeps {
        BlockGibbs
            .step(stage, &mut state, &mut (), &mut rng)
            .unwrap();
        ink += state.iter().filter(|&&on| on).count() as f64 / f64::from(sweeps);
    }
    let exact = rbm.exact_moments().unwrap().visible.sum();
    // The variance is below 1 and the autocorrelation time below 4 sweeps.
    assert!(
        (ink - exact).abs() < 4.0 * (4.0 / f64::from(sweeps)).sqrt(),
        "{ink} {exact}"
    );
}

#[test]
fn an_engine_that_the_machine_lacks_is_refused_by_name() {
    for engine in SimdLevel::ALL {
        assert_eq!(engine.to_string().parse::<SimdLevel>().unwrap(), engine);
        match small::<f32>().with_simd_level(engine) {
            Ok(path) => assert_eq!(path.simd_level(), engine),
            Err(error) => assert!(error.to_string().contains(&engine.to_string()), "{error}"),
        }
    }
    assert!("sse9".parse::<SimdLevel>().is_err());
    assert!(SimdLevel::best().is_available() && SimdLevel::Portable.is_available());
}

/// The exact log Z of an RBM of 20 hidden and 784 visible units, on every engine, whatever the
/// number of threads.
#[test]
fn every_engine_finds_the_log_z_of_a_trained_rbm() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/rbm/rbm20_pcd.npz"
    );
    if !std::path::Path::new(file).exists() {
        eprintln!("skipped: reads ../shared/data/rbm/rbm20_pcd.npz, which is not there");
        return;
    }
    let file = annealed_files::RbmFile::<f32>::read(file).unwrap();
    let exact = file.log_z_exact.unwrap();
    for engine in engines() {
        let path = RbmPath::new(file.base.clone().unwrap(), file.rbm.clone()).unwrap();
        let path = path.with_simd_level(engine).unwrap();
        let run = |threads: usize, chains: usize| {
            let ais = Ais::new(&path, BlockGibbs).chains(chains).block_size(64);
            ais.seed(3).threads(threads).run().unwrap()
        };
        // The first blocks of a run are those of a shorter one.
        let (one, two) = (run(1, 300), run(2, 128));
        assert_eq!(one.log_weights()[..128], *two.log_weights(), "{engine}");
        assert_eq!(one.simd_level(), Some(engine));
        let (error, se) = (one.log_z() - exact, one.standard_error());
        assert!(
            se < 0.3 && error.abs() < 4.0 * se,
            "{engine}: {error} +- {se}"
        );
    }
}

#[test]
fn an_empty_block_is_moved_without_error() {
    let path = small::<f32>();
    let (left, reached) = (path.at(0.0), path.at(1.0));
    let stage = Stage::new(1, &left, &reached);
    let mut empty = Block::new(0, Vec::new(), Vec::new());
    BlockGibbs
        .advance(stage, &mut empty, &mut Default::default())
        .unwrap();
    assert!(path.base().log_normalizer() > 0.0 && path.at(0.5).log_density(&bits(5, 3)) > 0.0);
}
