//! Who takes what blocks at work leave.

use super::pieces::{Piece, Pieces};
use crate::Result;

/// Takes what blocks at work leave, for a checkpoint.
pub(crate) trait Recipient: Sync {
    /// What blocks have left so far, those of an earlier call included.
    fn pieces(&self) -> Pieces;

    /// Takes other pieces in place of all that were left.
    fn replace(&self, pieces: Result<Pieces>);

    /// A block is at work from now on. Returns what it had left before.
    fn begin(&self, block: usize) -> Option<Piece>;

    /// Whether a block at work is to leave a piece at the end of this stage.
    fn wants(&self, block: usize) -> bool;

    /// A block leaves a piece on its way.
    fn leave(&self, block: usize, piece: Result<Vec<u8>>);

    /// A block is finished, and leaves a piece.
    fn finish(&self, block: usize, piece: Result<Vec<u8>>);

    /// A block is not at work any more.
    fn end(&self, block: usize);

    /// Called now and then, by whichever thread.
    fn tick(&self);

    /// Seconds since the last checkpoint was written, where this process writes them.
    fn age(&self) -> Option<f64>;
}
