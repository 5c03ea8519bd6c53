//! Models from a closure over a batch: the numbers of a closure over one state, and few calls.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shared;
use annealed::Error;
use annealed::ais::StageSummary;
use annealed::bidirectional::TargetSamples;
use annealed::kernel::{Mixture, Slice, UnadjustedLangevin};
use annealed::model::{BatchOutput, Differentiable, UniformBox, UnnormalizedModel};
use annealed::nested::NestedSmc;
use annealed::pilot::{BinnedSchedule, KnotChains};
use annealed::prelude::*;
use nalgebra::dvector;

const DIMENSION: usize = 3;
const CHAINS: usize = 48;
/// Calls for the first states, and for the few that tell a run from others.
const FEW: usize = 24;

/// A quartic well: writes the gradient of a state, and returns its log density.
fn well(x: &[f64], gradient: &mut [f64]) -> f64 {
    for (slope, x) in gradient.iter_mut().zip(x) {
        *slope = 1.0 - 1.2 * x.powi(3);
    }
    x.iter().map(|x| x - 0.3 * x.powi(4)).sum()
}

fn well_f32(x: &[f32], gradient: &mut [f32]) -> f32 {
    for (slope, x) in gradient.iter_mut().zip(x) {
        *slope = 1.0 - 1.2 * x.powi(3);
    }
    x.iter().map(|x| x - 0.3 * x.powi(4)).sum()
}

/// Evaluates the rows of a batch one by one.
fn rows<T: Copy + Default>(
    states: &[T],
    n: usize,
    well: impl Fn(&[T], &mut [T]) -> T,
) -> (Vec<T>, Vec<T>) {
    assert_eq!(states.len(), n * DIMENSION);
    let mut gradients = vec![T::default(); states.len()];
    let pairs = states
        .chunks(DIMENSION)
        .zip(gradients.chunks_mut(DIMENSION));
    let log_densities = pairs.map(|(x, gradient)| well(x, gradient)).collect();
    (log_densities, gradients)
}

/// The well in batches. `seen` counts calls.
fn batched(seen: &AtomicUsize) -> impl Differentiable<State = DVector<f64>> + Send + Sync + '_ {
    shared::batch_model(DIMENSION, move |states: &[f64], n| {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(rows(states, n, well))
    })
    .unwrap()
}

fn base() -> Gaussian {
    Gaussian::isotropic(DVector::from_element(DIMENSION, 0.5), 1.0).unwrap()
}

/// All numbers that a run found.
fn numbers(run: &Run<DVector<f64>>) -> Vec<f64> {
    let acceptance = |stage: &StageSummary| stage.acceptance.unwrap_or(-1.0);
    let stages = run.stages().iter().map(acceptance);
    let states = run.states().iter().flat_map(|x| x.iter().copied());
    stages
        .chain(states)
        .chain(run.log_weights().iter().copied())
        .collect()
}

/// Asserts that numbers agree to a relative tolerance; 0 for the same bits.
fn assert_near(what: &str, one: &[f64], other: &[f64], tolerance: f64) {
    assert_eq!(one.len(), other.len());
    let near =
        |x: f64, y: f64| x.to_bits() == y.to_bits() || (x - y).abs() < tolerance * (1.0 + x.abs());
    let far = one.iter().zip(other).find(|&(&x, &y)| !near(x, y));
    assert!(far.is_none(), "{what}: {far:?}");
}

fn walk() -> RandomWalkMetropolis {
    RandomWalkMetropolis::new(0.6).unwrap()
}

fn hmc() -> Hmc {
    Hmc::new(0.35, 3).unwrap()
}

/// Compares runs forward, resampled and backward with those of a closure over one state, and counts the calls: at most `calls` a stage, 1 for the first states and a few that tell the run from others.
#[test]
fn a_batch_gives_the_numbers_of_single_states_in_few_calls() {
    const STAGES: usize = 40;
    let seen = AtomicUsize::new(0);
    let single = GradientModel::new(DIMENSION, well).unwrap();
    let (single, batch) = (
        GeometricPath::new(base(), single),
        GeometricPath::new(base(), batched(&seen)),
    );
    macro_rules! assert_same {
        ($($kernel:expr, $calls:expr, $tolerance:expr);+) => {$(
            macro_rules! runs { ($path:expr) => {{
                let ais = || Ais::new($path, $kernel)
                    .schedule(Schedule::linear(STAGES).unwrap())
                    .chains(CHAINS)
                    .block_size(CHAINS)
                    .seed(5);
                let mut calls = Vec::new();
                let mut count = || calls.push(seen.swap(0, Ordering::Relaxed));
                let mut found = numbers(&ais().run().unwrap());
                count();
                let resampling = Resampling::every(1).unwrap();
                found.extend(numbers(&ais().resampling(resampling).run().unwrap()));
                count();
                (found, calls)
            }} }
            let ((one, _), (other, calls)) = (runs!(&single), runs!(&batch));
            assert_near(stringify!($kernel), &one, &other, $tolerance);
            let most = $calls * STAGES + FEW;
            assert!(calls.iter().all(|&calls| calls <= most), "{}: {calls:?}", stringify!($kernel));
        )+};
    }
    assert_same!(
        walk(), 1, 0.0;
        hmc(), 3, 0.0;
        Mala::new(0.3).unwrap(), 1, 0.0;
        UnadjustedLangevin::new(0.05).unwrap(), 1, 0.0;
        Mixture::new(0.4, walk(), hmc()).unwrap(), 5, 0.0
    );
    let samples = TargetSamples::exact(vec![dvector![0.9, 0.2, -0.1]; CHAINS]);
    macro_rules! backward {
        ($path:expr) => {{
            let ais = Ais::new($path, hmc()).schedule(Schedule::linear(STAGES).unwrap());
            let ais = ais.chains(CHAINS).block_size(CHAINS);
            numbers(ais.reverse(&samples).unwrap().backward())
        }};
    }
    assert_near("backward", &backward!(&single), &backward!(&batch), 0.0);
    let calls = seen.swap(0, Ordering::Relaxed);
    assert!(calls <= 3 * STAGES + FEW, "backward: {calls}");
}

/// At few stages no accept test is decided by rounding.
#[test]
fn single_precision_gives_the_same_number() {
    let single = GradientModel::new(DIMENSION, well).unwrap();
    let rounded = shared::batch_model(DIMENSION, |states: &[f32], n| Ok(rows(states, n, well_f32)));
    let log_z = |target: &dyn Differentiable<State = DVector<f64>>| {
        target.log_density(&dvector![1.0, 2.0, 3.0])
    };
    let rounded = rounded.unwrap();
    assert!((log_z(&single) - log_z(&rounded)).abs() < 1e-5);
    let (single, rounded) = (
        GeometricPath::new(base(), single),
        GeometricPath::new(base(), rounded),
    );
    macro_rules! log_z {
        ($path:expr, $kernel:expr) => {{
            let ais = Ais::new($path, $kernel).schedule(Schedule::linear(5).unwrap());
            ais.chains(512).seed(3).run().unwrap()
        }};
    }
    let (one, other) = (log_z!(&single, hmc()), log_z!(&rounded, hmc()));
    assert!((one.log_z() - other.log_z()).abs() < 1e-4);
    assert_ne!(one.log_z(), other.log_z());
    let (one, other) = (log_z!(&single, walk()), log_z!(&rounded, walk()));
    assert!((one.log_z() - other.log_z()).abs() < 1e-4);
}

/// First passes, pilots, rounds and tempering.
#[test]
fn passes_pilots_rounds_and_tempering_ask_for_whole_blocks() {
    let seen = AtomicUsize::new(0);
    let path = GeometricPath::new(base(), batched(&seen));
    let calls = || seen.swap(0, Ordering::Relaxed);
    // The check of a gradient takes a call a coordinate, and some for states.
    let check = 3 * (DIMENSION + 4);
    let pass = FirstPass::new(&path, hmc()).chains(64).block_size(64);
    let first = pass.run().unwrap();
    let moves = first.evaluations as usize / (3 * 64);
    let found = calls();
    assert!(
        found <= 4 * moves + check,
        "first pass: {found}, {moves} moves"
    );
    assert!(found >= 2 * moves, "first pass: {found}, {moves} moves");

    let rounds = Rounds::new(&path, hmc())
        .rounds(3)
        .chains(128)
        .block_size(128)
        .run()
        .unwrap();
    let moves = rounds.evaluations() as usize / (3 * 128);
    let found = calls();
    assert!(found <= 4 * moves + check, "rounds: {found}, {moves} moves");

    let pilot = Pilot::new(60, 50).block_size(60);
    let friction = Friction::default().pilot(pilot);
    let _ = friction.optimize(&path, &hmc(), 40, 1).unwrap();
    let found = calls();
    assert!(found <= 4 * 50, "pilot: {found}");
    let knots = KnotChains {
        chains: 40,
        updates: 30,
        burn_in: 10,
        block_size: 40,
        ..KnotChains::default()
    };
    let binned = BinnedSchedule::new(Schedule::linear(3).unwrap()).chains(knots);
    let _ = binned.optimize(&path, &hmc(), 40, 1).unwrap();
    let found = calls();
    assert!(found <= 4 * (3 * 30) + 30, "knots: {found}");

    let tempering = Tempering::new(&path, hmc()).schedule(Schedule::linear(4).unwrap());
    let run = tempering
        .ladders(16)
        .block_size(16)
        .rounds(4)
        .run()
        .unwrap();
    let scans = run.evaluations() as usize / 16 / (3 * 4 + 1);
    let found = calls();
    assert!(
        found <= scans * (4 * 3 + 1) + 4 * 16,
        "tempering: {found}, {scans} scans"
    );
}

/// Dead chains and proposals that overflow cost no calls of their own.
#[test]
fn odd_states_share_the_call_of_the_others() {
    let seen = AtomicUsize::new(0);
    let target = BatchModel::new(1, |states: &[f64], _| {
        seen.fetch_add(1, Ordering::Relaxed);
        assert!(states.iter().all(|x| x.is_finite()));
        let walls = states.iter().map(|x| {
            if *x < -0.5 {
                f64::NEG_INFINITY
            } else {
                -x.powi(4)
            }
        });
        Ok((
            walls.collect(),
            states.iter().map(|x| -4.0 * x.powi(3)).collect(),
        ))
    });
    let path = GeometricPath::new(
        Gaussian::isotropic(dvector![0.0], 1.0).unwrap(),
        target.unwrap(),
    );
    let run = |step: f64, leaps| {
        let ais = Ais::new(&path, Hmc::new(step, leaps).unwrap());
        let ais = ais
            .schedule(Schedule::linear(10).unwrap())
            .chains(100)
            .block_size(100);
        let run = ais.run().unwrap();
        (run, seen.swap(0, Ordering::Relaxed))
    };
    let (plain, calls) = run(0.2, 3);
    let dead = plain
        .log_weights()
        .iter()
        .filter(|w| w.is_infinite())
        .count();
    assert!((10..60).contains(&dead), "{dead}");
    assert!(calls <= 11 * 3 + 8, "{calls}");
    // Steps of 1.5 overflow after some leaps.
    let (far, calls) = run(1.5, 12);
    assert!(far.log_z().is_finite());
    assert!(calls <= 11 * 12 + 8, "{calls}");
}

/// A state beyond the range of the number type is off the support, and the closure does not meet it.
#[test]
fn states_beyond_single_precision_are_off_the_support() {
    let model = shared::batch_model(1, |states: &[f32], _| {
        assert!(states.iter().all(|x| x.is_finite()));
        Ok((
            states.iter().map(|x| -x.abs()).collect(),
            vec![1.0; states.len()],
        ))
    });
    let model = model.unwrap();
    let mut found = [0.0; 3];
    model.log_densities(&[dvector![1.0], dvector![1e39], dvector![-2.0]], &mut found);
    assert_eq!(found, [-1.0, f64::NEG_INFINITY, -2.0]);
    let mut gradient = dvector![0.5];
    assert_eq!(
        model.accumulate_gradient(&dvector![-1e39], 1.0, &mut gradient),
        f64::NEG_INFINITY
    );
    assert_eq!(gradient, dvector![0.5]);
    assert_eq!(
        model.accumulate_gradient(&dvector![2.0], 2.0, &mut gradient),
        -2.0
    );
    assert_eq!(gradient, dvector![2.5]);
}

/// Returns a well whose device fails at call `fails`, counted from 0. With one of the `threads` it may be asked no more; others may have
/// asked before they could know.
fn failing(
    fails: usize,
    threads: usize,
) -> impl Differentiable<State = DVector<f64>> + Send + Sync {
    let calls = AtomicUsize::new(0);
    shared::batch_model(DIMENSION, move |states: &[f64], n| {
        match calls.fetch_add(1, Ordering::Relaxed) {
            call if call < fails => Ok(rows(states, n, well)),
            call if call == fails => Err(io::Error::other("device lost"))?,
            _ if threads > 1 => Err(io::Error::other("device lost"))?,
            _ => panic!("called after a failure"),
        }
    })
    .unwrap()
}

/// Asserts that a run ended with the failure of the device, and returns stage and chains.
fn lost<T>(run: annealed::Result<T>) -> (usize, std::ops::Range<usize>) {
    let error = run.err().expect("a failed device ends the run");
    let text = error.to_string();
    let Error::Model {
        source,
        chains,
        stage,
        ..
    } = error
    else {
        panic!("{text}");
    };
    assert_eq!(source.to_string(), "device lost");
    assert!(
        text.starts_with("the model failed in chain") && text.ends_with("device lost"),
        "{text}"
    );
    (stage, chains)
}

#[test]
fn a_failure_of_the_device_is_the_error_of_the_run() {
    let ais = |fails| {
        let path = GeometricPath::new(base(), failing(fails, 1));
        let ais = Ais::new(&path, hmc()).schedule(Schedule::linear(20).unwrap());
        lost(ais.chains(100).block_size(50).threads(1).run())
    };
    // The first stage calls for the states, again for three of them, and then three times for each trajectory; others three
    // times.
    assert_eq!(ais(0), (1, 0..50));
    assert_eq!(ais(5 + 3 + 1), (3, 0..50));
    // The first block takes 62 calls in all.
    assert_eq!(ais(62 + 4), (2, 50..100));

    macro_rules! lost {
        ($path:ident => $run:expr) => {
            for fails in [0, 1, 5, 30] {
                let $path = GeometricPath::new(base(), failing(fails, 2));
                lost($run);
            }
        };
    }
    lost!(path => Ais::new(&path, walk()).schedule(Schedule::linear(40).unwrap()).run());
    lost!(path => Ais::new(&path, Slice::new(1.0).unwrap()).schedule(Schedule::linear(4).unwrap()).run());
    lost!(path => Ais::new(&path, walk()).schedule(Schedule::linear(40).unwrap()).threads(2).run());
    lost!(path => Tempering::new(&path, hmc()).run());
    lost!(path => FirstPass::new(&path, hmc()).run());
    lost!(path => Rounds::new(&path, hmc()).run());
    lost!(path => Friction::default().optimize(&path, &hmc(), 40, 1));
    lost!(path => BinnedSchedule::new(Schedule::linear(3).unwrap()).optimize(&path, &hmc(), 40, 1));
    for fails in [0, 100, 1_000] {
        let prior = UniformBox::new([(-2.0, 2.0); DIMENSION]).unwrap();
        let problem = TemperedPath::new(prior, failing(fails, 2));
        lost(NestedSmc::new(&problem, walk()).islands(4).run());
    }
}

#[test]
fn wrong_lengths_are_the_error_of_the_run() {
    fn check<O: BatchOutput>(
        found: O,
        model: impl Fn(O) -> annealed::Result<String>,
        expected: &str,
    ) {
        let text = model(found).unwrap();
        assert!(text.ends_with(expected), "{text}");
    }
    let run = |found: (Vec<f32>, Vec<f32>)| {
        let target = shared::batch_model(2, move |_: &[f32], _| Ok(found.clone()))?;
        let path = GeometricPath::new(Gaussian::standard(2)?, target);
        let run = Ais::new(&path, Hmc::new(0.1, 1)?).chains(10).run();
        Ok(run.unwrap_err().to_string())
    };
    let expected =
        "(beta = 0.001): dimension mismatch in log densities of a batch: got 9, expected 10";
    check((vec![0.0; 9], vec![0.0; 20]), run, expected);
    let expected = "dimension mismatch in gradients of a batch: got 10, expected 20";
    check((vec![0.0; 10], vec![0.0; 10]), run, expected);
    let refused = BatchModel::of_values(0, |_: &[f64], _| Ok(Vec::new()));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "invalid dimension: got 0, expected at least 1"
    );
}

/// A mean over the rows, where one over the columns was meant: log Z would depend on the size of blocks.
#[test]
fn log_densities_that_depend_on_other_rows_are_refused() {
    let centred = shared::batch_model(1, |states: &[f64], n| {
        let mean = states.iter().sum::<f64>() / n as f64;
        let values = states.iter().map(|x| -0.5 * (x - mean).powi(2)).collect();
        let slopes = states.iter().map(|x| mean - x).collect();
        Ok((values, slopes))
    });
    let path = GeometricPath::new(Gaussian::standard(1).unwrap(), centred.unwrap());
    let run = Ais::new(&path, RandomWalkMetropolis::new(1.0).unwrap()).run();
    let error = run.unwrap_err().to_string();
    assert!(
        error.contains("row 0: ") && error.contains("other rows of the batch"),
        "{error}"
    );
}
