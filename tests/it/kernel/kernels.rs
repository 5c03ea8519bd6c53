//! Kernels: what they refuse, what they report, and how they are tuned.

use std::f64::consts::TAU;

use annealed::adaptive::FirstPass;
use annealed::kernel::{
    Block, CoordinateGibbs, Hmc, Mala, Metropolis, Mixture, NonFinite, RandomWalkMetropolis,
    Repeat, Sequence, Stage, Step, StepSize, SymmetricProposal, TransitionKernel, Tunable,
    UnadjustedLangevin,
};
use annealed::model::{
    Differentiable, FullConditionals, NormalizedModel, Sampleable, UnnormalizedModel,
};
use annealed::path::{AnnealingPath, Intermediate, Stationary};
use annealed::{Error, Result};
use nalgebra::DVector;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

type Vector = DVector<f64>;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn point(x: f64) -> Vector {
    Vector::from_element(1, x)
}

/// A model from a log density and a gradient.
#[derive(Debug, Clone)]
struct From1d {
    log_density: fn(f64) -> f64,
    slope: fn(f64) -> f64,
}

impl UnnormalizedModel for From1d {
    type State = Vector;

    fn log_density(&self, x: &Vector) -> f64 {
        (self.log_density)(x[0])
    }
}

impl Differentiable for From1d {
    fn accumulate_gradient(&self, x: &Vector, scale: f64, gradient: &mut Vector) -> f64 {
        gradient[0] += scale * (self.slope)(x[0]);
        self.log_density(x)
    }
}

fn step_from<K: TransitionKernel<Stationary<From1d>>>(
    kernel: &K,
    model: &From1d,
    state: &mut Vector,
) -> Result<Step, NonFinite> {
    let mut workspace = K::Workspace::default();
    let model = Stationary(model.clone());
    let stage = Stage::new(1, &model, &model);
    kernel.step(stage, state, &mut workspace, &mut rng(1))
}

/// One step of each kernel over vectors.
fn steps_from(model: &From1d, start: f64, size: f64) -> Vec<(Result<Step, NonFinite>, f64)> {
    fn one<K: TransitionKernel<Stationary<From1d>>>(
        kernel: Result<K>,
        model: &From1d,
        start: f64,
    ) -> (Result<Step, NonFinite>, f64) {
        let mut state = point(start);
        let step = step_from(&kernel.unwrap(), model, &mut state);
        (step, state[0])
    }
    vec![
        one(RandomWalkMetropolis::new(size), model, start),
        one(Mala::new(size), model, start),
        one(UnadjustedLangevin::new(size), model, start),
        one(Hmc::new(size, 3), model, start),
    ]
}

#[test]
fn bad_settings_are_refused() {
    fn refused<T>(result: Result<T>, argument: &str) {
        match result.err() {
            Some(Error::InvalidArgument {
                argument: named, ..
            }) => assert_eq!(named, argument),
            other => panic!("{other:?}"),
        }
    }
    for size in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(StepSize::constant(size), "step size");
        refused(StepSize::knots([(0.0, 1.0), (1.0, size)]), "step size");
        refused(RandomWalkMetropolis::new(size), "step size");
        refused(Mala::new(size), "step size");
        refused(UnadjustedLangevin::new(size), "step size");
        refused(Hmc::new(size, 1), "step size");
    }
    refused(StepSize::knots([]), "step size");
    for betas in [
        [0.5, 0.5],
        [0.5, 0.2],
        [-0.1, 1.0],
        [0.0, 1.1],
        [0.0, f64::NAN],
    ] {
        refused(
            StepSize::knots(betas.map(|beta| (beta, 1.0))),
            "beta of a step size",
        );
    }
    refused(Hmc::new(0.1, 0), "leapfrog steps");
    for probability in [-0.1, 1.1, f64::NAN] {
        let gibbs = CoordinateGibbs::systematic();
        refused(Mixture::new(probability, gibbs, gibbs), "probability");
    }
    refused(Repeat::new(CoordinateGibbs::systematic(), 0), "times");
}

#[test]
fn step_sizes_interpolate_their_logarithm() -> Result<()> {
    let size = StepSize::knots([(0.2, 1.0), (0.6, 0.01), (1.0, 0.04)])?;
    for (beta, expected) in [
        (0.0, 1.0),
        (0.2, 1.0),
        (0.4, 0.1),
        (0.6, 0.01),
        (0.8, 0.02),
        (1.0, 0.04),
    ] {
        approx::assert_relative_eq!(size.at(beta), expected, max_relative = 1e-14);
    }
    assert_eq!(StepSize::constant(0.3)?.at(0.7), 0.3);
    Ok(())
}

#[test]
fn nan_and_infinity_of_the_model_are_errors() {
    let hole = |x: f64| {
        if (-1e-9..=1e-9).contains(&x) {
            0.0
        } else {
            f64::NAN
        }
    };
    let expected = [
        (hole as fn(f64) -> f64, "log density of the proposal"),
        (|_| f64::NAN, "log density"),
        (|_| f64::INFINITY, "log density"),
    ];
    for (log_density, quantity) in expected {
        let model = From1d {
            log_density,
            slope: |_| 0.0,
        };
        for (step, state) in steps_from(&model, 0.0, 1.0) {
            assert_eq!(step.unwrap_err().quantity, quantity);
            assert_eq!(state, 0.0, "moved in spite of an error");
        }
    }
    let model = From1d {
        log_density: |x| -x * x,
        slope: |_| f64::NAN,
    };
    for (step, _) in steps_from(&model, 0.0, 1.0).into_iter().skip(1) {
        assert_eq!(step.unwrap_err().quantity, "gradient of the log density");
    }
}

#[test]
fn a_state_off_the_support_moves_in_and_none_moves_out() {
    /// How many of 200 steps from `start` end on the support.
    fn arrivals<K: TransitionKernel<Stationary<From1d>>>(kernel: Result<K>, start: f64) -> usize {
        // The slope is NaN off the support: it must not be used there.
        let model = From1d {
            log_density: |x| if x > 0.0 { -x } else { f64::NEG_INFINITY },
            slope: |x| if x > 0.0 { -1.0 } else { f64::NAN },
        };
        let (kernel, model) = (kernel.unwrap(), Stationary(model));
        let stage = Stage::new(1, &model, &model);
        let mut workspace = K::Workspace::default();
        let ends = (0..200).map(|seed| {
            let mut state = point(start);
            let step = kernel.step(stage, &mut state, &mut workspace, &mut rng(seed));
            assert!(step.unwrap().correction.is_finite());
            state[0]
        });
        ends.filter(|&end| end > 0.0).count()
    }
    for (start, expected) in [(-0.3, 20..=180), (0.3, 200..=200)] {
        assert!(expected.contains(&arrivals(RandomWalkMetropolis::new(0.5), start)));
        assert!(expected.contains(&arrivals(Mala::new(0.3), start)));
        assert!(expected.contains(&arrivals(Hmc::new(0.5, 2), start)));
    }
    let far = From1d {
        log_density: |x| if x > 9.0 { 0.0 } else { f64::NEG_INFINITY },
        slope: |_| f64::NAN,
    };
    for (step, state) in steps_from(&far, 0.0, 0.1) {
        let step = step.unwrap();
        assert_eq!(
            (step.decisions.accepted, step.correction, state),
            (0.0, 0.0, 0.0)
        );
    }
    // Of weight 0, and not to be revived: the unadjusted kernel stays.
    assert_eq!(arrivals(UnadjustedLangevin::new(0.3), -0.3), 0);
    assert_eq!(arrivals(UnadjustedLangevin::new(0.3), 0.3), 200);
}

#[test]
fn gibbs_visits_every_coordinate() {
    /// Its state is the list of the coordinates drawn.
    struct Diary;
    impl UnnormalizedModel for Diary {
        type State = Vec<usize>;
        fn log_density(&self, _state: &Vec<usize>) -> f64 {
            0.0
        }
    }
    impl FullConditionals for Diary {
        fn coordinates(&self) -> usize {
            3
        }
        fn sample_coordinate<R: Rng + ?Sized>(
            &self,
            state: &mut Vec<usize>,
            index: usize,
            _: &mut R,
        ) {
            state.push(index);
        }
    }
    let model = Stationary(Diary);
    let stage = Stage::new(1, &model, &model);
    let visits = |kernel: CoordinateGibbs, sweeps: usize| {
        let (mut state, mut rng) = (Vec::new(), rng(6));
        for _ in 0..sweeps {
            kernel.step(stage, &mut state, &mut (), &mut rng).unwrap();
        }
        state
    };
    assert_eq!(visits(CoordinateGibbs::systematic(), 2), [0, 1, 2, 0, 1, 2]);
    let random = visits(CoordinateGibbs::random_scan(), 10_000);
    assert_eq!(random.len(), 30_000);
    let error = (2.0 / 9.0 * 30_000_f64).sqrt();
    for index in 0..3 {
        let count = random.iter().filter(|&&visited| visited == index).count() as f64;
        assert!((count - 10_000.0).abs() < 4.0 * error, "{index}: {count}");
    }
}

/// The quartic's force grows so fast that large steps overflow.
#[test]
fn a_diverging_trajectory_is_refused_but_a_nan_of_the_model_is_not() {
    let quartic = From1d {
        log_density: |x| -x.powi(4),
        slope: |x| -4.0 * x.powi(3),
    };
    let hmc = Hmc::new(10.0, 20).unwrap();
    let mut state = point(1.0);
    let step = step_from(&hmc, &quartic, &mut state).unwrap();
    let found = (step.decisions.accepted, step.decisions.proposals);
    assert_eq!((found, state[0]), ((0.0, 1), 1.0));

    // A force that is finite everywhere, with a density whose NaN at an infinite position is
    // never asked for.
    let runaway = From1d {
        log_density: |x| (x - x) - 1.0,
        slope: |x| 1e300 * x.signum(),
    };
    let step = step_from(&Hmc::new(1e10, 3).unwrap(), &runaway, &mut state).unwrap();
    assert_eq!((step.decisions.accepted, state[0]), (0.0, 1.0));

    let faulty = From1d {
        log_density: |x| if x.abs() < 5.0 { -x } else { f64::NAN },
        slope: |_| 9.0,
    };
    let fault = step_from(&hmc, &faulty, &mut state).unwrap_err();
    assert_eq!(fault.quantity, "log density of the proposal");
}

#[test]
fn steps_report_acceptance_probabilities_and_add_them() -> Result<()> {
    let model = From1d {
        log_density: |x| -0.5 * x * x,
        slope: |x| -x,
    };
    let walk = RandomWalkMetropolis::new(2.0)?;
    let langevin = UnadjustedLangevin::new(0.1)?;
    let kernel = Sequence(Repeat::new(walk, 3)?, Sequence(langevin, Mala::new(0.5)?));
    let step = step_from(&kernel, &model, &mut point(0.3)).unwrap();
    let accepted = step.decisions.accepted;
    assert_eq!(step.decisions.proposals, 4);
    assert!(accepted > 0.0 && accepted < 4.0 && accepted.fract() != 0.0);
    assert!(step.correction != 0.0);
    Ok(())
}

/// A block that moves as a whole does what its chains would do one after another; of weight zero
/// they stay.
#[test]
fn composed_kernels_move_blocks_as_they_move_chains() -> Result<()> {
    let langevin = || UnadjustedLangevin::new(0.1);
    let kernel = Sequence(
        Repeat::new(Sequence(langevin()?, Hmc::new(0.2, 2)?), 2)?,
        Repeat::new(RandomWalkMetropolis::new(0.3)?, 3)?,
    );
    let (left, reached) = (At(0.3), At(0.6));
    let stage = Stage::new(1, &left, &reached);
    let mut states: Vec<Vector> = (0..4).map(|i| At(0.3).sample(&mut rng(i))).collect();
    states.push(Vector::from_element(5, 1e200));
    let mut block = Block::new(0, states.clone(), (0..5).map(rng).collect());
    kernel.advance(stage, &mut block, &mut Default::default())?;
    let mut workspace = Default::default();
    for (chain, state) in states.iter_mut().enumerate() {
        let mut rng = rng(chain as u64);
        let log_ratio = stage.log_ratio(state);
        let mut correction = 0.0;
        if log_ratio > f64::NEG_INFINITY {
            let step = kernel.step(stage, state, &mut workspace, &mut rng);
            correction = step.unwrap().correction;
        }
        assert_eq!(block.states()[chain], *state);
        assert_eq!(block.log_ratios()[chain], log_ratio);
        let difference = block.log_weights()[chain] - (log_ratio + correction);
        assert!(difference.abs() < 1e-12 || !block.is_alive(chain));
    }
    assert!(!block.is_alive(4) && block.states()[4][0] == 1e200);
    assert_eq!(block.decisions().proposals, 4 * (2 + 3));
    Ok(())
}

#[test]
fn a_workspace_follows_the_dimension() {
    struct Standard;
    impl UnnormalizedModel for Standard {
        type State = Vector;
        fn log_density(&self, x: &Vector) -> f64 {
            -0.5 * x.norm_squared()
        }
    }
    impl Differentiable for Standard {
        fn accumulate_gradient(&self, x: &Vector, scale: f64, gradient: &mut Vector) -> f64 {
            gradient.axpy(-scale, x, 1.0);
            self.log_density(x)
        }
    }
    let model = Stationary(Standard);
    let stage = Stage::new(1, &model, &model);
    let kernel = Sequence(
        Sequence(Mala::new(0.5).unwrap(), Hmc::new(0.5, 2).unwrap()),
        RandomWalkMetropolis::new(0.5).unwrap(),
    );
    let mut workspace = Default::default();
    for dimension in [2, 5, 0, 3] {
        let mut state = Vector::zeros(dimension);
        kernel
            .step(stage, &mut state, &mut workspace, &mut rng(2))
            .unwrap();
        assert_eq!(state.len(), dimension);
    }
}

/// A user's own state and proposal: the bit counts of three coins with odds 2 to 1.
#[test]
fn metropolis_samples_a_state_of_bits() {
    struct Coins;
    impl UnnormalizedModel for Coins {
        type State = [bool; 3];
        fn log_density(&self, state: &[bool; 3]) -> f64 {
            state.iter().filter(|&&bit| bit).count() as f64 * 2_f64.ln()
        }
    }
    struct FlipOne;
    impl SymmetricProposal<[bool; 3]> for FlipOne {
        fn propose<R: Rng + ?Sized>(
            &self,
            _beta: f64,
            state: &[bool; 3],
            proposal: &mut [bool; 3],
            rng: &mut R,
        ) {
            *proposal = *state;
            let bit = rng.random_range(0..3);
            proposal[bit] = !proposal[bit];
        }
    }
    let model = Stationary(Coins);
    let stage = Stage::new(1, &model, &model);
    let (mut rng, mut workspace) = (rng(3), Default::default());
    let chains = 30_000;
    let mut heads = 0;
    for _ in 0..chains {
        let mut state = [false, true, true];
        for _ in 0..30 {
            Metropolis(FlipOne)
                .step(stage, &mut state, &mut workspace, &mut rng)
                .unwrap();
        }
        heads += usize::from(state[0]);
    }
    // The second eigenvalue is below 0.8: after 30 steps nothing is left of the start.
    let share = heads as f64 / chains as f64;
    let error = (2.0 / 9.0 / chains as f64).sqrt();
    assert!((share - 2.0 / 3.0).abs() < 4.0 * error, "{share}");
}

/// From N(0, I) to N(1, .04 I) in five dimensions: the right step shrinks fivefold.
#[derive(Debug, Clone)]
struct Shrinking(At);

#[derive(Debug, Clone, Copy)]
struct At(f64);

impl At {
    fn precision(self) -> f64 {
        1.0 + 24.0 * self.0
    }
}

impl AnnealingPath for Shrinking {
    type State = Vector;
    type Base = At;
    type At = At;

    fn base(&self) -> &At {
        &self.0
    }

    fn at(&self, beta: f64) -> At {
        At(beta)
    }
}

impl UnnormalizedModel for At {
    type State = Vector;

    fn log_density(&self, x: &Vector) -> f64 {
        x.iter()
            .map(|x| -0.5 * self.precision() * x * x + 25.0 * self.0 * x)
            .sum()
    }
}

impl Intermediate for At {
    fn beta(&self) -> f64 {
        self.0
    }
}

impl Sampleable for At {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> Vector {
        let (mean, deviation) = (
            25.0 * self.0 / self.precision(),
            self.precision().powf(-0.5),
        );
        Vector::from_fn(5, |_, _| {
            mean + deviation * rng.sample::<f64, _>(StandardNormal)
        })
    }
}

impl NormalizedModel for At {
    fn log_normalizer(&self) -> f64 {
        let precision = self.precision();
        2.5 * ((TAU / precision).ln() + (25.0 * self.0).powi(2) / precision)
    }
}

impl Differentiable for At {
    fn accumulate_gradient(&self, x: &Vector, scale: f64, gradient: &mut Vector) -> f64 {
        for i in 0..5 {
            gradient[i] += scale * (25.0 * self.0 - self.precision() * x[i]);
        }
        self.log_density(x)
    }
}

/// Mean acceptance from exact samples at one beta.
fn acceptance<K: TransitionKernel<At>>(kernel: &K, beta: f64) -> f64 {
    let model = At(beta);
    let stage = Stage::new(1, &model, &model);
    let (mut rng, mut workspace) = (rng(4), K::Workspace::default());
    let chains = 20_000;
    let mut sum = 0.0;
    for _ in 0..chains {
        let mut state = stage.model.sample(&mut rng);
        let step = kernel.step(stage, &mut state, &mut workspace, &mut rng);
        sum += step.unwrap().decisions.accepted;
    }
    sum / chains as f64
}

#[test]
fn tuning_reaches_the_target_all_along_the_path() -> Result<()> {
    fn check<K>(kernel: K) -> Result<()>
    where
        K: Tunable + TransitionKernel<At> + Clone + PartialEq + std::fmt::Debug + Send + Sync,
    {
        let path = Shrinking(At(0.0));
        let tuned = |kernel: K| {
            let pass = FirstPass::new(&path, kernel).moves(60).seed(5);
            pass.run().map(|found| found.kernel)
        };
        let target = kernel.optimal_acceptance();
        // From far too small and far too large a step.
        for factor in [1e-5, 1.0, 1e5] {
            let start = StepSize::constant(kernel.step_size().at(0.0) * factor)?;
            let tuned = tuned(kernel.with_step_size(start))?;
            for beta in [0.0, 0.025, 0.3, 0.71, 1.0] {
                let reached = acceptance(&tuned, beta);
                // A trajectory of a quarter period is long enough, however often it is accepted.
                let longest = tuned.step_size().at(beta) > 0.9 * tuned.longest_step_size();
                assert!(
                    reached > target - 0.1 && (longest || reached < target + 0.1),
                    "{reached} at {beta}, target {target}"
                );
            }
        }
        assert_eq!(tuned(kernel.clone())?, tuned(kernel)?);
        Ok(())
    }
    check(RandomWalkMetropolis::new(0.5)?)?;
    check(Mala::new(0.5)?)?;
    check(Hmc::new(0.5, 3)?)
}

#[cfg(feature = "serde")]
#[test]
fn kernels_travel_as_json_and_are_checked_on_arrival() -> Result<()> {
    let kernel = Mixture::new(
        0.5,
        Sequence(Hmc::new(0.2, 5)?, Mala::new(0.1)?),
        Repeat::new(
            RandomWalkMetropolis::new(StepSize::knots([(0.0, 1.0), (1.0, 0.1)])?)?,
            2,
        )?,
    )?;
    let json = serde_json::to_string(&kernel).unwrap();
    let back = serde_json::from_str(&json).unwrap();
    assert_eq!(kernel, back);
    for (good, bad) in [
        ("\"probability\":0.5", "\"probability\":2.0"),
        ("\"steps\":5", "\"steps\":0"),
        ("[1.0,0.1]", "[1.0,-0.1]"),
        ("\"times\":2", "\"times\":0"),
    ] {
        assert!(json.contains(good), "{json}");
        let spoiled = json.replace(good, bad);
        let read = serde_json::from_str::<Mixture<Sequence<Hmc, Mala>, Repeat<RandomWalkMetropolis>>>(
            &spoiled,
        );
        assert!(read.is_err(), "{spoiled}");
    }
    Ok(())
}
