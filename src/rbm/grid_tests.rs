//! Tests of paths with weights on a coarse grid. Runs are exact because a last weighing leads from the machine on the
//! grid to the exact machine. Without this weighing they would be biased.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::adaptive::{FirstPass, Rounds};
use crate::ais::Ais;
use crate::bidirectional::TargetSamples;
use crate::estimate::LogZ;
use crate::model::{NormalizedModel, UnnormalizedModel};
use crate::num::SimdLevel;
use crate::path::{AnnealingPath, Intermediate};
use crate::pilot::{Friction, ScheduleOptimizer, VarOpt};
use crate::population::{Resampling, WasteFree};
use crate::rbm::{BaseRate, BlockGibbs, Rbm, RbmAt, RbmPath};
use crate::schedule::Schedule;
use crate::tempering::Tempering;

const HIDDEN: usize = 6;
const VISIBLE: usize = 8;
/// Spacing of the grid. The weights have a standard deviation of 0.8.
const UNIT: f32 = 0.5;

fn machine(seed: u64) -> Rbm<f32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = |scale: f64| (scale * rng.sample::<f64, _>(StandardNormal)) as f32;
    let weights = DMatrix::from_fn(HIDDEN, VISIBLE, |_, _| normal(0.8));
    let hidden = DVector::from_fn(HIDDEN, |_, _| normal(0.3));
    // Differences of visible biases are exact in single precision, so that sums over all states are exact, too.
    let visible = DVector::from_fn(VISIBLE, |_, _| (64.0 * normal(0.5)).round() / 64.0);
    Rbm::new(weights, hidden, visible).unwrap()
}

fn base() -> BaseRate<f32> {
    let biases = DVector::from_fn(VISIBLE, |i, _| 0.125 * i as f32 - 0.5);
    BaseRate::new(HIDDEN, biases).unwrap()
}

fn mixture() -> BaseRate<f32> {
    let rate = |shift: f32| {
        let rates = DVector::from_fn(VISIBLE, |i, _| (0.3 * i as f32 - 1.0) * shift);
        BaseRate::new(HIDDEN, rates).unwrap()
    };
    BaseRate::mixture([(0.3, rate(1.0)), (0.7, rate(-0.7))]).unwrap()
}

/// Returns straight paths from a single base and from a mixture of two, and a path with an inner knot.
fn paths() -> [RbmPath<f32>; 3] {
    let knots = Schedule::new(vec![0.0, 0.6, 1.0]).unwrap();
    let models = vec![machine(2), machine(1)];
    [
        RbmPath::new(base(), machine(1)).unwrap(),
        RbmPath::new(mixture(), machine(1)).unwrap(),
        RbmPath::through(base(), models, knots).unwrap(),
    ]
    .map(|path| path.on_grid_of(UNIT))
}

fn states(units: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_usize << units).map(move |word| (0..units).map(|i| word >> i & 1 == 1).collect())
}

fn log_z(model: &impl UnnormalizedModel<State = Vec<bool>>) -> f64 {
    let densities = states(VISIBLE).map(|state| model.log_density(&state));
    crate::num::log_sum_exp(densities)
}

/// Returns the transition probabilities `P(v'|v)` of a Gibbs sweep of an RBM.
fn transitions(rbm: &Rbm<f64>) -> DMatrix<f64> {
    let product = |probabilities: &DVector<f64>, state: &[bool]| {
        let units = probabilities.iter().zip(state);
        units
            .map(|(p, &on)| if on { *p } else { 1.0 - p })
            .product::<f64>()
    };
    let count = |units: usize| 1 << units;
    let mut up = DMatrix::zeros(count(VISIBLE), count(HIDDEN));
    let mut down = DMatrix::zeros(count(HIDDEN), count(VISIBLE));
    for (i, visible) in states(VISIBLE).enumerate() {
        let probabilities = rbm.hidden_probabilities(&visible);
        let row = states(HIDDEN).map(|hidden| product(&probabilities, &hidden));
        row.enumerate().for_each(|(j, p)| up[(i, j)] = p);
    }
    for (j, hidden) in states(HIDDEN).enumerate() {
        let probabilities = rbm.visible_probabilities(&hidden);
        let row = states(VISIBLE).map(|visible| product(&probabilities, &visible));
        row.enumerate().for_each(|(i, p)| down[(j, i)] = p);
    }
    up * down
}

/// Multiplies the mass of each state by the density of the model `to` over the density of `from`.
fn weigh(measure: &mut DVector<f64>, to: &RbmAt<'_, f32>, from: &RbmAt<'_, f32>) {
    for (mass, state) in measure.iter_mut().zip(states(VISIBLE)) {
        *mass *= to.log_ratio(from, &state).exp();
    }
}

fn law(model: &RbmAt<'_, f32>) -> DVector<f64> {
    let log_z = log_z(model);
    let masses = states(VISIBLE).map(|state| (model.log_density(&state) - log_z).exp());
    DVector::from_iterator(1 << VISIBLE, masses)
}

/// Computes the mean weight of a run by sums over all states, with moves by the machines on the grid. A twin of the run
/// lacks the last weighing.
#[test]
fn the_mean_weight_is_exact_in_both_directions() {
    for path in paths()
        .iter()
        .filter(|path| path.base().as_mixture().is_none())
    {
        let (exact, end) = (path.at(1.0), path.surrogate_at(1.0).unwrap());
        let truth = log_z(&exact) - path.base().log_normalizer();
        for stages in [1, 2, 4] {
            let at = |k: usize| path.surrogate_at(k as f64 / stages as f64).unwrap();
            let mut forward = law(&at(0));
            for k in 1..=stages {
                weigh(&mut forward, &at(k), &at(k - 1));
                forward = transitions(&at(k).to_rbm().unwrap()).transpose() * forward;
            }
            let twin = forward.sum().ln();
            assert!(
                (twin - truth).abs() > 0.05,
                "K = {stages}: twin {twin}, {truth}"
            );
            weigh(&mut forward, &exact, &end);
            assert!((forward.sum().ln() - truth).abs() < 1e-10, "K = {stages}");

            let mut reverse = law(&exact);
            weigh(&mut reverse, &end, &exact);
            for k in (0..stages).rev() {
                reverse = transitions(&at(k + 1).to_rbm().unwrap()).transpose() * reverse;
                weigh(&mut reverse, &at(k), &at(k + 1));
            }
            assert!(
                (reverse.sum().ln() + truth).abs() < 1e-10,
                "reverse, K = {stages}"
            );
        }
    }
}

fn ais(path: &RbmPath<f32>, stages: usize) -> Ais<'static, &RbmPath<f32>, BlockGibbs> {
    Ais::new(path, BlockGibbs)
        .schedule(Schedule::linear(stages).unwrap())
        .chains(1 << 16)
        .seed(5)
}

fn check(found: &impl LogZ, truth: f64, largest_error: f64, name: &str) {
    let (error, standard_error) = (found.log_z() - truth, found.standard_error());
    assert!(standard_error < largest_error, "{name}: {standard_error}");
    assert!(
        error.abs() < 4.0 * standard_error,
        "{name}: {error} +- {standard_error}"
    );
}

#[test]
fn runs_estimate_the_exact_machine() {
    for (case, path) in paths().iter().enumerate() {
        let truth = log_z(path.target());
        let of_grid = log_z(&path.surrogate_at(1.0).unwrap());
        assert!(
            (of_grid - truth).abs() > 0.05,
            "path {case}: {of_grid} {truth}"
        );
        for stages in [1, 2, 4] {
            let name = format!("path {case}, K = {stages}");
            let run = ais(path, stages).run().unwrap();
            check(&run, truth, 0.03, &name);
            let last = run.stages().last().unwrap();
            let last = last.log_z_ratio + path.base().log_normalizer();
            assert!((last - run.log_z()).abs() < 1e-12, "{name}");
        }
    }
}

#[test]
fn selected_chains_estimate_the_exact_machine() {
    for (case, path) in paths().iter().enumerate() {
        let truth = log_z(path.target());
        let resampled = ais(path, 4).resampling(Resampling::when_ess_below(0.9).unwrap());
        check(
            &resampled.run().unwrap(),
            truth,
            0.02,
            &format!("resampled, path {case}"),
        );
        let waste_free = ais(path, 4).waste_free(WasteFree::new(16).unwrap());
        check(
            &waste_free.run().unwrap(),
            truth,
            0.04,
            &format!("waste-free, path {case}"),
        );
    }
}

/// Draws a state from its probabilities.
fn draw(law: &DVector<f64>, rng: &mut impl Rng) -> Vec<bool> {
    let mut left = rng.random::<f64>();
    let place = law.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    states(VISIBLE).nth(place.unwrap_or(law.len() - 1)).unwrap()
}

#[test]
fn reverse_runs_estimate_the_exact_machine() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    for (case, path) in paths().iter().enumerate() {
        let law = law(&path.at(1.0));
        let samples = Vec::from_iter((0..1 << 15).map(|_| draw(&law, &mut rng)));
        let samples = TargetSamples::exact(samples);
        for stages in [1, 3] {
            let run = ais(path, stages).reverse(&samples).unwrap();
            let name = format!("path {case}, K = {stages}");
            check(&run, log_z(path.target()), 0.03, &name);
        }
    }
}

/// Estimates at recorded betas are for the exact models, and the thermodynamic integral includes the last weighing.
#[test]
fn estimates_along_the_path_are_of_the_exact_models() {
    for (case, path) in paths().iter().enumerate() {
        let betas = [0.25, 0.5, 1.0];
        let run = ais(path, 64).record_at(betas).run().unwrap();
        for at in run.log_z_along() {
            let (error, truth) = (at.standard_error, log_z(&path.at(at.beta)));
            assert!(
                error < 0.01 && (at.log_z - truth).abs() < 4.0 * error,
                "path {case}: {at}"
            );
        }
        let of_grid = log_z(&path.surrogate_at(0.5).unwrap());
        assert!(
            (of_grid - log_z(&path.at(0.5))).abs() > 0.015,
            "path {case}"
        );
        let integral = run.thermodynamic_log_z().unwrap();
        assert!(
            (integral - log_z(path.target())).abs() < 0.012,
            "path {case}: {integral}"
        );
    }
}

/// Pilots, the first pass, and tempering use exact weights. `Rounds` chooses nearly as many stages as
/// without a grid.
#[test]
fn what_chooses_stages_does_not_see_the_grid() {
    for path in paths() {
        let exact = path.clone().exact_weights();
        let chosen = |path: &RbmPath<f32>| {
            let by = |optimizer: &dyn Fn(&RbmPath<f32>) -> Schedule| optimizer(path);
            [
                by(&|path| {
                    VarOpt::default()
                        .optimize(path, &BlockGibbs, 30, 1)
                        .unwrap()
                        .schedule
                }),
                by(&|path| {
                    Friction::default()
                        .optimize(path, &BlockGibbs, 30, 1)
                        .unwrap()
                        .schedule
                }),
            ]
        };
        assert_eq!(chosen(&path), chosen(&exact));
        let smc = |path: &RbmPath<f32>| {
            let pass = FirstPass::fixed(path, BlockGibbs).chains(512);
            let stages = pass.run().unwrap().schedule;
            let run = Ais::new(path, BlockGibbs)
                .schedule(stages.clone())
                .chains(512)
                .resampling(Resampling::every(1).unwrap())
                .run()
                .unwrap();
            check(&run, log_z(path.target()), 0.2, "resampled");
            stages
        };
        assert_eq!(smc(&path), smc(&exact));
        let ladder = |path| {
            let schedule = Schedule::linear(4).unwrap();
            Tempering::new(path, BlockGibbs)
                .schedule(schedule)
                .run()
                .unwrap()
                .log_z()
        };
        assert_eq!(ladder(&path), ladder(&exact));
        let rounds = |path: &RbmPath<f32>| {
            let run = Rounds::fixed(path, BlockGibbs)
                .chains(512)
                .budget(200_000)
                .run()
                .unwrap();
            let stages = run.rounds().last().unwrap().stages as f64;
            check(&run, log_z(path.target()), 0.03, "rounds");
            stages
        };
        let (found, without) = (rounds(&path), rounds(&exact));
        assert!(
            (found / without - 1.0).abs() < 0.1,
            "{found} stages in place of {without}"
        );
    }
}

/// Compares the bits of runs on all available SIMD levels that fuse multiplication and addition.
#[test]
fn fused_levels_give_the_same_bits() {
    let fused = SimdLevel::ALL.into_iter().skip(1);
    let found = fused.filter(|level| level.is_available()).map(|level| {
        let path = RbmPath::new(base(), machine(1)).unwrap();
        let path = path.with_simd_level(level).unwrap();
        [path.clone(), path.exact_weights()]
            .map(|path| ais(&path, 8).run().unwrap().log_z().to_bits())
    });
    let found = Vec::from_iter(found);
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
}

#[test]
fn a_path_has_a_grid_where_it_is_fine() {
    let fine = RbmPath::new(base(), machine(1)).unwrap();
    assert!(fine.surrogate_at(0.5).is_some());
    assert!(fine.clone().exact_weights().surrogate_at(0.5).is_none());
    let double = machine(1).cast::<f64>().unwrap();
    let double_base = BaseRate::uniform(HIDDEN, VISIBLE).unwrap();
    assert!(
        RbmPath::new(double_base, double)
            .unwrap()
            .surrogate_at(0.5)
            .is_none()
    );
    // One weight takes all 16 bits: the others are rounded away.
    let mut machine = machine(1);
    machine.weights[(0, 0)] = -1e5;
    let coarse = RbmPath::new(base(), machine).unwrap();
    assert!(coarse.surrogate_at(0.5).is_none());
}
