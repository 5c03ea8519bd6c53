//! Layers of 0/1 units for many chains, and numbers and random bits for *panels*: 32 units that are computed together.

use crate::error::demand_dimension;
use crate::num::Simd;
use crate::random::{LANES, Lanes};
use crate::rbm::Scalar;

pub(crate) const LINE: usize = 64;
/// Number of outputs (units to compute) in a panel.
pub(crate) const WIDTH: usize = 32;
/// Number of groups of [`LANES`] outputs in a panel.
pub(crate) const GROUPS: usize = WIDTH / LANES;
/// Number of units, and of chains, in a block that is transposed at once: the number of bytes of a word.
const BLOCK: usize = 8;

/// 64 units of a chain, each a byte of 0 or 1, in one line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; LINE]);

/// The units of one layer for many chains, chain by chain, each chain in whole [`Line`]s.
///
/// `units` and `chains` do not count padding. Padding units may be 0 or 1: products ignore them.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    units: usize,
    chains: usize,
    lines: Vec<Line>,
}

impl Layer {
    pub(crate) fn zeros(units: usize, chains: usize) -> Self {
        let mut layer = Self {
            units,
            chains: 0,
            lines: Vec::new(),
        };
        layer.set_chains(chains);
        layer
    }

    /// Sets this layer to the transpose of `layer`: its chains become units, and its units chains.
    pub(crate) fn set_transposed(&mut self, layer: &Self) {
        assert_eq!((self.units, self.chains), (layer.chains, layer.units));
        let (from_width, to_width) = (layer.width(), self.width());
        for chain in (0..layer.chains).step_by(BLOCK) {
            for unit in (0..layer.units).step_by(BLOCK) {
                let mut block = [0; BLOCK];
                for (k, word) in block.iter_mut().enumerate() {
                    let line = &layer.lines[(chain + k) * from_width + unit / LINE];
                    *word = u64::from_le_bytes(line.0.as_chunks().0[unit % LINE / BLOCK]);
                }
                transpose(&mut block);
                for (k, word) in block.iter().enumerate() {
                    let line = &mut self.lines[(unit + k) * to_width + chain / LINE];
                    line.0.as_chunks_mut().0[chain % LINE / BLOCK] = word.to_le_bytes();
                }
            }
        }
    }

    pub(crate) fn set_chains(&mut self, chains: usize) {
        // Blocks of eight chains are transposed as a whole, so that the last one must be complete.
        let lines = self.width() * chains.next_multiple_of(BLOCK);
        self.lines.resize(lines, Line([0; LINE]));
        self.chains = chains;
    }

    pub(crate) fn units(&self) -> usize {
        self.units
    }

    pub(crate) fn chains(&self) -> usize {
        self.chains
    }

    /// Returns the number of lines of a chain.
    pub(crate) fn width(&self) -> usize {
        self.units.div_ceil(LINE)
    }

    #[inline(always)]
    pub(crate) fn chain(&self, chain: usize) -> &[Line] {
        &self.lines[chain * self.width()..][..self.width()]
    }

    #[inline(always)]
    pub(crate) fn load(&mut self, chain: usize, state: &[bool]) {
        demand_dimension("a state", state.len(), self.units);
        let width = self.width();
        let lines = &mut self.lines[chain * width..][..width];
        for (line, state) in lines.iter_mut().zip(state.chunks(LINE)) {
            for (unit, &on) in line.0.iter_mut().zip(state) {
                *unit = u8::from(on);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self, chain: usize, state: &mut [bool]) {
        for (line, state) in self.chain(chain).iter().zip(state.chunks_mut(LINE)) {
            for (on, &unit) in state.iter_mut().zip(&line.0) {
                *on = unit != 0;
            }
        }
    }

    /// Returns the units of one panel, chain by chain.
    #[inline(always)]
    pub(crate) fn panel_mut(&mut self, panel: usize) -> impl Iterator<Item = &mut [u8; WIDTH]> {
        let (line, half, width) = (panel / 2, panel % 2, self.width());
        let chains = self.lines.chunks_exact_mut(width).take(self.chains);
        chains.map(move |lines| &mut lines[line].0.as_chunks_mut().0[half])
    }
}

/// Transposes a block: byte `j` of word `i` becomes byte `i` of word `j`.
fn transpose(words: &mut [u64; BLOCK]) {
    for (distance, low) in [
        (4, 0x0000_0000_ffff_ffff),
        (2, 0x0000_ffff_0000_ffff),
        (1, 0x00ff_00ff_00ff_00ff),
    ] {
        for i in (0..BLOCK).filter(|i| i & distance == 0) {
            let exchanged = (words[i] >> (8 * distance) ^ words[i + distance]) & low;
            words[i] ^= exchanged << (8 * distance);
            words[i + distance] ^= exchanged;
        }
    }
}

/// [`WIDTH`] numbers; in single precision they fill two of the widest registers.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Row<T>(pub(crate) [[T; LANES]; GROUPS]);

impl<T: Scalar> Row<T> {
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self([[T::zero(); LANES]; WIDTH / LANES])
    }

    #[inline(always)]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    /// Returns `factor * self + other`.
    #[inline(always)]
    pub(crate) fn times_plus<const FUSED: bool>(&self, factor: T, other: &Self) -> Self {
        self.zip(other, |a, b| a.multiply_add::<FUSED>(factor, b))
    }

    #[inline(always)]
    pub(crate) fn zip(&self, other: &Self, f: impl Fn(T, T) -> T) -> Self {
        let mut row = *self;
        for (row, other) in row.0.iter_mut().zip(&other.0) {
            for l in 0..LANES {
                row[l] = f(row[l], other[l]);
            }
        }
        row
    }

    /// Writes these numbers to their panel in `values`, which covers all outputs.
    #[inline(always)]
    pub(crate) fn write(&self, panel: usize, values: &mut [T]) {
        let values = &mut values[panel * WIDTH..];
        let row = self.0.as_flattened();
        match values.first_chunk_mut::<WIDTH>() {
            Some(all) => all.copy_from_slice(row),
            None => values.copy_from_slice(&row[..values.len()]),
        }
    }

    #[inline(always)]
    pub(crate) fn add_scaled(&self, panel: usize, factor: T, values: &mut [T]) {
        let values = values[panel * WIDTH..].iter_mut();
        for (value, &number) in values.zip(self.0.as_flattened()) {
            *value += factor * number;
        }
    }

    /// Reads up to [`WIDTH`] numbers from the start of `values`. If there are fewer, the last entries stay unchanged.
    #[inline(always)]
    pub(crate) fn read(&mut self, values: &[T]) {
        let row = self.0.as_flattened_mut();
        match values.first_chunk::<WIDTH>() {
            Some(all) => row.copy_from_slice(all),
            None => row[..values.len()].copy_from_slice(values),
        }
    }

    /// Splits `values` into rows, with zeros up to a whole panel.
    pub(crate) fn panels(values: &[T]) -> Vec<Self> {
        let mut rows = vec![Self::zero(); values.len().div_ceil(WIDTH)];
        for (row, values) in rows.iter_mut().zip(values.chunks(WIDTH)) {
            row.read(values);
        }
        rows
    }
}

/// Words of random bits from which the units of one panel are drawn, for several chains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(Vec<[u32; LANES]>);

/// Number of chains whose words are drawn together: they stay in the first-level cache until they are used.
const CHAINS: usize = 64;

impl Words {
    /// Splits `chains` chains into groups whose words are drawn together, and returns the sizes of the groups.
    pub(crate) fn groups(chains: usize) -> impl Iterator<Item = usize> {
        (0..chains)
            .step_by(CHAINS)
            .map(move |first| CHAINS.min(chains - first))
    }

    /// Draws random bits for one panel of units, and returns the words of each of the `chains` chains.
    pub(crate) fn draw<T: Scalar>(
        &mut self,
        engine: Simd,
        lanes: &mut Lanes,
        chains: usize,
    ) -> impl Iterator<Item = &[[u32; LANES]]> {
        let of_chain = GROUPS * T::WORDS;
        self.0.resize(chains * of_chain, [0; LANES]);
        lanes.fill(engine, &mut self.0);
        self.0.chunks_exact(of_chain)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_layer_turned_round_has_chains_for_units() {
        for (units, chains) in [(1, 1), (7, 9), (8, 64), (65, 100), (200, 31)] {
            let state = |chain: usize, unit: usize| (31 * chain + 17 * unit) % 5 < 2;
            let mut layer = Layer::zeros(units, chains);
            for chain in 0..chains {
                let states: Vec<bool> = (0..units).map(|unit| state(chain, unit)).collect();
                layer.load(chain, &states);
            }
            let mut turned = Layer::zeros(chains, units);
            turned.set_transposed(&layer);
            for unit in 0..units {
                let mut found = vec![false; chains];
                turned.store(unit, &mut found);
                let expected: Vec<bool> = (0..chains).map(|chain| state(chain, unit)).collect();
                assert_eq!(found, expected, "{units} x {chains}, unit {unit}");
                // Sums over a line include its padding.
                let on: usize = turned
                    .chain(unit)
                    .iter()
                    .flat_map(|line| line.0)
                    .map(usize::from)
                    .sum();
                assert_eq!(on, expected.iter().filter(|on| **on).count());
            }
        }
    }
}
