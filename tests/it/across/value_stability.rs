//! Seeded figures, pinned: a change of the random stream, or of what is drawn from it, is a
//! decision that belongs in the changelog.
//!
//! `cargo test value_stability -- --nocapture` prints each run with a hash of all its bits, by which
//! two builds on one machine can be compared to the last digit.

use annealed::adaptive::FirstPass;
use annealed::ais::{Ais, Run, RunPart};
use annealed::drift::{DriftModifiedLangevin, QuadratureModifier, RidgeGibbs, RidgePath, Sinusoid};
use annealed::estimate::LogZ;
use annealed::kernel::{
    CoordinateGibbs, Hmc, Mala, Mixture, PerfectTransitions, RandomWalkMetropolis, Repeat,
    Sequence, StepSize, TransitionKernel, UnadjustedLangevin,
};
use annealed::learned::{LearnedTransitions, Mean, Noise};
use annealed::model::{FunctionModel, Gaussian, NormalizedModel};
use annealed::path::{
    AnnealingPath, GaussianPath, GeometricPath, MomentPath, MomentSplinePath, SimdLevel,
    TemperedPath,
};
use annealed::pilot::{BinnedSchedule, Friction, KnotChains, Pilot, ScheduleOptimizer, VarOpt};
use annealed::random::{Purpose, stream};
use annealed::rbm::{BaseRate, BlockGibbs, ContrastiveDivergence, Rbm, RbmPath, Scalar};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, dmatrix, dvector};
use rand::Rng;

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn hash(bits: impl IntoIterator<Item = u64>) -> u64 {
    let step = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    bits.into_iter().fold(FNV, step)
}

/// Everything that a run says in numbers but its time.
fn bits<S, R>(run: &Run<S, R>) -> u64 {
    let stages = run.stages().iter().flat_map(|stage| {
        [
            stage.log_z_ratio,
            stage.effective_sample_size,
            stage.var_log_weight,
            stage.var_increment,
            stage.acceptance.unwrap_or(-1.0),
        ]
    });
    let (low, high) = run.interval();
    let figures = [low, high, run.thermodynamic_log_z().unwrap_or(0.0)];
    let all = stages
        .chain(figures)
        .chain(run.log_weights().iter().copied());
    hash(all.map(f64::to_bits))
}

/// Prints a figure with its bits, and compares it with the one pinned. The last digits may differ
/// with the platform's `exp` and `ln`.
fn pinned(name: &str, found: f64, bits: u64, pinned: f64) {
    println!("{name}: {found:?} {bits:016x}");
    let error = (found - pinned).abs();
    assert!(
        error <= 1e-10 * pinned.abs(),
        "{name}: {found:?}, pinned {pinned:?}"
    );
}

fn pin<S, R>(name: &str, run: &Run<S, R>, log_z: f64) {
    pinned(name, run.log_z(), bits(run), log_z);
}

/// A run of 200 chains, of which the last block is not full, along a schedule.
fn run<P, K>(path: P, kernel: K, schedule: Schedule) -> Run<P::State>
where
    P: AnnealingPath + Send + Sync,
    P::State: Send,
    P::Base: NormalizedModel,
    K: TransitionKernel<P::At> + Sync,
{
    let ais = Ais::new(path, kernel).schedule(schedule);
    ais.chains(200).seed(7).run().unwrap()
}

fn linear(steps: usize) -> Schedule {
    Schedule::linear(steps).unwrap()
}

fn target() -> Gaussian {
    Gaussian::new(dvector![1.0, -2.0], dmatrix![2.0, 0.5; 0.5, 1.0]).unwrap()
}

fn gaussians() -> GeometricPath<Gaussian, Gaussian> {
    GeometricPath::new(Gaussian::standard(2).unwrap(), target())
}

fn narrow() -> Gaussian {
    Gaussian::new(dvector![0.5, -1.0], dmatrix![0.2, 0.05; 0.05, 0.1]).unwrap()
}

#[test]
fn streams_keep_their_values() {
    let first = |purpose, index| stream(7, purpose, index).next_u64();
    let found = [
        first(Purpose::RUN, 0),
        first(Purpose::RUN, 1),
        first(Purpose::RUN, 2),
        first(Purpose::PILOT, 0),
        first(Purpose::TRAINING, 0),
    ];
    let pinned = [
        1021219803524665661,
        17670575670617547464,
        10818930515478721286,
        215316657740975168,
        16526434242658135618,
    ];
    assert_eq!(found, pinned);
}

#[test]
fn vector_kernels_keep_their_values() {
    let path = gaussians();
    let walk = RandomWalkMetropolis::new(0.8).unwrap();
    let hmc = Hmc::new(0.3, 3).unwrap();
    let mala = Mala::new(0.4).unwrap();
    let ula = UnadjustedLangevin::new(0.1).unwrap();
    let mixture = Mixture::new(0.3, walk.clone(), hmc.clone()).unwrap();
    let nested = Mixture::new(0.5, mixture.clone(), mala.clone()).unwrap();
    pin("walk", &run(&path, &walk, linear(20)), 2.0808777195146737);
    pin("hmc", &run(&path, &hmc, linear(20)), 1.9913155541914769);
    pin("mala", &run(&path, mala, linear(20)), 1.9134604009731238);
    pin("ula", &run(&path, &ula, linear(20)), 1.6623251478278522);
    pin(
        "mixture",
        &run(&path, &mixture, linear(20)),
        1.9860027846903048,
    );
    pin(
        "nested mixture",
        &run(&path, &nested, linear(20)),
        2.05668434085274,
    );
    let repeated = Repeat::new(hmc.clone(), 3).unwrap();
    pin(
        "repeated",
        &run(&path, repeated, linear(20)),
        2.155576243274263,
    );
    let then = Sequence(Sequence(ula.clone(), hmc), Repeat::new(ula, 2).unwrap());
    pin("then", &run(&path, then, linear(20)), 2.0326045786144817);
    let pass = FirstPass::new(&path, walk.clone()).chains(100);
    let tuned = pass.seed(7).run().unwrap().kernel;
    pin("tuned", &run(&path, tuned, linear(20)), 2.137275870527491);
    let ais = Ais::new(&path, walk)
        .schedule(linear(20))
        .chains(200)
        .seed(7);
    let ais = ais.block_size(32);
    let parts = ais.ranges(3).unwrap();
    let parts = parts.into_iter().map(|range| ais.run_range(range).unwrap());
    pin(
        "merged",
        &RunPart::merge(parts).unwrap(),
        2.0808777195146737,
    );
}

/// A flat prior on a square and a likelihood that excludes half of it: chains die.
#[test]
fn supports_that_shrink_keep_their_values() {
    let inside = |x: &DVector<f64>| x.iter().all(|x| (0.0..1.0).contains(x));
    let density = move |x: &DVector<f64>| if inside(x) { 0.0 } else { f64::NEG_INFINITY };
    let draw = |rng: &mut dyn Rng| {
        use rand::RngExt;
        dvector![rng.random::<f64>(), rng.random::<f64>()]
    };
    let prior = FunctionModel::new(density)
        .with_sampler(draw)
        .with_log_normalizer(0.0)
        .unwrap();
    let likelihood = |x: &DVector<f64>| {
        if x[0] + x[1] > 1.0 {
            f64::NEG_INFINITY
        } else {
            -8.0 * x[0]
        }
    };
    let path = TemperedPath::new(prior, FunctionModel::new(likelihood));
    let width = StepSize::knots([(0.0, 0.5), (1.0, 0.2)]).unwrap();
    let kernel = Repeat::new(RandomWalkMetropolis::new(width).unwrap(), 2).unwrap();
    pin(
        "half a square",
        &run(&path, kernel, linear(20)),
        -2.1506057080997842,
    );
}

#[test]
fn gaussian_paths_keep_their_values() {
    let (base, target) = (Gaussian::standard(2).unwrap(), narrow());
    let path = GaussianPath::new(base.clone(), target.clone()).unwrap();
    let gibbs = CoordinateGibbs::systematic();
    pin(
        "gibbs",
        &run(&path, gibbs, linear(20)),
        -0.24619136723192447,
    );
    pin(
        "random scan",
        &run(&path, CoordinateGibbs::random_scan(), linear(20)),
        -0.19349594199701148,
    );
    let then = Sequence(gibbs, Hmc::new(0.2, 2).unwrap());
    pin(
        "gibbs, then hmc",
        &run(&path, then, linear(20)),
        -0.22741334979516203,
    );
    let moments = MomentPath::new(base.clone(), target.clone()).unwrap();
    pin(
        "perfect",
        &run(&moments, PerfectTransitions, linear(20)),
        -0.18559896862022018,
    );
    pin(
        "moments",
        &run(&moments, gibbs, linear(20)),
        -0.212920275011383,
    );
    let spline = MomentSplinePath::new(base, target, linear(4), GaussianPath::new).unwrap();
    pin(
        "spline",
        &run(&spline, gibbs, linear(22)),
        -0.3442029826986399,
    );
}

fn rbm_path<T: Scalar>() -> (BaseRate<T>, Rbm<T>) {
    let images = annealed::data::digits().images;
    let weight = |j, i| T::nearest((((7 * j + 3 * i) % 11) as f64 - 5.0) / 10.0);
    let weights = DMatrix::from_fn(12, 64, weight);
    let hidden = DVector::repeat(12, T::nearest(-0.5));
    let visible = DVector::repeat(64, T::nearest(-1.0));
    let target = Rbm::new(weights, hidden, visible).unwrap();
    (BaseRate::from_data(12, &images, 1.0).unwrap(), target)
}

/// The portable engine adds and multiplies in one order everywhere; the others round differently.
#[test]
fn rbms_keep_their_values() {
    let (base, target) = rbm_path::<f32>();
    let path = RbmPath::new(base.clone(), target.clone()).unwrap();
    for engine in SimdLevel::ALL.into_iter().filter(|e| e.is_available()) {
        let path = path.clone().with_simd_level(engine).unwrap();
        let found = run(&path, BlockGibbs, linear(20));
        println!("{engine}: {:016x}", bits(&found));
        // Where a draw is close a unit may fall otherwise, and its chain goes another way.
        let difference = found.log_z() - 28.29244210764064;
        let error = found.standard_error();
        assert!(
            difference.abs() < error,
            "{engine}: {difference:e} +- {error:e}"
        );
    }
    let path = path.with_simd_level(SimdLevel::Portable).unwrap();
    pin(
        "rbm",
        &run(&path, BlockGibbs, linear(20)),
        28.29244210764064,
    );
    let twice = Repeat::new(BlockGibbs, 2).unwrap();
    pin(
        "rbm, twice",
        &run(&path, twice, linear(20)),
        28.430235007318693,
    );
    let ais = Ais::new(&path, BlockGibbs)
        .schedule(linear(20))
        .chains(200)
        .seed(7);
    let ais = ais.block_size(64);
    let parts = ais.ranges(2).unwrap();
    let parts = parts.into_iter().map(|range| ais.run_range(range).unwrap());
    pin(
        "rbm, merged",
        &RunPart::merge(parts).unwrap(),
        28.889036212107428,
    );
    let half = Rbm::new(
        target.weights() * 0.3,
        target.hidden_bias().clone(),
        target.visible_bias().clone(),
    );
    let models = vec![half.unwrap(), target];
    let spline = RbmPath::through(base, models, linear(2)).unwrap();
    let spline = spline.with_simd_level(SimdLevel::Portable).unwrap();
    pin(
        "rbm, knots among the stages",
        &run(&spline, BlockGibbs, linear(20)),
        29.026426993340223,
    );
    pin(
        "rbm, knots passed",
        &run(&spline, BlockGibbs, linear(21)),
        27.921092444520713,
    );
    let (base, target) = rbm_path::<f64>();
    let path = RbmPath::new(base, target).unwrap();
    let path = path.with_simd_level(SimdLevel::Portable).unwrap();
    pin(
        "rbm, double",
        &run(&path, BlockGibbs, linear(20)),
        28.350370360740115,
    );
}

#[test]
fn exact_samples_of_an_rbm_keep_their_values() {
    let samples = rbm_path::<f64>().1.exact_samples(100, 7).unwrap();
    let units = || samples.iter().flatten().map(|&on| u64::from(on));
    let on = units().sum::<u64>() as f64;
    pinned("rbm, exact samples", on, hash(units()), 1932.0);
}

#[test]
fn a_trained_rbm_prints_a_hash_of_its_weights() {
    let images = annealed::data::digits().images;
    let start = Rbm::<f64>::from_data(4, &images[..100], 3).unwrap();
    let trained = ContrastiveDivergence::new(1).epochs(2);
    let trained = trained.train(start, &images[..100]).unwrap().rbm;
    let weights = trained.weights();
    println!(
        "trained: {:016x}",
        hash(weights.iter().map(|w| w.to_bits()))
    );
}

#[test]
fn drift_keeps_its_values() {
    let base = Gaussian::standard(1).unwrap();
    let target = Gaussian::isotropic(dvector![1.5], 0.6).unwrap();
    let path = GeometricPath::new(base, target);
    let modifier = QuadratureModifier::new(&path, &linear(10), (-6.0, 6.0), 401).unwrap();
    let kernel = DriftModifiedLangevin::new(&modifier, 0.05).unwrap();
    pin(
        "drift-modified",
        &run(&path, kernel, linear(10)),
        0.40372640630712864,
    );
}

#[test]
fn ridges_keep_their_values() {
    let design = DMatrix::from_row_slice(3, 2, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let sinusoid = |amplitude| Sinusoid {
        amplitude,
        frequency: 2.0,
        phase: 0.0,
    };
    let functions = [1.0, -1.0, 0.5].map(sinusoid).to_vec();
    let path = RidgePath::new(design, functions, 6.0, 0.3, 1.0).unwrap();
    pin(
        "ridges",
        &run(&path, RidgeGibbs::augmented(), linear(10)),
        1.9484306557859101,
    );
    pin(
        "ridges, collapsed",
        &run(&path, RidgeGibbs::collapsed(), linear(10)),
        1.8865622522039738,
    );
}

#[test]
fn learned_transitions_keep_their_values() {
    let path = gaussians();
    let flow = LearnedTransitions::new(Mean::Gated { hidden: 6 }, 2, 5, 3).unwrap();
    pin("learned", &run(&path, &flow, linear(5)), 1.5847558047083474);
    let student = flow
        .with_noise(Noise::Student {
            degrees_of_freedom: 5,
        })
        .unwrap();
    pin(
        "learned, Student",
        &run(&path, student, linear(5)),
        2.2824852345601867,
    );
    let ula = UnadjustedLangevin::new(0.2).unwrap();
    let imitation =
        LearnedTransitions::imitating(&ula, Mean::Affine, &path, &linear(5), 100, 2).unwrap();
    pin(
        "imitation",
        &run(&path, imitation, linear(5)),
        1.7394619795676096,
    );
}

#[test]
fn schedules_keep_their_values() {
    let path = GeometricPath::new(Gaussian::standard(2).unwrap(), narrow());
    let kernel = RandomWalkMetropolis::new(0.5).unwrap();
    let pilot = Pilot::new(100, 100);
    let knots = KnotChains {
        chains: 50,
        updates: 40,
        burn_in: 20,
        thinning: 4,
        ..KnotChains::default()
    };
    let middle = |name: &str, schedule: Schedule, beta: f64| {
        let betas = schedule.betas();
        pinned(
            name,
            betas[10],
            hash(betas.iter().map(|b| b.to_bits())),
            beta,
        );
    };
    let optimizer = VarOpt::default().pilot(pilot);
    let found = optimizer.optimize(&path, &kernel, 20, 7).unwrap();
    middle("VAROPT", found.schedule, 0.1818122925871901);
    let optimizer = Friction::default().pilot(pilot.rounds(2));
    let found = optimizer.optimize(&path, &kernel, 20, 7).unwrap();
    middle("friction, two rounds", found.schedule, 0.11804575421803902);
    let optimizer = BinnedSchedule::new(linear(5)).chains(knots);
    let found = optimizer.optimize(&path, &kernel, 20, 7).unwrap();
    middle("binned", found.schedule, 0.16666666666666669);
}
