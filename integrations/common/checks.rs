//! Checks of each integration, as functions of its network.

use std::sync::atomic::{AtomicUsize, Ordering};

use annealed::adaptive::{FirstPass, Rounds};
use annealed::model::{Differentiable, GradientModel};
use annealed::prelude::*;

use super::{Network, layers};

/// Leapfrog steps of a move.
const LEAPFROG: usize = 5;
/// Calls that belong to no stage: the first states, and the few by which checkpoints know a model.
const FEW: usize = 12;
/// Most calls of the check of a gradient.
const GRADIENT_CHECK: usize = 64;

/// A network on the plane, with its base.
pub fn plane<N: Network>() -> (N, Gaussian) {
    let base = Gaussian::isotropic(DVector::from_vec(vec![0.5, -0.5]), 2.0).unwrap();
    let layers = layers(&[2, 32, 32, 1], 2.0, 4).unwrap();
    (N::new(&layers, &base).unwrap(), base)
}

/// Returns `log(sum(exp(x)))`.
pub fn log_sum_exp(log_densities: &[f32]) -> f64 {
    let largest = f64::from(
        log_densities
            .iter()
            .copied()
            .fold(f32::NEG_INFINITY, f32::max),
    );
    let sum: f64 = log_densities
        .iter()
        .map(|x| (f64::from(*x) - largest).exp())
        .sum();
    largest + sum.ln()
}

/// Returns log Z of a network on the plane by the midpoint rule on 800 x 800 cells, seven deviations to each side.
pub fn quadrature<N: Network>(network: &N, base: &Gaussian) -> f64 {
    const CELLS: usize = 800;
    let deviation = base.covariance()[(0, 0)].sqrt();
    let cell = 14.0 * deviation / CELLS as f64;
    let place = |axis: usize, k: usize| {
        (base.mean()[axis] - 7.0 * deviation + (k as f64 + 0.5) * cell) as f32
    };
    let mut log_densities = Vec::new();
    for row in 0..CELLS {
        let states: Vec<f32> = (0..CELLS)
            .flat_map(|k| [place(0, k), place(1, row)])
            .collect();
        log_densities.extend(network.log_densities(&states, CELLS).unwrap().0);
    }
    log_sum_exp(&log_densities) + 2.0 * cell.ln()
}

/// The network as a model of whole blocks; `calls` counts the calls to the device.
pub fn batched<'n, N: Network>(
    network: &'n N,
    dimension: usize,
    calls: &'n AtomicUsize,
) -> impl Differentiable<State = DVector<f64>> + Sync + 'n {
    let evaluate = |states: &[f32], n| {
        calls.fetch_add(1, Ordering::Relaxed);
        network.log_densities(states, n)
    };
    BatchModel::new(dimension, evaluate).unwrap()
}

/// The network as a model of one chain's state at a time, whose gradient a closure writes.
pub fn per_chain<N: Network>(
    network: &N,
    dimension: usize,
) -> impl Differentiable<State = DVector<f64>> + Sync {
    let evaluate = |state: &[f64], gradient: &mut [f64]| {
        let row: Vec<f32> = state.iter().map(|x| *x as f32).collect();
        let (values, slopes) = network
            .log_densities(&row, 1)
            .expect("the network evaluates a state");
        for (to, slope) in gradient.iter_mut().zip(slopes) {
            *to = f64::from(slope);
        }
        f64::from(values[0])
    };
    GradientModel::new(dimension, evaluate).unwrap()
}

/// Runs `stages` stages with all chains in one block.
pub fn anneal(
    target: impl Differentiable<State = DVector<f64>> + Sync,
    base: &Gaussian,
    step: f64,
    (chains, stages): (usize, usize),
) -> Run<DVector<f64>> {
    let path = GeometricPath::new(base.clone(), target);
    let ais = Ais::new(&path, Hmc::new(step, LEAPFROG).unwrap())
        .schedule(Schedule::linear(stages).unwrap());
    ais.chains(chains)
        .block_size(chains)
        .threads(1)
        .seed(1)
        .run()
        .unwrap()
}

/// log Z on the plane is that of quadrature, within four errors, by the integration's own `log_z`.
pub fn agrees_with_quadrature<N: Network>() {
    let (network, base) = plane::<N>();
    let exact = quadrature(&network, &base);
    let run = network.log_z(base.clone()).unwrap();
    println!(
        "by quadrature {exact:.4}, the base alone {:.4}; {run}",
        base.log_normalizer()
    );
    // The network matters, or the check would say nothing of its gradients.
    assert!((exact - base.log_normalizer()).abs() > 0.5);
    assert!(run.standard_error() < 0.11);
    assert!((run.log_z() - exact).abs() < 4.0 * run.standard_error());
}

/// A batch and single states give one number: up to rounding at 5 stages, within four errors where rounding turned
/// accept tests.
pub fn agrees_with_single_states<N: Network>() {
    let (network, base) = plane::<N>();
    let calls = AtomicUsize::new(0);
    let both = |size| {
        let batch = anneal(batched(&network, 2, &calls), &base, 0.5, size);
        (batch, anneal(per_chain(&network, 2), &base, 0.5, size))
    };
    let (batch, single) = both((512, 5));
    println!(
        "K = 5: {:.6} in batches, {:.6} by chains",
        batch.log_z(),
        single.log_z()
    );
    assert!((batch.log_z() - single.log_z()).abs() < 1e-4);
    let (batch, single) = both((64, 100));
    println!("K = 100: {batch}\n{single}");
    let error = batch.standard_error().hypot(single.standard_error());
    assert!(error < 0.2 && (batch.log_z() - single.log_z()).abs() < 4.0 * error);
}

/// A stage costs at most L + 1 calls in a run, in rounds and in tuning.
pub fn calls_are_few<N: Network>() {
    const CHAINS: usize = 64;
    let (network, base) = plane::<N>();
    let counter = AtomicUsize::new(0);
    let calls = || counter.swap(0, Ordering::Relaxed);
    let path = GeometricPath::new(base, batched(&network, 2, &counter));
    let kernel = || Hmc::new(0.5, LEAPFROG).unwrap();
    // Of a density and its gradient, for each chain and leapfrog step.
    let stages = |evaluations: u64| evaluations as usize / (2 * LEAPFROG * CHAINS);
    let assert_few = |name: &str, stages: usize, found: usize, besides: usize| {
        println!("{name}: {found} calls in {stages} stages of {LEAPFROG} leapfrog steps");
        assert!(
            found <= (LEAPFROG + 1) * stages + besides,
            "{name}: {found} calls in {stages} stages"
        );
        assert!(
            found >= LEAPFROG * stages / 2,
            "{name}: {found} calls are not all"
        );
    };

    let ais = Ais::new(&path, kernel()).schedule(Schedule::linear(100).unwrap());
    let _ = ais.chains(CHAINS).block_size(CHAINS).run().unwrap();
    assert_few("Ais", 100, calls(), FEW);

    let rounds = Rounds::new(&path, kernel())
        .chains(CHAINS)
        .block_size(CHAINS)
        .rounds(3)
        .run()
        .unwrap();
    assert_few(
        "Rounds",
        stages(rounds.evaluations()),
        calls(),
        FEW + GRADIENT_CHECK,
    );

    let pass = FirstPass::new(&path, kernel()).chains(CHAINS);
    let found = pass.block_size(CHAINS).run().unwrap();
    assert_few(
        "FirstPass",
        stages(found.evaluations),
        calls(),
        FEW + GRADIENT_CHECK,
    );
}

/// The user's code is at most 15 lines, imports counted, and stands on the page as it is compiled.
pub fn snippet_is_short(file: &str) {
    let lines = file.lines().filter(|line| !line.starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let count = code.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(count <= 15, "{count} lines");
    let page = include_str!("../../docs/batches.md");
    assert!(
        page.contains(&code),
        "docs/batches.md has another snippet than\n{code}"
    );
}
