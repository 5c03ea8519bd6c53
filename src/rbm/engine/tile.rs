//! A tile of weights, and the sums that a multiplication of tiles adds to.

use crate::rbm::engine::layers::LINE;

/// Number of outputs of a tile of weights, and of chains of a tile of units.
pub(crate) const ROWS: usize = 16;
/// Number of inputs of a tile.
pub(crate) const DEPTH: usize = LINE;
pub(crate) const DIGITS: usize = 3;

/// One digit of the weights of 64 inputs and 16 outputs: 16 lines, with four inputs of an output side by side.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Tile(pub(super) [i8; ROWS * DEPTH]);

/// Sums of 16 chains for 16 outputs, for each digit.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct DigitSums(pub(super) [[[i32; ROWS]; ROWS]; DIGITS]);
