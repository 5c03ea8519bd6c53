//! Neal (2001), *Annealed importance sampling*: the weights are unbiased, whatever the path, the schedule and
//! the kernels.
//!
//! Transition matrices are those of the kernels' own code ([`law`](crate::law)), so that both sides of the
//! identity agree to rounding. What a kernel does to a block of chains as a whole is compared with them.

use std::sync::Arc;

use annealed::kernel::{
    Block, CoordinateGibbs, Metropolis, Mixture, PerfectTransitions, Repeat, Sequence, Stage,
    SymmetricProposal, TransitionKernel,
};
use annealed::model::{Bernoulli, Sampleable, UnnormalizedModel};
use annealed::path::{
    AnnealingPath, GeometricPath, Intermediate, MomentSplinePath, SimdLevel, TemperedPath,
};
use annealed::rbm::{BaseRate, BlockGibbs, RbmPath, Scalar};
use annealed::schedule::Schedule;
use nalgebra::{DMatrix, DVector, RowDVector};
use proptest::prelude::*;
use rand::{Rng, RngExt};

use crate::law::law;
use crate::random_models::{
    bent_path, cases, index, log_weights, rbm, schedule, states, streams, sum_of_densities, table,
};

type Bits = Vec<bool>;

/// Flips one of the bits.
#[derive(Clone, Copy)]
struct FlipOne;

impl SymmetricProposal<Bits> for FlipOne {
    fn propose<R: Rng + ?Sized>(&self, _beta: f64, state: &Bits, proposal: &mut Bits, rng: &mut R) {
        proposal.clone_from(state);
        let bit = rng.random_range(0..state.len());
        proposal[bit] = !proposal[bit];
    }
}

/// The law of `draw` as a row over all states.
fn row(bits: usize, draw: impl Fn(&mut crate::law::Script<'_>) -> Bits) -> RowDVector<f64> {
    let mut row = RowDVector::zeros(1 << bits);
    law(bits, draw).for_each(&mut |state, probability| row[index(state)] += probability);
    row
}

/// `T(x, x')` of a stage, rows summing to 1; states without mass stay.
fn transitions<M, K>(kernel: &K, stage: Stage<'_, M>, bits: usize) -> DMatrix<f64>
where
    M: Intermediate<State = Bits>,
    K: TransitionKernel<M>,
{
    let rows = states(bits).map(|from| {
        row(bits, |rng| {
            let mut state = from.clone();
            if stage.model.log_density(&from) > f64::NEG_INFINITY {
                let workspace = &mut K::Workspace::default();
                let step = kernel.step(stage, &mut state, workspace, rng).unwrap();
                assert_eq!(step.correction, 0.0);
            }
            state
        })
    });
    DMatrix::from_rows(&rows.collect::<Vec<_>>())
}

/// `E[w^power] = p_0' D_1 T_1 .. D_K T_K 1` with `D_k = diag((f_k / f_{k-1})^power)`.
fn expected_weight<P, K>(path: P, kernel: &K, schedule: &Schedule, bits: usize, power: f64) -> f64
where
    P: AnnealingPath<State = Bits>,
    K: TransitionKernel<P::At>,
{
    let mut row = row(bits, |rng| path.base().sample(rng));
    for betas in schedule.betas().windows(2) {
        let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
        let ratios = states(bits).map(|x| (power * reached.log_ratio(&left, &x)).exp());
        let ratios = DVector::from_iterator(1 << bits, ratios);
        let stage = Stage::new(1, &left, &reached);
        row = row * DMatrix::from_diagonal(&ratios) * transitions(kernel, stage, bits);
    }
    row.sum()
}

/// The relative error of `E[w] = Z_K / Z_0`, in units of rounding errors that are to be expected.
fn bias<P, K>(path: P, kernel: K, schedule: &Schedule, bits: usize) -> f64
where
    P: AnnealingPath<State = Bits>,
    K: TransitionKernel<P::At>,
{
    let [z_0, z_k] = [0.0, 1.0].map(|beta| sum_of_densities(&path.at(beta), bits));
    let mean = expected_weight(path, &kernel, schedule, bits, 1.0);
    (mean * z_0 / z_k - 1.0).abs() / 1e-12
}

/// Whether a block of chains, one at each state with mass, is weighed at the old state and moved as its chains
/// would be one by one, from the same streams.
fn block_moves_as_chains_do<P, K>(path: P, kernel: &K, betas: &[f64], bits: usize) -> bool
where
    P: AnnealingPath<State = Bits>,
    K: TransitionKernel<P::At>,
{
    let (left, reached) = (path.at(betas[0]), path.at(betas[1]));
    let stage = Stage::new(1, &left, &reached);
    let start: Vec<Bits> = states(bits)
        .filter(|x| reached.log_density(x).is_finite())
        .collect();
    let mut block = Block::new(0, start.clone(), streams(start.len()));
    kernel
        .advance(stage, &mut block, &mut K::Workspace::default())
        .unwrap();
    let chains = start
        .into_iter()
        .zip(streams(block.len()))
        .zip(block.states());
    let mut chains = chains.zip(block.log_weights());
    chains.all(|(((mut state, mut rng), moved), weight)| {
        let ratio = reached.log_ratio(&left, &state);
        let workspace = &mut K::Workspace::default();
        kernel.step(stage, &mut state, workspace, &mut rng).unwrap();
        state == *moved && ratio == *weight
    })
}

proptest! {
    #![proptest_config(cases(24))]

    /// `E[w] = Z_K / Z_0`, for every kernel over tables, on paths that bend and lose support.
    #[test]
    fn weights_are_unbiased_for_every_kernel(
        path in bent_path(2, true), schedule in schedule(1..=4)
    ) {
        let flips = Metropolis(FlipOne);
        let gibbs = CoordinateGibbs::systematic();
        prop_assert!(bias(&path, &flips, &schedule, 2) < 1.0);
        prop_assert!(bias(&path, gibbs, &schedule, 2) < 1.0);
        prop_assert!(bias(&path, CoordinateGibbs::reversed(), &schedule, 2) < 1.0);
        prop_assert!(bias(&path, CoordinateGibbs::random_scan(), &schedule, 2) < 1.0);
        prop_assert!(bias(&path, PerfectTransitions, &schedule, 2) < 1.0);
        prop_assert!(bias(&path, Sequence(&flips, gibbs), &schedule, 2) < 1.0);
        prop_assert!(bias(&path, Repeat::new(gibbs, 2).unwrap(), &schedule, 2) < 1.0);
        prop_assert!(bias(&path, Mixture::new(0.3, &flips, gibbs).unwrap(), &schedule, 2) < 1.0);
    }

    /// `T_k` applied to a block: `log w` grows by `log f_k(x) - log f_{k-1}(x)` at the state before the move.
    #[test]
    fn blocks_are_weighed_and_moved_as_chains(path in bent_path(3, true), schedule in schedule(1..=4)) {
        let flips = Metropolis(FlipOne);
        let gibbs = CoordinateGibbs::systematic();
        for betas in schedule.betas().windows(2) {
            prop_assert!(block_moves_as_chains_do(&path, &flips, betas, 3));
            prop_assert!(block_moves_as_chains_do(&path, &CoordinateGibbs::random_scan(), betas, 3));
            prop_assert!(block_moves_as_chains_do(&path, &PerfectTransitions, betas, 3));
            prop_assert!(block_moves_as_chains_do(&path, &Sequence(&flips, gibbs), betas, 3));
            let repeat = Repeat::new(&flips, 2).unwrap();
            prop_assert!(block_moves_as_chains_do(&path, &repeat, betas, 3));
            let mixture = Mixture::new(0.3, &flips, gibbs).unwrap();
            prop_assert!(block_moves_as_chains_do(&path, &mixture, betas, 3));
        }
    }

    /// `E[w] = Z_K / Z_0`, on the geometric and the tempered path of any two tables.
    #[test]
    fn weights_are_unbiased_on_every_path(
        base in table(3, false), target in table(3, true), schedule in schedule(1..=6)
    ) {
        let flips = Metropolis(FlipOne);
        let geometric = GeometricPath::new(base.clone(), target.clone());
        prop_assert!(bias(&geometric, &flips, &schedule, 3) < 1.0);
        let tempered = TemperedPath::new(base, target);
        prop_assert!(bias(&tempered, &flips, &schedule, 3) < 1.0);
    }

    /// `E[w] = Z_K / Z_0`, on moment-averaging splines of independent bits.
    #[test]
    fn weights_are_unbiased_on_moment_splines(
        [a, b] in prop::array::uniform2(prop::array::uniform3(-3.0..3.0f64)),
        knots in schedule(1..=3),
        schedule in schedule(1..=6),
    ) {
        let [a, b] = [a, b].map(|logits| Bernoulli::new(DVector::from_row_slice(&logits)).unwrap());
        let join = |a, b| Ok(Arc::new(GeometricPath::new(a, b)));
        let path = MomentSplinePath::new(a, b, knots, join).unwrap();
        prop_assert!(bias(&path, Metropolis(FlipOne), &schedule, 3) < 1.0);
    }
}

proptest! {
    #![proptest_config(cases(6))]

    /// `E[w] = Z_K / Z_0`, for block Gibbs on straight paths to RBMs and on paths with knots.
    #[test]
    fn weights_are_unbiased_for_block_gibbs(
        models in prop::array::uniform2(rbm(2, 2)), knots in schedule(2..=2), schedule in schedule(1..=4)
    ) {
        let base = || BaseRate::new(2, models[0].visible_bias().clone()).unwrap();
        let straight = RbmPath::new(base(), models[1].clone()).unwrap();
        prop_assert!(bias(&straight, BlockGibbs, &schedule, 2) < 1.0);
        let bent = RbmPath::through(base(), models.to_vec(), knots).unwrap();
        prop_assert!(bias(&bent, BlockGibbs, &schedule, 2) < 1.0);
    }
}

/// Chains in a block.
const CHAINS: usize = 4_096;

/// How many standard errors the mean of `w Z_0 / Z_K` over a block of chains is from 1, where those of w are
/// `E[w]` and `E[w^2]`.
fn error_of_weights<T: Scalar>(path: &RbmPath<T>, schedule: &Schedule, moments: [f64; 2]) -> f64 {
    let [mean, square] = moments;
    let error = ((square / (mean * mean) - 1.0) / CHAINS as f64).sqrt();
    let weights = log_weights(path, &BlockGibbs, schedule, CHAINS);
    let drawn = weights.iter().map(|w| w.exp() / mean).sum::<f64>() / CHAINS as f64;
    (drawn - 1.0).abs() / error
}

/// How many standard errors the frequencies of a block's moves from 0 to beta are from these, at worst.
fn error_of_moves<T: Scalar>(path: &RbmPath<T>, beta: f64, expected: &DMatrix<f64>) -> f64 {
    let ends = (path.at(0.0), path.at(beta));
    let stage = Stage::new(1, &ends.0, &ends.1);
    let errors = states(3).map(|from| {
        let mut block = Block::new(0, vec![from.clone(); CHAINS], streams(CHAINS));
        BlockGibbs
            .advance(stage, &mut block, &mut Default::default())
            .unwrap();
        let mut excess = expected.row(index(&from)) * -(CHAINS as f64);
        block
            .states()
            .iter()
            .for_each(|state| excess[index(state)] += 1.0);
        let probabilities = expected.row(index(&from));
        let errors = probabilities.map(|p| (CHAINS as f64 * p * (1.0 - p)).sqrt().max(1.0));
        excess.component_div(&errors).amax()
    });
    errors.fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(cases(4))]

    /// `E[w] = Z_K / Z_0`, for block Gibbs on blocks of chains, by draws with every engine of the machine.
    #[test]
    fn fused_block_gibbs_has_the_exact_law(target in rbm(1, 3), schedule in schedule(2..=3)) {
        let double = BaseRate::uniform(1, 3).unwrap();
        let double = RbmPath::new(double, target.clone()).unwrap();
        let single = BaseRate::uniform(1, 3).unwrap();
        let single = RbmPath::new(single, target.cast::<f32>().unwrap()).unwrap();
        let moments = [1.0, 2.0].map(|power| expected_weight(&double, &BlockGibbs, &schedule, 3, power));
        let beta = schedule.betas()[1];
        let ends = (double.at(0.0), double.at(beta));
        let moves = transitions(&BlockGibbs, Stage::new(1, &ends.0, &ends.1), 3);
        for engine in SimdLevel::ALL.into_iter().filter(|engine| engine.is_available()) {
            let double = double.clone().with_simd_level(engine).unwrap();
            let single = single.clone().with_simd_level(engine).unwrap();
            for error in [
                error_of_weights(&double, &schedule, moments),
                error_of_weights(&single, &schedule, moments),
                error_of_moves(&double, beta, &moves),
                error_of_moves(&single, beta, &moves),
            ] {
                prop_assert!(error < 4.0, "{engine}: {error}");
            }
        }
    }
}
