//! Products of weights and 0/1 units by the matrix tiles of AMX, which multiply 8-bit integers and add in 32 bits.
//!
//! A weight is rounded to a multiple of `w / (127 * 2^16)`, with w the largest weight of its output, and split into
//! three signed digits of base 256. Sums over inputs are then exact. A weight is off by at most 6e-8 of w.

use crate::num::{Simd, vectorized};
use crate::rbm::Scalar;
use crate::rbm::engine::layers::{GROUP, Layer, Row, WIDTH};
use crate::rbm::engine::panels::WeightMatrix;
use crate::rbm::engine::tile::{DEPTH, DIGITS, DigitSums, ROWS, Tile};
use crate::rbm::engine::tile_registers::TileRegisters;

/// Number of tiles along the outputs of a panel.
const HALVES: usize = WIDTH / ROWS;
/// Largest weight in units of the last digit.
const LARGEST: f64 = 127.0 * 65_536.0;

/// A weight matrix (outputs x inputs) in tiles.
#[derive(Debug, Clone, Default)]
pub(crate) struct TiledWeights {
    /// Tiles ordered by 16 outputs, then by 64 inputs, then by digit, highest first.
    tiles: Vec<Tile>,
    /// Value of 1 in the last digit, for each output; 0 in the padding.
    units: Vec<f32>,
    /// Number of tiles along the inputs.
    steps: usize,
}

impl TiledWeights {
    pub(crate) fn new<T: Scalar>(weights: WeightMatrix<'_, T>) -> Self {
        let (outputs, inputs) = weights.shape();
        let (groups, steps) = (outputs.div_ceil(ROWS), inputs.div_ceil(DEPTH));
        let mut tiles = vec![Tile([0; ROWS * DEPTH]); groups * steps * DIGITS];
        let mut units = vec![0.0; groups * ROWS];
        for output in 0..outputs {
            let row = weights.output(output).map(|w| w.as_());
            let unit = row.clone().map(f64::abs).fold(0.0, f64::max) / LARGEST;
            units[output] = unit as f32;
            if unit == 0.0 {
                continue;
            }
            let group = &mut tiles[output / ROWS * steps * DIGITS..];
            for (input, w) in row.enumerate() {
                let digits = digits((w / unit).round() as i32);
                let place = input % DEPTH / 4 * DEPTH + output % ROWS * 4 + input % 4;
                for (tile, digit) in group[input / DEPTH * DIGITS..].iter_mut().zip(digits) {
                    tile.0[place] = digit;
                }
            }
        }
        Self {
            tiles,
            units,
            steps,
        }
    }

    /// Writes `W u` to `sums` for the outputs of one panel and each chain; 0 in the padding.
    pub(crate) fn multiply<T: Scalar>(
        &self,
        engine: Simd,
        registers: &TileRegisters,
        panel: usize,
        units: &Layer,
        sums: &mut [Row<T>],
    ) {
        assert_eq!(units.width(), self.steps, "inputs");
        let groups = self.tiles.chunks_exact(self.steps * DIGITS);
        let halves = groups.zip(self.units.as_chunks::<ROWS>().0);
        let halves = halves.skip(panel * HALVES).take(HALVES);
        if halves.len() < HALVES {
            sums.fill(Row::zero());
        }
        let mut digits = [DigitSums([[[0; ROWS]; ROWS]; DIGITS]); 2];
        let lines = units.lines().chunks_exact(GROUP * self.steps);
        for (lines, sums) in lines.zip(sums.chunks_mut(GROUP)) {
            for (half, (tiles, units)) in halves.clone().enumerate() {
                registers.multiply(lines, tiles, &mut digits);
                vectorized!(engine, FUSED, {
                    for (chain, sums) in sums.iter_mut().enumerate() {
                        sums.0[half] = collect(&digits[chain / ROWS], chain % ROWS, units);
                    }
                });
            }
        }
    }
}

/// Returns the sums of one chain from their digits.
#[inline(always)]
fn collect<T: Scalar>(
    DigitSums([high, middle, low]): &DigitSums,
    chain: usize,
    units: &[f32; ROWS],
) -> [T; ROWS] {
    let (high, middle, low) = (&high[chain], &middle[chain], &low[chain]);
    let mut sums = [T::zero(); ROWS];
    for l in 0..ROWS {
        let count = high[l] as f32 * 65_536.0 + (middle[l] * 256 + low[l]) as f32;
        sums[l] = (count * units[l]).into();
    }
    sums
}

/// Splits `value` into digits of base 256 from -128 to 127, highest first.
fn digits(mut value: i32) -> [i8; DIGITS] {
    let mut digits = [0; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = value as i8;
        value = (value - i32::from(*digit)) >> 8;
    }
    digits
}
