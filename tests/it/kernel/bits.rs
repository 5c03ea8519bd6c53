//! Bits as vectors of zeros and ones: single flips and Gibbs with gradients, against enumeration.
//!
//! Each check passes where `|z| <= 4`: with correct code and another random stream one in 16,000
//! would fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use annealed::Error;
use annealed::kernel::{
    BitFlip, GibbsWithGradients, Metropolis, NonFinite, Repeat, Stage, Step, TransitionKernel,
};
use annealed::model::{Bernoulli, Bits, UnnormalizedModel};
use annealed::path::Intermediate;
use annealed::prelude::*;
use annealed::random::StreamRng;
use annealed::testing::{self, Check};
use nalgebra::dvector;
use rand::{Rng, RngExt, SeedableRng};

const BITS: usize = 4;

/// A density that is no quadratic form of its bits, so that the gradient misjudges flips.
fn value_and_slopes(x: &[f64]) -> (f64, [f64; BITS]) {
    let score = 1.5 * x[0] - 2.0 * x[1] + x[2] * x[3];
    let slope = [1.5, -2.0, x[3], x[2]];
    let value = score.powi(3) / 4.0 - score * x[3] + 0.4 * x[2];
    let of_score = 0.75 * score.powi(2) - x[3];
    let mut slopes = slope.map(|s| of_score * s);
    slopes[2] += 0.4;
    slopes[3] -= score;
    (value, slopes)
}

fn alone() -> impl Differentiable<State = DVector<f64>> + Clone {
    let function = |x: &[f64], gradient: &mut [f64]| {
        let (value, slopes) = value_and_slopes(x);
        gradient.copy_from_slice(&slopes);
        value
    };
    GradientModel::new(BITS, function).unwrap()
}

fn together() -> impl Differentiable<State = DVector<f64>> {
    let function = |states: &[f64], _: usize| {
        let rows = states.chunks(BITS).map(value_and_slopes);
        let (values, slopes): (Vec<f64>, Vec<_>) = rows.unzip();
        Ok((values, slopes.concat()))
    };
    BatchModel::new(BITS, function).unwrap()
}

fn base() -> Bits {
    Bits(Bernoulli::from_probabilities(&dvector![0.3, 0.5, 0.8, 0.4]).unwrap())
}

fn states() -> impl Iterator<Item = DVector<f64>> {
    let bit = |k: usize, i: usize| ((k >> i) & 1) as f64;
    (0..1 << BITS).map(move |k| DVector::from_fn(BITS, |i, _| bit(k, i)))
}

fn log_sum(model: &impl UnnormalizedModel<State = DVector<f64>>) -> f64 {
    annealed::estimate::log_sum_exp(states().map(|x| model.log_density(&x)))
}

fn sample(
    model: &impl UnnormalizedModel<State = DVector<f64>>,
    rng: &mut StreamRng,
) -> DVector<f64> {
    let mut left = rng.random::<f64>() * log_sum(model).exp();
    let found = states().find(|x| {
        left -= model.log_density(x).exp();
        left < 0.0
    });
    found.unwrap_or_else(|| DVector::from_element(BITS, 1.0))
}

/// Means of five statistics, three steps from exact samples of the path's model at `beta`.
fn invariances<T, K>(target: T, kernel: &K, beta: f64) -> [Check; 5]
where
    T: Differentiable,
    K: for<'p> TransitionKernel<annealed::path::GeometricAt<'p, Bits, T>>,
{
    let path = GeometricPath::new(base(), target);
    let model = path.at(beta);
    type Statistic<'a> = &'a dyn Fn(&DVector<f64>) -> f64;
    let statistics: [Statistic<'_>; 5] = [
        &|x| x[0],
        &|x| x[1] * x[2],
        &|x| x[2] * x[3],
        &|x| x[3],
        &|x| model.log_density(x),
    ];
    let draw = |rng: &mut StreamRng| sample(&model, rng);
    testing::invariances(&model, kernel, draw, statistics, 3, 20_000, 1).unwrap()
}

#[test]
fn flips_leave_every_model_of_the_path_invariant() {
    for beta in [0.0, 0.4, 1.0] {
        let all = [
            invariances(alone(), &GibbsWithGradients, beta),
            invariances(together(), &GibbsWithGradients, beta),
            invariances(
                together(),
                &Repeat::new(GibbsWithGradients, 2).unwrap(),
                beta,
            ),
            invariances(together(), &Metropolis(BitFlip), beta),
        ];
        for check in all.as_flattened() {
            assert!(
                check.passes() && check.standard_error < 0.02,
                "{beta}: {check}"
            );
        }
    }
}

/// A flip by the estimated changes, accepted as if the proposal were symmetric.
struct Irreversible;

impl<M: Differentiable + Intermediate> TransitionKernel<M> for Irreversible {
    type Workspace = ();

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, M>,
        state: &mut DVector<f64>,
        _: &mut (),
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        let gradient = stage.model.gradient(state);
        let gains = Vec::from_iter(state.iter().zip(&gradient).map(|(x, g)| (0.5 - x) * g));
        let mut left = rng.random::<f64>() * gains.iter().map(|gain| gain.exp()).sum::<f64>();
        let flip = gains.iter().position(|gain| {
            left -= gain.exp();
            left < 0.0
        });
        let mut proposal = state.clone();
        let flip = flip.unwrap_or(BITS - 1);
        proposal[flip] = 1.0 - proposal[flip];
        let ratio = stage.model.log_density(&proposal) - stage.model.log_density(state);
        let acceptance = ratio.exp().min(1.0);
        if rng.random::<f64>() < acceptance {
            *state = proposal;
        }
        Ok(Step::metropolis(acceptance))
    }
}

#[test]
fn a_flip_without_the_reverse_proposal_is_found_out() {
    let checks = invariances(alone(), &Irreversible, 0.4);
    assert!(
        checks.iter().any(|check| check.z().abs() > 8.0),
        "{checks:?}"
    );
}

fn unbiasedness<T, K>(target: T, kernel: K, stages: usize) -> Check
where
    T: Differentiable + Send + Sync,
    K: for<'p> TransitionKernel<annealed::path::GeometricAt<'p, Bits, T>> + Sync,
{
    let path = GeometricPath::new(base(), target);
    let log_z_ratio = log_sum(path.target()) - base().log_normalizer();
    let schedule = Schedule::linear(stages).unwrap();
    testing::unbiasedness(&path, kernel, schedule, log_z_ratio, 60_000, 2).unwrap()
}

#[test]
fn weights_of_flips_are_unbiased() {
    for stages in [3, 10] {
        for check in [
            unbiasedness(alone(), GibbsWithGradients, stages),
            unbiasedness(together(), GibbsWithGradients, stages),
            unbiasedness(together(), Metropolis(BitFlip), stages),
        ] {
            assert!(
                check.passes() && check.standard_error < 0.02,
                "{stages}: {check}"
            );
        }
    }
}

#[test]
fn chains_move_together_as_they_move_alone() {
    let schedule = || Schedule::linear(12).unwrap();
    let (one, other) = (
        GeometricPath::new(base(), alone()),
        GeometricPath::new(base(), together()),
    );
    let kernel = || Repeat::new(GibbsWithGradients, 2).unwrap();
    let one = Ais::new(&one, kernel()).schedule(schedule()).run().unwrap();
    let other = Ais::new(&other, kernel())
        .schedule(schedule())
        .run()
        .unwrap();
    assert_eq!(one.states(), other.states());
    for (one, other) in one.log_weights().iter().zip(other.log_weights()) {
        assert!((one - other).abs() < 1e-12, "{one} {other}");
    }
}

#[test]
fn a_flip_takes_one_call_for_all_chains() {
    let calls = AtomicUsize::new(0);
    let function = |states: &[f64], _: usize| {
        calls.fetch_add(1, Ordering::Relaxed);
        let (values, slopes): (Vec<f64>, Vec<_>) =
            states.chunks(BITS).map(value_and_slopes).unzip();
        Ok((values, slopes.concat()))
    };
    let path = GeometricPath::new(base(), BatchModel::new(BITS, function).unwrap());
    let kernel = Repeat::new(GibbsWithGradients, 3).unwrap();
    let ais = Ais::new(&path, kernel).schedule(Schedule::linear(50).unwrap());
    let run = ais.chains(64).block_size(64).run().unwrap();
    // Three flips a stage, the first states, and a few calls by which a run recognises its model.
    let calls = calls.into_inner();
    assert!((150..170).contains(&calls), "{calls}");
    assert_eq!(run.evaluations(), 64 * 50 * 3);
}

#[test]
fn rounds_find_the_sum_over_all_states() {
    let path = GeometricPath::new(base(), together());
    let exact = log_sum(path.target());
    let rounds = Rounds::fixed(&path, GibbsWithGradients)
        .until_error(0.02)
        .seed(3);
    let run = rounds.run().unwrap();
    assert!(run.standard_error() <= 0.02);
    assert!(
        (run.log_z() - exact).abs() <= 4.0 * run.standard_error(),
        "{run} {exact}"
    );
}

#[test]
fn other_numbers_than_bits_have_density_zero() {
    let bits = base();
    assert_eq!(
        bits.log_density(&dvector![0.0, 1.0, 0.5, 0.0]),
        f64::NEG_INFINITY
    );
    assert_eq!(
        bits.log_density(&dvector![0.0, 2.0, 0.0, 0.0]),
        f64::NEG_INFINITY
    );
    assert!((log_sum(&bits) - bits.log_normalizer()).abs() < 1e-12);
    let slope = bits.gradient(&dvector![0.0, 1.0, 0.0, 1.0]);
    assert_eq!(&slope, bits.0.logits());
    let none = Bits::fair(0).unwrap_err();
    assert!(matches!(none, Error::InvalidArgument { .. }), "{none}");
}

#[test]
fn a_gradient_that_is_no_number_is_an_error() {
    let broken = GradientModel::new(2, |x: &[f64], gradient: &mut [f64]| {
        gradient.fill(if x[0] == 1.0 { f64::NAN } else { 1.0 });
        x[0]
    });
    let path = GeometricPath::new(Bits::fair(2).unwrap(), broken.unwrap());
    let error = Ais::new(&path, GibbsWithGradients).run().unwrap_err();
    assert!(
        error.to_string().contains("gradient of the log density"),
        "{error}"
    );
}

#[test]
fn a_step_has_the_probabilities_of_the_paper() {
    let path = GeometricPath::new(base(), alone());
    let model = path.at(0.7);
    let proposal = |x: &DVector<f64>| {
        let gains = model
            .gradient(x)
            .zip_map(x, |slope, x| (1.0 - 2.0 * x) * slope);
        let likely = gains.map(|gain| (gain / 2.0).exp());
        let total = likely.sum();
        likely / total
    };
    let probabilities = |start: &DVector<f64>| {
        DVector::from_fn(BITS, |i, _| {
            let mut there = start.clone();
            there[i] = 1.0 - there[i];
            let ratio = (model.log_density(&there) - model.log_density(start)).exp();
            proposal(start)[i].min(ratio * proposal(&there)[i])
        })
    };
    let steps = 20_000;
    let (mut rng, mut workspace) = (StreamRng::seed_from_u64(5), Default::default());
    for start in states() {
        let mut flips = DVector::<f64>::zeros(BITS);
        for _ in 0..steps {
            let mut state = start.clone();
            let stage = Stage::new(1, &model, &model);
            let step = GibbsWithGradients.step(stage, &mut state, &mut workspace, &mut rng);
            assert_eq!(step.unwrap().decisions.proposals, 1);
            flips += (state - &start).abs();
        }
        for (flips, p) in flips.iter().zip(&probabilities(&start)) {
            let error = (p * (1.0 - p) / f64::from(steps)).sqrt();
            let off = flips / f64::from(steps) - p;
            assert!(off.abs() <= 4.0 * error, "{start} {off} {error}");
        }
    }
}
