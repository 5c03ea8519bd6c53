//! Paths read backward: reversals of kernels, unbiased weights from exact samples, Bennett's estimate,
//! the sandwich of bounds.

use crate::shared;
use annealed::Error;
use annealed::ais::{Ais, Expectations};
use annealed::bidirectional::{Bridge, ReverseRun, TargetSamples};
use annealed::estimate::{BennettEstimate, LogZ, Warning};
use annealed::kernel::{
    CoordinateGibbs, Hmc, Mala, Mixture, PerfectTransitions, RandomWalkMetropolis, Repeat,
    Reversal, Sequence, TransitionKernel, UnadjustedLangevin,
};
use annealed::model::{Gaussian, GaussianMixture, NormalizedModel, Sampleable};
use annealed::path::{AnnealingPath, GaussianPath, GeometricPath, Intermediate};
use annealed::population::{Resampling, WasteFree};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, EnumeratedRbm, Rbm, RbmPath};
use annealed::schedule::Schedule;
use nalgebra::{DVector, dmatrix, dvector};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::StandardNormal;

const CHAINS: usize = 40_000;

fn samples<M: Sampleable>(model: &M, count: usize, seed: u64) -> TargetSamples<M::State> {
    let mut rng = stream(seed, Purpose::DATA, 0);
    TargetSamples::exact((0..count).map(|_| model.sample(&mut rng)).collect())
}

/// Mean of the values and its standard error.
fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let square = values.map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (square / n).sqrt())
}

/// The logistic function.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// How many standard errors both directions are from what exact samples promise at `log Z_K/Z_0`:
/// `E w_R = Z_0/Z_K`, and Crooks' relation `E_F s(log w - c) = E_R s(c + log w)` at the true c.
fn z_scores<S>(
    forward: &annealed::ais::Run<S>,
    reverse: &ReverseRun<S>,
    log_ratio: f64,
) -> [f64; 2] {
    let backward = reverse.backward().log_weights();
    let (weight, error) = mean(backward.iter().map(|w| (w + log_ratio).exp()));
    assert!(error < 0.05, "{error}");
    let up = mean(forward.log_weights().iter().map(|w| sigmoid(w - log_ratio)));
    let down = mean(backward.iter().map(|w| sigmoid(log_ratio + w)));
    [(weight - 1.0) / error, (up.0 - down.0) / up.1.hypot(down.1)]
}

fn both<P, K>(
    path: P,
    kernel: &K,
    steps: usize,
    exact: &TargetSamples<P::State>,
    log_ratio: f64,
) -> [f64; 2]
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send + Sync,
    K: Reversal<P::At> + Sync,
{
    let ais = Ais::with_base_log_z(path, kernel, 0.0)
        .schedule(Schedule::power(steps, 1.5).unwrap())
        .chains(CHAINS)
        .seed(11);
    z_scores(&ais.run().unwrap(), &ais.reverse(exact).unwrap(), log_ratio)
}

fn check<P, K>(path: P, kernel: K, exact: &TargetSamples<P::State>, log_ratio: f64)
where
    P: AnnealingPath + Send + Sync,
    P::State: Clone + Send + Sync,
    K: Reversal<P::At> + Sync,
{
    for steps in [1, 2, 5] {
        let z = both(&path, &kernel, steps, exact, log_ratio);
        assert!(z.iter().all(|z| z.abs() <= 4.0), "K = {steps}: {z:?}");
    }
}

fn base() -> Gaussian {
    Gaussian::new(dvector![0.5, 0.0], dmatrix![1.5, -0.3; -0.3, 1.0]).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![1.2, -0.6], dmatrix![1.4, 0.2; 0.2, 0.9]).unwrap()
}

/// Two Gaussians between which correlations change, which a wrong reversal of a scan does not survive.
fn sheared() -> [Gaussian; 2] {
    let base = Gaussian::new(dvector![0.0, 0.0], dmatrix![0.5, 0.5; 0.5, 1.0]);
    let target = Gaussian::new(dvector![1.0, 0.0], dmatrix![1.0, 0.75; 0.75, 1.0]);
    [base.unwrap(), target.unwrap()]
}

/// Every kernel that hands out a reversal.
macro_rules! reversals {
    ($($name:ident: $kernel:expr;)*) => {
        mod reversals {
            use super::*;
            $(#[test] fn $name() {
                let [base, target] = sheared();
                let path = GaussianPath::new(base.clone(), target.clone()).unwrap();
                let ratio = target.log_normalizer() - base.log_normalizer();
                check(&path, $kernel, &samples(&target, CHAINS, 1), ratio);
            })*
        }
    };
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.9).unwrap()
}

fn scan() -> CoordinateGibbs {
    CoordinateGibbs::systematic()
}

reversals! {
    random_walk_metropolis: walk();
    metropolis_adjusted_langevin: Mala::new(0.5).unwrap();
    hamiltonian: Hmc::new(0.5, 3).unwrap();
    unadjusted_langevin: UnadjustedLangevin::new(0.1).unwrap();
    perfect_transitions: PerfectTransitions;
    systematic_gibbs: scan();
    random_scan_gibbs: CoordinateGibbs::random_scan();
    gibbs_then_random_walk: Sequence(scan(), walk());
    repeated_gibbs: Repeat::new(scan(), 2).unwrap();
    mixture_of_gibbs_and_random_walk: Mixture::new(0.3, scan(), walk()).unwrap();
}

/// A scan that claims to be its own reversal.
struct NotItsOwn(CoordinateGibbs);

impl<M: Intermediate> TransitionKernel<M> for NotItsOwn
where
    CoordinateGibbs: TransitionKernel<M, Workspace = ()>,
{
    type Workspace = ();

    fn step<R: rand::Rng + ?Sized>(
        &self,
        stage: annealed::kernel::Stage<'_, M>,
        state: &mut M::State,
        workspace: &mut (),
        rng: &mut R,
    ) -> Result<annealed::kernel::Step, annealed::kernel::NonFinite> {
        self.0.step(stage, state, workspace, rng)
    }
}

impl<M: Intermediate> Reversal<M> for NotItsOwn
where
    CoordinateGibbs: TransitionKernel<M, Workspace = ()>,
{
    type Reversed<'k> = &'k Self;

    fn reversal(&self) -> &Self {
        self
    }
}

#[test]
fn a_wrong_reversal_breaks_crooks_relation() {
    let [base, target] = sheared();
    let ratio = target.log_normalizer() - base.log_normalizer();
    let path = GaussianPath::new(base, target.clone()).unwrap();
    let exact = samples(&target, CHAINS, 2);
    let right = both(&path, &scan(), 5, &exact, ratio);
    assert!(right.iter().all(|z| z.abs() <= 4.0), "{right:?}");
    let z = both(&path, &NotItsOwn(scan()), 5, &exact, ratio);
    assert!(z[1].abs() > 6.0, "{z:?}");
}

#[test]
fn block_gibbs_reverses_on_straight_paths_and_on_paths_with_knots() {
    let weights = dmatrix![1.0_f32, -1.0, 0.5, 2.0, -0.7; -0.5, 1.0, 2.0, 0.1, 0.9];
    let visible = dvector![0.1, -0.2, 0.3, -1.0, 0.4];
    let rbm = Rbm::new(weights, dvector![0.2, -0.3], visible).unwrap();
    let enumerated = EnumeratedRbm::new(rbm.clone()).unwrap();
    let exact = samples(&enumerated, CHAINS, 3);
    let base = BaseRate::new(2, dvector![0.4_f32, 0.0, -0.6, 0.2, 0.1]).unwrap();
    let ratio = enumerated.log_normalizer() - base.log_normalizer();
    check(
        &RbmPath::new(base.clone(), rbm.clone()).unwrap(),
        BlockGibbs,
        &exact,
        ratio,
    );
    let middle = Rbm::new(
        dmatrix![0.2_f32, -0.9, 0.4, 0.5, 0.3; -0.7, 0.1, 0.2, 0.6, 0.9],
        dvector![-0.1, 0.3],
        dvector![0.3, -0.5, 0.3, 0.2, 0.1],
    );
    let knots = Schedule::new([0.0, 0.4, 1.0]).unwrap();
    let path = RbmPath::through(base, vec![middle.unwrap(), rbm], knots).unwrap();
    check(&path, BlockGibbs, &exact, ratio);
}

#[test]
fn threads_and_blocks_do_not_change_a_bit() {
    let path = GeometricPath::new(base(), target());
    let exact = samples(&target(), 300, 4);
    let run = |threads| {
        Ais::new(&path, Hmc::new(0.3, 2).unwrap())
            .schedule(Schedule::linear(10).unwrap())
            .block_size(32)
            .threads(threads)
            .seed(3)
            .reverse(&exact)
            .unwrap()
    };
    let (one, two) = (run(1), run(2));
    let bits = |run: &ReverseRun<DVector<f64>>| -> Vec<u64> {
        let weights = run.backward().log_weights().iter();
        weights.map(|w| w.to_bits()).collect()
    };
    assert_eq!(bits(&one), bits(&two));
    assert_eq!(one.backward().chains(), 300);
    assert_eq!(one.backward().states(), two.backward().states());
}

#[test]
fn stages_of_both_directions_face_each_other_and_their_gaps_add_up() {
    let path = GeometricPath::new(base(), target());
    // 10 stages in windows of 3: the last one on the way up is shorter.
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
        .schedule(Schedule::linear(10).unwrap())
        .recorded_stages(4)
        .chains(500);
    let forward = ais.run().unwrap();
    let reverse = ais.reverse(&samples(&target(), 400, 5)).unwrap();
    let bridge = Bridge::new(&forward, &reverse).unwrap();
    let stages: Vec<usize> = bridge.stages().iter().map(|stage| stage.stage).collect();
    assert_eq!(stages, [3, 6, 9, 10]);
    let reached: Vec<usize> = reverse
        .backward()
        .stages()
        .iter()
        .map(|s| s.stage)
        .collect();
    assert_eq!(reached, [9, 6, 3, 0]);
    let gaps: f64 = bridge.stages().iter().map(|stage| stage.gap).sum();
    assert!((gaps - (bridge.upper_bound().unwrap() - bridge.lower_bound())).abs() < 1e-9);
    assert!(
        bridge
            .stages()
            .iter()
            .all(|s| (0.0..=1.0).contains(&s.overlap))
    );
    let last = reverse.backward().stages().last().unwrap();
    assert_eq!(last.beta, 0.0);
    assert!((last.log_z_ratio - reverse.backward().log_z_ratio()).abs() < 1e-12);
}

#[test]
fn a_recorder_sees_the_models_on_the_way_down() {
    let cov = dmatrix![1.0, 0.3; 0.3, 0.8];
    let base = Gaussian::new(dvector![0.0, 0.0], cov.clone()).unwrap();
    let target = Gaussian::new(dvector![1.0, -0.5], cov).unwrap();
    let path = GaussianPath::new(base, target.clone()).unwrap();
    let reverse = Ais::new(&path, Mala::new(0.3).unwrap())
        .schedule(Schedule::linear(5).unwrap())
        .recorder(Expectations::new(shared::value(|x: &DVector<f64>| x[0])))
        .reverse(&samples(&target, 20_000, 9))
        .unwrap();
    let means: Vec<(f64, f64)> = reverse.backward().recorder().means().collect();
    assert_eq!(means.len(), 5);
    for ((beta, mean), expected) in means.into_iter().zip([0.8, 0.6, 0.4, 0.2, 0.0]) {
        assert!((beta - expected).abs() < 1e-12, "{beta}");
        // The mean at beta is beta times the target's; the weights are nearly equal.
        assert!(
            (mean - beta).abs() < 4.0 * 1.5 / 20_000_f64.sqrt(),
            "{beta}: {mean}"
        );
    }
}

/// Log weights of two directions that obey Crooks' relation exactly: normal, with this variance.
fn crooks(variance: f64, n: [usize; 2], seed: u64) -> [Vec<f64>; 2] {
    let mut rng = stream(seed, Purpose::DATA, 1);
    n.map(|n| {
        let draw = |_| variance.sqrt() * rng.sample::<f64, _>(StandardNormal) - 0.5 * variance;
        (0..n).map(draw).collect()
    })
}

#[test]
fn bennett_s_estimate_covers_as_often_as_it_says() {
    for (variance, n) in [
        (0.1, [25, 25]),
        (4.0, [100, 100]),
        (10.0, [100, 20]),
        (20.0, [400, 400]),
    ] {
        const SEEDS: usize = 1_000;
        let estimates: Vec<BennettEstimate> = (0..SEEDS as u64)
            .map(|seed| crooks(variance, n, seed))
            .map(|[f, r]| BennettEstimate::from_log_weights(&f, &r).unwrap())
            .collect();
        let (bias, error) = mean(estimates.iter().map(BennettEstimate::value));
        assert!(
            bias.abs() <= 4.0 * error,
            "variance {variance}: {bias} +- {error}"
        );
        let spread = error * (SEEDS as f64).sqrt();
        let (stated, _) = mean(estimates.iter().map(BennettEstimate::standard_error));
        assert!(
            (stated / spread - 1.0).abs() < 0.1,
            "{variance}: {stated} for {spread}"
        );
        let covers = |e: &&BennettEstimate| e.interval().0 <= 0.0 && 0.0 <= e.interval().1;
        let coverage = estimates.iter().filter(covers).count() as f64 / SEEDS as f64;
        assert!(
            (0.93..=0.975).contains(&coverage),
            "variance {variance}: {coverage}"
        );
    }
}

#[test]
fn bennett_s_estimate_is_finite_or_an_error_at_extremes() {
    let bennett = |f: &[f64], r: &[f64]| BennettEstimate::from_log_weights(f, r);
    // Far apart: half-way, and no overlap.
    let apart = bennett(&[-500.0, -501.0], &[-700.0, -702.0]).unwrap();
    assert!(apart.value() > -500.0 && apart.value() < 700.0 && apart.overlap() < 1e-100);
    // A constant changes nothing but the value.
    let near = bennett(&[1.0, 2.0, 0.5], &[-1.5, -1.0]).unwrap();
    let far = bennett(
        &[1e9 + 1.0, 1e9 + 2.0, 1e9 + 0.5],
        &[-1e9 - 1.5, -1e9 - 1.0],
    )
    .unwrap();
    assert!((far.value() - 1e9 - near.value()).abs() < 1e-6);
    assert!((far.standard_error() - near.standard_error()).abs() < 1e-6);
    // Weights of zero count as chains.
    let dead = bennett(&[0.0, 0.0, f64::NEG_INFINITY, f64::NEG_INFINITY], &[0.0; 4]).unwrap();
    assert!(dead.value() < 0.0 && dead.value() > -1.0);
    assert_eq!(bennett(&[0.0; 3], &[0.0; 3]).unwrap().standard_error(), 0.0);
    let infinite = f64::INFINITY;
    for (f, r) in [
        (vec![0.0], vec![0.0, 0.0]),
        (vec![0.0, 0.0], vec![]),
        (vec![f64::NAN, 0.0], vec![0.0, 0.0]),
        (vec![0.0, 0.0], vec![infinite, 0.0]),
        (vec![-infinite, -infinite], vec![0.0, 0.0]),
        (vec![1e308, 1e308], vec![1e308, -1e308]),
    ] {
        match bennett(&f, &r) {
            Ok(estimate) => assert!(estimate.value().is_finite(), "{f:?} {r:?}: {estimate:?}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn meets_little(warnings: &[Warning]) -> bool {
    let little = |warning: &Warning| matches!(warning, Warning::LittleOverlap { .. });
    warnings.iter().any(little)
}

/// Acceptances that are all alike, and all of about `e^-45`: their sample size is that of the chains, and says nothing.
#[test]
fn directions_that_do_not_meet_have_no_sharp_estimate() {
    // In a random order, without correlation of weights at any distance.
    let mut rng = stream(1, Purpose::DATA, 2);
    let mut weights = |from: f64| {
        let mut weights = Vec::from_iter((0..100).map(|i| from - 0.01 * f64::from(i)));
        weights.shuffle(&mut rng);
        weights
    };
    let (forward, reverse) = (weights(-50.0), weights(-40.0));
    let estimate = BennettEstimate::from_log_weights(&forward, &reverse).unwrap();
    assert!(estimate.effective_sample_size() > 90.0);
    assert!(meets_little(&estimate.warnings()), "{estimate:?}");
    for (estimate, constant) in [(estimate, 0.0), (estimate.shifted(7.0), 7.0)] {
        let (lower, upper) = estimate.interval();
        assert!(
            lower < -50.5 + constant && upper > 40.5 + constant,
            "{estimate:?}"
        );
        assert!(estimate.standard_error() > 40.0, "{estimate:?}");
        let narrow = estimate.interval_at(0.5).unwrap();
        assert!(lower <= narrow.0 && narrow.1 <= upper);
    }
    // Those that meet keep their interval, and its ends.
    let estimate = crooks(4.0, [100, 100], 1);
    let estimate = BennettEstimate::from_log_weights(&estimate[0], &estimate[1]).unwrap();
    assert!(estimate.warnings().is_empty());
    let (lower, upper) = estimate.interval();
    assert!(((lower + upper) / 2.0 - estimate.value()).abs() < 1e-9);
}

/// A spike in a slab, in one stage: most works of each direction are alike, and far from those of the other.
#[test]
fn a_bridge_whose_directions_do_not_meet_warns() {
    let target = Gaussian::isotropic(DVector::from_element(10, 0.5), 0.05).unwrap();
    let path = GeometricPath::new(Gaussian::standard(10).unwrap(), target.clone());
    for seed in 0..10 {
        let ais = Ais::new(&path, RandomWalkMetropolis::new(0.01).unwrap()).seed(seed);
        let ais = ais.schedule(Schedule::linear(1).unwrap()).chains(500);
        let reverse = ais.reverse(&samples(&target, 500, seed)).unwrap();
        let bridge = Bridge::new(&ais.run().unwrap(), &reverse).unwrap();
        assert!(bridge.estimate().overlap() < 0.03, "{bridge}");
        assert!(meets_little(bridge.warnings()), "{bridge}");
        let (lower, upper) = bridge.interval();
        let truth = target.log_normalizer();
        assert!(lower < truth && truth < upper, "{bridge} for {truth}");
    }
}

/// The joint interval contains the forward run's, and so lies off Bennett's value. Weights are not skewed by that.
#[test]
fn approximate_samples_show_both_errors() {
    let path = GeometricPath::new(base(), target());
    let mut off_centre = 0;
    for seed in 0..30 {
        let ais = Ais::new(&path, walk()).chains(400).seed(seed);
        let ais = ais.schedule(Schedule::linear(20).unwrap());
        let forward = ais.run().unwrap();
        let samples = TargetSamples::approximate(samples(&target(), 400, seed).states().to_vec());
        let bridge = Bridge::new(&forward, &ais.reverse(&samples).unwrap()).unwrap();
        let ((lower, upper), value) = (bridge.interval(), bridge.log_z());
        let (below, above) = (value - lower, upper - value);
        off_centre += usize::from(below.max(above) > 2.0 * below.min(above));
        let own = bridge.estimate().standard_error();
        let text = bridge.to_string();
        assert!(
            text.contains(&format!("+- {own:.3} if the samples are of the target")),
            "{text}"
        );
        assert!(forward.is_skewed() || !text.contains("skewed"), "{text}");
    }
    assert!(off_centre > 3, "{off_centre} of 30");
}

#[test]
fn a_mode_that_forward_chains_miss_is_named_by_the_gap() {
    let left = Gaussian::isotropic(dvector![0.0], 1.0).unwrap();
    let right = Gaussian::isotropic(dvector![30.0], 1.0).unwrap();
    let target = GaussianMixture::new([(0.7, left.clone()), (0.3, right)]).unwrap();
    let path = GeometricPath::new(left, target.clone());
    let ais = Ais::new(&path, RandomWalkMetropolis::new(1.0).unwrap())
        .schedule(Schedule::linear(20).unwrap())
        .chains(200);
    let forward = ais.run().unwrap();
    let truth = target.log_normalizer();
    assert!(
        forward.warnings().is_empty() && forward.interval().1 < truth,
        "{forward}"
    );
    let bridge = Bridge::new(&forward, &ais.reverse(&samples(&target, 200, 6)).unwrap()).unwrap();
    let gap = |warning: &Warning| matches!(warning, Warning::ForwardReverseGap { .. });
    assert!(bridge.warnings().iter().any(gap), "{bridge}");
    assert!(
        (bridge.log_z() - truth).abs() < 4.0 * bridge.standard_error(),
        "{bridge}"
    );
    // Samples of the mode that the forward chains know prove nothing.
    let seen: Vec<_> = forward.states().to_vec();
    let reverse = ais.reverse(&TargetSamples::approximate(seen)).unwrap();
    assert!(
        Bridge::new(&forward, &reverse)
            .unwrap()
            .warnings()
            .is_empty()
    );
}

/// Three wells: with few stages one direction or the other is off by many of its errors, where Bennett's estimate is
/// right. Disjoint intervals of 99.9% would show it in none of these runs.
#[test]
fn a_direction_far_from_the_joint_estimate_is_named_and_one_near_it_is_not() {
    let well = |weight, centre| (weight, Gaussian::isotropic(centre, 0.2).unwrap());
    let target = GaussianMixture::new([
        well(0.5, dvector![2.0, 0.0, 0.0]),
        well(0.3, dvector![-2.0, 1.0, 0.0]),
        well(0.2, dvector![0.0, -2.0, 1.0]),
    ])
    .unwrap();
    let path = GeometricPath::new(Gaussian::standard(3).unwrap(), target.clone());
    let (mut right, mut wrong, mut disjoint) = ((0, 0), (0, 0), 0);
    for (stages, seeds) in [(6, 0..60), (20, 0..60), (150, 0..60)] {
        for seed in seeds {
            let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
                .schedule(Schedule::power(stages, 2.0).unwrap())
                .chains(100)
                .seed(seed);
            let forward = ais.run().unwrap();
            let reverse = ais.reverse(&samples(&target, 100, seed)).unwrap();
            let is_right = |log_z: f64, error: f64| log_z.abs() <= 0.1_f64.max(4.0 * error);
            let both_right = is_right(forward.log_z(), forward.standard_error())
                && is_right(reverse.log_z(), reverse.standard_error());
            let bridge = Bridge::new(&forward, &reverse).unwrap();
            let gap = |warning: &Warning| matches!(warning, Warning::ForwardReverseGap { .. });
            let warned = usize::from(bridge.warnings().iter().any(gap));
            let counts = if both_right { &mut right } else { &mut wrong };
            counts.0 += 1;
            counts.1 += warned;
            let intervals = (forward.interval_at(0.999), reverse.interval_at(0.999));
            disjoint += usize::from(intervals.0.unwrap().1 < intervals.1.unwrap().0);
        }
    }
    assert!(right.0 > 90 && right.1 <= 2, "{right:?}");
    assert!(wrong.0 > 20 && 10 * wrong.1 > 6 * wrong.0, "{wrong:?}");
    assert_eq!(disjoint, 0);
}

#[test]
fn equal_ends_give_no_warning() {
    let path = GeometricPath::new(base(), base());
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap()).chains(200);
    let ais = ais.schedule(Schedule::linear(10).unwrap());
    let reverse = ais.reverse(&TargetSamples::draw(&base(), 200, 1)).unwrap();
    let bridge = Bridge::new(&ais.run().unwrap(), &reverse).unwrap();
    assert!(bridge.warnings().is_empty(), "{bridge}");
    assert!((bridge.log_z() - base().log_normalizer()).abs() < 1e-9);
}

#[test]
fn samples_and_runs_that_do_not_fit_are_refused() {
    let path = GeometricPath::new(base(), target());
    let ais = |steps| {
        Ais::new(&path, RandomWalkMetropolis::new(0.5).unwrap())
            .schedule(Schedule::linear(steps).unwrap())
            .chains(50)
    };
    let none = TargetSamples::exact(Vec::new());
    let error = ais(5).reverse(&none).unwrap_err();
    assert!(error.to_string().contains("samples"), "{error}");
    assert!(ais(5).raise(&[dvector![0.0, 0.0]], 1 << 40).is_err());
    let error = ais(5)
        .reverse(&TargetSamples::exact(vec![dvector![0.0]]))
        .unwrap_err();
    assert!(error.to_string().contains("beta = 1"), "{error}");
    let reverse = ais(5).reverse(&samples(&target(), 50, 7)).unwrap();
    assert!(Bridge::new(&ais(6).run().unwrap(), &reverse).is_err());
    let other = ais(5).recorded_stages(2).run().unwrap();
    assert!(Bridge::new(&other, &reverse).is_err());
    assert!(Bridge::new(&ais(5).run().unwrap(), &reverse).is_ok());
}

/// Bennett's estimate from the weights of resampled chains is wrong by one to two nats here, and the jackknife removes
/// a hundredth of their bias.
#[test]
fn weights_of_resampled_and_waste_free_runs_are_refused() {
    let target = Gaussian::isotropic(DVector::from_element(5, 1.0), 0.3).unwrap();
    let path = GeometricPath::new(Gaussian::standard(5).unwrap(), target.clone());
    let ais = |stages| {
        Ais::new(&path, RandomWalkMetropolis::new(0.4).unwrap())
            .schedule(Schedule::power(stages, 2.0).unwrap())
            .chains(1_280)
            .seed(5)
    };
    let samples = TargetSamples::draw(&target, 1_280, 5);
    for stages in [10, 60] {
        let reverse = ais(stages).reverse(&samples).unwrap();
        for run in [
            ais(stages).resampling(Resampling::every(1).unwrap()).run(),
            ais(stages)
                .resampling(Resampling::when_ess_below(0.5).unwrap())
                .run(),
            ais(stages).waste_free(WasteFree::new(16).unwrap()).run(),
        ] {
            let run = run.unwrap();
            let refused = Bridge::new(&run, &reverse).unwrap_err();
            assert!(matches!(refused, Error::InvalidArgument { .. }));
            let message = refused.to_string();
            assert!(message.contains("without `resampling`"), "{message}");
            assert!(run.jackknife(10, 1).is_err());
            // Jensen's inequality asks for no independence.
            assert!(run.lower_bound() <= run.importance_weighted_bound(10).unwrap());
            assert!(run.importance_weighted_bound(10).unwrap() <= run.log_z());
        }
        let bridge = Bridge::new(&ais(stages).run().unwrap(), &reverse).unwrap();
        let error = bridge.log_z() - target.log_normalizer();
        assert!(error.abs() <= 4.0 * bridge.standard_error() && bridge.standard_error() < 0.3);
    }
}

#[test]
fn states_of_a_run_resampled_and_moved_on_give_a_second_opinion() {
    let path = GeometricPath::new(base(), target());
    let ais = Ais::new(&path, RandomWalkMetropolis::new(0.8).unwrap())
        .schedule(Schedule::linear(30).unwrap())
        .chains(2_000)
        .seed(5);
    let forward = ais.run().unwrap();
    let samples = ais.resampled(&forward, 5).unwrap();
    assert_eq!(samples.states().len(), 2_000);
    let (first, error) = mean(samples.states().iter().map(|x| x[0]));
    assert!(
        (first - 1.2).abs() < 4.0 * error * 1.5,
        "{first} +- {error}"
    );
    let bridge = Bridge::new(&forward, &ais.reverse(&samples).unwrap()).unwrap();
    assert!(bridge.warnings().is_empty(), "{bridge}");
    let truth = target().log_normalizer();
    assert!(
        (bridge.log_z() - truth).abs() < 4.0 * bridge.standard_error(),
        "{bridge}"
    );
}

/// Chains that miss most of the target, and a reverse run from their own states: these agree, three times as surely as
/// the forward run alone, on a log Z that is nowhere near.
#[test]
fn approximate_samples_never_narrow_the_forward_interval() {
    let narrow = Gaussian::isotropic(DVector::from_element(3, 1.0), 0.3).unwrap();
    let far = Gaussian::isotropic(DVector::from_element(3, 30.0), 1.0).unwrap();
    let target = GaussianMixture::new([(0.1, narrow), (0.9, far)]).unwrap();
    let path = GeometricPath::new(Gaussian::standard(3).unwrap(), target.clone());
    let truth = target.log_normalizer();
    let mut narrowed = 0;
    for seed in 0..10 {
        let ais = Ais::new(&path, RandomWalkMetropolis::new(0.2).unwrap())
            .schedule(Schedule::power(40, 2.0).unwrap())
            .chains(500)
            .seed(seed);
        let forward = ais.run().unwrap();
        let reverse = ais.reverse(&ais.resampled(&forward, 10).unwrap()).unwrap();
        let bridge = Bridge::new(&forward, &reverse).unwrap();
        let (bennett, (lower, upper)) = (bridge.estimate(), bridge.interval());
        assert!(upper < truth - 0.5, "{bridge}");
        narrowed += usize::from(bennett.standard_error() < 0.7 * forward.standard_error());
        assert!(bridge.standard_error() >= forward.standard_error());
        assert!(lower <= forward.interval().0 && forward.interval().1 <= upper);
        assert!(lower <= bennett.interval().0 && bennett.interval().1 <= upper);
        let mut known = forward.warnings().iter();
        assert!(known.all(|warning| bridge.warnings().contains(warning)));
        assert!(bridge.to_string().contains("no surer than the forward one"));
        assert!(reverse.to_string().contains("approximate"));
        assert!(bridge.to_string().contains("approximate"));
        assert_eq!((reverse.upper_bound(), bridge.upper_bound()), (None, None));

        let exact = ais.reverse(&samples(&target, 500, seed)).unwrap();
        let bridge = Bridge::new(&forward, &exact).unwrap();
        assert!(exact.upper_bound().is_some() && bridge.upper_bound() == exact.upper_bound());
        let bennett = bridge.estimate();
        assert_eq!(bridge.standard_error(), bennett.standard_error());
        assert_eq!(bridge.interval(), bennett.interval());
    }
    assert!(narrowed > 5, "{narrowed}");
}

#[test]
fn raise_is_unbiased_for_the_law_of_the_last_states() {
    let weights = dmatrix![1.0_f64, -1.5, 0.5; -0.5, 1.0, 2.0];
    let rbm = Rbm::new(weights, dvector![0.2, -0.3], dvector![0.1, -0.2, 0.3]).unwrap();
    let path = RbmPath::new(BaseRate::uniform(2, 3).unwrap(), rbm).unwrap();
    let runs = 100_000;
    let ais = Ais::new(&path, BlockGibbs)
        .schedule(Schedule::linear(3).unwrap())
        .chains(runs)
        .recorded_stages(1)
        .seed(8);
    let last = ais.run().unwrap();
    let all: Vec<Vec<bool>> = (0..8)
        .map(|n| (0..3).map(|i| n >> i & 1 == 1).collect())
        .collect();
    let chains = 20_000;
    let raised = |chains| ais.raise(&all, chains).unwrap();
    let log_q = raised(chains).log_probabilities().to_vec();
    let mut sum = 0.0;
    for (state, log_q) in all.iter().zip(log_q) {
        let count = last.states().iter().filter(|x| *x == state).count();
        let frequency = count as f64 / runs as f64;
        // The relative spread of the weights of these few stages is below 1.
        let error = (frequency / runs as f64)
            .sqrt()
            .hypot(frequency / (chains as f64).sqrt());
        assert!(
            (log_q.exp() - frequency).abs() < 4.0 * error,
            "{state:?}: {log_q}, {frequency}"
        );
        sum += log_q.exp();
    }
    assert!((sum - 1.0).abs() < 0.02, "{sum}");
    // One chain a state gives a lower bound in expectation.
    assert!(raised(1).mean().0 < raised(chains).mean().0 + 0.2);
    assert!(ais.raise(&[], 1).is_err() && ais.raise(&all, 0).is_err());
}

/// At equal total cost on the reference RBMs. `docs/intervals.md` has the figures of many seeds.
#[test]
fn both_directions_beat_twice_the_forward_chains_on_the_reference_rbms() {
    use annealed_files::RbmFile;

    for name in ["rbm20_cd1", "rbm20_pcd"] {
        let file = RbmFile::<f32>::read(format!("tests/data/{name}.npz")).unwrap();
        // One enumeration for all seeds.
        let enumerated = EnumeratedRbm::new(file.rbm.clone()).unwrap();
        let exact = enumerated.log_normalizer();
        let path = RbmPath::new(file.base.unwrap(), file.rbm).unwrap();
        let (mut forward_only, mut joint, mut lower, mut upper) = (0.0, 0.0, 0.0, 0.0);
        const SEEDS: usize = 12;
        for seed in 0..SEEDS as u64 {
            let ais = |chains| {
                let schedule = Schedule::linear(250).unwrap();
                Ais::new(&path, BlockGibbs)
                    .schedule(schedule)
                    .chains(chains)
                    .seed(seed)
            };
            let samples = TargetSamples::draw(&enumerated, 100, seed);
            let reverse = ais(100).reverse(&samples).unwrap();
            let bridge = Bridge::new(&ais(100).run().unwrap(), &reverse).unwrap();
            forward_only += (ais(200).run().unwrap().log_z() - exact).powi(2);
            joint += (bridge.log_z() - exact).powi(2);
            lower += bridge.lower_bound() - exact;
            upper += bridge.upper_bound().unwrap() - exact;
            let z = (bridge.log_z() - exact) / bridge.standard_error();
            assert!(
                z.abs() <= 4.0 && bridge.standard_error() < 0.5,
                "{name}: {bridge}"
            );
        }
        assert!(
            joint.sqrt() < 0.6 * forward_only.sqrt(),
            "{name}: {joint}, {forward_only}"
        );
        assert!(lower < 0.0 && upper > 0.0, "{name}: {lower}, {upper}");
    }
}
