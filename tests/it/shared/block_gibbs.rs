//! Checks of block Gibbs on RBMs: on each engine, against exact probabilities, and against the step of a single chain.

use annealed::estimate::Estimate;
use annealed::kernel::{Block, NonFinite, Stage, Step, TransitionKernel};
use annealed::model::Sampleable;
use annealed::path::{Intermediate, SimdLevel};
use annealed::population::Population;
use annealed::random::{Purpose, stream};
use annealed::rbm::{BlockGibbs, RbmAt, RbmPath, Scalar};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector};
use rand::Rng;

/// Returns the bits of a number, the lowest first.
pub fn bits(state: usize, units: usize) -> Vec<bool> {
    (0..units).map(|i| state >> i & 1 == 1).collect()
}

/// Returns the number with these bits.
pub fn index(state: &[bool]) -> usize {
    state
        .iter()
        .enumerate()
        .map(|(i, &on)| usize::from(on) << i)
        .sum()
}

/// Block Gibbs without its fused block step: the reference.
pub struct OneByOne;

/// The workspace of [`BlockGibbs`].
pub type Workspace<'a, T> = <BlockGibbs as TransitionKernel<RbmAt<'a, T>>>::Workspace;

impl<'a, T: Scalar> TransitionKernel<RbmAt<'a, T>> for OneByOne {
    type Workspace = Workspace<'a, T>;

    fn step<R: Rng + ?Sized>(
        &self,
        stage: Stage<'_, RbmAt<'a, T>>,
        state: &mut Vec<bool>,
        workspace: &mut Self::Workspace,
        rng: &mut R,
    ) -> Result<Step, NonFinite> {
        BlockGibbs.step(stage, state, workspace, rng)
    }
}

/// Returns a block of chains with streams of their own.
pub fn block_of(states: Vec<Vec<bool>>, seed: u64) -> Block<Vec<bool>> {
    // One jump a chain rather than `stream(seed, .., i)`, which costs i of them.
    let mut rng = stream(seed, Purpose::RUN, 0);
    let rngs = states.iter().map(|_| {
        rng.jump();
        rng.clone()
    });
    let rngs = rngs.collect();
    Block::new(0, states, rngs)
}

/// Returns the engines of this machine, and prints the names of the others.
pub fn engines() -> impl Iterator<Item = SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|engine| {
        let available = engine.is_available();
        if !available {
            eprintln!("not checked here: engine {engine}");
        }
        available
    })
}

/// Checks how often chains go from each state to each other one, against the exact probabilities.
pub fn check_frequencies<'a, T: Scalar, K: TransitionKernel<RbmAt<'a, T>>>(
    name: &str,
    kernel: &K,
    path: &'a RbmPath<T>,
    (from, to): (f64, f64),
    exact: &DMatrix<f64>,
    chains: usize,
) {
    let (left, reached) = (path.at(from), path.at(to));
    let stage = Stage::new(1, &left, &reached);
    for from in 0..exact.nrows() {
        let start = bits(from, path.target().visible_units());
        let mut block = block_of(vec![start; chains], 9);
        let mut workspace = K::Workspace::default();
        kernel.advance(stage, &mut block, &mut workspace).unwrap();
        let mut frequencies = vec![0.0; exact.ncols()];
        for state in block.states() {
            frequencies[index(state)] += 1.0 / chains as f64;
        }
        for (to, frequency) in frequencies.into_iter().enumerate() {
            let p = exact[(from, to)];
            let se = (p * (1.0 - p) / chains as f64).sqrt();
            assert!(
                (frequency - p).abs() <= 4.0 * se,
                "{name}, {from} -> {to}: {frequency} {p}"
            );
        }
    }
}

/// Checks the log ratios of a block that moves as a whole, against the reference.
pub fn check_fused_ratios<T: Scalar>(
    path: &RbmPath<T>,
    mut block: Block<Vec<bool>>,
    (from, to): (f64, f64),
    tolerance: f64,
) {
    let before = block.states().to_vec();
    let (left, reached) = (path.at(from), path.at(to));
    let stage = Stage::new(1, &left, &reached);
    let mut workspace = Default::default();
    BlockGibbs
        .advance(stage, &mut block, &mut workspace)
        .unwrap();
    assert_eq!(block.log_ratios(), block.log_weights());
    for (found, state) in block.log_ratios().iter().zip(&before) {
        let exact = stage.log_ratio(state);
        // A stage's log ratio is at most some hundreds times its length in beta.
        let error = (found - exact).abs() / (to - from).abs();
        let engine = path.simd_level();
        assert!(
            error < tolerance,
            "{engine}, {from} to {to}: {found} {exact}"
        );
    }
}

/// Returns the log of the mean weight of 100 chains, and how far rounding moved it: from the same states, by log ratios
/// in double precision.
pub fn log_mean_and_rounding(path: &RbmPath<f32>, stages: usize) -> (f64, f64) {
    let schedule = Schedule::linear(stages).unwrap();
    let mut population = Population::start(path, 0, 100, stream(3, Purpose::RUN, 0)).unwrap();
    let mut exact = vec![0.0; 100];
    for betas in schedule.betas().windows(2) {
        let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
        for (sum, state) in exact.iter_mut().zip(population.block().states()) {
            *sum += reached.log_ratio(&left, state);
        }
        population.advance_to(&BlockGibbs, betas[1]).unwrap();
    }
    let log_mean = |log_weights: &[f64]| Estimate::from_log_weights(log_weights).unwrap().value();
    let exact = log_mean(&exact);
    (exact, log_mean(population.block().log_weights()) - exact)
}

/// Checks how often each unit is on after a move of the block as a whole, against moves of each chain for itself.
pub fn check_fused_moves(path: &RbmPath<f32>, betas: (f64, f64), chains: usize, most_errors: f64) {
    fn means<'a, K>(
        kernel: &K,
        path: &'a RbmPath<f32>,
        betas: (f64, f64),
        chains: usize,
    ) -> DVector<f64>
    where
        K: TransitionKernel<RbmAt<'a, f32>>,
    {
        let start = path.base().sample(&mut stream(8, Purpose::PILOT, 0));
        let units = start.len();
        let mut block = block_of(vec![start; chains], 7);
        let (left, reached) = (path.at(betas.0), path.at(betas.1));
        let stage = Stage::new(1, &left, &reached);
        let mut workspace = K::Workspace::default();
        kernel.advance(stage, &mut block, &mut workspace).unwrap();
        let count = |i: usize| block.states().iter().filter(|state| state[i]).count() as f64;
        DVector::from_fn(units, |i, _| count(i) / chains as f64)
    }
    let fused = means(&BlockGibbs, path, betas, chains);
    for (fused, reference) in fused.iter().zip(&means(&OneByOne, path, betas, chains)) {
        let p = 0.5 * (fused + reference);
        let se = (2.0 * p * (1.0 - p) / chains as f64).sqrt();
        let (error, engine) = ((fused - reference).abs(), path.simd_level());
        assert!(
            error <= most_errors * se,
            "{engine}, {betas:?}: {fused} {reference}"
        );
    }
}
