//! Products of weights and 0/1 units by the matrix tiles of AMX.
//!
//! AMX multiplies 8-bit integers and adds in 32 bits. Units are 0 or 1; the weights of each output
//! are multiples of its largest one's share `1 / (127 * 2^16)`, written in three signed digits of
//! base 256. The sums over inputs are then exact, and a weight is off by at most 6e-8 of the largest
//! of its output: what single precision would make of a sum of that size.

use std::arch::asm;

use nalgebra::DMatrix;

use crate::num::{Available, tiles_are_available, vectorized};
use crate::rbm::engine::layers::{GROUP, LINE, Layer, Line, WIDTH};
use crate::rbm::engine::row::Row;
use crate::rbm::scalar::Scalar;

/// Outputs of a tile, and its chains.
const ROWS: usize = 16;
/// Inputs of a tile.
const DEPTH: usize = LINE;
/// Tiles' outputs of a panel.
const HALVES: usize = WIDTH / ROWS;
/// Digits of a weight.
const DIGITS: usize = 3;
/// The largest weight in units of the last digit.
const LARGEST: f64 = 127.0 * 65_536.0;

/// 16 lines: signed weights of 64 inputs and 16 outputs, four inputs of an output side by side.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Tile([i8; ROWS * DEPTH]);

/// DigitSums of 16 chains for 16 outputs, for each digit.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct DigitSums([[[i32; ROWS]; ROWS]; DIGITS]);

/// A weight matrix (outputs x inputs) in tiles.
#[derive(Debug, Clone)]
pub(crate) struct TiledWeights {
    /// By 16 outputs, then by 64 inputs, then by digit, the highest first.
    tiles: Vec<Tile>,
    /// What the last digit counts, for each output; 0 in the padding.
    units: Vec<f64>,
    /// Tiles along the inputs.
    steps: usize,
}

impl TiledWeights {
    pub(crate) fn zeros(outputs: usize, inputs: usize) -> Self {
        let (groups, steps) = (outputs.div_ceil(ROWS), inputs.div_ceil(DEPTH));
        Self {
            tiles: vec![Tile([0; ROWS * DEPTH]); groups * steps * DIGITS],
            units: vec![0.0; groups * ROWS],
            steps,
        }
    }

    /// Takes a matrix (outputs x inputs).
    pub(crate) fn set<T: Scalar>(&mut self, weights: &DMatrix<T>) {
        self.tiles.fill(Tile([0; ROWS * DEPTH]));
        for (output, row) in weights.row_iter().enumerate() {
            let unit = row.iter().map(|w| w.to_f64().abs()).fold(0.0, f64::max) / LARGEST;
            self.units[output] = unit;
            if unit == 0.0 {
                continue;
            }
            let group = &mut self.tiles[output / ROWS * self.steps * DIGITS..];
            for (input, w) in row.iter().enumerate() {
                let digits = digits((w.to_f64() / unit).round() as i32);
                let place = input % DEPTH / 4 * DEPTH + output % ROWS * 4 + input % 4;
                for (tile, digit) in group[input / DEPTH * DIGITS..].iter_mut().zip(digits) {
                    tile.0[place] = digit;
                }
            }
        }
    }

    /// `W u` for the outputs of one panel and each chain, 0 in the padding.
    pub(crate) fn multiply<T: Scalar>(
        &self,
        engine: Available,
        configured: &Configured,
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
            for (half, (tiles, scales)) in halves.clone().enumerate() {
                configured.multiply(lines, tiles, &mut digits);
                vectorized!(engine, FUSED, {
                    let scales = std::array::from_fn(|l| T::nearest(scales[l]));
                    for (chain, sums) in sums.iter_mut().enumerate() {
                        sums.0[half] = collect(&digits[chain / ROWS], chain % ROWS, &scales);
                    }
                });
            }
        }
    }
}

/// The sums of one chain from their digits.
#[inline(always)]
fn collect<T: Scalar>(
    DigitSums([high, middle, low]): &DigitSums,
    chain: usize,
    scales: &[T; ROWS],
) -> [T; ROWS] {
    let (high, middle, low) = (&high[chain], &middle[chain], &low[chain]);
    let mut sums = [T::zero(); ROWS];
    for l in 0..ROWS {
        sums[l] = T::from_digits(high[l], middle[l] * 256 + low[l]) * scales[l];
    }
    sums
}

/// Digits of base 256 from -128 to 127, the highest first.
fn digits(mut value: i32) -> [i8; DIGITS] {
    let mut digits = [0; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = value as i8;
        value = (value - i32::from(*digit)) >> 8;
    }
    digits
}

/// Proof that this thread's tile registers are set up: eight tiles of 16 lines of 64 bytes.
#[derive(Debug)]
pub(crate) struct Configured(());

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    line_bytes: [u16; 16],
    lines: [u8; 16],
}

#[allow(unsafe_code)]
impl Configured {
    pub(crate) fn new() -> Self {
        assert!(tiles_are_available(), "tiles");
        let of_eight = |index, value| if index < 8 { value } else { 0 };
        let configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            line_bytes: std::array::from_fn(|i| of_eight(i, DEPTH as u16)),
            lines: std::array::from_fn(|i| of_eight(i, ROWS as u16) as u8),
        };
        // SAFETY: the processor has tiles and the kernel has permitted them; the operand is 64
        // bytes in the format of palette 1. The compiler uses no tile register.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, readonly));
        }
        Self(())
    }

    /// The sums of [`GROUP`] chains for 16 outputs.
    fn multiply(&self, units: &[Line], weights: &[Tile], sums: &mut [DigitSums; 2]) {
        let steps = weights.len() / DIGITS;
        assert!(steps > 0 && weights.len() == steps * DIGITS && units.len() == GROUP * steps);
        // SAFETY: the tiles are configured (`self`). The loop runs `steps` times; each time it
        // reads a line of each chain, `stride` bytes apart, and 3 tiles of weights: as the
        // assertion says, `units` holds 32 chains of `steps` lines and `weights` 3 tiles a step.
        // It writes 6 tiles of 1,024 bytes, the size of `sums`.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2",
                "tilezero tmm3", "tilezero tmm4", "tilezero tmm5",
                "2:",
                "tileloadd tmm6, [{first} + {stride}]",
                "tileloaddt1 tmm7, [{weights} + {line}]",
                "tdpbusd tmm0, tmm6, tmm7",
                "tileloadd tmm6, [{second} + {stride}]",
                "tdpbusd tmm3, tmm6, tmm7",
                "tileloaddt1 tmm7, [{weights} + {line} + 1024]",
                "tdpbusd tmm4, tmm6, tmm7",
                "tileloadd tmm6, [{first} + {stride}]",
                "tdpbusd tmm1, tmm6, tmm7",
                "tileloaddt1 tmm7, [{weights} + {line} + 2048]",
                "tdpbusd tmm2, tmm6, tmm7",
                "tileloadd tmm6, [{second} + {stride}]",
                "tdpbusd tmm5, tmm6, tmm7",
                "add {first}, 64",
                "add {second}, 64",
                "add {weights}, 3072",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {line}], tmm0",
                "tilestored [{sums} + {line} + 1024], tmm1",
                "tilestored [{sums} + {line} + 2048], tmm2",
                "tilestored [{sums} + {line} + 3072], tmm3",
                "tilestored [{sums} + {line} + 4096], tmm4",
                "tilestored [{sums} + {line} + 5120], tmm5",
                first = inout(reg) units.as_ptr() => _,
                second = inout(reg) units[ROWS * steps..].as_ptr() => _,
                weights = inout(reg) weights.as_ptr() => _,
                steps = inout(reg) steps => _,
                sums = in(reg) sums.as_mut_ptr(),
                stride = in(reg) steps * DEPTH,
                line = in(reg) DEPTH,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

#[allow(unsafe_code)]
impl Drop for Configured {
    /// Back to the initial state, which makes the thread's switches cheap again.
    fn drop(&mut self) {
        // SAFETY: as `ldtilecfg` above.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}
