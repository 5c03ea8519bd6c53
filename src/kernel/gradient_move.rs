//! The move of all kernels with a gradient: a trajectory of leapfrog steps or a flip, and an accept-reject decision.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::slice::from_ref;

use nalgebra::DVector;
use rand::Rng;

use super::end_gradients::end_weights;
use super::preconditioner::Preconditioner;
use super::trajectories::{Integration, Trajectories};
use super::{Block, Increment, NonFinite, Stage, Step};
use crate::Result;
use crate::model::{Coordinates, Gradients, check_gradient};
use crate::path::Intermediate;

/// A kernel that moves along leapfrog trajectories of `H(x, p) = -log f(x) + |p|^2 / 2`, with unit mass. With a
/// preconditioner L the equations are `dx/dt = L p`, `dp/dt = L^T grad log f(x)`.
pub trait GradientMove {
    fn preconditioner(&self) -> Option<&Preconditioner>;

    /// Returns size and number of the leapfrog steps at `beta`.
    fn leapfrog(&self, beta: f64) -> (f64, NonZeroUsize);

    /// Returns the size of the leapfrog steps for chains of a datum; `None` if all data have the same.
    fn size_for(&self, _beta: f64, _datum: usize) -> Option<f64> {
        None
    }

    /// Draws the momentum of the chain in row `index` of `trajectories`, and the uniform number that decides on its
    /// proposal.
    fn draw<R: Rng + ?Sized>(&self, trajectories: &mut Trajectories, index: usize, rng: &mut R) {
        trajectories.draw_momentum(index, rng);
        trajectories.draw_uniform(index, rng);
    }

    /// Moves all chains to the ends of their trajectories, and computes acceptance probabilities.
    fn integrate<M: Gradients + Intermediate>(
        &self,
        trajectories: &mut Trajectories,
        model: &M,
        integration: Integration<'_>,
    ) {
        trajectories.integrate(model, integration);
    }

    /// Returns whether the chain in row `index` moves to the end of its trajectory, and the report of the move.
    fn conclude(&self, trajectories: &Trajectories, index: usize) -> (bool, Step) {
        trajectories.decide(index)
    }
}

/// Weighs and moves the active chains of a block: all together if the model evaluates batches and no two states differ
/// in dimension, otherwise one by one. Each chain uses the random numbers that it would use alone.
pub(super) fn advance<M, K>(
    kernel: &K,
    stage: Stage<'_, M>,
    block: &mut Block<M::State>,
    trajectories: &mut Trajectories,
) -> Result<()>
where
    M: Gradients + Intermediate,
    K: GradientMove,
{
    Preconditioner::check(kernel.preconditioner(), block.states())?;
    let dimension = |state: &M::State| state.coordinates().len();
    let first = block.states().first().map_or(0, dimension);
    let is_regular = || block.states().iter().all(|state| dimension(state) == first);
    if stage.model.evaluates_batches() && is_regular() {
        let (all, active) = (0..block.len(), block.active_runs());
        return advance_run(kernel, stage, (block, all), &active, trajectories);
    }
    block.one_by_one(|block, chain| {
        let alone = chain..chain + 1;
        advance_run(
            kernel,
            stage,
            (block, alone),
            from_ref(&(0..1)),
            trajectories,
        )
    })
}

/// Weighs and moves the `active` chains of `run` together. The indices in `active` count from the start of `run`.
fn advance_run<M, K>(
    kernel: &K,
    stage: Stage<'_, M>,
    (block, run): (&mut Block<M::State>, Range<usize>),
    active: &[Range<usize>],
    trajectories: &mut Trajectories,
) -> Result<()>
where
    M: Gradients + Intermediate,
    K: GradientMove,
{
    if active.is_empty() {
        return Ok(());
    }
    let integration = integration(kernel, stage.beta);
    let chains = || active.iter().cloned().flatten().map(|row| run.start + row);
    // The block keeps no gradients if the path has no end weights.
    let dimension =
        end_weights(stage.model).map_or(0, |_| block.states()[run.start].coordinates().len());
    let known = block.graded_mut(run.clone(), dimension);
    trajectories.start(stage, integration.factor, known, active);
    trajectories.set_sizes(|datum| kernel.size_for(stage.beta, datum));
    for (index, chain) in chains().enumerate() {
        kernel.draw(trajectories, index, block.rng_mut(chain));
    }
    kernel.integrate(trajectories, stage.model, integration);
    for (index, chain) in chains().enumerate() {
        let weighed = trajectories.log_ratio(index, &block.states()[chain]);
        let increment = weighed.map(|log_ratio| {
            let (moves, step) = kernel.conclude(trajectories, index);
            trajectories.note(index, moves);
            Increment::new(log_ratio, step)
        });
        block.add(stage, chain, increment)?;
    }
    trajectories.arrive(stage, block.peek_graded_mut(run), active);
    Ok(())
}

fn integration(kernel: &impl GradientMove, beta: f64) -> Integration<'_> {
    let (size, steps) = kernel.leapfrog(beta);
    Integration {
        size,
        steps: steps.get(),
        factor: kernel.preconditioner().map(|l| l.at(beta)),
    }
}

/// Compares gradients of the first datum and of the last one among these states with finite differences. Returns the
/// number of evaluations.
pub(super) fn check_gradients<M: Gradients>(model: &M, states: &[M::State]) -> Result<usize> {
    let ends = [states.first(), states.last()].into_iter().flatten();
    let mut data: Vec<usize> = ends.map(Coordinates::datum).collect();
    data.dedup();
    let of_datum = |datum| {
        let mine = states.iter().filter(|state| state.datum() == datum);
        let vectors: Vec<DVector<f64>> = mine.map(|state| state.coordinates().clone()).collect();
        check_gradient(&model.rows(&[datum]), &vectors)
    };
    data.into_iter().map(of_datum).sum()
}

/// Moves one chain, whose log densities are not known. The caller adds the path's log ratio to the weight.
pub(super) fn step<M, K, R>(
    kernel: &K,
    stage: Stage<'_, M>,
    state: &mut M::State,
    trajectories: &mut Trajectories,
    rng: &mut R,
) -> Result<Step, NonFinite>
where
    M: Gradients + Intermediate,
    K: GradientMove,
    R: Rng + ?Sized,
{
    let integration = integration(kernel, stage.beta);
    trajectories.start_unknown(stage.model, integration.factor, state);
    trajectories.set_sizes(|datum| kernel.size_for(stage.beta, datum));
    kernel.draw(trajectories, 0, rng);
    kernel.integrate(trajectories, stage.model, integration);
    trajectories.check(0)?;
    let (moves, step) = kernel.conclude(trajectories, 0);
    if moves {
        std::mem::swap(state.coordinates_mut(), &mut trajectories.positions);
    }
    Ok(step)
}

/// Implements [`TransitionKernel`](super::TransitionKernel) for a [`GradientMove`]. Gradients are compared with finite
/// differences, unless the kernel is `unchecked`.
macro_rules! gradient_kernel {
    ($kernel:ty) => {
        gradient_kernel! { $kernel, [
            fn check_model(&self, model: &M, states: &[M::State]) -> Result<usize> {
                gradient_move::check_gradients(model, states)
            }
        ] }
    };
    ($kernel:ty, unchecked) => {
        gradient_kernel! { $kernel, [] }
    };
    ($kernel:ty, [$($check:item)?]) => {
        impl<M: Gradients + Intermediate> TransitionKernel<M> for $kernel {
            type Workspace = Trajectories;

            fn step<R: Rng + ?Sized>(
                &self,
                stage: Stage<'_, M>,
                state: &mut M::State,
                workspace: &mut Self::Workspace,
                rng: &mut R,
            ) -> Result<Step, NonFinite> {
                gradient_move::step(self, stage, state, workspace, rng)
            }

            fn advance(
                &self,
                stage: Stage<'_, M>,
                block: &mut Block<M::State>,
                workspace: &mut Self::Workspace,
            ) -> Result<()> {
                gradient_move::advance(self, stage, block, workspace)
            }

            $($check)?

            fn evaluations(&self, _dimension: usize) -> usize {
                evaluations::<M>(GradientMove::leapfrog(self, 0.0).1.get())
            }
        }
    };
}
pub(super) use gradient_kernel;
