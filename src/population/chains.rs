//! A population and its kernel as a trait object.

use crate::Result;
use crate::kernel::Block;
use crate::work::Place;

/// A function that copies a state.
pub(crate) type CopyState<S> = fn(&S) -> S;

/// A population and the kernel that moves it. Code for both is compiled once per type of states.
pub(crate) trait Chains<S> {
    fn block(&self) -> &Block<S>;

    fn block_mut(&mut self) -> &mut Block<S>;

    /// Weighs the chains to the model at `beta`, then moves them there.
    fn advance_to(&mut self, beta: f64) -> Result<()>;

    /// Weighs the chains to the model at `beta` without moving them.
    fn weigh_to(&mut self, beta: f64) -> Result<()>;

    /// Moves the chains at the model where they stand.
    fn stay(&mut self) -> Result<()>;

    /// Moves the chains in `mask` at the model where they stand.
    fn stay_masked(&mut self, mask: &mut Vec<bool>) -> Result<()>;

    /// Copies a chain's state and memory, not its stream, to another; both are indices within the block.
    fn copy_chain(&mut self, from: usize, to: usize, copy: CopyState<S>);

    /// Copies states and memories of `ancestors` to the first chains, and gives all chains the block's mean weight.
    fn gather(&mut self, ancestors: &[usize], copy: CopyState<S>);

    /// Returns the place of the chains, for the error of a panic.
    fn place(&self) -> Place;
}
