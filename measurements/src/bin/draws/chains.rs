//! Chains of autocorrelated draws of a target.

use annealed::kernel::Stage;
use annealed::path::Stationary;
use annealed::prelude::*;
use annealed::rand::{RngExt, SeedableRng};
use annealed::{Error, Result};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Number of chains.
pub const CHAINS: usize = 4;

/// Returns Metropolis chains that begin at draws of the target.
pub fn metropolis<M: UnnormalizedModel<State: Clone>>(
    target: &M,
    (length, seed): (usize, u64),
    start: impl Fn(&mut Xoshiro256PlusPlus) -> M::State,
    propose: impl Fn(&M::State, &mut Xoshiro256PlusPlus) -> M::State,
) -> Vec<Vec<M::State>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut chain = || {
        let mut state = start(&mut rng);
        let mut log_density = target.log_density(&state);
        let step = |_| {
            let proposal = propose(&state, &mut rng);
            let found = target.log_density(&proposal);
            if rng.random::<f64>().ln() < found - log_density {
                (state, log_density) = (proposal, found);
            }
            state.clone()
        };
        Vec::from_iter((0..length).map(step))
    };
    Vec::from_iter((0..CHAINS).map(|_| chain()))
}

/// Returns a proposal of a random walk.
pub fn walk(step: f64) -> impl Fn(&DVector<f64>, &mut Xoshiro256PlusPlus) -> DVector<f64> {
    move |state, rng| state.map(|x| x + step * rng.sample::<f64, _>(StandardNormal))
}

/// Returns chains of one of the crate's kernels, each from its own state. Leaves out the first `warm_up` moves.
pub fn moved<M, K>(
    target: &M,
    kernel: &K,
    (length, warm_up, seed): (usize, usize, u64),
    start: impl Fn(&mut Xoshiro256PlusPlus) -> M::State,
) -> Result<Vec<Vec<M::State>>>
where
    M: UnnormalizedModel<State: Clone>,
    for<'m> K: TransitionKernel<Stationary<&'m M>>,
{
    let target = Stationary(target);
    let stage = Stage::new(1, &target, &target).rest();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut chain = |_| {
        let (mut state, mut workspace) = (start(&mut rng), Default::default());
        let mut draws = Vec::with_capacity(length);
        for step in 0..warm_up + length {
            let moved = kernel.step(stage, &mut state, &mut workspace, &mut rng);
            moved.map_err(|fault| {
                Error::invalid("chain", format!("{fault:?}"), "finite log densities")
            })?;
            if step >= warm_up {
                draws.push(state.clone());
            }
        }
        Ok(draws)
    };
    (0..CHAINS).map(&mut chain).collect()
}
