//! Chains and what moves them, the types of path and kernel forgotten.

use super::genealogy::CopyState;
use crate::Result;
use crate::kernel::Block;
use crate::work::Place;

/// A population and the kernel that moves it. What is done with both is compiled once a type of states.
pub(crate) trait Chains<S> {
    /// Returns the chains.
    fn block(&self) -> &Block<S>;

    /// Returns the chains, to be resampled.
    fn block_mut(&mut self) -> &mut Block<S>;

    /// Weighs the chains to the model at `beta`, then moves them there.
    fn advance_to(&mut self, beta: f64) -> Result<()>;

    /// Weighs the chains to the model at `beta`, and does not move them.
    fn weigh_to(&mut self, beta: f64) -> Result<()>;

    /// Moves the chains where they stand.
    fn stay(&mut self) -> Result<()>;

    /// Moves the chains of a mask where they stand.
    fn stay_masked(&mut self, mask: &mut Vec<bool>) -> Result<()>;

    /// Copies state and memory, not the stream, of one chain to another, by their indices within the block.
    fn copy_chain(&mut self, from: usize, to: usize, copy: CopyState<S>);

    /// Gives the first chains copies of the states and memories of these, by their indices within the block, and all of
    /// them the mean weight of the block.
    fn gather(&mut self, ancestors: &[usize], copy: CopyState<S>);

    /// Returns where the chains are, for the error of a panic.
    fn place(&self) -> Place;
}
